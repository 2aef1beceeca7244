// Bound on the evaluator's recursion, shared by its two source files.
#pragma once

#include "worker/text/jinja_evaluator.h"

namespace am::text::jinja {

// Some 150 macro calls inside each other; Python's own limit allows not many more.
constexpr int kMaxEvaluationDepth = 1500;

struct Evaluator::DepthGuard {
  explicit DepthGuard(int& depth) : depth(depth) {
    if (++depth > kMaxEvaluationDepth) {
      --depth;
      throw Failure("maximum recursion depth exceeded");
    }
  }
  ~DepthGuard() { --depth; }
  int& depth;
};

}  // namespace am::text::jinja
