// A real save, stopped or refused at every single operation it makes on the disk.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <set>

#include "tests/worker/engine/checkpoint/scratch.h"
#include "worker/engine/checkpoint/checkpointer.h"
#include "worker/engine/checkpoint/hf_export.h"
#include "worker/engine/checkpoint/weights.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr size_t kBlock = 512;  // so that every file has several writes

CheckpointSpec SpecAt(const std::string& dir) {
  CheckpointSpec spec;
  spec.dir = dir;
  spec.max_recent_checkpoints = 2;
  return spec;
}

void MakeSourceModel(const Scratch& scratch) {
  scratch.Write("model/config.json", R"({"model_type":"llama","torch_dtype":"float32"})");
  scratch.Write("model/tokenizer.json", std::string(2000, 't'));
}

// What two ranks and their leader do, in one process.
void SaveStep(const CheckpointSpec& spec, const std::string& source_dir, int64_t step,
              int64_t attempt) {
  RemoveStaleStaging(spec.dir);
  CheckpointSave leader(spec, 0, step, attempt, true), other(spec, 0, step, attempt, false);
  leader.Begin(10'000);
  other.Begin(10'000);
  const at::Tensor half = at::full({256}, static_cast<double>(step));
  for (CheckpointSave* save : {&leader, &other}) {
    const bool first = save == &leader;
    const std::string shard = first ? "shard-00001.safetensors" : "shard-00002.safetensors";
    for (const std::string folder : {"model/", "optim/"}) {
      const Chunk chunk{"w", {2, 256}, first ? 0 : 256, half};
      save->Add(folder + shard, WriteSafetensors(save->Path(folder + shard), {chunk}, {}));
    }
  }
  HfExportOptions options;
  options.source_dir = source_dir;
  const std::string out = "model/consolidated";
  leader.Add(Prefixed(
      ExportHf(TensorsOf(WeightReader::Open(leader.Path("model"))), leader.Path(out), options),
      out + "/"));
  leader.WriteText("state.json", ToJson(TrainState{.step = step}).dump());
  leader.Commit({}, /*is_best=*/step == 10);
}

void ExpectWhole(const ResumeChoice& choice) {
  ReadManifest(choice.path, Verify::kChecksums);
  const auto step = static_cast<double>(choice.manifest.step);
  for (const std::string folder : {"/model", "/optim", "/model/consolidated"}) {
    const at::Tensor w = WeightReader::Open(choice.path + folder).Read("w");
    EXPECT_EQ(w.min().item<double>(), step);
    EXPECT_EQ(w.max().item<double>(), step);
  }
}

// Runs `body` in a child; returns its exit status, 128 + signal where one ended it.
int InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
      _exit(0);
    } catch (const Error& e) {
      std::fprintf(stderr, "%s\n", e.what());
      _exit(e.kind() == ErrorKind::kIo ? 74 : 70);
    } catch (...) {
      _exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Stops the process before its n-th operation. With `power_loss`, what was written but not fsynced
// is gone then, wherever the commit has moved it: files are cut in half.
class StopAt {
 public:
  StopAt(int n, bool power_loss, const CheckpointSave& save)
      : n_(n),
        power_loss_(power_loss),
        staging_(fs::path(save.Path("x")).parent_path().string()),
        final_(save.final_path()) {}

  int operator()(FileOp op, const std::string& path) {
    Settle();
    if (--n_ < 0) {
      if (power_loss_) LosePower();
      _exit(9);
    }
    last_op_ = op;
    last_path_ = path;
    return 0;
  }

  void LosePower() {
    Settle();
    for (const std::string& dirty : unsynced_) {
      std::error_code gone;
      fs::resize_file(dirty, fs::file_size(dirty, gone) / 2, gone);
    }
  }

 private:
  // The operation announced last has happened when the next one comes.
  void Settle() {
    if (last_op_ == FileOp::kWrite) unsynced_.insert(last_path_);
    if (last_op_ == FileOp::kSync) unsynced_.erase(last_path_);
    if (last_op_ == FileOp::kRename && last_path_ == final_) {
      std::set<std::string> moved;
      for (const std::string& path : unsynced_) {
        const bool staged = path.compare(0, staging_.size(), staging_) == 0;
        moved.insert(staged ? final_ + path.substr(staging_.size()) : path);
      }
      unsynced_ = moved;
    }
    last_op_.reset();
  }

  int n_;
  bool power_loss_;
  std::string staging_, final_;
  std::optional<FileOp> last_op_;
  std::string last_path_;
  std::set<std::string> unsynced_;
};

void KillAtEveryOperation(bool power_loss, bool same_step) {
  const Scratch scratch(Scratch::kMemory);
  MakeSourceModel(scratch);
  const std::string source = scratch.path("model");
  int older = 0, newer = 0;
  for (int n = 0;; ++n) {
    const std::string dir = scratch.path("c" + std::to_string(n));
    const CheckpointSpec spec = SpecAt(dir);
    SaveStep(spec, source, 5, 1);
    SaveStep(spec, source, 10, 1);
    const int64_t step = same_step ? 10 : 20;
    const int status = InChild([&] {
      StopAt stop(n, power_loss, CheckpointSave(spec, 0, step, 2, false));
      SetFileHookForTesting(std::ref(stop), kBlock);
      SaveStep(spec, source, step, 2);
      if (power_loss) stop.LosePower();
    });
    ASSERT_TRUE(status == 0 || status == 9) << status;

    const ResumeChoice choice = ChooseResume(spec, Verify::kChecksums);
    ASSERT_EQ(choice.manifest.step == 10 || choice.manifest.step == step, true)
        << "operation " << n;
    ExpectWhole(choice);
    ++(choice.manifest.attempt == 2 ? newer : older);
    // And the next attempt saves over whatever was left.
    SaveStep(spec, source, step, 3);
    const ResumeChoice next = ChooseResume(spec, Verify::kChecksums);
    ASSERT_EQ(next.manifest.step, step);
    ASSERT_EQ(next.manifest.attempt, 3);
    ExpectWhole(next);
    fs::remove_all(dir);
    if (status == 0) break;
  }
  EXPECT_GT(older, 40);
  EXPECT_GE(newer, 2);
  std::printf("stopped at %d operations; the older one was chosen %d times, the new one %d times\n",
              older + newer - 1, older, newer);
}

TEST(KilledSave, AtEveryOperationLeavesACompleteCheckpointToResume) {
  KillAtEveryOperation(false, false);
}

TEST(KilledSave, WithPowerLossAtEveryOperationLeavesOneToo) { KillAtEveryOperation(true, false); }

TEST(KilledSave, OfAStepThatIsThereAlreadyLeavesOneToo) { KillAtEveryOperation(true, true); }

TEST(RefusedSave, AtEveryOperationIsAnIoErrorThatLeavesNoStagingBehind) {
  const Scratch scratch(Scratch::kMemory);
  MakeSourceModel(scratch);
  int refused = 0;
  for (const int error : {ENOSPC, EIO, EACCES}) {
    for (int n = 0;; ++n) {
      const std::string dir = scratch.path("c");
      fs::remove_all(dir);
      const CheckpointSpec spec = SpecAt(dir);
      SaveStep(spec, scratch.path("model"), 10, 1);
      int left = n;
      bool reached = false;
      std::string failed_path;
      SetFileHookForTesting(
          [&](FileOp, const std::string& path) {
            if (--left >= 0 || reached) return 0;
            reached = true;
            failed_path = path;
            return error;
          },
          kBlock);
      std::string message;
      try {
        SaveStep(spec, scratch.path("model"), 20, 2);
      } catch (const Error& e) {
        EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(ErrorKind::kIo));
        message = e.what();
      }
      SetFileHookForTesting(nullptr, 0);
      if (!reached) break;
      if (!message.empty()) {
        ++refused;
        EXPECT_THAT(message, HasSubstr(failed_path));
        EXPECT_THAT(message, HasSubstr(std::strerror(error)));
        if (error == ENOSPC) {
          EXPECT_THAT(message, HasSubstr("free; make room"));
        }
      }
      for (const auto& item : fs::directory_iterator(dir)) {
        EXPECT_EQ(item.path().filename().string().find(".staging-"), std::string::npos)
            << item.path();
      }
      ExpectWhole(ChooseResume(spec, Verify::kChecksums));
    }
  }
  EXPECT_GT(refused, 120);
}

TEST(RefusedSave, SaysAtOnceThatTheDiskIsTooSmall) {
  const Scratch scratch(Scratch::kMemory);
  CheckpointSave save(SpecAt(scratch.path("c")), 0, 10, 1, true);
  const std::string message = ErrorOf([&] { save.Begin(int64_t{1} << 60); }, ErrorKind::kIo);
  EXPECT_THAT(message,
              HasSubstr("epoch_0_step_10: not enough room for a checkpoint: 1.2 EB needed"));
  EXPECT_TRUE(fs::is_empty(scratch.path("c")));
}

TEST(RefusedSave, AFileSizeLimitIsNamed) {
  const Scratch scratch(Scratch::kMemory);
  MakeSourceModel(scratch);
  const CheckpointSpec spec = SpecAt(scratch.path("c"));
  ::testing::internal::CaptureStderr();
  const int status = InChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {600, 600};
    setrlimit(RLIMIT_FSIZE, &limit);
    SaveStep(spec, scratch.path("model"), 10, 1);
  });
  const std::string message = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 74) << message;
  EXPECT_THAT(message,
              HasSubstr("shard-00001.safetensors: cannot write: File too large; 1.2 kB needed"));
  EXPECT_THAT(message, HasSubstr("ulimit -f"));
  EXPECT_TRUE(fs::is_empty(scratch.path("c")));
}

