#include "worker/engine/model/causal_lm.h"

#include "worker/engine/model/recompute.h"

namespace am::engine {
namespace {

// Sites key the randomness of the linears of one layer.
enum Site : uint32_t { kQkv, kAttentionOut, kGateUp, kDown };

Parameter Named(const std::string& name, std::vector<int64_t> shape) {
  Parameter parameter;
  parameter.name = name;
  parameter.pieces = {{name, 0, shape[0]}};
  parameter.shape = std::move(shape);
  return parameter;
}

std::string Prefix(int64_t index) { return "model.layers." + std::to_string(index) + "."; }

}  // namespace

Block::Block(const ModelConfig& config, int64_t i)
    : index(i),
      input_norm(Named(Prefix(i) + "input_layernorm.weight", {config.hidden_size})),
      qkv({{Prefix(i) + "self_attn.q_proj", config.q_size()},
           {Prefix(i) + "self_attn.k_proj", config.kv_size()},
           {Prefix(i) + "self_attn.v_proj", config.kv_size()}},
          config.hidden_size, config.qkv_bias, static_cast<uint32_t>(i), kQkv),
      attention_out({{Prefix(i) + "self_attn.o_proj", config.hidden_size}}, config.q_size(),
                    config.attention_out_bias, static_cast<uint32_t>(i), kAttentionOut),
      post_attention_norm(
          Named(Prefix(i) + "post_attention_layernorm.weight", {config.hidden_size})),
      gate_up({{Prefix(i) + "mlp.gate_proj", config.intermediate_size},
               {Prefix(i) + "mlp.up_proj", config.intermediate_size}},
              config.hidden_size, config.mlp_bias, static_cast<uint32_t>(i), kGateUp),
      down({{Prefix(i) + "mlp.down_proj", config.hidden_size}}, config.intermediate_size,
           config.mlp_bias, static_cast<uint32_t>(i), kDown) {}

CausalLm::CausalLm(const ModelConfig& config)
    : config_(config),
      attention_{config.num_heads, config.num_kv_heads, config.head_dim},
      rope_(config.rope, config.head_dim, config.max_position),
      embedding_(Named("model.embed_tokens.weight", {config.vocab_size, config.hidden_size})),
      final_norm_(Named("model.norm.weight", {config.hidden_size})) {
  for (int64_t i = 0; i < config.num_layers; ++i)
    blocks_.push_back(std::make_unique<Block>(config, i));
  if (!config.tie_word_embeddings)
    lm_head_ = std::make_unique<Parameter>(
        Named("lm_head.weight", {config.vocab_size, config.hidden_size}));
}

Stream CausalLm::RunBlock(Block& block, const Stream& stream, const PackedBatch& batch,
                          const PassContext& pass, const at::Tensor& rows) {
  const double eps = config_.rms_norm_eps;
  auto [residual, normed] = AddRmsNorm(block.input_norm, eps, stream.residual, stream.delta);
  const at::Tensor qkv = Apply(block.qkv, normed, batch, pass);
  at::Tensor mixed = RopeAttention(qkv, attention_, rope_, batch);
  if (rows.defined()) {  // past attention a token meets no other: rows that nobody asks for stop
                         // here
    mixed = SelectRows(mixed, rows);
    residual = SelectRows(residual, rows);
  }
  const at::Tensor attended = Apply(block.attention_out, mixed, batch, pass, rows);
  auto [residual2, normed2] = AddRmsNorm(block.post_attention_norm, eps, residual, attended);
  const at::Tensor gate_up = Apply(block.gate_up, normed2, batch, pass, rows);
  return {residual2, Apply(block.down, SwiGlu(gate_up), batch, pass, rows)};
}

at::Tensor CausalLm::Forward(const PackedBatch& batch, const PassContext& pass,
                             const at::Tensor& rows, ForwardHooks* hooks) {
  rope_.Prepare(batch.max_seqlen);
  Stream stream{Embed(embedding_, batch.ids, config_.padding_id), {}};
  for (auto& block : blocks_) {
    const at::Tensor keep = block == blocks_.back() ? rows : at::Tensor();
    if (hooks) stream = hooks->EnterBlock(block->index, std::move(stream));
    const auto run = [this, &block = *block, &batch, pass, keep](const Stream& in) {
      return RunBlock(block, in, batch, pass, keep);
    };
    stream = activation_checkpointing ? Recompute(run, stream) : run(stream);
    if (hooks) stream = hooks->LeaveBlock(block->index, std::move(stream));
  }
  return AddRmsNorm(final_norm_, config_.rms_norm_eps, stream.residual, stream.delta).second;
}

Parameter& CausalLm::head() { return lm_head_ ? *lm_head_ : embedding_; }

std::vector<Linear*> CausalLm::Linears() {
  std::vector<Linear*> linears;
  for (auto& block : blocks_)
    for (Linear* linear : {&block->qkv, &block->attention_out, &block->gate_up, &block->down})
      linears.push_back(linear);
  return linears;
}

std::vector<std::vector<Parameter*>> CausalLm::Units() {
  std::vector<std::vector<Parameter*>> units;
  for (auto& block : blocks_) {
    std::vector<Parameter*> unit = {&block->input_norm, &block->post_attention_norm};
    for (Linear* linear : {&block->qkv, &block->attention_out, &block->gate_up, &block->down}) {
      unit.push_back(&linear->weight);
      if (linear->bias) unit.push_back(linear->bias.get());
      if (linear->lora) {
        unit.push_back(&linear->lora->a);
        unit.push_back(&linear->lora->b);
      }
    }
    units.push_back(unit);
  }
  std::vector<Parameter*> root = {&embedding_, &final_norm_};
  if (lm_head_) root.push_back(lm_head_.get());
  units.push_back(root);
  return units;
}

}  // namespace am::engine
