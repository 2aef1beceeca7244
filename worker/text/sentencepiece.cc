// Reads a SentencePiece model (tokenizer.model) with a protobuf reader of our own: the library
// would bring libprotobuf into the process, where LibTorch has its own copy. Text is normalized and
// encoded as SentencePiece does it; control symbols in the text are found first, as Hugging Face's
// tokenizers do.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "common/error.h"
#include "worker/text/bpe_model.h"
#include "worker/text/charsmap.h"
#include "worker/text/pipeline.h"
#include "worker/text/unigram_model.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// One protobuf message: fields in the order in which they stand.
class ProtoReader {
 public:
  ProtoReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  // False at the end. Afterwards `field` is the number and one of `number`, `bytes` the value.
  bool Next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t key = Varint();
    field = key >> 3;
    bytes = {};
    number = 0;
    switch (key & 7) {
      case 0:
        number = Varint();
        return true;
      case 1:
        number = Fixed(8);
        return true;
      case 2: {
        const uint64_t size = Varint();
        if (size > bytes_.size() - at_) Fail();
        bytes = bytes_.substr(at_, size);
        at_ += size;
        return true;
      }
      case 5:
        number = Fixed(4);
        return true;
      default:
        Fail();
    }
  }
  float AsFloat() const { return std::bit_cast<float>(static_cast<uint32_t>(number)); }
  ProtoReader Message() const { return {bytes, file_}; }
  std::string Text() const {
    if (FindInvalidUtf8(bytes)) Fail();
    return std::string(bytes);
  }

  uint64_t field = 0, number = 0;
  std::string_view bytes;

 private:
  [[noreturn]] void Fail() const {
    throw UserError(file_ + ": error: not a SentencePiece model, or damaged");
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) Fail();
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    Fail();
  }
  uint64_t Fixed(size_t size) {
    if (size > bytes_.size() - at_) Fail();
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, size);
    at_ += size;
    return value;
  }

  std::string_view bytes_;
  const std::string& file_;
  size_t at_ = 0;
};

enum PieceType : uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct Piece {
  std::string text;
  float score = 0;
  uint64_t type = kNormal;
};

// sentencepiece_model.proto: what encoding needs of it.
struct ModelProto {
  std::vector<Piece> pieces;
  uint64_t model_type = 1;  // 1 Unigram, 2 BPE
  bool byte_fallback = false;
  bool space_is_suffix = false;
  int64_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  std::string charsmap;
  bool add_dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
};

void ReadPiece(ProtoReader in, ModelProto& model) {
  Piece piece;
  while (in.Next()) {
    if (in.field == 1) piece.text = in.Text();
    if (in.field == 2) piece.score = in.AsFloat();
    if (in.field == 3) piece.type = in.number;
  }
  model.pieces.push_back(std::move(piece));
}

void ReadTrainerSpec(ProtoReader in, ModelProto& model) {
  const auto id = [&] { return static_cast<int64_t>(static_cast<int32_t>(in.number)); };
  while (in.Next()) {
    if (in.field == 3) model.model_type = in.number;
    if (in.field == 24) model.space_is_suffix = in.number != 0;
    if (in.field == 35) model.byte_fallback = in.number != 0;
    if (in.field == 40) model.unk_id = id();
    if (in.field == 41) model.bos_id = id();
    if (in.field == 42) model.eos_id = id();
    if (in.field == 43) model.pad_id = id();
  }
}

void ReadNormalizerSpec(ProtoReader in, ModelProto& model) {
  while (in.Next()) {
    if (in.field == 2) model.charsmap = std::string(in.bytes);
    if (in.field == 3) model.add_dummy_prefix = in.number != 0;
    if (in.field == 4) model.remove_extra_spaces = in.number != 0;
    if (in.field == 5) model.escape_spaces = in.number != 0;
  }
}

