// Pictures, sound and video: the data sets and processors of multimodal recipes.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Support;

constexpr Key kPathOrDataset =
    Naming(Names::kData, TextKey("path_or_dataset", "hub id, directory or file"));
constexpr Key kChatTemplate = Naming(
    Names::kTemplate, TextKey("chat_template", "Jinja text or a file, instead of the tokenizer's"));
constexpr Key kLimit = CountKey("limit_dataset_samples", "", "samples", "only the first so many");
constexpr Key kSeed = SizeKey("seed", "42", "", "of what is drawn");

// ---- vision and language

constexpr Key kPictureKeys[] = {kPathOrDataset, kLimit};
constexpr Key kTuluKeys[] = {
    kPathOrDataset,
    kLimit,
    kChatTemplate,
    BoolKey("truncate", "false", "cut samples that are longer than the model takes"),
    BoolKey("inject_fake_images", "false",
            "a blank picture in samples without one, so that every rank runs the vision tower"),
};
constexpr Key kTextMixKeys[] = {
    TextKey("tulu_split", "split of the Tulu 3 share", "train"),
    TextKey("magicoder_split", "split of the Magicoder share", "train"),
    CountKey("max_turns", "", "turns", "longer conversations are cut"),
    CountKey("limit_total", "", "samples", "only so many of both together"),
    kSeed,
};
constexpr Key kMockMediaKeys[] = {
    CountKey("num_samples", "100", "samples", "how many there are"),
    CountKey("num_images_per_sample", "1", "pictures", "in each sample"),
    IntsKey("image_size", "pixels", "height and width of the pictures"),
    CountKey("max_length", "", "tokens", "the longest sample"),
    BoolKey("pretokenize", "false", "tokenise when the data set is built"),
    BoolKey("inject_fake_images", "false",
            "a blank picture in samples without one, so that every rank runs the vision tower"),
    kSeed,
};

// ---- speech

constexpr Key kSpeechKeys[] = {
    kPathOrDataset,
    TextKey("name", "configuration of a hub data set"),
    kLimit,
    TextKey("audio_column", "the column of the sound", "audio"),
    TextKey("text_column", "the column of the transcript", "text"),
    CountKey("sampling_rate", "16000", "Hz", "sound is resampled to it"),
    TextKey("system_prompt", "text before every sample"),
    TextKey("user_prompt", "what the model is asked to do with the sound"),
    WithUnit("seconds", NumberKey("min_audio_duration_seconds", "", "shorter ones are left out")),
    WithUnit("seconds", NumberKey("max_audio_duration_seconds", "", "longer ones are left out")),
};

// ---- pictures understood and made (BAGEL)

constexpr Key kSourceKeys[] = {
    Naming(Names::kInput, TextKey("data_dir", "directory of the files")),
    Naming(Names::kInput, TextKey("jsonl_path", "file of the samples")),
    Naming(Names::kInput, TextKey("parquet_info_path", "file that describes the Parquet files")),
    CountKey("num_files", "", "files", "how many are read"),
    CountKey("num_total_samples", "", "samples", "how many there are"),
};
constexpr Section kSourceSection = {.keys = kSourceKeys};
constexpr Key kSourceNames[] = {
    SectionKey("*", kSourceSection, "where the data set of that name lies")};
constexpr Section kSourceNamesSection = {.keys = kSourceNames};
constexpr Key kGroupNames[] = {
    SectionKey("*", kSourceNamesSection, "the data sets of the group of that name")};
constexpr Section kDatasetInfoSection = {.keys = kGroupNames};

constexpr Key kTransformKeys[] = {
    CountKey("image_stride", "", "pixels", "sides are multiples of it"),
    CountKey("max_image_size", "", "pixels", "the longest side"),
    CountKey("min_image_size", "", "pixels", "the shortest side"),
    CountKey("max_pixels", "", "pixels", "of a whole picture"),
};
constexpr Section kTransformSection = {.keys = kTransformKeys};
constexpr Key kFrameSamplerKeys[] = {
    CountKey("max_num_frames", "", "frames", "of a video, at most"),
    CountKey("min_num_frames", "", "frames", "of a video, at least"),
};
constexpr Section kFrameSamplerSection = {.keys = kFrameSamplerKeys};
constexpr Key kGroupKeys[] = {
    TextsKey("dataset_names", "the data sets of the group, by their names in dataset_info"),
    SectionKey("image_transform_args", kTransformSection, "sizes of pictures that are made"),
    SectionKey("vit_image_transform_args", kTransformSection,
               "sizes of pictures that the vision tower sees"),
    SectionKey("frame_sampler_args", kFrameSamplerSection, "frames taken of a video"),
    BoolKey("is_mandatory", "false", "every pack has a sample of this group"),
    IntsKey("num_used_data", "samples", "samples used of each data set"),
    BoolKey("shuffle_lines", "false", "shuffle the lines of a file"),
    SizeKey("shuffle_seed", "0", "", "of shuffle_lines"),
    NumberKey("weight", "1", "how often the group is drawn, against the others"),
};
constexpr Section kGroupSection = {.keys = kGroupKeys};
constexpr Key kGroupedNames[] = {SectionKey("*", kGroupSection, "the group of that name")};
constexpr Section kGroupedDatasetsSection = {.keys = kGroupedNames};

