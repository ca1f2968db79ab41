// SPDX-License-Identifier: MIT
// Model folders are loaded, saved, checksummed and found.
#include "engine/model_file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>

#include "engine/sha256.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const std::string& bytes) { return sha256(std::as_bytes(std::span(bytes))); }

// A folder with a model of two words in it, nothing else.
class ModelFolder : public testing::Test {
 protected:
  ModelFolder() { save_model(folder.path(), random_model(tiny_config(), 1)); }

  void write(std::string_view name, std::string_view bytes) const {
    write_bytes(folder / name, bytes);
  }
  [[nodiscard]] ModelData load() const { return load_model_folder(folder.path()); }
  [[nodiscard]] std::string load_error() const {
    return error_in(folder, [&] { (void)load(); });
  }

  TemporaryFolder folder;
};

TEST_F(ModelFolder, needs_no_more_than_configuration_and_weights) {
  const ModelData data = load();
  EXPECT_EQ(data.name, folder.path().string());
  EXPECT_EQ(data.weights.config, tiny_config());
  EXPECT_EQ(weight_bits(data.weights), weight_bits(random_model(tiny_config(), 1)));
  EXPECT_EQ(data.sha256, model_sha256(data.weights));
  EXPECT_TRUE(data.words.empty());
  EXPECT_TRUE(data.corpus.empty());
  EXPECT_EQ(data.contract_abs, std::nullopt);
  EXPECT_EQ(data.published, std::nullopt);
  EXPECT_EQ(data.golden, nullptr);
}

TEST_F(ModelFolder, may_hold_words_corpus_promises_and_golden_logits) {
  write("vocabulary.txt", "yes\nno\n");
  write("corpus.txt", "# two of them\nyes no yes\n1 1\n");
  write("golden.f64", std::string(30 * 2 * sizeof(double), '\0'));  // 2 + 4 + 8 + 16 rows
  write("manifest.json", R"({"contract": {"abs": 1e-5}, "published":
    {"max_abs_difference": 3e-6, "source": "a page"}, "seed": 3})");
  const ModelData data = load();
  EXPECT_EQ(data.words, (std::vector<std::string>{"yes", "no"}));
  EXPECT_EQ(data.corpus, (std::vector<std::vector<int>>{{0, 1, 0}, {1, 1}}));
  EXPECT_EQ(data.contract_abs, 1e-5);
  EXPECT_EQ(data.published, (Published{3e-6, "a page"}));
  ASSERT_NE(data.golden, nullptr);
  EXPECT_EQ(data.golden->row(std::vector<int>{1, 1, 1, 1}).size(), 2U);
}

TEST_F(ModelFolder, golden_logits_of_another_size_are_an_error) {
  write("golden.f64", std::string(30 * 2 * sizeof(double) - 1, '\0'));
  EXPECT_EQ(load_error(), "golden.f64: size, expected 30 rows of 2 float64, got 479 bytes");
}

TEST_F(ModelFolder, a_corpus_of_ids_needs_no_words) {
  write("corpus.txt", "0 1\n");
  EXPECT_EQ(load().corpus, (std::vector<std::vector<int>>{{0, 1}}));
}

TEST_F(ModelFolder, without_a_folder_is_an_error) {
  EXPECT_EQ(error_in(folder, [&] { (void)load_model_folder(folder / "none"); }),
            "none: model, expected a folder or a .gguf file, got none");
  EXPECT_EQ(error_in(folder, [&] { (void)load_model_folder(folder / "config.json"); }),
            "config.json: model, expected a folder or a .gguf file, got a file");
}

TEST_F(ModelFolder, of_a_gguf_file_alone_says_that_the_file_is_the_model) {
  fs::remove(folder / "config.json");
  write("tiny.gguf", "");
  write("zebra.gguf", "");
  fs::create_directory(folder / "a.gguf");
  EXPECT_EQ(load_error(),
            "config.json: file, expected it, or the name of a .gguf file instead of a folder, got "
            "a folder that holds tiny.gguf");
}

TEST_F(ModelFolder, without_one_of_the_two_files_is_an_error) {
  fs::remove(folder / "model.safetensors");
  EXPECT_EQ(load_error(), "model.safetensors: file, expected a readable regular file, got none");
  fs::remove(folder / "config.json");
  EXPECT_EQ(load_error(), "config.json: file, expected a readable regular file, got none");
}

