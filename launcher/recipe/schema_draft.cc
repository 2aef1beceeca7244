// Draft models for speculative decoding, and language models that unmask their text.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

// ---- recipe_args: all that these recipes have instead of the usual sections

constexpr Key kServerKeys[] = {
    ShareKey("mem_fraction_static", "", "SGLang: share of the GPU for weights and cache"),
    ShareKey("gpu_memory_utilization", "", "vLLM: share of the GPU that it takes"),
    CountKey("tensor_parallel_size", "", "ranks", "that share each weight matrix"),
};
constexpr Section kServerSection = {.keys = kServerKeys};

constexpr Key kRecipeArgsKeys[] = {
    // The model that is drafted for.
    Naming(Names::kModel, TextKey("target_model_name_or_path",
                                  "hub id or directory of the model that is drafted for")),
    ChoiceKey("target_model_backend", "", "hf remote sglang vllm",
              "what runs it: here, servers at remote_urls, or another program"),
    TextsKey("remote_urls", "servers of target_model_backend remote"),
    SectionKey("sglang_args", kServerSection, "of target_model_backend sglang"),
    SectionKey("vllm_args", kServerSection, "of target_model_backend vllm"),
    TextKey("target_attn_backend", "its attention kernel"),
    TextKey("target_attn_implementation", "its attention kernel, of the Hugging Face library"),
    TextKey("target_experts", "its kernel of experts"),
    TextKey("target_dispatcher", "how its tokens reach their experts"),
    BoolKey("target_enable_fsdp_optimizations", "false", "gather its experts less often"),
    BoolKey("target_force_hf", "false", "the Hugging Face library's own model code"),
    IntsKey("target_layer_ids", "", "layers whose output the draft model sees"),
    CountKey("target_num_hidden_layers", "", "layers", "only its first so many"),
    SizeKey("target_prefetch_depth", "", "batches", "that it is ahead of the draft model"),
    BoolKey("shard_dense_target", "false", "shard it, though it has no experts"),
    NoEffect(BoolKey("trust_remote_code", "false", "no Python of a model is ever run")),
    // The draft model.
    Naming(Names::kInput, TextKey("draft_init_from", "directory of a draft model to begin with")),
    Naming(Names::kInput, TextKey("draft_weights_path", "directory of weights to begin with")),
    CountKey("draft_num_hidden_layers", "1", "layers", "of the draft model"),
    CountKey("num_draft_layers", "", "layers", "of the draft model"),
    CountKey("draft_num_attention_heads", "", "heads", "query heads; null: the target's"),
    CountKey("draft_num_key_value_heads", "", "heads", "key and value heads; null: the target's"),
    CountKey("draft_head_dim", "", "features", "width of a head; null: the target's"),
    CountKey("draft_sliding_window", "", "tokens", "how far back it looks; null: all the way"),
    CountKey("draft_vocab_size", "", "ids", "the most frequent ids alone; null: all"),
    TextKey("draft_attn_implementation", "its attention kernel"),
    TextKey("attention_backend", "its attention kernel: flex_attention, …"),
    Naming(Names::kInput,
           TextKey("selected_token_ids_path", "file that maps its ids to the target's")),
    BoolKey("freeze_embeddings", "true", "embeddings are not trained"),
    BoolKey("fc_norm", "false", "a norm before the layer that joins the target's outputs"),
    BoolKey("norm_output", "false", "a norm after the last layer"),
    CountKey("block_size", "", "tokens", "drafted at once"),
    CountKey("num_anchors", "", "positions", "of a sample from which it drafts"),
    SizeKey("mask_token_id", "", "", "id of a position that is to be drafted"),
    CountKey("num_depths", "", "tokens", "drafted ahead in training"),
    BoolKey("parallel_drafting", "false", "all depths in one pass"),
    ShareKey("down_sample_ratio", "", "share of the positions kept from depth to depth"),
    ShareKey("down_sample_ratio_min", "", "the smallest share kept"),
    CountKey("emb_dim", "", "features", "width of its embeddings"),
    CountKey("gru_hidden_dim", "", "features", "width of its recurrent layer"),
    CountKey("conv_group_size", "", "features", "that a convolution mixes"),
    CountKey("conv_kernel_size", "", "tokens", "that a convolution sees"),
    SizeKey("pure_draft_prefix_len", "", "tokens", "drafted before the recurrent layer helps"),
    TextKey("markov_head_type", "head that corrects a token by the one before: vanilla, …"),
    CountKey("markov_rank", "", "features", "width of that head"),
    BoolKey("confidence_head_with_markov", "false", "the confidence is told of that head"),
    CountKey("selector_rank", "", "features", "width of the head that chooses candidates"),
    CountKey("selector_top_k", "", "tokens", "candidates that it chooses from"),
    CountKey("num_query_tokens", "", "tokens", "that stand for a picture"),
    BoolKey("shift_label", "false", "labels are moved by one position"),
    CountKey("mtp_steps", "", "tokens", "predicted ahead"),
    CountKey("ttt_steps", "", "steps", "that it drafts from its own drafts in training"),
    // What is minimised.
    NumberKey("ce_loss_alpha", "", "weight of the cross entropy"),
    NumberKey("l1_loss_alpha", "", "weight of the distance between the distributions"),
    NumberKey("confidence_head_alpha", "", "weight of the confidence's loss"),
    NumberKey("hidden_loss_weight", "", "weight of the distance between the hidden states"),
    NumberKey("token_loss_weight", "", "weight of the tokens' loss"),
    NumberKey("prob_loss_weight", "", "weight of the probabilities' loss"),
    NumberKey("rank_loss_weight", "", "weight of the loss of wrong order"),
    CountKey("rank_loss_topk", "", "tokens", "whose order counts"),
    NumberKey("selector_loss_weight", "", "weight of the selector's loss"),
    NumberKey("loss_decay_gamma", "", "later positions of a block count less; 0: all alike"),
    NumberKey("lambda_base_start", "", "first weight of the loss without the recurrent layer"),
    ShareKey("lambda_base_decay_ratio", "", "share of the steps over which that weight falls"),
    NumberKey("feature_noise_std", "", "noise on the target's outputs"),
    CountKey("feature_noise_reference_seq_len", "", "tokens", "length that noise is meant for"),
    NumberKey("kd_temperature", "1.0", "logits are divided by it before they are compared"),
    SizeKey("kd_chunk_size", "0", "positions", "whose logits exist at a time; 0: all"),
    // Data.
    Naming(Names::kData,
           TextKey("train_data_path", "hub id, directory or file that is trained on")),
    Naming(Names::kData, TextKey("val_data_path", "the same for validation; null: none")),
    TextKey("train_split", "split that is trained on, or part of one: train[:50]"),
    TextKey("val_split", "split for validation"),
    Naming(Names::kTemplate,
           TextKey("chat_template", "Jinja text or a file, instead of the tokenizer's")),
    CountKey("seq_length", "", "tokens", "the longest sample"),
    SizeKey("packed_sequence_size", "0", "tokens", "length of a pack of several samples; 0: none"),
    SizeKey("shuffle_seed", "42", "", "of shuffling"),
    SizeKey("seed", "42", "", "of all else that is drawn"),
    SizeKey("num_workers", "0", "threads", "that prepare samples ahead"),
    CountKey("image_max_pixels", "", "pixels", "larger pictures are reduced"),
    CountKey("sequence_partitions", "", "pieces", "that a sequence is cut into"),
    BoolKey("cp_zigzag", "true", "context parallel: each rank takes an early and a late piece"),
    Naming(Names::kOutput, TextKey("cache_output_dir", "where the target's outputs are kept")),
    DtypeKey("cache_dtype", "bfloat16", "dtype they are kept in"),
    CountKey("cache_shard_size", "", "samples", "in a file of theirs"),
    // The loop.
    CountKey("micro_batch_size", "1", "samples", "of a rank at a time"),
    CountKey("grad_accumulation_steps", "1", "micro-batches", "before an optimizer step"),
    CountKey("num_epochs", "1", "epochs", "passes over the data set"),
    CountKey("max_steps", "", "steps", "after which training ends; null: after num_epochs"),
    NumberKey("max_grad_norm", "1.0", "gradients are scaled down to this L2 norm"),
    CountKey("log_every_steps", "10", "steps", "a line every so many"),
    CountKey("ckpt_every_steps", "", "steps", "a checkpoint every so many; null: once an epoch"),
    CountKey("val_every_steps", "", "steps", "validation every so many"),
    BoolKey("save_checkpoint_every_epoch", "true", "a checkpoint at the end of each epoch"),
    Naming(Names::kOutput, TextKey("output_dir", "where checkpoints and logs go")),
};

