// Names, pointers, retention, manifests, the choice of a checkpoint to resume, and metric logs
// after one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/engine/checkpoint/scratch.h"
#include "worker/engine/checkpoint/checkpoint_dir.h"
#include "worker/engine/checkpoint/checkpointer.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const json kFingerprint = {{"model", {{"hidden_size", 576}, {"num_hidden_layers", 30}}},
                           {"seed", 42}};

CheckpointSpec SpecAt(const std::string& dir) {
  CheckpointSpec spec;
  spec.dir = dir;
  spec.run_fingerprint = kFingerprint;
  return spec;
}

// A real save of a small checkpoint; returns its directory.
std::string Save(const CheckpointSpec& spec, int64_t step, int64_t attempt = 1,
                 bool is_best = false) {
  CheckpointSave save(spec, 0, step, attempt, true);
  save.Begin();
  save.WriteText("model/weights", "weights of step " + std::to_string(step));
  save.WriteText("state.json", ToJson(TrainState{.step = step}).dump());
  CheckpointManifest manifest;
  manifest.fingerprint = spec.run_fingerprint;
  save.Commit(manifest, is_best);
  return save.final_path();
}

std::vector<std::string> Entries(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(dir))
    names.push_back(item.path().filename().string());
  return names;
}

TEST(CheckpointNames, AreReadBackAndOthersLeftAlone) {
  EXPECT_EQ(CheckpointDirName(0, 10), "epoch_0_step_10");
  const auto dir = ParseCheckpointName("epoch_2_step_30");
  ASSERT_TRUE(dir);
  EXPECT_EQ(dir->epoch, 2);
  EXPECT_EQ(dir->step, 30);
  EXPECT_TRUE(ParseCheckpointName("epoch_2_step_30.superseded-2")->superseded);
  for (const char* other : {"epoch_1", "epoch_1_step_", "epoch_1_step_2x", "epoch_-1_step_2",
                            "xepoch_1_step_2", "epoch_1_step_99999999999999999999", ""}) {
    EXPECT_FALSE(ParseCheckpointName(other)) << other;
  }
  EXPECT_TRUE(IsStagingName(StagingName(0, 10, 3)));
  for (const char* other : {".git", ".staging-1", "epoch_0_step_10.staging-1", ".x.staging-1"}) {
    EXPECT_FALSE(IsStagingName(other)) << other;
  }
}

TEST(Retention, KeepsTheNewestAndWhatAPointerTargets) {
  const auto dirs = [](std::vector<int64_t> steps) {
    std::vector<CheckpointDir> dirs;
    for (const int64_t step : steps) dirs.push_back({CheckpointDirName(0, step), 0, step});
    return dirs;
  };
  EXPECT_THAT(NamesToRemove(dirs({40, 30, 20, 10}), 2, {}),
              ElementsAre("epoch_0_step_20", "epoch_0_step_10"));
  EXPECT_THAT(NamesToRemove(dirs({40, 30, 20, 10}), 2, {"epoch_0_step_10"}),
              ElementsAre("epoch_0_step_20"));
  EXPECT_THAT(NamesToRemove(dirs({10}), 3, {}), IsEmpty());
  std::vector<CheckpointDir> superseded = {{"epoch_0_step_20.superseded-1", 0, 20, true},
                                           {"epoch_0_step_10", 0, 10}};
  EXPECT_THAT(NamesToRemove(superseded, 1, {}), ElementsAre("epoch_0_step_20.superseded-1"));
}

