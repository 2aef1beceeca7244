// The sections of the schema, each in the file of its theme; schema_root.cc puts them together.
#pragma once

#include "launcher/recipe/schema.h"

namespace am::recipe {

extern const Section kStepSchedulerSection;  // schema_training.cc
extern const Section kDistEnvSection;
extern const Section kClipGradNormSection;
extern const Section kRngSection;
extern const Section kOptimizerSection;  // schema_optimizer.cc
extern const Section kLrSchedulerSection;
extern const Section kLossSection;
extern const Section kCheckpointSection;   // schema_checkpoint.cc
extern const Section kDistributedSection;  // schema_parallel.cc
extern const Section kFsdpSection;
extern const Section kModelSection;  // schema_model.cc
extern const Section kPeftSection;
extern const Section kQuantizationSection;
extern const Section kDatasetSection;     // schema_datasets.cc
extern const Section kDataloaderSection;  // schema_data.cc
extern const Section kPackedSequenceSection;
extern const Section kElasticSection;  // schema_operations.cc
extern const Section kRestartSection;
extern const Section kSlurmSection;
extern const Section kKubernetesSection;
extern const Section kWandbSection;
extern const Section kMlflowSection;
extern const Section kCometSection;
extern const Section kBenchmarkSection;
extern const Section kCompileSection;
extern const Section kFp8Section;
extern const Section kRecipeKindSection;    // schema_root.cc
extern const Section kFreezeSection;        // schema_model.cc
extern const Section kHfConfigSection;      // schema_config.cc
extern const Section kMediaDatasetSection;  // schema_media.cc
extern const Section kProcessorSection;
extern const Section kTokenizerSection;  // schema_data.cc
extern const Section kKdLossSection;     // schema_optimizer.cc
extern const Section kDdpSection;        // schema_parallel.cc
extern const Section kAutoPipelineSection;
extern const Section kParallelizerSection;
extern const Section kDistributedConfigSection;
extern const Section kRecipeArgsSection;  // schema_draft.cc
extern const Section kDflashSection;
extern const Section kDllmSection;
extern const Section kPromptSetSection;
extern const Section kDistillLossSection;  // schema_distill.cc
extern const Section kMseLossSection;
extern const Section kInfoNceLossSection;
extern const Section kMiningSection;
extern const Section kFlowMatchingSection;  // schema_diffusion.cc
extern const Section kDataSection;
extern const Section kEmaSection;
extern const Section kAutocastSection;
extern const Section kPerformanceSection;
extern const Section kInferenceSection;
extern const Section kOutputSection;
extern const Section kVaeSection;
extern const Section kNeftuneSection;  // schema_extras.cc
extern const Section kQatSection;
extern const Section kMoeMetricsSection;
extern const Section kToolCallEvalSection;
extern const Section kMfuSection;
extern const Section kPrewarmSection;
extern const Section kRowRepairSection;
extern const Section kSkypilotSection;

}  // namespace am::recipe