TEST_F(ModelFolder, names_the_file_that_is_wrong) {
  write("corpus.txt", "0 1\n0 2\n");
  EXPECT_EQ(load_error(), "corpus.txt:2: token id, expected 0 to 1, got 2");
  write("vocabulary.txt", "yes\n");
  EXPECT_EQ(load_error(), "vocabulary.txt: words, expected 2, the vocabulary, got 1");
  write("config.json", "{}");
  EXPECT_EQ(
      load_error(),
      "config.json: model_type, expected one of gpt2, llama, mistral, qwen2, qwen3, gemma2, or "
      "kvcheck's own format, got none");
  write("manifest.json", "[]");
  EXPECT_EQ(load_error(), "manifest.json: manifest, expected an object, got []");
}

TEST_F(ModelFolder, an_empty_corpus_is_an_error) {
  write("corpus.txt", "\n");
  EXPECT_EQ(load_error(), "corpus.txt: sequences, expected at least one, got none");
}

TEST_F(ModelFolder, an_optional_file_that_is_there_must_be_a_file) {
  fs::create_directory(folder / "corpus.txt");
  EXPECT_EQ(load_error(), "corpus.txt: file, expected a readable regular file, got a folder");
  fs::create_symlink("nowhere", folder / "vocabulary.txt");
  EXPECT_EQ(load_error(), "vocabulary.txt: file, expected a readable regular file, got none");
}

TEST_F(ModelFolder, weights_of_another_configuration_are_an_error) {
  Config other = tiny_config();
  other.vocabulary = 3;
  write("config.json", config_text(other));
  EXPECT_EQ(load_error(),
            "model.safetensors: tensor \"embedding\" shape, expected [3, 1], got [2, 1]");
}

TEST_F(ModelFolder, checksums_are_verified) {
  write("corpus.txt", "0 1\n");
  const std::string hash = hash_of("0 1\n");
  write("manifest.json", R"({"files": {"corpus.txt": ")" + hash + R"("}})");
  EXPECT_EQ(load_error(), "no error");
  write("corpus.txt", "0 9\n");  // changed, and wrong besides: the checksum speaks first
  EXPECT_EQ(load_error(), "corpus.txt: SHA-256, expected " + hash + ", got " + hash_of("0 9\n"));
  fs::remove(folder / "corpus.txt");
  EXPECT_EQ(load_error(), "corpus.txt: file, expected a readable regular file, got none");
}

TEST(SaveModel, makes_the_folder_and_leaves_two_files) {
  const TemporaryFolder folder;
  save_model(folder / "a/b", random_model(tiny_config(), 1));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "a/b")) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(read_bytes(folder / "a/b/config.json"), config_text(tiny_config()) + "\n");
}

TEST(SaveModel, that_fails_leaves_the_old_model) {
  const TemporaryFolder folder;
  save_model(folder.path(), random_model(tiny_config(), 1));
  Config other = tiny_config();
  other.context = 5;
  auto model = random_model(other, 2);
  model.embedding(0, 0) = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_in(folder, [&] { save_model(folder.path(), model); }),
            "model.safetensors: tensor \"embedding\" number 0, expected a finite number, got inf");
  EXPECT_EQ(load_model_folder(folder.path()).sha256, model_sha256(random_model(tiny_config(), 1)));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(SaveModel, refuses_what_load_would_refuse) {
  const TemporaryFolder folder;
  auto model = random_model(tiny_config(), 1);
  model.config.context = 0;
  EXPECT_EQ(error_in(folder, [&] { save_model(folder / "m", model); }),
            "m: context, expected 1 to 16777216, got 0");
  EXPECT_FALSE(fs::exists(folder / "m"));
}

RC_GTEST_PROP(SaveModel, then_load_gives_back_every_bit, (std::uint64_t seed)) {
  const TemporaryFolder folder;
  const auto model = random_model(random_config(seed), seed);
  save_model(folder.path(), model);
  const ModelData data = load_model_folder(folder.path());
  RC_ASSERT(data.weights.config == model.config);
  RC_ASSERT(weight_bits(data.weights) == weight_bits(model));
  RC_ASSERT(data.sha256 == model_sha256(model));
}

TEST(ModelSha256, is_over_the_configuration_text_and_the_weights) {
  const auto model = random_model(random_config(3), 4);
  EXPECT_EQ(model_sha256(model), hash_of(config_text(model.config) + "\n" + weight_bits(model)));
}