TEST(CheckpointSave, LeavesAVerifiableDirectoryAndNothingElse) {
  const Scratch scratch;
  CheckpointSpec spec = SpecAt(scratch.path("checkpoints"));
  CheckpointSave save(spec, 1, 10, 3, true);
  save.Begin(1000);
  save.WriteText("config.yaml", "a: 1\n");
  std::ofstream(save.Path("optim/state.bin")) << "written by someone else";
  CheckpointManifest manifest;
  manifest.layout = {{"dp_shard", 2}};
  manifest.fingerprint = kFingerprint;
  manifest.files.push_back({"optim/state.bin"});
  const int64_t bytes = save.Commit(manifest, false);

  EXPECT_EQ(save.final_path(), scratch.path("checkpoints/epoch_1_step_10"));
  EXPECT_THAT(Entries(spec.dir), UnorderedElementsAre("LATEST", "epoch_1_step_10"));
  EXPECT_THAT(Entries(save.final_path()),
              UnorderedElementsAre("manifest.json", "config.yaml", "optim"));
  EXPECT_THAT(Entries(save.final_path() + "/optim"), ElementsAre("state.bin"));
  EXPECT_EQ(fs::read_symlink(spec.dir + "/LATEST"), "epoch_1_step_10");
  const CheckpointManifest read = ReadManifest(save.final_path(), Verify::kChecksums);
  EXPECT_EQ(read.step, 10);
  EXPECT_EQ(read.epoch, 1);
  EXPECT_EQ(read.attempt, 3);
  EXPECT_EQ(read.layout, manifest.layout);
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(read.files[0].path, "config.yaml");
  EXPECT_EQ(read.files[0].bytes, 5);
  EXPECT_EQ(read.files[1].xxh3_128, HashFile(save.final_path() + "/optim/state.bin").xxh3_128);
  EXPECT_EQ(bytes,
            5 + 23 + static_cast<int64_t>(fs::file_size(save.final_path() + "/manifest.json")));
}

TEST(CheckpointSave, RefusesToCommitWithoutAPromisedFile) {
  const Scratch scratch;
  const CheckpointSpec spec = SpecAt(scratch.path());
  {
    CheckpointSave save(spec, 0, 10, 1, true);
    save.Begin();
    CheckpointManifest manifest;
    manifest.files.push_back({"model/shard-00002.safetensors"});
    EXPECT_THAT(ErrorOf([&] { save.Commit(manifest, false); }, ErrorKind::kIo),
                HasSubstr("shard-00002.safetensors was promised"));
  }
  EXPECT_THAT(Entries(spec.dir), IsEmpty());
}

TEST(CheckpointSave, MovesThePointersAndPrunesOnlyWhatIsItsOwn) {
  const Scratch scratch;
  CheckpointSpec spec = SpecAt(scratch.path());
  spec.max_recent_checkpoints = 1;
  Save(spec, 10, 1, /*is_best=*/true);
  fs::create_directories(scratch.path("epoch_0_step_5"));  // somebody else's: no manifest
  Save(spec, 20);
  Save(spec, 30);
  EXPECT_THAT(Entries(spec.dir), UnorderedElementsAre("LATEST", "LOWEST_VAL", "epoch_0_step_5",
                                                      "epoch_0_step_10", "epoch_0_step_30"));
  EXPECT_EQ(ReadPointer(spec.dir, "LATEST"), scratch.path("epoch_0_step_30"));
  EXPECT_EQ(ReadPointer(spec.dir, "LOWEST_VAL"), scratch.path("epoch_0_step_10"));
}

TEST(CheckpointSave, ADirectoryInTheWayIsSetAside) {
  const Scratch scratch;
  const CheckpointSpec spec = SpecAt(scratch.path());
  Save(spec, 10, 1);
  scratch.Write("epoch_0_step_10/mark", "of the first");
  Save(spec, 10, 2);
  EXPECT_FALSE(fs::exists(scratch.path("epoch_0_step_10/mark")));
  EXPECT_TRUE(fs::exists(scratch.path("epoch_0_step_10.superseded-2/mark")));
  Save(spec, 10, 2);
  EXPECT_TRUE(fs::exists(scratch.path("epoch_0_step_10.superseded-2-2")));
  EXPECT_EQ(ReadManifest(scratch.path("epoch_0_step_10"), Verify::kChecksums).attempt, 2);
}