// ---- dflash: a draft model trained as a diffusion language model

constexpr Key kDflashKeys[] = {
    Naming(Names::kModel,
           TextKey("target_model_id", "hub id or directory of the model that is drafted for")),
    DtypeKey("target_torch_dtype", "bfloat16", "dtype of its weights"),
    TextKey("attention_backend", "attention kernel: flex_attention, …"),
    SizeKey("block_size", "0", "tokens", "drafted at once; 0: the draft model's own"),
    CountKey("num_blocks_per_sample", "512", "blocks", "drafted in a sample"),
    NumberKey("loss_decay_gamma", "0.0", "later positions of a block count less; 0: all alike"),
    BoolKey("overlap_anchors", "false", "blocks may overlap"),
    BoolKey("use_fused_linear_ce", "false", "the loss without all logits at once"),
};

// ---- dllm: how a diffusion language model is trained

constexpr Key kDllmKeys[] = {
    ChoiceKey("mode", "mdlm", "mdlm dflash block_diffusion hybrid idlm", "how a text is unmasked"),
    SizeKey("mask_token_id", "", "", "id of a masked position; null: the tokenizer's"),
    NumberKey("eps", "1e-3", "the least share of positions that is masked"),
    CountKey("block_size", "", "tokens", "unmasked together; null: the whole text"),
    CountKey("block_length", "", "tokens", "unmasked together, of block_diffusion"),
    CountKey("pad_block_size", "", "tokens", "texts are padded to a multiple of it"),
    CountKey("pad_seq_len_divisible", "", "tokens", "batches are padded to a multiple of it"),
    BoolKey("supervise_padding", "false", "padding after a text is learned, too"),
    NumberKey("half_life_ratio", "", "how fast the weight of late positions falls; null: not"),
    NumberKey("ar_loss_alpha", "", "hybrid: weight of the loss of the next token"),
    NumberKey("clean_loss_weight", "", "weight of the loss of unmasked positions"),
    BoolKey("auto_balance_clean_loss", "false", "that weight follows the two losses"),
    CountKey("vocab_size", "", "ids", "size of the vocabulary; null: the model's"),
};

// ---- datasets: what draft models are measured on

constexpr Key kPromptSetKeys[] = {
    TextKey("name", "what the set is called"),
    Naming(Names::kData, TextKey("input_data", "hub id, directory or file")),
    TextKey("dataset_name", "configuration of a hub data set"),
    TextKey("split", "split that is read", "train"),
    TextKey("prompt_column", "the column of the prompt", "prompt"),
    TextKey("prompt_context_column", "the column of what the prompt is about"),
    CountKey("max_new_tokens", "512", "tokens", "of an answer, at most"),
    CountKey("max_samples", "", "samples", "only the first so many"),
};

}  // namespace

const Section kRecipeArgsSection = {.keys = kRecipeArgsKeys};
const Section kDflashSection = {.keys = kDflashKeys};
const Section kDllmSection = {.keys = kDllmKeys};
const Section kPromptSetSection = {.keys = kPromptSetKeys};

}  // namespace am::recipe
