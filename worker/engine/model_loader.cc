#include "worker/engine/model_loader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>

#include "common/error.h"
#include "worker/engine/checkpoint/adapter.h"
#include "worker/engine/checkpoint/weights.h"
#include "worker/engine/core/random.h"

namespace am::engine {
namespace {

at::ScalarType ParseDtype(const std::string& key, std::string name) {
  if (name.starts_with("torch.")) name = name.substr(6);
  if (name == "float32" || name == "fp32" || name == "float") return at::kFloat;
  if (name == "bfloat16" || name == "bf16") return at::kBFloat16;
  if (name == "float16" || name == "fp16" || name == "half") return at::kHalf;
  throw UserError(key + ": '" + name + "' is no dtype to train in; use float32 or bfloat16");
}

bool EndsWith(const std::string& text, std::string_view end) { return text.ends_with(end); }

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<int64_t> PieceShape(const Parameter& parameter, const ParameterPiece& piece) {
  std::vector<int64_t> shape = parameter.shape;
  shape[0] = piece.rows;
  return shape;
}

// Every tensor that the model needs must be there with its shape, before anything is read.
void CheckWeights(const WeightReader& weights, CausalLm& model, const std::string& dir) {
  std::string faults;
  int count = 0;
  for (const auto& unit : model.Units()) {
    for (const Parameter* parameter : unit) {
      if (parameter->name.find(".lora_") != std::string::npos) continue;
      for (const ParameterPiece& piece : parameter->pieces) {
        const auto want = PieceShape(*parameter, piece);
        std::string fault;
        if (!weights.Has(piece.name)) {
          fault = piece.name + " is missing";
        } else if (const auto have = weights.Info(piece.name).shape; have != want) {
          fault = piece.name + " is " + ShapeText(have) + ", config.json says " + ShapeText(want);
        }
        if (!fault.empty() && ++count <= 5) faults += (count > 1 ? "; " : "") + fault;
      }
    }
  }
  if (count > 0)
    throw UserError(dir + ": " + faults +
                    (count > 5 ? "; and " + std::to_string(count - 5) + " more" : ""));
}

// Initial values are a function of the seed and of the element's place in the global tensor.
at::Tensor Initialise(const RankSpec& spec, const ModelConfig& config, const Parameter& parameter,
                      const ParameterPiece& piece, int64_t begin, int64_t end) {
  at::Tensor out = at::empty({end - begin}, at::kFloat);
  const PhiloxKey key = InitKey(spec.seed, piece.name);
  if (EndsWith(piece.name, ".lora_B.weight") || EndsWith(piece.name, ".bias")) return out.zero_();
  if (EndsWith(piece.name, ".lora_A.weight")) {
    if (spec.peft->lora_A_init == "xavier")
      FillXavierNormal(out, parameter.shape[1], piece.rows, begin, key);
    else
      FillKaimingUniform(out, std::sqrt(5.0), parameter.shape[1], begin, key);
    return out;
  }
  if (parameter.shape.size() == 1) return out.fill_(1);  // norms
  FillNormal(out, 0, config.initializer_range, begin, key);
  return out;
}

// LoRA weights by tensor name, from a PEFT adapter directory.
std::map<std::string, at::Tensor> AdapterTensors(const PeftSpec& peft,
                                                 const std::vector<std::string>& adapted) {
  const Adapter adapter = ReadAdapter(peft.adapter_path);
  if (adapter.r != peft.dim)
    throw UserError(peft.adapter_path + ": the adapter's r is " + std::to_string(adapter.r) +
                    ", peft.dim is " + std::to_string(peft.dim) + "; they must agree");
  std::map<std::string, at::Tensor> tensors;
  for (const AdapterModule& module : adapter.modules) {
    tensors[module.module + ".lora_A.weight"] = module.lora_a;
    tensors[module.module + ".lora_B.weight"] = module.lora_b;
  }
  for (const std::string& module : adapted)
    if (!tensors.contains(module + ".lora_A.weight"))
      throw UserError(peft.adapter_path + ": has no weights for " + module +
                      ", which peft.target_modules names");
  return tensors;
}

}  // namespace

RunDtypes ChooseDtypes(const RankSpec& spec, const std::string& stored) {
  RunDtypes dtypes;
  const bool automatic = spec.model.torch_dtype == "auto";
  at::ScalarType trained = automatic ? ParseDtype("config.json: dtype", stored)
                                     : ParseDtype("model.torch_dtype", spec.model.torch_dtype);
  dtypes.saved = trained;
  if (trained == at::kHalf) {
    if (!automatic)
      throw UserError(
          "model.torch_dtype: float16 needs loss scaling, which is not there; use bfloat16 or "
          "float32");
    dtypes.warnings.push_back("the weights are float16: trained in float32, saved as float16");
    trained = at::kFloat;
  }
  dtypes.compute = spec.dist.param_dtype
                       ? ParseDtype("distributed.mp_policy.param_dtype", *spec.dist.param_dtype)
                       : trained;
  if (dtypes.compute == at::kHalf)
    throw UserError(
        "distributed.mp_policy.param_dtype: float16 needs loss scaling, which is not there; use "
        "bfloat16");
  dtypes.master = ParseDtype("optimizer.master_weight_dtype", spec.optimizer.master_weight_dtype);
  if (spec.peft && spec.peft->lora_dtype)
    dtypes.saved = ParseDtype("peft.lora_dtype", *spec.peft->lora_dtype);
  if (spec.checkpoint.export_dtype)
    dtypes.saved = ParseDtype("checkpoint.export_dtype", *spec.checkpoint.export_dtype);
  return dtypes;
}

LoadedModel LoadModel(const RankSpec& spec, ShardGroups groups, const std::string& resume_dir) {
  LoadedModel loaded;
  loaded.config_json = ReadConfigJson(spec.model.path, spec.model.config_overrides);
  const ModelConfig config = ParseModelConfig(loaded.config_json);
  loaded.dtypes = ChooseDtypes(spec, config.dtype);
  loaded.model = std::make_unique<CausalLm>(config);
  loaded.model->activation_checkpointing = spec.dist.activation_checkpointing;
  if (spec.peft) loaded.adapted = AttachLora(*loaded.model, *spec.peft);
  loaded.store = std::make_unique<ParameterStore>(
      *loaded.model,
      StoreOptions{.groups = groups,
                   .compute_dtype = loaded.dtypes.compute,
                   .master_dtype = loaded.dtypes.master,
                   .reshard_after_forward = spec.dist.reshard_after_forward.value_or(true)});

  // Trained parameters come from the checkpoint when resuming; a frozen base always from the model
  // directory.
  std::optional<WeightReader> base, resumed;
  if (!resume_dir.empty())
    resumed = WeightReader::Open(resume_dir + (spec.peft ? "/optim" : "/model"));
  if (!spec.model.from_config && (spec.peft || !resumed)) {
    base = WeightReader::Open(spec.model.path);
    CheckWeights(*base, *loaded.model, spec.model.path);
  }
  std::map<std::string, at::Tensor> adapter;
  if (spec.peft && !resumed && !spec.peft->adapter_path.empty())
    adapter = AdapterTensors(*spec.peft, loaded.adapted);
  loaded.store->Load(
      [&](const Parameter& parameter, const ParameterPiece& piece, int64_t begin, int64_t end) {
        if (resumed && parameter.trainable) return resumed->ReadFlat(piece.name, begin, end);
        if (const auto found = adapter.find(piece.name); found != adapter.end())
          return found->second.reshape({-1}).narrow(0, begin, end - begin);
        if (base && base->Has(piece.name)) return base->ReadFlat(piece.name, begin, end);
        return Initialise(spec, config, parameter, piece, begin, end);
      });
  return loaded;
}

}  // namespace am::engine
