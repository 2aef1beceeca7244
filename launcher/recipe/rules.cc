#include "launcher/recipe/rules.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <utility>

#include "launcher/recipe/schema.h"
#include "launcher/recipe/suggest.h"

namespace am::recipe {
namespace {

class Rules {
 public:
  Rules(const Recipe& recipe, const RuleOptions& options, Diagnostics& out)
      : recipe_(recipe), options_(options), out_(out) {}

  void Check() {
    if (options_.whole) CheckMissing();
    CheckBenchmark();
    CheckDistillation();
    CheckSteps();
    CheckModel();
    CheckPeft();
    CheckOptimizer();
    CheckLrScheduler();
    CheckData();
    CheckPacking();
    CheckValidation();
    CheckCheckpoint();
    CheckDistributed();
    CheckOperations();
  }

 private:
  // ---- reading what is sound; nothing where a key was refused, or its section has no such key

  bool Sound(std::string_view key) const {
    return !IsBroken(recipe_.root(), key) && FindKey(recipe_.root(), key) != nullptr;
  }
  bool Given(std::string_view key) const { return Sound(key) && recipe_.Has(key); }
  template <typename T>
  const T* As(std::string_view key) const {
    const Value* value = Given(key) ? recipe_.Find(key) : nullptr;
    return value ? std::get_if<T>(&value->data) : nullptr;
  }
  std::optional<int64_t> Int(std::string_view key) const {
    const auto* number = As<int64_t>(key);
    return number ? std::optional(*number) : std::nullopt;
  }
  std::optional<double> Float(std::string_view key) const {
    if (const auto* whole = As<int64_t>(key)) return static_cast<double>(*whole);
    const auto* number = As<double>(key);
    return number ? std::optional(*number) : std::nullopt;
  }
  std::string Text(std::string_view key) const {
    const auto* text = As<std::string>(key);
    return text ? *text : "";
  }
  bool IsOn(std::string_view key) const {
    const auto* flag = As<bool>(key);
    return flag && *flag;
  }
  bool IsOff(std::string_view key) const {
    const auto* flag = As<bool>(key);
    return flag && !*flag;
  }
  // As it was written, for a message; of a default its value.
  std::string Shown(std::string_view key) const {
    const Value* value = recipe_.Find(key);
    return value && !value->text.empty() ? value->text : "";
  }
  bool IsPart(std::string_view section, std::string_view part) const {
    return !IsBroken(recipe_.root(), section) &&
           !IsBroken(recipe_.root(), std::string(section) + "._target_") &&
           recipe_.Part(section) == part;
  }

  void Error(std::string_view key, std::string message, std::string hint) {
    recipe_.Error(out_, key, std::move(message), std::move(hint));
  }
  void Warn(std::string_view key, std::string message, std::string hint) {
    recipe_.Report(out_, Severity::kWarning, key, std::move(message), std::move(hint));
  }

  // ---- what is missing

  // Null, but for a value that was refused.
  bool Absent(std::string_view key) const {
    return !IsBroken(recipe_.root(), key) && !recipe_.Has(key);
  }

  void Require(std::string_view key, const char* hint) {
    if (!Absent(key)) return;
    const Value* value = recipe_.Find(key);
    bool empty = value && value->text.empty() && !value->quoted;
    Error(key, empty ? "the section is empty" : "missing", hint);
  }

  void CheckMissing() {
    bool trains = recipe_.kind() == "finetune" || recipe_.kind() == "benchmark" ||
                  recipe_.kind() == "distillation";
    if (!trains) return;
    Require("model", "add model: {pretrained_model_name_or_path: …}");
    Require("dataset", "add dataset: {_target_: …make_squad_dataset, dataset_name: …}");
    auto named = [&](std::string_view part, std::string_view key, const char* hint) {
      if (!recipe_.Has("model") || !IsPart("model", part) || !Absent(key)) return;
      Error(key, "missing", hint);
    };
    named("from_pretrained", "model.pretrained_model_name_or_path",
          "name a model directory or a hub id");
    named("from_config", "model.config", "name a directory or hub id with a config.json");
  }

