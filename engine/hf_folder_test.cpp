// SPDX-License-Identifier: MIT
// Folders of transformers and GGUF files: what is missing, superfluous or wrong is named.
#include "engine/hf_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <ostream>

#include "engine/gguf_model.h"
#include "engine/model_file.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

// A copy of a model of fixtures/hf, to be spoilt.
class Copy {
 public:
  explicit Copy(const std::string& name) {
    fs::copy(fs::path(KVCHECK_FIXTURES_DIR "/hf") / name, folder_ / "m",
             fs::copy_options::recursive);
  }
  [[nodiscard]] fs::path operator/(const std::string& file) const { return folder_ / "m" / file; }
  void change(const std::string& file, const std::pair<std::string, std::string>& by) const {
    write_bytes(*this / file, replaced(read_bytes(*this / file), by));
  }
  [[nodiscard]] std::string error(const std::string& file = "") const {
    const fs::path path = file.empty() ? folder_ / "m" : *this / file;
    return error_in(folder_, [&] { (void)load_model_path(path); });
  }

 private:
  TemporaryFolder folder_;
};

struct Spoilt {
  const char* name;
  const char* model;
  const char* file;
  std::pair<std::string, std::string> change;
  const char* message;
};

void PrintTo(const Spoilt& spoilt, std::ostream* out) { *out << spoilt.name; }

const Spoilt kSpoilt[] = {
    {"a_tensor_of_another_name",
     "qwen2",
     "model.safetensors",
     {"model.norm.weight", "model.Norm.weight"},
     "m: tensor \"model.norm.weight\", expected [8], got none"},
    {"an_unknown_key",
     "llama3",
     "config.json",
     {"\"tie_word_embeddings\": false", "\"mlp_bias_\": null"},
     "m/config.json: unknown key in a configuration of llama, expected keys whose effect on "
     "logits is known, got \"mlp_bias_\""},
    {"biases_that_nobody_adds",
     "llama3",
     "config.json",
     {"\"attention_bias\": true", "\"attention_bias\": false"},
     "m/model.safetensors: unknown tensor, expected only those that the configuration implies, "
     "got \"model.layers.0.self_attn.k_proj.bias\""},
    {"another_shape",
     "qwen2",
     "config.json",
     {"\"intermediate_size\": 12", "\"intermediate_size\": 13"},
     "m/model.safetensors: tensor \"model.layers.0.mlp.gate_proj.weight\" shape, expected "
     "[13, 8], got [12, 8]"},
    {"numbers_that_nobody_reads",
     "qwen2",
     "model.safetensors",
     {"{\"dtype\":\"F16\"", "{\"dtype\":\"I16\""},
     "m/model.safetensors: tensor \"model.embed_tokens.weight\" format, expected numbers that "
     "can be read, got \"I16\""},
    {"an_index_without_a_map",
     "mistral",
     "model.safetensors.index.json",
     {"\"weight_map\"", "\"weight map\""},
     "m/model.safetensors.index.json: weight_map, expected an object, got none"},
    {"a_part_outside_of_the_folder",
     "mistral",
     "model.safetensors.index.json",
     {"\"model-00001-of-00002.safetensors\"", "\"../x\""},
     "m/model.safetensors.index.json: weight_map of tensor \"model.embed_tokens.weight\", expected "
     "the name "
     "of a file in the folder, got \"../x\""},
    {"a_part_that_is_missing",
     "mistral",
     "model.safetensors.index.json",
     {"\"model-00001-of-00002.safetensors\"", "\"model-3\""},
     "m/model-3: file, expected a readable regular file, got none"},
    {"a_tensor_that_the_index_lacks",
     "mistral",
     "model.safetensors.index.json",
     {"model.norm.weight", "model.Norm.weight"},
     "m/model.safetensors.index.json: tensor \"model.norm.weight\", expected its part "},
};

class SpoiltFolder : public testing::TestWithParam<Spoilt> {};