TEST(Pointers, FallBackToATextFile) {
  const Scratch scratch;
  SetFileHookForTesting(
      [](FileOp op, const std::string&) { return op == FileOp::kSymlink ? EPERM : 0; }, 0);
  const CheckpointSpec spec = SpecAt(scratch.path());
  Save(spec, 10);
  SetFileHookForTesting(nullptr, 0);
  EXPECT_EQ(Slurp(scratch.path("LATEST.txt")), "epoch_0_step_10\n");
  EXPECT_EQ(ChooseResume(spec).path, scratch.path("epoch_0_step_10"));
  EXPECT_THAT(PointedNames(spec.dir), ElementsAre("epoch_0_step_10"));
  Save(spec, 20);
  EXPECT_FALSE(fs::exists(scratch.path("LATEST.txt")));
  EXPECT_EQ(ChooseResume(spec).path, scratch.path("epoch_0_step_20"));
}

TEST(Staging, OfDeadAttemptsIsRemovedAndNothingElse) {
  const Scratch scratch;
  RemoveStaleStaging(scratch.path("not there"));
  scratch.Write(StagingName(0, 10, 1) + "/model/x", "x");
  scratch.Write(".deleting-epoch_0_step_5/x", "x");
  scratch.Write(".hidden/x", "x");
  scratch.Write("epoch_0_step_3/x", "x");
  RemoveStaleStaging(scratch.path());
  EXPECT_THAT(Entries(scratch.path()), UnorderedElementsAre(".hidden", "epoch_0_step_3"));
}

TEST(ReadManifest, SaysWhatIsMissingOrDamaged) {
  const Scratch scratch;
  const std::string dir = Save(SpecAt(scratch.path()), 10);
  const auto sizes = [&] { ReadManifest(dir, Verify::kSizes); };
  const auto checksums = [&] { ReadManifest(dir, Verify::kChecksums); };
  const std::string weights = Slurp(dir + "/model/weights");
  const std::string good = Slurp(dir + "/manifest.json");

  std::string flipped = weights;
  flipped[3] ^= 1;
  scratch.Write("epoch_0_step_10/model/weights", flipped);
  sizes();
  EXPECT_THAT(ErrorOf(checksums), HasSubstr("model/weights is damaged"));
  scratch.Write("epoch_0_step_10/model/weights", weights.substr(1));
  EXPECT_THAT(ErrorOf(sizes), HasSubstr("model/weights has 17 bytes instead of 18"));
  fs::remove(dir + "/model/weights");
  EXPECT_THAT(ErrorOf(sizes), HasSubstr("model/weights is missing"));
  scratch.Write("epoch_0_step_10/model/weights", weights);
  checksums();

  scratch.Write("epoch_0_step_10/manifest.json", good.substr(0, good.size() / 2));
  EXPECT_THAT(ErrorOf(sizes), HasSubstr("manifest.json: is damaged"));
  scratch.Write("epoch_0_step_10/manifest.json", "");
  EXPECT_THAT(ErrorOf(sizes), HasSubstr("manifest.json: is damaged"));
  json manifest = json::parse(good);
  manifest["files"][0]["path"] = "../../etc/passwd";
  scratch.Write("epoch_0_step_10/manifest.json", manifest.dump());
  EXPECT_THAT(ErrorOf(sizes), HasSubstr("which is not inside the checkpoint"));
  manifest["format"] = 2;
  scratch.Write("epoch_0_step_10/manifest.json", manifest.dump());
  EXPECT_THAT(ErrorOf(sizes), HasSubstr("format 2 is not known here, only 1"));
  fs::remove(dir + "/manifest.json");
  EXPECT_THAT(ErrorOf(sizes), HasSubstr("is no complete checkpoint: it has no manifest.json"));
}

TEST(TrainState, SurvivesJson) {
  TrainState state{.step = 7,
                   .epoch = 2,
                   .step_in_epoch = 3,
                   .samples_seen = 56,
                   .optimizer_steps = 7,
                   .seed = UINT64_MAX};
  state.lr_scheduler = {{"last_step", 7}};
  EXPECT_EQ(ToJson(TrainStateFromJson(ToJson(state))), ToJson(state));
  state.best_validation_loss = 0.1;
  EXPECT_EQ(TrainStateFromJson(json::parse(ToJson(state).dump())).best_validation_loss, 0.1);
  EXPECT_THAT(ErrorOf([] { TrainStateFromJson(json::object()); }), HasSubstr("state.json"));
}