  void CheckBenchmark() {
    if (recipe_.kind() != "benchmark") return;
    if (options_.whole && Absent("benchmark")) {
      Error("benchmark", "missing: a benchmark recipe needs it",
            "add benchmark: {warmup_steps: 10, peak_tflops: 989, nsys_start: -1, nsys_end: -1, "
            "nsys_ranks: []}");
    }
    std::optional<int64_t> warmup = Int("benchmark.warmup_steps");
    std::optional<int64_t> steps = Int("step_scheduler.max_steps");
    if (warmup && steps && *warmup >= *steps) {
      Error("benchmark.warmup_steps",
            absl::StrCat(*warmup, " leave nothing to time of max_steps ", *steps),
            absl::StrCat("use fewer than ", *steps, ", or raise step_scheduler.max_steps"));
    }
    std::optional<int64_t> start = Int("benchmark.nsys_start"), end = Int("benchmark.nsys_end");
    if (start && end && *start >= 0 && *end >= 0 && *end < *start) {
      Error("benchmark.nsys_end", absl::StrCat(*end, " is before nsys_start ", *start),
            "raise it, or use -1 for both");
    }
  }

  void CheckDistillation() {
    if (recipe_.kind() == "distillation" && options_.whole) {
      Require("teacher_model",
              "add teacher_model: {_target_: …from_pretrained, pretrained_model_name_or_path: …}");
    }
    if (std::optional<double> ratio = Float("kd_ratio"); ratio && (*ratio < 0 || *ratio > 1)) {
      Error("kd_ratio", absl::StrCat("expected a number from 0 to 1, got ", Shown("kd_ratio")),
            "0.5 weighs both losses alike");
    }
  }

  // ---- how long

  void CheckSteps() {
    std::string target = Text("dataset._target_");
    bool streams = IsOn("dataset.streaming") || target.ends_with("IterableDataset") ||
                   target.ends_with("NanogptDataset");
    if (streams && !target.ends_with("MockIterableDataset") && options_.whole &&
        Absent("step_scheduler.max_steps")) {
      Error("step_scheduler.max_steps", "missing: a data set that is streamed has no known length",
            "say how many steps to train");
    }
    if (std::optional<int64_t> top = Int("seed")) {
      std::optional<int64_t> other = Int("rng.seed");
      if (other && *other != *top) {
        Warn("rng.seed", absl::StrCat(*other, " is not used: the top-level seed ", *top, " wins"),
             "keep one of the two");
      }
    }
  }

  // ---- the model

  void CheckModel() {
    if (IsBroken(recipe_.root(), "model")) return;
    const Value* old = recipe_.Find("model.torch_dtype");
    const Value* now = recipe_.Find("model.dtype");
    if (old && now && !old->is_null() && !now->is_null() && !old->broken && !now->broken) {
      auto plain = [](std::string_view text) {
        if (text.starts_with("torch.")) text.remove_prefix(6);
        return text == "bf16" ? "bfloat16" : text == "fp32" ? "float32" : std::string(text);
      };
      if (plain(old->text) != plain(now->text)) {
        Error("model.dtype",
              absl::StrCat(now->text, " is not torch_dtype ", old->text,
                           ", and both name the dtype of the weights"),
              "keep one of the two");
      }
    }
    if (IsOn("quantization.load_in_4bit") && IsOn("quantization.load_in_8bit")) {
      Error("quantization.load_in_8bit", "cannot be given together with load_in_4bit",
            "keep one of the two");
    }
    bool quantized = IsOn("quantization.load_in_4bit") || IsOn("quantization.load_in_8bit");
    if (quantized && Absent("peft") && options_.whole) {
      Error("quantization", "a base in few bits cannot be trained itself",
            "add a peft section (QLoRA), or remove quantization");
    }
  }