TEST_P(SpoiltFolder, is_an_error_with_this_message) {
  const Copy copy(GetParam().model);
  copy.change(GetParam().file, GetParam().change);
  EXPECT_EQ(copy.error().substr(0, std::string(GetParam().message).size()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(HfFolder, SpoiltFolder, testing::ValuesIn(kSpoilt),
                         [](const auto& param) { return std::string(param.param.name); });

// Changes of a GGUF file keep its length, so that nothing moves.
const Spoilt kSpoiltGguf[] = {
    {"another_architecture",
     "qwen2",
     "model.gguf",
     {"qwen2", "qwen4"},
     "m/model.gguf: key \"general.architecture\", expected one of llama, qwen2, qwen3, gpt2, "
     "gemma2, got "
     "\"qwen4\""},
    {"an_unknown_key",
     "qwen2",
     "model.gguf",
     {"qwen2.rope.freq_base", "qwen2.rope.freq_bass"},
     "m/model.gguf: unknown key of qwen2, expected keys whose effect on logits is known, got "
     "\"qwen2.rope.freq_bass\""},
    {"a_missing_key",
     "qwen2",
     "model.gguf",
     {"qwen2.block_count", "general.blocks_no"},
     "m/model.gguf: key \"qwen2.block_count\", expected a whole number of 31 bits, got none"},
    {"a_tensor_of_another_name",
     "qwen2",
     "model.gguf",
     {"output_norm.", "outputtnorm."},
     "m/model.gguf: tensor \"output_norm.weight\", expected [8], got none"},
    {"no_embedding",
     "qwen2",
     "model.gguf",
     {"token_embd.", "token_embb."},
     "m/model.gguf: tensor \"token_embd.weight\", expected [vocabulary, embedding_length], got "
     "none"},
};

class SpoiltGguf : public testing::TestWithParam<Spoilt> {};

TEST_P(SpoiltGguf, is_an_error_with_this_message) {
  const Copy copy(GetParam().model);
  copy.change(GetParam().file, GetParam().change);
  EXPECT_EQ(copy.error(GetParam().file), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(GgufModel, SpoiltGguf, testing::ValuesIn(kSpoiltGguf),
                         [](const auto& param) { return std::string(param.param.name); });

// The parsed file of a model that is then changed.
class ChangedGguf : public testing::Test {
 protected:
  const std::string bytes_ = read_bytes(KVCHECK_FIXTURES_DIR "/hf/qwen2/model.gguf");
  Gguf gguf_ = parse_gguf(std::as_bytes(std::span(bytes_)), "f");
};

TEST_F(ChangedGguf, has_a_word_for_every_id_or_none) {
  auto& words = std::get<GgufArray>(gguf_.metadata.at("tokenizer.ggml.tokens"));
  words.texts.pop_back();
  words.count = 12;
  EXPECT_EQ(error_of([&] { (void)gguf_model(gguf_); }),
            "f: key \"tokenizer.ggml.tokens\", expected an array of 13 texts, the vocabulary, got "
            "an array of 12");
  gguf_.metadata.erase("tokenizer.ggml.tokens");
  EXPECT_TRUE(gguf_model(gguf_).words.empty());
}

TEST_F(ChangedGguf, divides_rotary_frequencies_by_its_factors) {
  const std::vector<float> factors{1, 8};
  StoredTensor tensor{"f", "rope_freqs.weight", "F32", Dtype::f32, {2}, {}};
  tensor.bytes = std::as_bytes(std::span(factors));
  gguf_.tensors.push_back(tensor);
  EXPECT_EQ(gguf_model(gguf_).weights.config.rotary_divisors, (std::vector<double>{1, 8}));
  gguf_.tensors.back().shape = {1};
  EXPECT_EQ(error_of([&] { (void)gguf_model(gguf_); }),
            "f: tensor \"rope_freqs.weight\" shape, expected [2], got [1]");
}

TEST_F(ChangedGguf, is_an_error_where_nothing_is_rotated) {
  gguf_.metadata["qwen2.rope.dimension_count"] = std::uint64_t{0};
  EXPECT_EQ(error_of([&] { (void)gguf_model(gguf_); }),
            "f: key \"qwen2.rope.dimension_count\", expected an even number from 2 on, got 0");
}

TEST_F(ChangedGguf, is_an_error_where_a_weight_is_not_finite) {
  const std::vector<float> scale{1, 1, 1, std::nanf(""), 1, 1, 1, 1};
  for (StoredTensor& tensor : gguf_.tensors) {
    if (tensor.name == "output_norm.weight") tensor.bytes = std::as_bytes(std::span(scale));
  }
  EXPECT_EQ(error_of([&] { (void)gguf_model(gguf_); }),
            "f: tensor \"output_norm.weight\" number 3, expected a finite number, got nan");
}

// A head that is saved although it is the embedding, and names without a prefix.
TEST(HfFolder, names_may_lack_their_prefix) {
  const Copy copy("qwen2");
  std::string bytes = read_bytes(copy / "model.safetensors");
  const std::string hash = load_model_path(copy / ".").sha256;
  for (std::size_t at = bytes.find("\"model."); at != bytes.npos; at = bytes.find("\"model.")) {
    const std::size_t end = bytes.find('"', at + 1) + 1;
    std::string name = bytes.substr(at, end - at);
    name = '"' + name.substr(7) + "      ";  // JSON may have blanks behind a key
    bytes.replace(at, end - at, name);
  }
  write_bytes(copy / "model.safetensors", bytes);
  EXPECT_EQ(load_model_path(copy / ".").sha256, hash);
}

TEST(HfFolder, a_plain_file_is_no_model) {
  const Copy copy("qwen2");
  EXPECT_EQ(copy.error("config.json"),
            "m/config.json: model, expected a folder or a .gguf file, got a file");
}

}  // namespace
}  // namespace kvcheck