TEST(Resume, StartsFreshWhereThereIsNothingOrWhenTold) {
  const Scratch scratch;
  EXPECT_EQ(ChooseResume(SpecAt(scratch.path("none"))).path, "");
  CheckpointSpec spec = SpecAt(scratch.path());
  EXPECT_EQ(ChooseResume(spec).path, "");
  Save(spec, 10);
  spec.fresh = true;
  EXPECT_EQ(ChooseResume(spec).path, "");
  spec.fresh = false;
  spec.enabled = false;
  EXPECT_EQ(ChooseResume(spec).path, "");
}

TEST(Resume, PrefersLatestOverAHigherStep) {
  const Scratch scratch;
  const CheckpointSpec spec = SpecAt(scratch.path());
  Save(spec, 30);
  Save(spec, 20);
  const ResumeChoice choice = ChooseResume(spec);
  EXPECT_EQ(choice.path, scratch.path("epoch_0_step_20"));
  EXPECT_EQ(choice.manifest.step, 20);
  EXPECT_THAT(choice.notes, IsEmpty());
}

TEST(Resume, SkipsIncompleteAndDamagedOnesWithANote) {
  const Scratch scratch;
  const CheckpointSpec spec = SpecAt(scratch.path());
  Save(spec, 10);
  Save(spec, 20);
  Save(spec, 30);
  fs::remove(scratch.path("epoch_0_step_30/manifest.json"));
  scratch.Write("epoch_0_step_20/model/weights", "weights of step 2X");
  const ResumeChoice choice = ChooseResume(spec);
  EXPECT_EQ(choice.path, scratch.path("epoch_0_step_10"));
  EXPECT_THAT(choice.notes, ElementsAre(HasSubstr("skipped epoch_0_step_30: "),
                                        HasSubstr("skipped epoch_0_step_20: ")));
  EXPECT_EQ(ChooseResume(spec, Verify::kSizes).path, scratch.path("epoch_0_step_20"));
}

TEST(Resume, ADanglingLatestFallsBackToTheNewest) {
  const Scratch scratch;
  const CheckpointSpec spec = SpecAt(scratch.path());
  Save(spec, 10);
  Save(spec, 20);
  fs::remove_all(scratch.path("epoch_0_step_20"));
  const ResumeChoice choice = ChooseResume(spec);
  EXPECT_EQ(choice.path, scratch.path("epoch_0_step_10"));
  EXPECT_EQ(choice.notes.size(), 1u);
}

TEST(Resume, RefusesTheCheckpointOfAnotherRunWithTheKeysAndTheCures) {
  const Scratch scratch;
  CheckpointSpec spec = SpecAt(scratch.path());
  Save(spec, 10);
  spec.run_fingerprint["model"]["hidden_size"] = 768;
  spec.run_fingerprint["peft"] = {{"dim", 8}};
  const std::string message = ErrorOf([&] { ChooseResume(spec); });
  EXPECT_THAT(message, HasSubstr("model.hidden_size: 576 there, 768 here"));
  EXPECT_THAT(message, HasSubstr("peft.dim: absent there, 8 here"));
  EXPECT_THAT(message, HasSubstr("--fresh"));
  EXPECT_THAT(message, HasSubstr("checkpoint.restore_from=" + scratch.path("epoch_0_step_10")));
  EXPECT_THAT(message, HasSubstr("another checkpoint.checkpoint_dir"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("seed")));

  spec.restore_from = "epoch_0_step_10";
  const ResumeChoice choice = ChooseResume(spec);
  EXPECT_EQ(choice.path, scratch.path("epoch_0_step_10"));
  EXPECT_THAT(choice.notes, ElementsAre(HasSubstr("model.hidden_size: 576 there, 768 here")));
  spec.restore_from = "";
  spec.run_fingerprint = json::object();
  EXPECT_EQ(ChooseResume(spec).path, scratch.path("epoch_0_step_10"));
}

