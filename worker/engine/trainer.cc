#include "worker/engine/trainer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/exit_status.h"
#include "worker/engine/loss/head_loss.h"
#include "worker/engine/pack.h"

namespace am::engine {
namespace {

double PeakMemoryGib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

}  // namespace

Trainer::Trainer(const RankSpec& spec, const RankIdentity& identity, RankLink& link)
    : spec_(spec), identity_(identity), link_(link) {}
Trainer::~Trainer() = default;

int Trainer::Run() {
  link_.SetActivity("starting", 0);
  ChooseThreads();
  JoinGroups();
  OpenData();
  LoadState();
  if (state_.step >= total_steps_) {
    link_.Send(RankEventType::kDone, {{"reason", "already_complete"}, {"step", state_.step}});
    return kExitDone;
  }
  if (leader()) OpenLogs();
  loader_->Seek(state_.epoch, state_.step_in_epoch);
  StepBatch batch = loader_->Next();
  link_.Send(RankEventType::kReady,
             {{"step", state_.step},
              {"epoch", state_.epoch},
              {"restored_from",
               restored_from_.empty() ? nlohmann::json() : nlohmann::json(restored_from_)},
              {"total_steps", total_steps_}});

  while (true) {
    link_.SetActivity("step", state_.step + 1);
    const StepOutcome outcome = TakeStep(batch);
    const bool last = state_.step >= total_steps_;
    Report(outcome);
    const bool saving = WantsCheckpoint(outcome, last);
    if (!outcome.leave && WantsValidation(saving)) Validate();
    if (saving) Save(last);
    if (last || outcome.leave) {
      FinishSave();
      link_.Send(RankEventType::kDone,
                 {{"reason", last ? "completed" : "saved_and_left"}, {"step", state_.step}});
      return last ? kExitDone : kRankExitSavedAndLeft;
    }
    batch = loader_->Next();
  }
}

Trainer::StepOutcome Trainer::TakeStep(const StepBatch& batch) {
  const auto start = std::chrono::steady_clock::now();
  ParameterStore& store = *loaded_.store;
  const int64_t ignore = spec_.loss.ignore_index;

  // Counts of the whole global batch first: the loss is divided before backward, so gradients are
  // plain sums.
  std::vector<int64_t> micro_tokens;
  int64_t labels = 0;
  for (const auto& micro : batch.micro_batches) {
    int64_t tokens = 0;
    for (const Sample& sample : micro) {
      tokens += UsefulLength(sample, ignore);
      labels += CountLabels(sample, ignore);
    }
    micro_tokens.push_back(tokens);
  }
  const auto passes = MergePasses(micro_tokens, token_budget_);
  const int ranks = world_->size();
  at::Tensor mine = at::empty({3}, at::kLong), all = at::empty({3 * ranks}, at::kLong);
  auto* counts = mine.data_ptr<int64_t>();
  counts[0] = labels;
  counts[1] = std::accumulate(micro_tokens.begin(), micro_tokens.end(), int64_t{0});
  counts[2] = static_cast<int64_t>(passes.size());
  world_->AllGather(all, mine)->Wait();
  StepOutcome outcome;
  int64_t pass_count = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto* of = all.data_ptr<int64_t>() + 3 * rank;
    outcome.num_label_tokens += of[0];
    outcome.num_tokens += of[1];
    pass_count = std::max(pass_count, of[2]);
  }

  const double scale =
      outcome.num_label_tokens > 0 ? 1.0 / static_cast<double>(outcome.num_label_tokens) : 0.0;
  double loss_sum = 0;
  for (int64_t pass = 0; pass < pass_count; ++pass) {  // ranks with fewer passes run empty ones
    std::vector<const Sample*> samples;
    if (pass < static_cast<int64_t>(passes.size()))
      for (const size_t micro : passes[pass])
        for (const Sample& sample : batch.micro_batches[micro]) samples.push_back(&sample);
    loss_sum += RunPass(samples, pass + 1 == pass_count, scale);
  }
  store.FinishGradients();

