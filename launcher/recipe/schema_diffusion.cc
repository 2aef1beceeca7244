// Models that make pictures and videos: how noise is drawn, what is read, what is made with them.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;

// ---- flow_matching

constexpr Key kAdapterKeys[] = {
    NumberKey("guidance_scale", "", "how closely the prompt is followed"),
    BoolKey("use_guidance_embeds", "false", "the model is told of guidance_scale"),
    BoolKey("use_condition_latents", "false", "the model sees a picture to begin with"),
    IntsKey("default_image_embed_shape", "", "tokens and features where there is no picture"),
    NumberKey("fps", "", "frames a second"),
    NumberKey("audio_loss_weight", "", "weight of the sound's loss"),
};
constexpr Section kAdapterSection = {.keys = kAdapterKeys};
constexpr Key kFlowMatchingKeys[] = {
    TextKey("adapter_type", "how the model is called: simple, flux, flux2, hunyuan, qwen_image, …"),
    SectionKey("adapter_kwargs", kAdapterSection, "of the adapter"),
    ChoiceKey("timestep_sampling", "logit_normal", "uniform logit_normal mode beta lognorm mix",
              "how the share of noise is drawn"),
    FloatKey("logit_mean", "0.0", "of logit_normal"),
    NumberKey("logit_std", "1.0", "of logit_normal"),
    NumberKey("beta_alpha", "", "of beta"),
    NumberKey("beta_beta", "", "of beta"),
    ShareKey("mix_uniform_ratio", "0.1", "share of the samples that are drawn evenly instead"),
    NumberKey("flow_shift", "3.0", "moves what is drawn towards more noise"),
    ShareKey("sigma_min", "0.0", "the least share of noise"),
    ShareKey("sigma_max", "1.0", "the largest share of noise"),
    CountKey("num_train_timesteps", "1000", "steps", "from a picture to noise"),
    ShareKey("cfg_dropout_prob", "0.0", "chance that the prompt is left out"),
    ShareKey("i2v_prob", "0.0", "chance that a video is made from its first picture"),
    BoolKey("use_loss_weighting", "true", "samples with more noise count otherwise"),
    TextKey("loss_weighting_scheme", "how: bsmntw, …"),
    BoolKey("use_sigma_noise", "true", "shift what is drawn by flow_shift"),
    CountKey("log_interval", "100", "steps", "details every so many"),
    CountKey("summary_log_interval", "10", "steps", "a line every so many"),
};

// ---- data

constexpr Key kLoaderKeys[] = {
    TargetKey("the loader, by its Python name"),
    TextKey("cache_dir", "directory of the prepared pictures or videos"),
    TextKey("model_type", "model that they were prepared for: wan, hunyuan, ltx2"),
    IntsKey("base_resolution", "pixels", "height and width that others are near to"),
    CountKey("quantization", "64", "pixels", "sides are multiples of it"),
    BoolKey("dynamic_batch_size", "false", "more small pictures in a batch than large ones"),
    BoolKey("train_text_encoder", "false", "the text encoder is trained, too"),
    BoolKey("shuffle", "true", "a new order each epoch"),
    BoolKey("drop_last", "false", "leave out the last, smaller batch"),
    CountKey("batch_size", "", "samples", "of a rank at a time; null: local_batch_size"),
    SizeKey("num_workers", "2", "threads", "that prepare samples ahead"),
    CountKey("prefetch_factor", "2", "batches", "that each prepares ahead"),
    BoolKey("pin_memory", "true", "batches in memory that a GPU reads directly"),
    SizeKey("seed", "42", "", "of shuffling"),
};
constexpr Part kLoaders[] = {
    {.targets = "nemo_automodel.components.datasets.diffusion."
                "build_video_multiresolution_dataloader",
     .name = "video"},
    {.targets = "nemo_automodel.components.datasets.diffusion."
                "build_text_to_image_multiresolution_dataloader",
     .name = "text_to_image"},
    {.targets = "nemo_automodel.components.datasets.diffusion.image_edit_dataset."
                "ImageEditDataloaderConfig",
     .name = "image_edit"},
};
constexpr Section kLoaderSection = {
    .keys = kLoaderKeys, .parts = kLoaders, .default_part = "text_to_image"};
constexpr Key kDataKeys[] = {PartKey("dataloader", kLoaderSection, "what is trained on")};

// ---- beside the training

constexpr Key kEmaKeys[] = {
    ShareKey("decay", "0.9999", "share of the mean that is kept a step"),
    TextKey("implementation", "how it is computed; results are the same", "auto"),
};
constexpr Key kAutocastKeys[] = {
    BoolKey("enabled", "true", "compute in another dtype than the weights'"),
    DtypeKey("dtype", "bfloat16", "that dtype"),
};
constexpr Key kPerformanceKeys[] = {
    BoolKey("check_loss", "true", "stop where the loss is no number"),
    BoolKey("grad_clip_foreach", "true", "clip all gradients in one kernel"),
};

// ---- making pictures and videos: inference, output, vae

constexpr Key kPipelineKeys[] = {
    CountKey("num_frames", "", "frames", "of a video"),
    NumberKey("frame_rate", "", "frames a second"),
    TextKey("negative_prompt", "what is not wanted"),
    NumberKey("guidance_scale_2", "", "how closely the prompt is followed at low noise"),
    NumberKey("true_cfg_scale", "", "how far from the negative prompt"),
    CountKey("max_sequence_length", "", "tokens", "of a prompt, at most"),
};
constexpr Section kPipelineSection = {.keys = kPipelineKeys};
constexpr Key kInferenceKeys[] = {
    TextsKey("prompts", "what is made"),
    Naming(Names::kInput, TextsKey("input_images", "files of the pictures that are changed")),
    CountKey("height", "", "pixels", "of what is made"),
    CountKey("width", "", "pixels", "of what is made"),
    CountKey("num_inference_steps", "50", "steps", "from noise to a picture"),
    NumberKey("guidance_scale", "", "how closely the prompt is followed"),
    DtypeKey("dtype", "bfloat16", "dtype of the arithmetic"),
    CountKey("max_samples", "", "samples", "only the first so many prompts"),
    SizeKey("seed", "42", "", "of the noise"),
    SectionKey("pipeline_kwargs", kPipelineSection, "of the model's own pipeline"),
};
constexpr Key kOutputKeys[] = {
    Naming(Names::kOutput,
           TextKey("output_dir", "directory of what is made", "./inference_outputs")),
    NumberKey("fps", "", "frames a second of a video"),
    CountKey("audio_sample_rate", "", "Hz", "of the sound; null: the model's"),
};
constexpr Key kVaeKeys[] = {
    BoolKey("enable_slicing", "false", "decode one picture at a time"),
    BoolKey("enable_tiling", "false", "decode a picture in pieces"),
    BoolKey("enable_cpu_offload", "false", "parts wait in host memory until they are needed"),
};

}  // namespace

const Section kFlowMatchingSection = {.keys = kFlowMatchingKeys};
const Section kDataSection = {.keys = kDataKeys};
const Section kEmaSection = {.keys = kEmaKeys};
const Section kAutocastSection = {.keys = kAutocastKeys, .enabled_by = "enabled"};
const Section kPerformanceSection = {.keys = kPerformanceKeys};
const Section kInferenceSection = {.keys = kInferenceKeys};
const Section kOutputSection = {.keys = kOutputKeys};
const Section kVaeSection = {.keys = kVaeKeys};

}  // namespace am::recipe
