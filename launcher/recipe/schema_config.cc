// Fields of config.json that a recipe may lay over the file's own. The file says what a model is;
// these are the fields that recipes change, so that a typo or a wrong type shows at its place. Any
// other field of the file can be laid over as well.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

constexpr Key Field(Key key) {
  key.overlay = true;
  return key;
}
constexpr Key CountField(std::string_view name, std::string_view unit, std::string_view means) {
  return Field(CountKey(name, "", unit, means));
}
constexpr Key SizeField(std::string_view name, std::string_view unit, std::string_view means) {
  return Field(SizeKey(name, "", unit, means));
}
constexpr Key NumberField(std::string_view name, std::string_view means) {
  return Field(NumberKey(name, "", means));
}
constexpr Key BoolField(std::string_view name, std::string_view means) {
  return Field(BoolKey(name, "", means));
}
constexpr Key TextField(std::string_view name, std::string_view means) {
  return Field(TextKey(name, means));
}

constexpr Key kRopeScalingKeys[] = {
    TextKey("rope_type", "default, linear, dynamic, yarn, longrope or llama3"),
    TextKey("type", "as rope_type, in older files"),
    NumberKey("factor", "", "how many times longer sequences become"),
    CountKey("original_max_position_embeddings", "", "tokens", "length the model was trained at"),
    NumberKey("beta_fast", "32", "yarn: turns above which a frequency is kept"),
    NumberKey("beta_slow", "1", "yarn: turns below which a frequency is stretched"),
    NumberKey("mscale", "", "yarn: scale of the attention"),
    NumberKey("mscale_all_dim", "", "yarn: scale of the attention, of all features"),
    NumberKey("attention_factor", "", "yarn: scale of the attention, given outright"),
    NumberKey("low_freq_factor", "", "llama3: below it frequencies are stretched"),
    NumberKey("high_freq_factor", "", "llama3: above it frequencies are kept"),
    NumberKey("rope_theta", "", "base of the rotary frequencies"),
    BoolKey("truncate", "true", "yarn: round the bounds of the ramp"),
};
constexpr Section kRopeScalingSection = {.keys = kRopeScalingKeys, .open = true};

constexpr Key kFields[] = {
    Field(TextsKey("architectures", "class names of the Hugging Face library")),
    TextField("model_type", "family of the model"),
    CountField("vocab_size", "ids", "size of the vocabulary"),
    CountField("hidden_size", "features", "width of the residual stream"),
    CountField("intermediate_size", "features", "width of a feed-forward layer"),
    CountField("moe_intermediate_size", "features", "width of an expert"),
    CountField("num_hidden_layers", "layers", "decoder layers"),
    CountField("num_attention_heads", "heads", "query heads"),
    CountField("num_key_value_heads", "heads", "key and value heads"),
    CountField("head_dim", "features", "width of a head"),
    CountField("max_position_embeddings", "tokens", "the longest sequence"),
    CountField("sliding_window", "tokens", "how far back sliding layers look"),
    TextField("hidden_act", "activation of the feed-forward layers"),
    NumberField("rms_norm_eps", "added to the variance in norms"),
    NumberField("layer_norm_eps", "added to the variance in norms"),
    NumberField("rope_theta", "base of the rotary frequencies"),
    Field(SectionKey("rope_scaling", kRopeScalingSection, "how positions are stretched")),
    NumberField("partial_rotary_factor", "share of a head that is rotated"),
    BoolField("attention_bias", "biases in attention"),
    Field(ShareKey("attention_dropout", "", "chance that an attention weight is dropped")),
    BoolField("mlp_bias", "biases in feed-forward layers"),
    NumberField("initializer_range", "standard deviation of new weights"),
    BoolField("tie_word_embeddings", "one matrix for the embeddings and the output"),
    SizeField("bos_token_id", "", "id that begins a text"),
    Field(IntsKey("eos_token_id", "", "ids that end a text")),
    SizeField("pad_token_id", "", "id of padding"),
    BoolField("use_cache", "keep keys and values; of no use in training"),
    BoolField("output_hidden_states", "return every layer's output; of no use here"),
    Field(DtypeKey("dtype", "", "dtype of the checkpoint's weights")),
    // Experts.
    CountField("num_experts", "experts", "of a layer"),
    CountField("num_local_experts", "experts", "of a layer"),
    CountField("n_routed_experts", "experts", "of a layer, beside the shared ones"),
    SizeField("n_shared_experts", "experts", "that every token visits"),
    CountField("num_experts_per_tok", "experts", "that a token visits"),
    CountField("num_experts_per_token", "experts", "that a token visits"),
    SizeField("num_shared_experts", "experts", "that every token visits"),
    SizeField("num_shared_expert", "experts", "that every token visits"),
    BoolField("norm_topk_prob", "routing weights of a token add up to 1"),
    NumberField("router_aux_loss_coef", "weight of the loss that balances experts"),
    NumberField("routed_scaling_factor", "routing weights are multiplied by it"),
    CountField("n_group", "groups", "of experts"),
    CountField("n_groups", "groups", "that share a state, of state-space layers"),
    CountField("topk_group", "groups", "that a token may choose experts from"),
    TextField("topk_method", "how experts are chosen"),
    SizeField("first_k_dense_replace", "layers", "at the bottom that have no experts"),
    CountField("decoder_sparse_step", "layers", "every so many have experts"),
    Field(IntsKey("mlp_only_layers", "", "layers without experts")),
    // Latent attention.
    CountField("kv_lora_rank", "features", "width of the compressed keys and values"),
    CountField("q_lora_rank", "features", "width of the compressed queries"),
    CountField("o_lora_rank", "features", "width of the compressed output"),
    CountField("o_groups", "groups", "of heads, whose outputs are compressed together"),
    CountField("qk_head_dim", "features", "of a query or key head"),
    CountField("qk_nope_head_dim", "features", "of a head that are not rotated"),
    CountField("qk_rope_head_dim", "features", "of a head that are rotated"),
    CountField("v_head_dim", "features", "of a value head"),
    Field(IntsKey("compress_ratios", "tokens", "of each layer: positions that become one key")),
    // Prediction of several tokens.
    SizeField("num_nextn_predict_layers", "layers", "that predict further tokens"),
    SizeField("mtp_num_hidden_layers", "layers", "that predict further tokens"),
    SizeField("num_mtp_modules", "modules", "that predict further tokens"),
    TextField("mtp_expert_hf_layout", "how the experts of those layers lie in the files"),
    // Kimi's linear attention.
    TextField("kda_mode", "chunk or recurrent; results are the same"),
    BoolField("kda_unpad_inputs", "leave padding out of the scan"),
    BoolField("kda_use_fused_gate", "the gate within the kernel"),
    BoolField("kda_use_qk_l2norm_in_kernel", "normalise queries and keys within the kernel"),
    // Choice of kernels, as these files have it.
    TextField("_attn_implementation", "attention kernel; results are the same"),
    TextField("attn_implementation_new", "attention kernel; results are the same"),
    TextField("cp_full_attn_backend", "attention kernel of full layers under cp"),
};

}  // namespace

const Section kHfConfigSection = {.keys = kFields, .open = true};

}  // namespace am::recipe
