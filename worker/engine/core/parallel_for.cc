#include "worker/engine/core/parallel_for.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>

// The entry points of GNU's OpenMP runtime (which LLVM's and Intel's also provide); see the header
// for why not -fopenmp.
extern "C" {
void GOMP_parallel(void (*function)(void*), void* data, unsigned num_threads, unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
}

namespace am::engine {
namespace {

// One run of the team: each thread of it calls Share() once.
class Team {
 public:
  Team(RangeFunction run, void* context) : run_(run), context_(context) {}

  // Splits [begin, end) among at most `shares` threads.
  void Split(int64_t begin, int64_t end, int64_t shares) {
    begin_ = begin;
    end_ = end;
    shares_ = shares;
    Launch([](void* team) { static_cast<Team*>(team)->RunShare(); });
  }
  void HandOut(int64_t tasks) {
    end_ = tasks;
    Launch([](void* team) { static_cast<Team*>(team)->RunTasks(); });
  }

 private:
  void Launch(void (*body)(void*)) {
    // The whole team, always: asking GNU's runtime for a part of it makes it tear down and remake
    // the rest.
    GOMP_parallel(body, this, 0, 0);
    if (error_) std::rethrow_exception(error_);
  }

  void RunShare() {
    const int64_t threads = std::min<int64_t>(omp_get_num_threads(), shares_);
    const int64_t chunk = (end_ - begin_ + threads - 1) / threads;
    const int64_t begin = begin_ + omp_get_thread_num() * chunk;
    if (begin < end_) Guarded([&] { run_(context_, begin, std::min(end_, begin + chunk)); });
  }

  void RunTasks() {
    Guarded([&] {
      for (int64_t task = next_++; task < end_; task = next_++) run_(context_, task, task + 1);
    });
  }

  template <typename Call>
  void Guarded(Call&& call) {
    try {
      at::internal::ThreadIdGuard thread_id(omp_get_thread_num());
      c10::ParallelGuard parallel(true);
      call();
    } catch (...) {
      if (!failed_.test_and_set()) error_ = std::current_exception();
    }
  }

  RangeFunction run_;
  void* context_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  int64_t shares_ = 1;
  std::atomic<int64_t> next_{0};
  std::atomic_flag failed_ = ATOMIC_FLAG_INIT;
  std::exception_ptr error_;
};

}  // namespace

int ParallelThreads() {
  at::internal::lazy_init_num_threads();
  return at::in_parallel_region() ? 1 : at::get_num_threads();
}

void ParallelForRange(int64_t begin, int64_t end, int64_t grain, RangeFunction run, void* context) {
  if (begin >= end) return;
  grain = std::max<int64_t>(grain, 1);
  if (end - begin <= grain || ParallelThreads() == 1) {
    run(context, begin, end);
    return;
  }
  Team(run, context).Split(begin, end, (end - begin + grain - 1) / grain);
}

void ParallelTasksRange(int64_t tasks, RangeFunction run, void* context) {
  if (tasks <= 1 || ParallelThreads() == 1) {
    for (int64_t task = 0; task < tasks; ++task) run(context, task, task + 1);
    return;
  }
  Team(run, context).HandOut(tasks);
}

}  // namespace am::engine
