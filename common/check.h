// AM_CHECK: a broken invariant of ours ends the program, in release builds too, with the place and
// the condition.
#pragma once

#include <cstdio>
#include <cstdlib>

#define AM_CHECK(condition)                                                                  \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
