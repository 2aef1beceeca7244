// DataLoader: one thread that tokenises the next steps while the current one runs.
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "common/error.h"
#include "worker/engine/data/batches.h"
#include "worker/engine/data/dataset.h"

namespace am::engine {

struct DataLoader::Impl {
  // A step that is ready, or what its making threw.
  struct Ready {
    StepBatch batch;
    std::exception_ptr failure;
  };

  Impl(const Dataset& data, const DataLoaderOptions& given) : dataset(data), options(given) {
    steps_per_epoch = StepsPerEpoch(dataset.size(), options.global_batch_size, options.drop_last);
    options.prefetch_steps = std::max(options.prefetch_steps, 1);
    options.local_batch_size = std::max<int64_t>(options.local_batch_size, 1);
  }

  ~Impl() { Stop(); }

  void Stop() {
    if (!thread.joinable()) return;
    thread.request_stop();
    thread.join();
    ready.clear();
  }

  void Start(int64_t epoch, int64_t step) {
    Stop();
    thread = std::jthread(
        [this, epoch, step](const std::stop_token& stop) { Produce(stop, epoch, step); });
  }

  void Produce(const std::stop_token& stop, int64_t epoch, int64_t step) {
    std::vector<int64_t> order;
    bool failed = false;
    while (!failed) {
      {
        std::unique_lock lock(mutex);
        const auto room = [this] {
          return static_cast<int>(ready.size()) < options.prefetch_steps;
        };
        if (!changed.wait(lock, stop, room)) return;
      }
      Ready made;
      try {
        if (order.empty()) {
          order = EpochOrder(dataset.size(), options.shuffle,
                             options.seed + static_cast<uint64_t>(epoch));
        }
        made.batch = Make(order, epoch, step);
      } catch (...) {
        made.failure = std::current_exception();
        failed = true;
      }
      if (++step == steps_per_epoch) {
        step = 0;
        ++epoch;
        order.clear();
      }
      const std::scoped_lock lock(mutex);
      ready.push_back(std::move(made));
      changed.notify_all();
    }
  }

  StepBatch Make(const std::vector<int64_t>& order, int64_t epoch, int64_t step) const {
    StepBatch batch{.epoch = epoch, .step_in_epoch = step};
    for (const auto& refs : MicroBatches(order, options, step)) {
      std::vector<Sample>& micro = batch.micro_batches.emplace_back();
      for (const SampleRef& ref : refs) {
        micro.push_back(dataset.Get(ref.dataset_index));
        micro.back().dataset_index = ref.dataset_index;
        micro.back().batch_index = ref.batch_index;
      }
    }
    return batch;
  }

  StepBatch Take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !ready.empty(); });
    // A failure stays: asking again gives the same answer.
    if (ready.front().failure) std::rethrow_exception(ready.front().failure);
    StepBatch batch = std::move(ready.front().batch);
    ready.pop_front();
    changed.notify_all();
    return batch;
  }

  const Dataset& dataset;
  DataLoaderOptions options;
  int64_t steps_per_epoch = 0;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<Ready> ready;
  std::jthread thread;
};

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options)
    : impl_(std::make_unique<Impl>(dataset, options)) {}
DataLoader::~DataLoader() = default;

int64_t DataLoader::steps_per_epoch() const { return impl_->steps_per_epoch; }

void DataLoader::Seek(int64_t epoch, int64_t step_in_epoch) {
  // The step behind the last one of an epoch is the first one of the next.
  impl_->Start(epoch + step_in_epoch / impl_->steps_per_epoch,
               step_in_epoch % impl_->steps_per_epoch);
}

StepBatch DataLoader::Next() {
  if (!impl_->thread.joinable()) Seek(0, 0);
  return impl_->Take();
}

}  // namespace am::engine
