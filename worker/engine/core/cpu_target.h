// AM_TARGET_CLONES: compiles a hot loop once for each x86-64 level and lets the program pick at
// start-up, so that one binary runs on every machine and still uses the vectors of the one it runs
// on. For loops the compiler vectorises by itself, in files compiled with -O3; helpers that such a
// loop calls are AM_ALWAYS_INLINE, else they stay at the lowest level.
//
//   AM_TARGET_CLONES void Scale(float* x, int64_t n, float by) { for (int64_t i = 0; i < n; ++i)
//   x[i] *= by; }
//
// Off under sanitizers (their runtime is not ready when the loader picks) and for compilers that
// lack it.
#pragma once

#define AM_ALWAYS_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define AM_TARGET_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define AM_TARGET_CLONES
#endif