TEST(RefusedSave, AFullDiskIsNamedWithTheBytesNeededAndLeavesTheOlderOne) {
  const Scratch scratch(Scratch::kMemory);
  MakeSourceModel(scratch);
  const std::string mount_point = scratch.path("disk");
  fs::create_directories(mount_point);
  ::testing::internal::CaptureStderr();
  constexpr int kNoMount = 77;
  const int status = InChild([&] {
    const bool mounted = (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
                         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=160k") == 0;
    if (!mounted) _exit(kNoMount);
    const CheckpointSpec spec = SpecAt(mount_point + "/c");
    SaveStep(spec, scratch.path("model"), 10, 1);
    try {
      for (int step = 20; step < 100; step += 10) {
        std::ofstream(mount_point + "/ballast" + std::to_string(step)) << std::string(16'000, 'b');
        SaveStep(spec, scratch.path("model"), step, 1);
      }
    } catch (const Error& e) {
      for (const auto& item : fs::directory_iterator(spec.dir)) {
        if (item.path().filename().string()[0] == '.') _exit(3);
      }
      if (ChooseResume(spec, Verify::kChecksums).path.empty()) _exit(4);
      throw;
    }
  });
  const std::string message = ::testing::internal::GetCapturedStderr();
  if (status == kNoMount) GTEST_SKIP() << "no right to mount a small file system here";
  EXPECT_EQ(status, 74) << message;
  EXPECT_THAT(message,
              ::testing::AnyOf(HasSubstr("No space left on device"), HasSubstr("not enough room")));
  EXPECT_THAT(message, HasSubstr("needed"));
}

}  // namespace
}  // namespace am::engine
