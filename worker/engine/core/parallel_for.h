// ParallelFor: at::parallel_for for code of ours, on LibTorch's own thread team.
//
// at::parallel_for is a template that runs serially in any file compiled without -fopenmp, and a
// second OpenMP runtime beside the wheel's would double the threads. So this one asks the runtime
// that LibTorch has loaded. Splitting is by thread count alone (equal contiguous ranges), so
// results are the same from run to run for a given thread count. Inside, LibTorch's own operators
// run on one thread. The first exception of `f` is rethrown in the caller. Not to be nested: an
// inner call runs serially.
#pragma once

#include <cstdint>

namespace am::engine {

// Threads that ParallelFor may use from here: 1 inside of a parallel region.
int ParallelThreads();

using RangeFunction = void (*)(void* context, int64_t begin, int64_t end);
void ParallelForRange(int64_t begin, int64_t end, int64_t grain, RangeFunction run, void* context);
void ParallelTasksRange(int64_t tasks, RangeFunction run, void* context);

// f(begin, end) over disjoint ranges of at least `grain` (but the last) that cover [begin, end).
template <typename F>
void ParallelFor(int64_t begin, int64_t end, int64_t grain, const F& f) {
  ParallelForRange(
      begin, end, grain,
      [](void* context, int64_t b, int64_t e) { (*static_cast<const F*>(context))(b, e); },
      const_cast<F*>(&f));
}

// f(task) for each of [0, tasks), handed out one by one: for few tasks of unequal size.
template <typename F>
void ParallelTasks(int64_t tasks, const F& f) {
  ParallelTasksRange(
      tasks, [](void* context, int64_t task, int64_t) { (*static_cast<const F*>(context))(task); },
      const_cast<F*>(&f));
}

}  // namespace am::engine