  void CheckPeft() {
    bool qat = recipe_.Has("qat") && !IsOff("qat.enabled") && !IsBroken(recipe_.root(), "qat");
    if (const Value* enabled = recipe_.Find("qat.enabled")) {
      if (const auto* flag = std::get_if<bool>(&enabled->data)) qat = qat && *flag;
    }
    if (qat && recipe_.Has("peft")) {
      Error("qat", "quantisation-aware training does not go with peft", "keep one of the two");
    }
    if (!recipe_.Has("peft") || !IsPart("peft", "lora")) return;
    bool targets = Given("peft.target_modules") && !recipe_.Strings("peft.target_modules").empty();
    bool excludes =
        Given("peft.exclude_modules") && !recipe_.Strings("peft.exclude_modules").empty();
    if (targets && excludes) {
      Error("peft.exclude_modules", "cannot be given together with target_modules",
            "keep one of the two");
    }
    if (IsOn("peft.match_all_linear") && (targets || excludes)) {
      Error("peft.match_all_linear",
            "cannot be given together with target_modules or exclude_modules", "keep one of them");
    }
    if (options_.whole && !targets && !excludes && !IsOn("peft.match_all_linear") &&
        Sound("peft.target_modules") && Sound("peft.match_all_linear") &&
        Sound("peft.exclude_modules")) {
      Error("peft", "says of no module that it is to be adapted",
            "set peft.match_all_linear: true, or list peft.target_modules");
    }
  }

  // ---- the optimizer

  void CheckOptimizer() {
    if (!recipe_.Has("optimizer")) return;
    if (Given("optimizer.betas")) {
      std::vector<double> betas = recipe_.Floats("optimizer.betas");
      bool legal = betas.size() == 2;
      for (double beta : betas) legal = legal && beta >= 0 && beta < 1;
      if (!legal) {
        Error("optimizer.betas", "expected two numbers from 0 to below 1", "write [0.9, 0.999]");
      }
    }
    if (IsPart("optimizer", "sgd") && IsOn("optimizer.nesterov") && Sound("optimizer.momentum") &&
        Sound("optimizer.dampening") &&
        (recipe_.Float("optimizer.momentum") <= 0 || recipe_.Float("optimizer.dampening") != 0)) {
      Error("optimizer.nesterov", "needs momentum above 0 and dampening 0",
            "set optimizer.momentum, or nesterov: false");
    }
    if (std::optional<double> lr = Float("optimizer.lr"); lr && *lr >= 1) {
      Warn("optimizer.lr", absl::StrCat("a learning rate of ", *lr, " is far above the usual"),
           "is an exponent's minus missing? 1e-5");
    }
  }

  // The optimizer's, where it is known.
  std::optional<double> PeakLr() const {
    if (!Sound("optimizer") || IsBroken(recipe_.root(), "optimizer._target_")) return std::nullopt;
    if (!recipe_.Has("optimizer")) return 1e-5;
    if (!Sound("optimizer.lr")) return std::nullopt;
    return recipe_.Float("optimizer.lr");
  }

  void CheckLrScheduler() {
    if (!recipe_.Has("lr_scheduler")) return;
    bool wsd = Text("lr_scheduler.lr_decay_style") == "WSD";
    if (wsd && Absent("lr_scheduler.wsd_decay_steps") && options_.whole) {
      Error("lr_scheduler.lr_decay_style", "WSD needs wsd_decay_steps",
            "set lr_scheduler.wsd_decay_steps");
    }
    if (Given("lr_scheduler.wsd_decay_steps") && !wsd && Sound("lr_scheduler.lr_decay_style")) {
      Warn("lr_scheduler.wsd_decay_steps", "is used by lr_decay_style WSD alone",
           "set lr_decay_style: WSD, or remove it");
    }
    bool given = Given("lr_scheduler.max_lr");
    std::optional<double> most = given ? Float("lr_scheduler.max_lr") : PeakLr();
    if (!Sound("lr_scheduler.max_lr")) most = std::nullopt;
    for (const char* key : {"lr_scheduler.init_lr", "lr_scheduler.min_lr"}) {
      std::optional<double> value = Float(key);
      if (!value || !most || *value <= *most) continue;
      Error(key,
            absl::StrCat(*value, " is above ", given ? "max_lr " : "the optimizer's lr ", *most),
            given ? "lower it, or raise max_lr" : "lower it, or raise optimizer.lr");
    }
    std::optional<int64_t> warmup = Int("lr_scheduler.lr_warmup_steps");
    std::optional<int64_t> decay = Int("lr_scheduler.lr_decay_steps");
    std::optional<int64_t> steps = Int("step_scheduler.max_steps");
    if (warmup && decay && *warmup >= *decay) {
      Error("lr_scheduler.lr_warmup_steps",
            absl::StrCat(*warmup, " is not below lr_decay_steps ", *decay),
            absl::StrCat("use ", *decay - 1, " or less, or raise lr_decay_steps"));
    } else if (warmup && !decay && steps && *warmup >= *steps &&
               Sound("lr_scheduler.lr_decay_steps")) {
      Error("lr_scheduler.lr_warmup_steps",
            absl::StrCat(*warmup, " is not below max_steps ", *steps,
                         ", when the decay is to have ended"),
            absl::StrCat("use ", *steps - 1, " or less, or set lr_decay_steps"));
    }
    std::optional<int64_t> wsd_steps = Int("lr_scheduler.wsd_decay_steps");
    if (wsd && wsd_steps && decay && *wsd_steps > *decay - warmup.value_or(0)) {
      Error("lr_scheduler.wsd_decay_steps",
            absl::StrCat(*wsd_steps, " are more than lr_decay_steps ", *decay,
                         warmup ? absl::StrCat(" - lr_warmup_steps ", *warmup) : "", " leave"),
            absl::StrCat("use ", std::max<int64_t>(*decay - warmup.value_or(0), 1), " or less"));
    }
  }

