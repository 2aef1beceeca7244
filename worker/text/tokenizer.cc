#include "worker/text/tokenizer.h"

#include <atomic>
#include <filesystem>

#include "common/error.h"
#include "worker/text/pipeline.h"
#include "worker/text/tokenizer_config.h"
#include "worker/text/utf8.h"
#include "worker/text/word_cache.h"

namespace am::text {

struct Tokenizer::Impl {
  Pipeline pipeline;
  TokenizerConfig config;
  std::optional<int32_t> bos, eos, pad;
  bool plain_text = false;  // nothing normalizes: words are cut from the caller's text itself
  const uint64_t serial = NextSerial();

  static uint64_t NextSerial() {
    static std::atomic<uint64_t> next{1};
    return next++;
  }

  WordCache& Cache() const;
  void EncodeText(std::string_view text, bool at_start, WordCache& cache,
                  std::vector<int32_t>& ids) const;
  void EncodeWord(std::string_view word, WordCache& cache, std::vector<int32_t>& ids) const;
  void ApplyFacts(const SentencePieceFacts& facts);
  void ApplyConfig();
  void SetBosEos();
};

namespace {

std::optional<int32_t> FindToken(const Pipeline& pipeline, std::string_view content) {
  if (const auto id = pipeline.added.Find(content)) return id;
  return pipeline.model->vocabulary().Find(content);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::Load(const std::string& model_dir) {
  if (!std::filesystem::is_directory(model_dir)) {
    throw UserError(model_dir +
                    ": error: no such directory; give the directory of a Hugging Face model");
  }
  auto impl = std::make_unique<Impl>();
  impl->config = TokenizerConfig::Load(model_dir);
  const std::string json_path = model_dir + "/tokenizer.json",
                    model_path = model_dir + "/tokenizer.model";
  if (const auto text = ReadFileIfThere(json_path)) {
    impl->pipeline = LoadTokenizerJson(*text, json_path);
    impl->ApplyConfig();
  } else if (const auto bytes = ReadFileIfThere(model_path)) {
    SentencePieceFacts facts;
    impl->pipeline = LoadSentencePiece(*bytes, model_path, facts);
    impl->ApplyFacts(facts);
    impl->ApplyConfig();
    impl->SetBosEos();
  } else {
    throw UserError(
        model_dir +
        ": error: no tokenizer.json and no tokenizer.model here; one of them is needed");
  }
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::FromPipeline(Pipeline pipeline) {
  auto impl = std::make_unique<Impl>();
  impl->pipeline = std::move(pipeline);
  impl->ApplyConfig();
  return Tokenizer(std::move(impl));
}

// As transformers does it: added_tokens_decoder overrides what tokenizer.json says of a token, then
// named and extra special tokens are added that are not there yet.
void Tokenizer::Impl::ApplyConfig() {
  const Model& model = *pipeline.model;
  for (const auto& [id, token] : config.added_tokens) {
    AddedToken added = token;
    for (const auto& [name, other] : config.named) added.special |= other.content == added.content;
    pipeline.added.Add(std::move(added), model, pipeline.normalizer);
  }
  for (const auto& [name, token] : config.named) {
    if (!pipeline.added.Find(token.content)) pipeline.added.Add(token, model, pipeline.normalizer);
  }
  for (const AddedToken& token : config.extra_special_tokens) {
    if (!pipeline.added.Find(token.content)) pipeline.added.Add(token, model, pipeline.normalizer);
  }
  pipeline.added.Build();
  plain_text = pipeline.normalizer.identity();
  const auto id_of = [&](const char* name) -> std::optional<int32_t> {
    const AddedToken* token = config.Named(name);
    return token == nullptr ? std::nullopt : FindToken(pipeline, token->content);
  };
  bos = id_of("bos_token");
  eos = id_of("eos_token");
  pad = id_of("pad_token");
}

// What tokenizer_config.json does not name, the model file does.
void Tokenizer::Impl::ApplyFacts(const SentencePieceFacts& facts) {
  const std::pair<const char*, const std::string*> known[] = {{"bos_token", &facts.bos_token},
                                                              {"eos_token", &facts.eos_token},
                                                              {"unk_token", &facts.unk_token},
                                                              {"pad_token", &facts.pad_token}};
  for (const auto& [name, content] : known) {
    if (content->empty() || config.Named(name) != nullptr) continue;
    config.named.emplace_back(
        name, AddedToken{.content = *content, .normalized = false, .special = true});
  }
}

void Tokenizer::Impl::SetBosEos() {
  if (config.add_bos_token.value_or(false) && bos) pipeline.post_processor.prefix = {*bos};
  if (config.add_eos_token.value_or(false) && eos) pipeline.post_processor.suffix = {*eos};
}

WordCache& Tokenizer::Impl::Cache() const {
  // A thread works with one tokenizer, seldom with two; a few caches serve, and the oldest makes
  // room.
  struct Entry {
    uint64_t serial = 0;
    std::unique_ptr<WordCache> cache;
  };
  thread_local Entry entries[4];
  for (Entry& entry : entries) {
    if (entry.serial == serial) return *entry.cache;
  }
  std::move_backward(std::begin(entries), std::end(entries) - 1, std::end(entries));
  entries[0] = {serial, std::make_unique<WordCache>()};
  return *entries[0].cache;
}

void Tokenizer::Impl::EncodeWord(std::string_view word, WordCache& cache,
                                 std::vector<int32_t>& ids) const {
  while (!word.empty()) {
    const std::string_view first = word.substr(0, pipeline.model->FirstWord(word));
    cache.Append(first, ids, [&](std::string_view w, std::vector<int32_t>& out) {
      pipeline.model->Encode(w, out);
    });
    word.remove_prefix(first.size());
  }
}

// `text` lies between added tokens.
void Tokenizer::Impl::EncodeText(std::string_view text, bool at_start, WordCache& cache,
                                 std::vector<int32_t>& ids) const {
  Segment segment;
  if (!plain_text) {
    segment = {std::string(text), at_start};
    pipeline.normalizer.Apply(segment);
    text = segment.text;
    at_start = segment.at_start;
  }
  pipeline.added.Cut(
      text, /*normalized=*/true,
      [&](size_t begin, size_t end) {
        pipeline.pre_tokenizer.Run(
            {text.substr(begin, end - begin), at_start && begin == 0},
            [&](PreTokenizer::Piece word) { EncodeWord(word.text, cache, ids); });
      },
      [&](int32_t id) { ids.push_back(id); });
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  if (const auto bad = FindInvalidUtf8(text)) {
    throw UserError("the text is not UTF-8: invalid byte at offset " + std::to_string(*bad));
  }
  const PostProcessor& post = impl_->pipeline.post_processor;
  WordCache& cache = impl_->Cache();
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  if (options.add_special_tokens) ids.insert(ids.end(), post.prefix.begin(), post.prefix.end());
  impl_->pipeline.added.Cut(
      text, /*normalized=*/false,
      [&](size_t begin, size_t end) {
        impl_->EncodeText(text.substr(begin, end - begin), begin == 0, cache, ids);
      },
      [&](int32_t id) { ids.push_back(id); });
  if (options.add_special_tokens) ids.insert(ids.end(), post.suffix.begin(), post.suffix.end());
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  const Pipeline& pipeline = impl_->pipeline;
  const Vocabulary& vocabulary = pipeline.model->vocabulary();
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    std::string text;
    if (const std::string* added = pipeline.added.DecodedText(id)) {
      text = *added;
    } else if (vocabulary.Has(id)) {
      text = vocabulary.Text(id);
    } else {
      continue;
    }
    if (!skip_special_tokens || !pipeline.added.IsSpecial(text)) tokens.push_back(std::move(text));
  }
  return pipeline.decoder.Decode(std::move(tokens));
}

int64_t Tokenizer::vocab_size() const {
  const Model& model = *impl_->pipeline.model;
  return model.size() + impl_->pipeline.added.CountBeyond(model);
}

std::optional<int32_t> Tokenizer::bos_id() const { return impl_->bos; }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos; }
std::optional<int32_t> Tokenizer::pad_id() const { return impl_->pad; }

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  return FindToken(impl_->pipeline, token);
}

bool Tokenizer::add_bos_token() const {
  const std::vector<int32_t>& prefix = impl_->pipeline.post_processor.prefix;
  return impl_->bos && !prefix.empty() && prefix.front() == *impl_->bos;
}

bool Tokenizer::add_eos_token() const {
  const std::vector<int32_t>& suffix = impl_->pipeline.post_processor.suffix;
  return impl_->eos && !suffix.empty() && suffix.back() == *impl_->eos;
}

std::string Tokenizer::TokenText(std::optional<int32_t> id) const {
  if (!id) return "";
  if (const AddedToken* token = impl_->pipeline.added.ById(*id)) return token->content;
  return std::string(impl_->pipeline.model->vocabulary().Text(*id));
}

std::vector<std::pair<std::string, std::string>> Tokenizer::special_tokens() const {
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const auto& [name, token] : impl_->config.named) tokens.emplace_back(name, token.content);
  return tokens;
}

const std::string& Tokenizer::chat_template() const { return impl_->config.chat_template; }

}  // namespace am::text
