// The first half of a run: the ranks meet, data are opened, model and state are loaded.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "worker/engine/trainer.h"
#ifdef AMCTL_HAVE_TEXT
#include "worker/text/tokenizer.h"
#endif

namespace am::engine {
namespace {

// Tokens of one pass: what a quarter of this rank's share of the memory holds of activations.
// Depends on the machine alone, so that a resumed run sums in the same order.
int64_t TokenBudget(const ModelConfig& config, bool recompute, int64_t element_size,
                    int local_ranks) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const int64_t per_layer = recompute ? 2 * config.hidden_size
                                      : 4 * config.hidden_size + 2 * config.q_size() +
                                            2 * config.kv_size() + 3 * config.intermediate_size;
  const double per_token = static_cast<double>(per_layer * config.num_layers * element_size);
  return std::clamp<int64_t>(static_cast<int64_t>(memory / 4 / local_ranks / per_token), 256,
                             32768);
}

int LocalRanks(const LayoutSpec& layout, int rank) {
  if (layout.ranks.empty()) return layout.world_size;
  const int node = layout.ranks.at(rank).node;
  return static_cast<int>(
      std::count_if(layout.ranks.begin(), layout.ranks.end(),
                    [&](const RankPlace& place) { return place.node == node; }));
}

// The leader's text, on every rank.
std::string BroadcastText(Communicator& world, std::string text) {
  at::Tensor size = at::empty({1}, at::kLong).fill_(static_cast<int64_t>(text.size()));
  world.Broadcast(size, 0)->Wait();
  text.resize(static_cast<size_t>(size.item<int64_t>()));
  if (text.empty()) return text;
  at::Tensor bytes = at::zeros({static_cast<int64_t>(text.size())}, at::kLong);
  for (size_t i = 0; i < text.size(); ++i)
    bytes.data_ptr<int64_t>()[i] = static_cast<unsigned char>(text[i]);
  world.Broadcast(bytes, 0)->Wait();
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(bytes.data_ptr<int64_t>()[i]);
  return text;
}

// A learning-rate schedule as JSON, in the form that it has inside of a RankSpec.
nlohmann::json ScheduleToJson(RankSpec spec, const LrSchedulerSpec& schedule) {
  spec.lr_scheduler = schedule;
  return ToJson(spec).at("lr_scheduler");
}
LrSchedulerSpec ScheduleFromJson(const RankSpec& spec, const nlohmann::json& json) {
  nlohmann::json whole = ToJson(spec);
  whole["lr_scheduler"] = json;
  return *RankSpecFromJson(whole).lr_scheduler;
}

}  // namespace

void Trainer::ChooseThreads() {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int share = std::max(1, cores / LocalRanks(spec_.layout, identity_.rank));
  at::set_num_threads(spec_.dist.threads > 0 ? spec_.dist.threads : share);
}

void Trainer::JoinGroups() {
  const LayoutSpec& layout = spec_.layout;
  if (layout.world_size != identity_.world_size)
    throw UserError("WORLD_SIZE " + std::to_string(identity_.world_size) +
                    " differs from the plan's " + std::to_string(layout.world_size));
  if (layout.world_size == 1) {
    world_ = MakeSelfCommunicator();
    shard_ = MakeSelfCommunicator();
    save_world_ = MakeSelfCommunicator();
    replica_ = MakeSelfCommunicator();
    return;
  }
  const RankLink::Meeting meeting = link_.WaitForRendezvous(spec_.dist.timeout_ms);
  groups_ = ProcessGroups::Join({.backend = spec_.dist.backend,
                                 .rank = identity_.rank,
                                 .world_size = identity_.world_size,
                                 .host = meeting.host,
                                 .port = meeting.port,
                                 .listen_fd = meeting.listen_fd,
                                 .prefix = meeting.prefix,
                                 .timeout = std::chrono::milliseconds(spec_.dist.timeout_ms)});
  world_ = groups_->World();
  // Ranks of a shard group are contiguous; those that hold the same shard stand dp_shard apart.
  const int shards = layout.dp_shard, replicas = layout.world_size / shards;
  std::vector<std::vector<int>> shard_groups(replicas), replica_groups(shards);
  for (int rank = 0; rank < layout.world_size; ++rank) {
    shard_groups[rank / shards].push_back(rank);
    replica_groups[rank % shards].push_back(rank);
  }
  shard_ = groups_->Split("dp_shard", shard_groups);
  replica_ = groups_->Split("dp_replicate", replica_groups);
  // The others wait for the leader while it exports, which takes longer than a collective of a step
  // ever should.
  save_world_ =
      groups_->Duplicate("save", std::max(std::chrono::milliseconds(spec_.dist.timeout_ms),
                                          std::chrono::milliseconds(std::chrono::minutes(30))));
}