  // ---- data

  void CheckData() {
    for (const std::string& section : DatasetSections()) {
      auto key = [&](std::string_view name) { return section + "." + std::string(name); };
      if (Text(key("padding")) == "max_length" && Absent(key("seq_length"))) {
        Error(key("padding"), "max_length needs a length to pad to", "set seq_length");
      }
      CheckSplit(key("split"));
      CheckColumns(key("column_mapping"));
    }
  }

  std::vector<std::string> DatasetSections() const {
    std::vector<std::string> sections;
    if (recipe_.Has("dataset")) sections.push_back("dataset");
    for (const Recipe::NamedSection& set : recipe_.ValidationSets()) sections.push_back(set.key);
    return sections;
  }

  // `train[:100]`
  void CheckSplit(const std::string& key) {
    const Value* value = recipe_.Find(key);
    const auto* text = value && !value->broken ? std::get_if<std::string>(&value->data) : nullptr;
    if (!text) return;
    size_t open = text->find('['), close = text->find(']');
    bool sliced = open != std::string::npos || close != std::string::npos;
    bool legal = !sliced || (open != std::string::npos && close != std::string::npos && open > 0 &&
                             open < close);
    if (legal && sliced && text->find('+') == std::string::npos) {
      legal = text->substr(open, close - open).find(':') != std::string::npos &&
              close + 1 == text->size();
    }
    if (!legal) {
      Error(key, absl::StrCat("\"", value->text, "\" is no split"),
            "write a name, or a slice such as train[:1000] or train[10%:20%]");
    }
  }

  void CheckColumns(const std::string& key) {
    const Value* value = recipe_.Find(key);
    if (!value || !value->map() || value->broken) return;
    constexpr std::string_view kColumns[] = {"context", "question", "answer"};
    bool fine = true;
    for (const Entry& entry : *value->map()) {
      bool known =
          std::find(std::begin(kColumns), std::end(kColumns), entry.key) != std::end(kColumns);
      if (known) continue;
      fine = false;
      out_.push_back({.place = entry.place,
                      .key = absl::StrCat(key, ".", entry.key),
                      .message = "no column of a sample",
                      .hint = Suggest(entry.key, kColumns)});
    }
    if (!fine) return;
    if (!value->Find("answer")) {
      Error(key, "has no answer", "say which column holds it: answer: NAME");
    } else if (value->map()->size() < 2) {
      Error(key, "needs context or question beside the answer", "add question: NAME");
    }
  }

  void CheckPacking() {
    std::optional<int64_t> size = Int("packed_sequence.packed_sequence_size");
    if (!size || *size == 0) return;
    for (const char* key : {"dataset.seq_length", "dataset.seq_len"}) {
      const Value* value = recipe_.Find(key);
      const auto* length = value && !value->broken ? std::get_if<int64_t>(&value->data) : nullptr;
      if (!length || *length <= *size) continue;
      bool kept = IsOff("packed_sequence.drop_long_samples");
      std::string message = absl::StrCat(*size, " is below ", key, " ", *length,
                                         kept ? ", and a sample that is longer is not to be dropped"
                                              : ": samples that are longer are dropped");
      std::string hint = absl::StrCat("use ", *length, " or more, or lower ", key);
      if (kept) {
        Error("packed_sequence.packed_sequence_size", message, hint);
      } else {
        Warn("packed_sequence.packed_sequence_size", message, hint);
      }
    }
  }

