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
extern const Section kDatasetSection;  // schema_data.cc
extern const Section kDataloaderSection;
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
extern const Section kRecipeKindSection;  // schema_root.cc

inline constexpr double kPositive =
    std::numeric_limits<double>::min();  // `least` of a number above zero

}  // namespace am::recipe
