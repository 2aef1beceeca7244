#include "worker/engine/data/dataset.h"

#include "common/error.h"
#include "worker/engine/data/kinds.h"

namespace am::engine {

std::unique_ptr<Dataset> MakeDataset(const DatasetSpec& spec, const text::Tokenizer* tokenizer,
                                     const std::string& chat_template_override,
                                     int64_t vocab_size) {
  if (spec.kind == "mock") return MakeMockDataset(spec, vocab_size);
#ifdef AMCTL_HAVE_TEXT
  if (spec.kind == "squad") {
    if (tokenizer == nullptr)
      throw InternalError("a data set of kind " + spec.kind + " was opened without a tokenizer");
    return MakeRecordsDataset(spec, *tokenizer, chat_template_override, vocab_size);
  }
  throw UserError("dataset: the kind '" + spec.kind + "' is unknown; use squad or mock");
#else
  (void)tokenizer;
  (void)chat_template_override;
  throw UserError("dataset: this build has no tokenizer and knows mock data only, not '" +
                  spec.kind + "'; build with -DAMCTL_TEXT=ON");
#endif
}

}  // namespace am::engine