  // ---- validation and checkpoints

  void CheckValidation() {
    if (!options_.whole || recipe_.kind() != "finetune") return;
    std::vector<Recipe::NamedSection> sets = recipe_.ValidationSets();
    bool any = !sets.empty();
    if (const Map* root = recipe_.root().map()) {
      for (const Entry& entry : *root) {
        any = any || (std::string_view(entry.key).starts_with("validation_dataset") &&
                      (entry.value.broken || !entry.value.is_null()));
      }
    }
    if (!any && Given("step_scheduler.val_every_steps")) {
      Warn("step_scheduler.val_every_steps", "there is no validation_dataset to validate on",
           "add the section, or remove the key");
    }
    if (!any && Given("validation_dataloader")) {
      Warn("validation_dataloader", "there is no validation_dataset to load", "add the section");
    }
    for (size_t i = 0; i < sets.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (sets[i].name != sets[j].name || sets[i].key == sets[j].key) continue;
        Error(sets[i].key, absl::StrCat("has the same name, ", sets[i].name, ", as ", sets[j].key),
              "rename one of the two");
      }
    }
    std::string metric = Text("checkpoint.best_metric_key");
    bool known = metric.empty() || metric == "default" || sets.empty();
    for (const Recipe::NamedSection& set : sets) known = known || set.name == metric;
    if (!known) {
      std::vector<std::string_view> names;
      for (const Recipe::NamedSection& set : sets) names.push_back(set.name);
      Error("checkpoint.best_metric_key",
            absl::StrCat("no validation set is called ", Shown("checkpoint.best_metric_key")),
            absl::StrCat("use ", OrWords(names)));
    }
  }

  void CheckCheckpoint() {
    if (IsOff("checkpoint.enabled") && Given("checkpoint.max_recent_checkpoints")) {
      Warn("checkpoint.max_recent_checkpoints", "nothing is kept: checkpoint.enabled is false",
           "set enabled: true, or remove it");
    }
  }

  // ---- the layout, as far as it needs no cluster

  void CheckDistributed() {
    if (IsBroken(recipe_.root(), "distributed") || !recipe_.Has("distributed")) return;
    auto above_one = [&](const char* key) { return Int(key).value_or(1) > 1; };
    std::string strategy = Text("distributed.strategy");
    if (strategy == "megatron_fsdp") {
      for (const char* key : {"distributed.pp_size", "distributed.ep_size"}) {
        if (!above_one(key)) continue;
        Error(key, absl::StrCat(*Int(key), " does not go with strategy megatron_fsdp"),
              "use 1, or strategy: fsdp2");
      }
      if (Text("distributed.activation_checkpointing") == "selective") {
        Error("distributed.activation_checkpointing",
              "selective does not go with strategy megatron_fsdp", "use full, or strategy: fsdp2");
      }
    }
    bool no_tp = Sound("distributed.tp_size") && !above_one("distributed.tp_size");
    if (IsOn("distributed.enable_async_tensor_parallel") &&
        Sound("distributed.sequence_parallel") && !IsOn("distributed.sequence_parallel")) {
      Error("distributed.enable_async_tensor_parallel", "needs sequence_parallel",
            "set sequence_parallel: true");
    }
    if (IsOn("distributed.sequence_parallel") && no_tp) {
      Warn("distributed.sequence_parallel", "shards nothing where tp_size is 1",
           "set tp_size, or remove it");
    }
    if (above_one("distributed.pp_size") && recipe_.Has("embedding_row_repair")) {
      Error("embedding_row_repair", "does not go with a pipeline", "remove it, or use pp_size: 1");
    }
  }

  void CheckOperations() {
    std::optional<int64_t> least = Int("elastic.min_nodes"), most = Int("elastic.max_nodes");
    if (least && most && *least > *most) {
      Error("elastic.min_nodes", absl::StrCat(*least, " is above max_nodes ", *most),
            "swap them, or lower it");
    }
  }

  const Recipe& recipe_;
  const RuleOptions& options_;
  Diagnostics& out_;
};

}  // namespace

void CheckRules(const Recipe& recipe, const RuleOptions& options, Diagnostics& out) {
  Rules(recipe, options, out).Check();
}

}  // namespace am::recipe
