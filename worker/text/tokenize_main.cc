// am-tokenize: see tokenize_stream.h.
#include <iostream>

#include "worker/text/tokenize_stream.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  return am::text::RunTokenizeStream({argv + 1, argv + argc}, std::cin, std::cout, std::cerr);
}