ModelProto ReadModel(std::string_view bytes, const std::string& file) {
  ModelProto model;
  ProtoReader in(bytes, file);
  while (in.Next()) {
    if (in.field == 1) ReadPiece(in.Message(), model);
    if (in.field == 2) ReadTrainerSpec(in.Message(), model);
    if (in.field == 3) ReadNormalizerSpec(in.Message(), model);
  }
  const auto fail = [&](const std::string& what) { throw UserError(file + ": error: " + what); };
  if (model.pieces.empty()) fail("no pieces; this is not a SentencePiece model");
  if (model.pieces.size() > static_cast<size_t>(Vocabulary::kMaxId)) fail("too many pieces");
  if (model.model_type != 1 && model.model_type != 2) {
    fail("model type " + std::to_string(model.model_type) +
         " is not supported; supported: Unigram (1), BPE (2)");
  }
  if (model.unk_id < 0 || model.unk_id >= static_cast<int64_t>(model.pieces.size())) {
    fail("unk_id " + std::to_string(model.unk_id) + " is outside its " +
         std::to_string(model.pieces.size()) + " pieces");
  }
  return model;
}

// SentencePiece's Normalizer: character map, space collapsing, dummy prefix, U+2581 for spaces.
class SpNormalizer {
 public:
  SpNormalizer(const ModelProto& model, Charsmap map)
      : map_(std::move(map)),
        add_dummy_prefix_(model.add_dummy_prefix),
        remove_extra_spaces_(model.remove_extra_spaces),
        space_is_suffix_(model.space_is_suffix),
        space_(model.escape_spaces ? kMetaspace : " ") {
    for (const Piece& piece : model.pieces) {
      if (piece.type == kUserDefined) user_defined_.push_back(piece.text);
    }
    std::vector<std::pair<std::string_view, int32_t>> keys;
    for (const std::string& text : user_defined_) keys.emplace_back(text, 0);
    untouched_ = ByteTrie(std::move(keys));
  }

  std::string Apply(std::string_view in) const {
    if (remove_extra_spaces_) {
      while (!in.empty()) {
        const auto [piece, length] = Prefix(in);
        if (piece != " ") break;
        in.remove_prefix(length);
      }
    }
    std::string out;
    if (in.empty()) return out;
    if (add_dummy_prefix_ && !space_is_suffix_) out += space_;
    bool after_space = remove_extra_spaces_;
    while (!in.empty()) {
      auto [piece, length] = Prefix(in);
      while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
      for (const char c : piece) {
        if (c == ' ') {
          out += space_;
        } else {
          out += c;
        }
      }
      if (!piece.empty()) after_space = piece.ends_with(' ');
      in.remove_prefix(length);
      if (!remove_extra_spaces_) after_space = false;
    }
    while (remove_extra_spaces_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
    if (add_dummy_prefix_ && space_is_suffix_) out += space_;
    return out;
  }

 private:
  std::pair<std::string_view, size_t> Prefix(std::string_view in) const {
    size_t length = 0;
    untouched_.ForEachPrefix(in, [&](size_t l, int32_t) { length = l; });
    if (length > 0) return {in.substr(0, length), length};
    if (const auto match = map_.Longest(in)) return {match->replacement, match->length};
    NextCodePoint(in, length);
    return {in.substr(0, length), length};
  }

  Charsmap map_;
  std::vector<std::string> user_defined_;
  ByteTrie untouched_;
  bool add_dummy_prefix_, remove_extra_spaces_, space_is_suffix_;
  std::string_view space_;
};

bool IsPiece(const Piece& piece) {
  return piece.type == kNormal || piece.type == kUserDefined || piece.type == kUnused;
}

// Each way to join two pieces into one is a merge; the better the joint piece's score, the earlier.
std::unique_ptr<const Model> BuildBpe(const ModelProto& model, Vocabulary vocabulary) {
  std::vector<float> scores;
  for (const Piece& piece : model.pieces) {
    if (IsPiece(piece)) scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  MergeTable merges;
  merges.Reserve(model.pieces.size() * 2);
  BpeOptions options{.unk_id = static_cast<int32_t>(model.unk_id),
                     .fuse_unk = true,
                     .byte_fallback = model.byte_fallback,
                     .cut_at_metaspace = vocabulary.Find(kMetaspace).has_value()};
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    if (!IsPiece(piece)) continue;
    const std::string_view text = piece.text;
    const auto rank = static_cast<uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) -
        scores.begin());
    size_t at = 0;
    if (!text.empty()) NextCodePoint(text, at);
    while (at < text.size()) {
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      const auto left_id = vocabulary.Find(left), right_id = vocabulary.Find(right);
      if (left_id && right_id && IsPiece(model.pieces[*left_id]) &&
          IsPiece(model.pieces[*right_id])) {
        merges.Insert(*left_id, *right_id, {rank, static_cast<int32_t>(id)});
        if (right.starts_with(kMetaspace) && !left.ends_with(kMetaspace)) {
          options.no_cut_after[static_cast<unsigned char>(left.back())] = true;
        }
      }
      NextCodePoint(text, at);
    }
  }
  return std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
}

