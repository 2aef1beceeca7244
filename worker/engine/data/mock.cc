// Random tokens, for tests of speed and of layouts. A sample depends on its index and the seed
// alone.
//
// `args`: seq_len (1024), num_samples (1000000), vocab_size (1024, at most the model's), seed (0).
#include <algorithm>

#include "common/error.h"
#include "worker/engine/data/kinds.h"

namespace am::engine {
namespace {

// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

int64_t Argument(const nlohmann::json& args, const char* name, int64_t otherwise) {
  const auto found = args.find(name);
  if (found == args.end() || found->is_null()) return otherwise;
  const int64_t value = found->is_number_integer() ? found->get<int64_t>() : -1;
  if (value < 0) {
    throw UserError("dataset." + std::string(name) + ": " + found->dump() +
                    " is not a whole number of zero or more");
  }
  return value;
}

class MockDataset : public Dataset {
 public:
  MockDataset(int64_t size, int64_t length, int64_t vocab_size, uint64_t seed)
      : size_(size),
        length_(length),
        vocab_size_(static_cast<uint64_t>(vocab_size)),
        seed_(Mix(seed)) {}

  int64_t size() const override { return size_; }

  Sample Get(int64_t index) const override {
    Sample sample;
    sample.dataset_index = index;
    sample.input_ids.resize(static_cast<size_t>(length_));
    const uint64_t key = Mix(seed_ ^ static_cast<uint64_t>(index));
    for (size_t i = 0; i < sample.input_ids.size(); ++i) {
      sample.input_ids[i] = static_cast<int64_t>(Mix(key + i) % vocab_size_);
    }
    sample.labels.assign(sample.input_ids.begin() + 1, sample.input_ids.end());
    sample.labels.push_back(-100);
    return sample;
  }

 private:
  int64_t size_;
  int64_t length_;
  uint64_t vocab_size_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Dataset> MakeMockDataset(const DatasetSpec& spec, int64_t vocab_size) {
  const int64_t length = Argument(spec.args, "seq_len", spec.seq_length.value_or(1024));
  int64_t samples = Argument(spec.args, "num_samples", 1000000);
  if (spec.limit_samples) samples = std::min(samples, *spec.limit_samples);
  const int64_t vocabulary = std::min(Argument(spec.args, "vocab_size", 1024), vocab_size);
  if (length < 1 || samples < 1 || vocabulary < 1) {
    throw UserError(
        "dataset: mock data needs seq_len, num_samples and vocab_size of at least 1, got " +
        std::to_string(length) + ", " + std::to_string(samples) + " and " +
        std::to_string(vocabulary));
  }
  return std::make_unique<MockDataset>(samples, length, vocabulary,
                                       static_cast<uint64_t>(Argument(spec.args, "seed", 0)));
}

}  // namespace am::engine