void Trainer::OpenData() {
  const nlohmann::json config_json = ReadConfigJson(spec_.model.path, spec_.model.config_overrides);
  const ModelConfig config = ParseModelConfig(config_json);
  const text::Tokenizer* tokenizer = nullptr;
#ifdef AMCTL_HAVE_TEXT
  if (spec_.dataset.kind != "mock") {
    tokenizer_ = std::make_shared<text::Tokenizer>(text::Tokenizer::Load(spec_.model.path));
    tokenizer = tokenizer_.get();
  }
#endif
  const auto open = [&](const DatasetSpec& data) {
    return MakeDataset(data, tokenizer, spec_.model.chat_template, config.vocab_size);
  };
  dataset_ = open(spec_.dataset);
  loader_ = std::make_unique<DataLoader>(
      *dataset_, DataLoaderOptions{.global_batch_size = spec_.batch.global_batch_size,
                                   .local_batch_size = spec_.batch.local_batch_size,
                                   .dp_rank = identity_.rank,
                                   .dp_size = identity_.world_size,
                                   .shuffle = spec_.loader.shuffle,
                                   .drop_last = spec_.loader.drop_last,
                                   .seed = spec_.seed});
  const RunDtypes dtypes = ChooseDtypes(spec_, config.dtype);
  token_budget_ =
      TokenBudget(config, spec_.dist.activation_checkpointing, dtypes.compute == at::kFloat ? 4 : 2,
                  LocalRanks(spec_.layout, identity_.rank));
  for (const DatasetSpec& data : spec_.validation_datasets)
    evaluators_.push_back(std::make_unique<Evaluator>(
        data, open(data), spec_.loss, *world_, identity_.rank, identity_.world_size,
        spec_.validation_loader.batch_size, token_budget_));
  steps_per_epoch_ = loader_->steps_per_epoch();
  const int64_t epochs = spec_.schedule.num_epochs.value_or(
      spec_.schedule.max_steps ? INT64_MAX / steps_per_epoch_ : 10);
  total_steps_ = std::min(epochs * steps_per_epoch_, spec_.schedule.max_steps.value_or(INT64_MAX));
}

void Trainer::LoadState() {
  std::string resume_dir;
  if (spec_.checkpoint.enabled && leader()) {
    directory_lock_ = std::make_unique<DirectoryLock>(spec_.checkpoint.dir);
    RemoveStaleStaging(spec_.checkpoint.dir);
    const ResumeChoice choice = ChooseResume(spec_.checkpoint);
    for (const std::string& note : choice.notes) link_.Warn(note);
    resume_dir = choice.path;
  }
  resume_dir = BroadcastText(*save_world_, resume_dir);  // verifying a checkpoint takes its time
  state_.seed = spec_.seed;
  if (!resume_dir.empty()) {
    std::ifstream in(resume_dir + "/state.json");
    state_ = TrainStateFromJson(nlohmann::json::parse(in));
    restored_from_ = resume_dir;
    if (state_.step >= total_steps_) return;
  }
  loaded_ = LoadModel(spec_, {.shard = shard_.get(), .replica = replica_.get()}, resume_dir);
  for (const std::string& warning : loaded_.dtypes.warnings) link_.Warn(warning);
  optimizer_ = MakeOptimizer(spec_.optimizer, loaded_.store->slots());
  std::optional<LrSchedulerSpec> schedule = spec_.lr_scheduler;
  const bool saved_one_wins = schedule && schedule->use_checkpoint_opt_param_scheduler &&
                              !schedule->override_opt_param_scheduler &&
                              !state_.lr_scheduler.empty();
  if (saved_one_wins) schedule = ScheduleFromJson(spec_, state_.lr_scheduler);
  schedule_ = std::make_unique<LrSchedule>(schedule, spec_.optimizer.lr,
                                           spec_.optimizer.weight_decay, total_steps_);
  if (schedule) state_.lr_scheduler = ScheduleToJson(spec_, schedule_->resolved());
  if (!resume_dir.empty()) {
    LoadOptimizer(resume_dir, *loaded_.store, *optimizer_);
    optimizer_->set_steps_taken(state_.optimizer_steps);
  }
  save_world_->Barrier();  // ranks load at their own speed; collectives of a step are timed
}

void Trainer::OpenLogs() {
  training_log_ = std::make_unique<JsonlLog>(spec_.checkpoint.dir + "/training.jsonl", state_.step);
  for (const auto& evaluator : evaluators_)
    validation_logs_.push_back(std::make_unique<JsonlLog>(
        spec_.checkpoint.dir + "/validation" +
            (evaluator->name() == "default" ? "" : "_" + evaluator->name()) + ".jsonl",
        state_.step));
}

}  // namespace am::engine