std::unique_ptr<const Model> BuildUnigram(const ModelProto& model, Vocabulary vocabulary) {
  std::vector<bool> reachable;  // user-defined pieces are cut out before
  std::vector<double> scores;
  for (const Piece& piece : model.pieces) {
    reachable.push_back(piece.type == kNormal);
    scores.push_back(piece.score);
  }
  return std::make_unique<UnigramModel>(
      std::move(vocabulary), std::move(scores),
      UnigramModel::Options{.unk_id = static_cast<int32_t>(model.unk_id),
                            .byte_fallback = model.byte_fallback,
                            .single_precision = true},
      &reachable);
}

}  // namespace

Pipeline LoadSentencePiece(std::string_view bytes, const std::string& file,
                           SentencePieceFacts& facts) {
  const ModelProto model = ReadModel(bytes, file);
  Vocabulary vocabulary;
  vocabulary.Reserve(model.pieces.size(), bytes.size());
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (vocabulary.Find(model.pieces[id].text)) {
      throw UserError(file + ": error: piece `" + model.pieces[id].text + "` is there twice");
    }
    vocabulary.Insert(model.pieces[id].text, static_cast<int32_t>(id));
  }
  const auto text_of = [&](int64_t id) {
    return id >= 0 && id < static_cast<int64_t>(model.pieces.size()) ? model.pieces[id].text
                                                                     : std::string();
  };
  facts = {text_of(model.bos_id), text_of(model.eos_id), text_of(model.unk_id),
           text_of(model.pad_id)};

  Pipeline pipeline;
  const bool bpe = model.model_type == 2;
  try {
    const auto normalizer = std::make_shared<const SpNormalizer>(
        model, model.charsmap.empty() ? Charsmap() : Charsmap(model.charsmap));
    pipeline.normalizer.Add(
        [normalizer](Segment& segment) { segment.text = normalizer->Apply(segment.text); });
    pipeline.model =
        bpe ? BuildBpe(model, std::move(vocabulary)) : BuildUnigram(model, std::move(vocabulary));
  } catch (const Error& error) {
    throw UserError(file + ": error: " + error.what());
  }
  const Normalizer already_normalized;
  for (const Piece& piece : model.pieces) {
    if (piece.type == kControl || piece.type == kUnknown) {
      pipeline.added.Add({.content = piece.text, .normalized = false, .special = true},
                         *pipeline.model, already_normalized);
    } else if (piece.type == kUserDefined) {
      pipeline.added.Add({.content = piece.text, .normalized = true}, *pipeline.model,
                         already_normalized);
    }
  }
  pipeline.decoder.Add(Decoder::Replace(std::string(kMetaspace), " "));
  pipeline.decoder.Add(Decoder::ByteFallback());
  pipeline.decoder.Add(Decoder::Fuse());
  if (model.remove_extra_spaces || model.add_dummy_prefix) {
    const size_t most = model.remove_extra_spaces ? std::numeric_limits<size_t>::max() : 1;
    pipeline.decoder.Add(Decoder::Strip(U' ', most, 0));
  }
  return pipeline;
}

}  // namespace am::text
