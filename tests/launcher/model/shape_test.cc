#include "launcher/model/shape.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>

#include "launcher/model/known.h"

namespace am::model {
namespace {

using nlohmann::json;

TEST(KeysPerQuery, EqualsCountingThemOneByOne) {
  auto counted = [](const Attention& attention, int64_t seq) {
    int64_t keys = 0;
    for (int64_t j = 1; j <= seq; ++j) {
      int64_t near = attention.window > 0 ? std::min(j, attention.window) : j;
      int64_t most = attention.top_k > 0 ? attention.top_k : seq;
      if (!attention.causal) {
        int64_t reach = attention.window > 0 ? attention.window : seq;
        for (int64_t i = 1; i <= seq; ++i) keys += std::abs(i - j) < reach;
      } else if (attention.block > 1 && attention.top_k > 0) {
        keys += attention.block * std::min(j / attention.block, attention.top_k / attention.block) +
                j % attention.block;
      } else if (attention.compress_ratio > 0) {
        keys += near + std::min(j / attention.compress_ratio, most);
      } else {
        keys += std::min(near, most);
      }
    }
    return static_cast<double>(keys) / static_cast<double>(seq);
  };
  for (int64_t seq : {1, 2, 7, 8, 31, 64, 100})
    for (int64_t window : {0, 1, 5, 64, 200})
      for (int64_t ratio : {0, 1, 4, 7, 128})
        for (int64_t top_k : {0, 1, 3, 50})
          for (bool causal : {true, false}) {
            Attention attention{.window = window,
                                .compress_ratio = causal ? ratio : 0,
                                .top_k = causal ? top_k : 0,
                                .causal = causal};
            EXPECT_NEAR(KeysPerQuery(attention, seq), counted(attention, seq), 1e-9)
                << seq << " window " << window << " ratio " << ratio << " top " << top_k;
          }
  for (int64_t seq : {1, 3, 15, 16, 17, 100, 257})
    for (int64_t block : {2, 4, 16})
      for (int64_t picks : {1, 2, 5, 40}) {
        Attention attention{.top_k = picks * block, .block = block};
        EXPECT_NEAR(KeysPerQuery(attention, seq), counted(attention, seq), 1e-9)
            << seq << " block " << block << " picks " << picks;
      }
  EXPECT_EQ(KeysPerQuery({}, 0), 0);
}

json Llama() {
  return {{"model_type", "llama"},      {"vocab_size", 128256},        {"hidden_size", 4096},
          {"intermediate_size", 14336}, {"num_hidden_layers", 32},     {"num_attention_heads", 32},
          {"num_key_value_heads", 8},   {"tie_word_embeddings", false}};
}

TEST(ShapeOf, CountsTheWeightsOfALlama) {
  absl::StatusOr<ModelShape> shape = ShapeOf(Llama());
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(Parameters(*shape), 8'030'261'248);
  EXPECT_EQ(ActiveParameters(*shape), 8'030'261'248);
  EXPECT_EQ(shape->kinds.size(), 1u);
  EXPECT_EQ(shape->layers.size(), 32u);
  EXPECT_EQ(shape->layer(31).attention->key_dim, 128);
}

TEST(ShapeOf, NamesWhatIsMissingOrImpossible) {
  auto message = [](const char* key, json value) {
    json config = Llama();
    if (value.is_discarded()) {
      config.erase(key);
    } else {
      config[key] = value;
    }
    absl::Status status = ShapeOf(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key;
    return std::string(status.message());
  };
  json absent(json::value_t::discarded);
  EXPECT_EQ(message("vocab_size", absent), "vocab_size: is missing");
  EXPECT_EQ(message("num_hidden_layers", 0),
            "num_hidden_layers: 0 is not a whole number from 1 to 4096");
  EXPECT_EQ(message("hidden_size", "4096"),
            "hidden_size: \"4096\" is not a whole number from 1 to 1048576");
  EXPECT_EQ(message("num_key_value_heads", 5),
            "num_key_value_heads: 5 does not divide num_attention_heads 32");
  EXPECT_EQ(message("tie_word_embeddings", 3), "tie_word_embeddings: 3 is neither true nor false");
  EXPECT_EQ(message("model_type", absent), "model_type: is missing, and so are the architectures");
}

// Every number of every known model, replaced by what no model has: a shape or an error, never a
// wrong sum or a crash.
TEST(ShapeOf, StandsAbsurdNumbers) {
  std::vector<json> absurd = {0,
                              -1,
                              1,
                              1.5,
                              1e300,
                              int64_t{1} << 20,
                              true,
                              "many",
                              {{}},
                              nullptr,
                              int64_t{1} << 62,
                              json::array({7, "x", -3})};
  for (const std::string& name : KnownModels()) {
    json flat = KnownConfig(name)->flatten();
    for (const auto& [path, original] : flat.items()) {
      // Of a long list, the first entries stand for all.
      if (size_t digits = path.find_last_of('/');
          path.size() - digits > 2 && std::isdigit(static_cast<unsigned char>(path[digits + 1])))
        continue;
      for (const json& value : absurd) {
        json config = *KnownConfig(name);
        config[json::json_pointer(path)] = value;
        absl::StatusOr<ModelShape> shape = ShapeOf(config);
        if (!shape.ok()) {
          EXPECT_TRUE(absl::IsInvalidArgument(shape.status()) ||
                      absl::IsUnimplemented(shape.status()))
              << name << path << " " << value << ": " << shape.status();
          continue;
        }
        EXPECT_GT(Parameters(*shape), 0) << name << path << " " << value;
        EXPECT_GE(Parameters(*shape), ActiveParameters(*shape)) << name << path << " " << value;
        for (const Layer& kind : shape->kinds) {
          if (!kind.attention) continue;
          EXPECT_GE(KeysPerQuery(*kind.attention, 4096), 0.0) << name << path;
        }
      }
    }
  }
}

TEST(ShapeOf, NamesTheNearestFamilyThatIsKnown) {
  absl::Status status = ShapeOf({{"model_type", "lama"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "the weights of the model family lama are not known; the nearest known is llama");
}

}  // namespace
}  // namespace am::model