RC_GTEST_PROP(ModelSha256, changes_with_any_bit_of_any_weight, (std::uint64_t seed)) {
  auto model = random_model(random_config(seed), seed);
  const std::string before = model_sha256(model);
  const auto weights = tensors(model);
  const auto& tensor = weights[*rc::gen::inRange<std::size_t>(0, weights.size()).as("tensor")];
  const auto at = *rc::gen::inRange<std::size_t>(0, tensor.values.size()).as("number");
  const auto bit = *rc::gen::inRange(0, 32).as("bit");
  float& value = tensor.values[at];
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1U << bit));
  RC_ASSERT(model_sha256(model) != before);
}

TEST(ModelSha256, changes_with_any_value_of_the_configuration) {
  using Change = void (*)(Config&);
  const Change changes[] = {
      [](Config&) {},
      [](Config& c) { c.vocabulary = 3; },
      [](Config& c) { c.width = 2; },
      [](Config& c) { c.layers = 2; },
      [](Config& c) { c.query_heads = 2; },
      [](Config& c) { c.query_heads = c.kv_heads = 2; },
      [](Config& c) { c.head_size = 2; },
      [](Config& c) { c.mlp_width = 2; },
      [](Config& c) { c.context = 5; },
      [](Config& c) { c.norm = Norm::layer; },
      [](Config& c) { c.norm_epsilon = std::nextafter(c.norm_epsilon, 1.0); },
      [](Config& c) { c.positions = Positions::learned; },
      [](Config& c) { c.positions = Positions::rotary; },
      [](Config& c) { c.rotary_pairs = RotaryPairs::interleaved; },
      [](Config& c) { c.rotary_base = std::nextafter(c.rotary_base, 1.0); },
      [](Config& c) { c.mlp = Mlp::swiglu; },
      [](Config& c) { c.qkv_bias = true; },
      [](Config& c) { c.attention_output_bias = true; },
      [](Config& c) { c.mlp_bias = true; },
      [](Config& c) { c.output = Output::separate; },
      [](Config& c) { c.windows = {1}; },
  };
  std::set<std::string> hashes;
  for (const Change change : changes) {
    Config config = tiny_config();
    change(config);
    hashes.insert(model_sha256(make_model<float>(config)));
  }
  EXPECT_EQ(hashes.size(), std::size(changes));
}

// Puts $KVCHECK_FIXTURES back as it was.
class Fixtures : public testing::Test {
 protected:
  Fixtures() {
    if (const char* value = std::getenv("KVCHECK_FIXTURES")) before_ = value;
    ::setenv("KVCHECK_FIXTURES", folder.path().c_str(), 1);
    save_model(folder / "small", random_model(tiny_config(), 1));
    save_model(folder / "other", random_model(tiny_config(), 2));
    fs::create_directory(folder / "malformed");  // has no configuration: no model
    save_model(folder / ".hidden", random_model(tiny_config(), 3));
  }
  ~Fixtures() override {
    if (before_) {
      ::setenv("KVCHECK_FIXTURES", before_->c_str(), 1);
    } else {
      ::unsetenv("KVCHECK_FIXTURES");
    }
  }

  TemporaryFolder folder;

 private:
  std::optional<std::string> before_;
};

TEST_F(Fixtures, are_the_folders_with_a_configuration) {
  EXPECT_EQ(bundled_names(), (std::vector<std::string>{"other", "small"}));
  EXPECT_EQ(bundled_folder("small"), folder / "small");
  EXPECT_EQ(load_model_folder(bundled_folder("other")).sha256,
            model_sha256(random_model(tiny_config(), 2)));
}

TEST_F(Fixtures, of_an_unknown_name_are_an_error_that_lists_the_known_ones) {
  for (const std::string name :
       {"smal", "", ".", "..", "./small", "/small", "small/", "malformed", ".hidden"}) {
    EXPECT_EQ(error_of([&] { (void)bundled_folder(name); }),
              "\"" + name + "\": bundled model, expected one of other, small, got none");
  }
  using namespace std::string_view_literals;
  EXPECT_EQ(error_of([] { (void)bundled_folder("small\0x"sv); }),
            "\"small\\x00x\": bundled model, expected one of other, small, got none");
}

TEST_F(Fixtures, in_the_environment_hide_all_others) {
  ::setenv("KVCHECK_FIXTURES", (folder / "none").c_str(), 1);
  EXPECT_EQ(bundled_names(), std::vector<std::string>{});
  EXPECT_EQ(error_of([] { (void)bundled_folder("chapter8"); }),
            "\"chapter8\": bundled model, expected a model folder, got none");
}

}  // namespace
}  // namespace kvcheck