  double squares = 0;
  for (const OptimizerSlot& slot : store.slots()) squares += SumOfSquares(slot.grad);
  at::Tensor local = at::empty({5}, at::kDouble), everyone = at::empty({5 * ranks}, at::kDouble);
  auto* values = local.data_ptr<double>();
  values[0] = loss_sum;
  values[1] = store.writes_shard() ? squares : 0;
  values[2] = link_.leave_requested();
  values[3] = link_.TakeSaveRequest();
  values[4] = PeakMemoryGib();
  world_->AllGather(everyone, local)->Wait();
  double total_loss = 0, total_squares = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto* of = everyone.data_ptr<double>() + 5 * rank;
    total_loss += of[0];
    total_squares += of[1];
    outcome.leave |= of[2] != 0;
    outcome.save |= of[3] != 0;
    outcome.mem_gib = std::max(outcome.mem_gib, of[4]);
  }
  outcome.loss = total_loss * scale;
  outcome.grad_norm = std::sqrt(total_squares);
  const double max_norm = spec_.max_grad_norm.value_or(0);
  const double clip = max_norm > 0 ? std::min(1.0, max_norm / (outcome.grad_norm + 1e-6)) : 1.0;
  outcome.lr = schedule_->LearningRate(state_.step);
  optimizer_->Step(store.slots(), outcome.lr, schedule_->WeightDecay(state_.step), clip);
  store.ClearGradients();
  store.Invalidate();

  ++state_.step;
  state_.optimizer_steps = optimizer_->steps_taken();
  state_.samples_seen +=
      std::min(spec_.batch.global_batch_size,
               dataset_->size() - batch.step_in_epoch * spec_.batch.global_batch_size);
  state_.epoch = batch.epoch;
  state_.step_in_epoch = batch.step_in_epoch + 1;
  finished_epoch_ = batch.epoch;
  if (state_.step_in_epoch == steps_per_epoch_) {
    ++state_.epoch;
    state_.step_in_epoch = 0;
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

double Trainer::RunPass(const std::vector<const Sample*>& samples, bool last, double loss_scale) {
  const PackedBatch batch = Pack(samples, spec_.loss.ignore_index);
  ParameterStore& store = *loaded_.store;
  store.BeginPass(/*training=*/true, last);
  const PassContext pass{.training = true, .seed = spec_.seed, .step = state_.step};
  const at::Tensor hidden = loaded_.model->Forward(batch, pass, batch.label_rows, &store);
  const HeadLossResult loss = HeadLoss(loaded_.model->head(), hidden, batch.labels, spec_.loss,
                                       batch.labels.size(0) > 0 ? loss_scale : 0);
  hidden.backward(loss.grad_hidden.defined() ? loss.grad_hidden
                                             : at::zeros(hidden.sizes(), hidden.options()));
  store.EndPass();
  return loss.loss_sum;
}

void Trainer::Report(const StepOutcome& outcome) {
  last_loss_ = outcome.loss;
  validation_loss_.reset();
  validation_losses_.clear();
  if (!leader()) return;
  const double tps = static_cast<double>(outcome.num_tokens) / outcome.seconds;
  const double per_gpu = tps / world_->size();
  link_.Send(RankEventType::kStep, {{"step", state_.step},
                                    {"epoch", finished_epoch_},
                                    {"loss", outcome.loss},
                                    {"grad_norm", outcome.grad_norm},
                                    {"lr", outcome.lr},
                                    {"mem_gib", outcome.mem_gib},
                                    {"tps", tps},
                                    {"tps_per_gpu", per_gpu},
                                    {"num_tokens", outcome.num_tokens},
                                    {"num_label_tokens", outcome.num_label_tokens},
                                    {"step_s", outcome.seconds}});
  if (!training_log_) return;
  training_log_->Append({{"step", state_.step},
                         {"epoch", finished_epoch_},
                         {"timestamp", UtcNow()},
                         {"loss", outcome.loss},
                         {"grad_norm", outcome.grad_norm},
                         {"lr", outcome.lr},
                         {"mem", outcome.mem_gib},
                         {"tps", tps},
                         {"tps_per_gpu", per_gpu},
                         {"mfu", nullptr},
                         {"num_tokens_per_step", outcome.num_tokens},
                         {"num_label_tokens", outcome.num_label_tokens},
                         {"step_s", outcome.seconds},
                         {"attempt", spec_.attempt}});
}

bool Trainer::WantsCheckpoint(const StepOutcome& outcome, bool last) const {
  if (!spec_.checkpoint.enabled) return false;
  const ScheduleSpec& schedule = spec_.schedule;
  const bool epoch_end =
      AtEpochEnd() && (schedule.save_checkpoint_every_epoch || !schedule.ckpt_every_steps);
  return last || outcome.leave || outcome.save || epoch_end ||
         (schedule.ckpt_every_steps && state_.step % *schedule.ckpt_every_steps == 0);
}

bool Trainer::WantsValidation(bool saving) const {
  if (evaluators_.empty()) return false;
  return saving ||
         (spec_.schedule.val_every_steps && state_.step % *spec_.schedule.val_every_steps == 0);
}

void Trainer::Validate() {
  link_.SetActivity("validation", state_.step);
  for (size_t i = 0; i < evaluators_.size(); ++i) {
    const EvaluationResult result = evaluators_[i]->Run(*loaded_.model, *loaded_.store);
    const std::string& name = evaluators_[i]->name();
    validation_losses_.emplace_back(name, result.loss);
    if (evaluators_.size() == 1 || name == spec_.checkpoint.best_metric_key)
      validation_loss_ = result.loss;
    if (!leader()) continue;
    const double lr = schedule_->LearningRate(state_.step - 1);
    link_.Send(RankEventType::kValidation, {{"name", name},
                                            {"step", state_.step},
                                            {"epoch", finished_epoch_},
                                            {"loss", result.loss},
                                            {"lr", lr},
                                            {"num_label_tokens", result.num_label_tokens}});
    if (i < validation_logs_.size())
      validation_logs_[i]->Append({{"step", state_.step},
                                   {"epoch", finished_epoch_},
                                   {"timestamp", UtcNow()},
                                   {"val_loss", result.loss},
                                   {"lr", lr},
                                   {"num_label_tokens", result.num_label_tokens},
                                   {"mem", PeakMemoryGib()},
                                   {"attempt", spec_.attempt}});
  }
}

void Trainer::Save(bool final) {
  FinishSave();
  link_.SetActivity("checkpoint", state_.step);
  const bool best =
      validation_loss_ && std::isfinite(*validation_loss_) &&
      (!state_.best_validation_loss || *validation_loss_ < *state_.best_validation_loss);
  if (best) state_.best_validation_loss = validation_loss_;
  nlohmann::json losses = {{"train_loss", last_loss_}};
  for (const auto& [name, loss] : validation_losses_)
    losses[validation_losses_.size() == 1 ? "val_loss" : name] = loss;
  const std::string path =
      spec_.checkpoint.dir + "/" + CheckpointDirName(finished_epoch_, state_.step);
  if (leader())
    link_.Send(RankEventType::kCheckpointBegun,
               {{"step", state_.step}, {"epoch", finished_epoch_}, {"path", path}});
  const bool beside = spec_.checkpoint.is_async;
  SaveRequest request{.spec = spec_,
                      .loaded = loaded_,
                      .snapshot = TakeSnapshot(*loaded_.store, *optimizer_, beside),
                      .world = *save_world_,
                      .state = state_,
                      .finished_epoch = finished_epoch_,
                      .final = final,
                      .is_best = best,
                      .losses = std::move(losses)};
  saving_ =
      std::async(beside ? std::launch::async : std::launch::deferred,
                 [this, request = std::move(request)]() mutable {
                   const int64_t step = request.state.step, epoch = request.finished_epoch;
                   const SaveResult result = SaveCheckpoint(std::move(request));
                   for (const std::string& warning : result.warnings) link_.Warn(warning);
                   if (leader())
                     link_.Send(RankEventType::kCheckpointDone, {{"step", step},
                                                                 {"epoch", epoch},
                                                                 {"path", result.path},
                                                                 {"bytes", result.bytes},
                                                                 {"seconds", result.seconds}});
                 });
  if (!beside) FinishSave();
}

void Trainer::FinishSave() {
  if (saving_.valid()) saving_.get();
}

}  // namespace am::engine
