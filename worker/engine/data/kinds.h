// The kinds of data set that MakeDataset (dataset.cc) chooses from; each has a source file of its
// own.
#pragma once

#include <memory>
#include <string>

#include "worker/engine/data/dataset.h"

namespace am::engine {

std::unique_ptr<Dataset> MakeMockDataset(const DatasetSpec& spec, int64_t vocab_size);

// squad: JSON records, a tokenizer, perhaps a chat template.
std::unique_ptr<Dataset> MakeRecordsDataset(const DatasetSpec& spec,
                                            const text::Tokenizer& tokenizer,
                                            const std::string& chat_template_override,
                                            int64_t vocab_size);

}  // namespace am::engine