TEST(Resume, NamesAPointerADirectoryOrAPath) {
  const Scratch scratch;
  CheckpointSpec spec = SpecAt(scratch.path("here"));
  Save(spec, 10, 1, /*is_best=*/true);
  Save(spec, 20);
  const std::string elsewhere = Save(SpecAt(scratch.path("there")), 5);
  for (const auto& [restore_from, path] :
       std::map<std::string, std::string>{{"LATEST", scratch.path("here/epoch_0_step_20")},
                                          {"latest", scratch.path("here/epoch_0_step_20")},
                                          {"LOWEST_VAL", scratch.path("here/epoch_0_step_10")},
                                          {"epoch_0_step_10", scratch.path("here/epoch_0_step_10")},
                                          {elsewhere, elsewhere}}) {
    spec.restore_from = restore_from;
    EXPECT_EQ(ChooseResume(spec).path, path) << restore_from;
  }
}

TEST(Resume, AMissingOrDamagedRestoreFromListsWhatIsThere) {
  const Scratch scratch;
  CheckpointSpec spec = SpecAt(scratch.path());
  spec.restore_from = "LATEST";
  EXPECT_THAT(ChooseResume(spec).notes, ElementsAre(HasSubstr("no complete checkpoint")));
  spec.restore_from = "epoch_0_step_99";
  EXPECT_THAT(ErrorOf([&] { ChooseResume(spec); }), HasSubstr("has no checkpoint"));
  for (int64_t step = 1; step <= 7; ++step) Save(spec, step);
  std::string message = ErrorOf([&] { ChooseResume(spec); });
  EXPECT_THAT(message,
              HasSubstr("checkpoint.restore_from: epoch_0_step_99: there is no such directory"));
  EXPECT_THAT(
      message,
      HasSubstr("has LATEST, epoch_0_step_7, epoch_0_step_6, epoch_0_step_5, epoch_0_step_4, "
                "epoch_0_step_3, and 2 more"));
  fs::remove(scratch.path("epoch_0_step_7/manifest.json"));
  spec.restore_from = "epoch_0_step_7";
  EXPECT_THAT(ErrorOf([&] { ChooseResume(spec); }), HasSubstr("is no complete checkpoint"));
  spec.restore_from = "/nowhere/x";
  EXPECT_THAT(ErrorOf([&] { ChooseResume(spec); }),
              HasSubstr("/nowhere/x: there is no such directory"));
}

TEST(Resume, NeverSkipsAManifestOfANewerProgram) {
  const Scratch scratch;
  const CheckpointSpec spec = SpecAt(scratch.path());
  Save(spec, 10);
  Save(spec, 20);
  scratch.Write("epoch_0_step_20/manifest.json", R"({"format":2})");
  EXPECT_THAT(ErrorOf([&] { ChooseResume(spec); }), HasSubstr("format 2 is not known here"));
}

TEST(MetricLogs, LinesPastTheRestoredStepMoveAside) {
  const Scratch scratch;
  const std::string path = scratch.path("training.jsonl"),
                    aside = scratch.path("training.superseded.jsonl");
  SupersedeLinesAfter(path, 3);
  EXPECT_FALSE(fs::exists(path));
  scratch.Write("training.jsonl", "{\"step\":1}\n{\"step\":2}\n");
  SupersedeLinesAfter(path, 3);
  EXPECT_FALSE(fs::exists(aside));
  scratch.Write("training.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n{\"st");
  SupersedeLinesAfter(path, 2);
  EXPECT_EQ(Slurp(path), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(Slurp(aside), "{\"step\":3}\n{\"step\":4}\n{\"st\n");
  SupersedeLinesAfter(path, 1);
  EXPECT_EQ(Slurp(path), "{\"step\":1}\n");
  EXPECT_EQ(Slurp(aside), "{\"step\":3}\n{\"step\":4}\n{\"st\n{\"step\":2}\n");
  SupersedeLinesAfter(path, 0);
  EXPECT_EQ(Slurp(path), "");
}

}  // namespace
}  // namespace am::engine
