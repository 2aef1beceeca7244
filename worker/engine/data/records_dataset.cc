// squad: {"context", "question", "answers": {"text": [...]}}. The first answer is learnt.
//
// An answer that is empty text is kept: what follows the prompt then (an end of turn, an end of
// text) is all there is to learn, perhaps nothing. A record without any answer is an error: it is
// either not meant for training or broken.
#include <utility>

#include "common/error.h"
#include "worker/engine/data/json_records.h"
#include "worker/engine/data/kinds.h"
#include "worker/engine/data/packaging.h"

namespace am::engine {
namespace {

using Json = nlohmann::ordered_json;

// str.strip() of Python for the white space that data holds.
std::string Stripped(const std::string& text) {
  constexpr const char* kSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string FirstAnswer(const JsonRecord& record) {
  const Json& answers = Field(record, "answers");
  // {"text": ["a", "b"]} as the Hugging Face data set has it, or [{"text": "a"}, {"text": "b"}] as
  // SQuAD's own files do.
  const Json* texts = &answers;
  if (answers.is_object() && answers.contains("text")) texts = &answers["text"];
  if (!texts->is_array() || (texts == &answers) != answers.is_array()) {
    throw UserError(
        record.place +
        ": error: the field 'answers' must be {\"text\": [...]} or [{\"text\": ...}], got " +
        answers.type_name());
  }
  if (texts->empty()) {
    throw UserError(record.place +
                    ": error: the field 'answers' holds no answer; give one or remove the record");
  }
  const Json& first = (*texts)[0];
  const Json& text = first.is_object() && first.contains("text") ? first["text"] : first;
  if (!text.is_string()) {
    throw UserError(record.place + ": error: the first of 'answers' must be a string, got " +
                    text.type_name());
  }
  return Stripped(text.get_ref<const std::string&>());
}

class SquadDataset : public Dataset {
 public:
  SquadDataset(JsonRecords records, Packager packager)
      : records_(std::move(records)), packager_(std::move(packager)) {}

  int64_t size() const override { return records_.size(); }

  Sample Get(int64_t index) const override {
    const JsonRecord record = records_.Get(index);
    const std::string prompt = "Context: " + TextField(record, "context") +
                               " Question: " + TextField(record, "question") + " Answer: ";
    const std::string answer = FirstAnswer(record);
    Sample sample = packager_.has_chat_template()
                        ? packager_.Chat(Turns(prompt, answer), nullptr, record.place)
                        : packager_.PromptAnswer(prompt, answer, record.place);
    sample.dataset_index = index;
    return sample;
  }

 private:
  static Json Turns(const std::string& prompt, const std::string& answer) {
    return Json::array(
        {{{"role", "user"}, {"content", prompt}}, {{"role", "assistant"}, {"content", answer}}});
  }

  JsonRecords records_;
  Packager packager_;
};

}  // namespace

std::unique_ptr<Dataset> MakeRecordsDataset(const DatasetSpec& spec,
                                            const text::Tokenizer& tokenizer,
                                            const std::string& chat_template_override,
                                            int64_t vocab_size) {
  if (spec.path.empty())
    throw UserError("dataset: the kind '" + spec.kind + "' needs the path of its files");
  if (spec.seq_length && *spec.seq_length < 2) {
    throw UserError("dataset.seq_length: " + std::to_string(*spec.seq_length) +
                    " leaves nothing to predict; use 2 or more");
  }
  JsonRecords records = JsonRecords::Open(
      spec.path, spec.split, {.limit = spec.limit_samples, .lossy_utf8 = spec.lossy_utf8});
  return std::make_unique<SquadDataset>(
      std::move(records), Packager(spec, tokenizer, chat_template_override, vocab_size));
}

}  // namespace am::engine