constexpr Key kBagelKeys[] = {
    SectionKey("dataset_info", kDatasetInfoSection, "groups of data sets and where they lie"),
    SectionKey("grouped_datasets", kGroupedDatasetsSection, "how each group is drawn from"),
    CountKey("expected_num_tokens", "32768", "tokens", "a pack is closed when it has so many"),
    CountKey("max_num_tokens", "36864", "tokens", "of a pack"),
    CountKey("max_num_tokens_per_sample", "16384", "tokens", "longer samples are left out"),
    SizeKey("prefer_buffer_before", "16384", "tokens",
            "while a pack has fewer, samples that were put off are taken first"),
    SizeKey("max_buffer_size", "50", "samples", "put off until they fit"),
    CountKey("vit_patch_size", "14", "pixels", "side of a patch of the vision tower"),
    CountKey("max_num_patch_per_side", "70", "patches", "of the vision tower"),
    BoolKey("interpolate_pos", "false", "stretch the position embeddings to the picture"),
    SizeKey("data_seed", "42", "", "of shuffling and of what is dropped"),
    ShareKey("text_cond_dropout_prob", "0.1", "chance that the text is left out"),
    ShareKey("vit_cond_dropout_prob", "0.3", "chance that a seen picture is left out"),
    ShareKey("vae_cond_dropout_prob", "0.3", "chance that a picture to go by is left out"),
    CountKey("vae_image_downsample", "16", "pixels", "side of the square that becomes a latent"),
    CountKey("max_latent_size", "64", "latents", "along a side"),
    BoolKey("use_flex", "true", "flexible attention masks; results are the same"),
};

constexpr Key kVideoSizeKeys[] = {
    CountKey("longest_edge", "", "pixels", "of a whole video, at most"),
    CountKey("shortest_edge", "", "pixels", "of a whole video, at least"),
};
constexpr Section kVideoSizeSection = {.keys = kVideoSizeKeys};
constexpr Key kVideoProcessorKeys[] = {
    TargetKey("the class that prepares videos"),
    NumberKey("fps", "", "frames a second that are looked at"),
    CountKey("max_frames", "", "frames", "of a video, at most"),
    SectionKey("size", kVideoSizeSection, "how large videos may be"),
};
constexpr Part kVideoProcessors[] = {
    {.targets = "transformers.models.qwen3_vl.video_processing_qwen3_vl.Qwen3VLVideoProcessor."
                "from_pretrained",
     .name = "qwen3_vl"},
};
constexpr Section kVideoProcessorSection = {
    .keys = kVideoProcessorKeys, .parts = kVideoProcessors, .default_part = "qwen3_vl"};

constexpr Key kProcessorKeys[] = {
    TargetKey("the class that prepares pictures, sound and text"),
    Naming(Names::kModel,
           TextKey("pretrained_model_name_or_path", "hub id or directory it is read from")),
    NoEffect(BoolKey("trust_remote_code", "false", "no Python of a model is ever run")),
    CountKey("min_pixels", "", "pixels", "smaller pictures are enlarged"),
    CountKey("max_pixels", "", "pixels", "larger pictures are reduced"),
    ChoiceKey("padding_side", "right", "left right", "where batches are padded"),
    PartKey("video_processor", kVideoProcessorSection, "how videos are prepared"),
};
constexpr Part kProcessors[] = {
    {.targets = "transformers.AutoProcessor.from_pretrained", .name = "auto"},
    {.targets = "nemo_automodel.components.models.minimax_m3_vl.processing."
                "build_minimax_m3_vl_processor",
     .name = "minimax_m3_vl"},
    {.targets = "nemo_automodel.components.models.inkling.processing.build_inkling_processor",
     .name = "inkling"},
    {.targets = "nemo_automodel.components.models.step3p7.processing_step3.Step3VLProcessor."
                "from_pretrained",
     .name = "step3_vl"},
};

constexpr Part kMediaDatasets[] = {
    {.targets = "nemo_automodel.components.datasets.vlm.datasets.make_medpix_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_cord_v2_dataset "
                "nemo_automodel.components.datasets.vlm.datasets."
                "make_shopify_product_catalogue_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_rdr_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_meta_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_llava_onevision_dataset",
     .name = "pictures",
     .support = kNotTrainable,
     .keys = kPictureKeys},
    {.targets = "nemo_automodel.components.datasets.vlm.datasets.make_tulu3_dataset",
     .name = "tulu3",
     .support = kNotTrainable,
     .keys = kTuluKeys},
    {.targets = "nemo_automodel.components.datasets.vlm.datasets."
                "make_tulu3_magicoder_text_mix_dataset",
     .name = "text_mix",
     .support = kNotTrainable,
     .keys = kTextMixKeys},
    {.targets = "nemo_automodel.components.datasets.vlm.mock.build_mock_vlm_dataset",
     .name = "mock_media",
     .support = kNotTrainable,
     .keys = kMockMediaKeys},
    {.targets = "nemo_automodel.components.datasets.vlm.datasets.make_cv17_dataset "
                "nemo_automodel.components.datasets.audio.datasets.make_hf_audio_asr_dataset "
                "nemo_automodel.components.datasets.audio.datasets.make_cv17_dataset "
                "nemo_automodel.components.datasets.audio.multi_en.make_multi_en_asr_dataset",
     .name = "speech",
     .support = kNotTrainable,
     .keys = kSpeechKeys},
    {.targets = "bagel", .name = "bagel", .support = kNotTrainable, .keys = kBagelKeys},
};
}  // namespace

const Section kProcessorSection = {
    .keys = kProcessorKeys, .parts = kProcessors, .default_part = "auto"};

const Section kMediaDatasetSection = {.parts = kMediaDatasets};

}  // namespace am::recipe
