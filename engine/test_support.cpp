// SPDX-License-Identifier: MIT
// Temporary folders and small models for tests.
#include "engine/test_support.h"

#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "engine/error.h"

namespace kvcheck {
namespace {

// SplitMix64: the i-th number of a stream is a function of seed and i alone.
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  int from_1_to(unsigned most) { return 1 + static_cast<int>(next() % most); }
  bool coin() { return (next() & 1U) != 0; }

 private:
  std::uint64_t state_;
};

float finite_float(std::uint64_t random) {
  auto bits = static_cast<std::uint32_t>(random);
  constexpr std::uint32_t kExponent = 0x7f800000U;
  if ((bits & kExponent) == kExponent) bits &= ~0x40000000U;
  if (random >> 60U == 0) bits &= 0x80000000U;  // one in 16 is a zero
  if (random >> 60U == 1) bits &= 0x807fffffU;  // and one is subnormal
  return std::bit_cast<float>(bits);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kvcheck-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_in(const TemporaryFolder& folder, const std::function<void()>& action) {
  std::string message = error_of(action);
  const std::string prefix = folder.path().string() + "/";
  for (std::size_t at = message.find(prefix); at != message.npos; at = message.find(prefix)) {
    message.erase(at, prefix.size());
  }
  return message;
}

std::string replaced(std::string text, const std::pair<std::string, std::string>& by) {
  const std::size_t at = text.find(by.first);
  if (at == text.npos) throw std::logic_error("nothing to replace: " + by.first);
  return text.replace(at, by.first.size(), by.second);
}

Config tiny_config() {
  Config c;
  c.vocabulary = 2;
  c.width = c.layers = c.query_heads = c.kv_heads = c.head_size = c.mlp_width = 1;
  c.context = 4;
  c.norm = Norm::rms;
  c.positions = Positions::none;
  c.windows = {0};
  return c;
}

Config random_config(std::uint64_t seed) {
  Stream random(seed);
  Config c;
  c.vocabulary = random.from_1_to(9);
  c.width = random.from_1_to(6);
  c.layers = random.from_1_to(3);
  c.kv_heads = random.from_1_to(2);
  c.query_heads = c.kv_heads * random.from_1_to(3);
  c.head_size = 2 * random.from_1_to(3);
  c.mlp_width = random.from_1_to(7);
  c.context = random.from_1_to(8);
  c.norm = random.coin() ? Norm::layer : Norm::rms;
  c.norm_epsilon = 1e-9 * random.from_1_to(900'000'000);
  c.positions =
      random.coin() ? Positions::rotary : (random.coin() ? Positions::learned : Positions::none);
  c.rotary_pairs = random.coin() ? RotaryPairs::interleaved : RotaryPairs::halves;
  if (random.from_1_to(4) == 1) c.positions = Positions::alibi;
  c.rotary_base = 1.0 + 0.1 * random.from_1_to(1'000'000);
  if (random.coin()) c.rotary_base_windowed = 1.1 + 0.1 * random.from_1_to(1'000'000);
  if (random.coin()) c.rotary_dimensions = 2 * random.from_1_to(c.head_size / 2);
  c.head_norm = random.coin();
  if (random.coin()) c.attention_cap = 0.1 * random.from_1_to(1'000);
  if (random.coin()) c.logit_cap = 0.1 * random.from_1_to(1'000);
  if (random.coin()) c.embedding_scale = 0.1 * random.from_1_to(1'000);
  c.mlp = random.coin() ? Mlp::gelu_tanh : Mlp::swiglu;
  c.qkv_bias = random.coin();
  c.attention_output_bias = random.coin();
  c.mlp_bias = random.coin();
  c.output = random.coin() ? Output::tied : Output::separate;
  if (random.coin()) c.mlp = Mlp::geglu;
  c.post_norms = random.coin();
  if (random.coin()) c.score_size = 0.1 * random.from_1_to(1'000);
  for (int pair = 0; c.positions == Positions::rotary && pair < c.rotated() / 2; ++pair) {
    c.rotary_divisors.push_back(0.1 * random.from_1_to(1'000));
  }
  for (int l = 0; l < c.layers; ++l) c.windows.push_back(random.from_1_to(4) - 1);
  return c;
}

Model<float> random_model(const Config& config, std::uint64_t seed) {
  Stream random(seed);
  Model<float> model = make_model<float>(config);
  for (const auto& tensor : tensors(model)) {
    for (float& value : tensor.values) value = finite_float(random.next());
  }
  tie_output(model);
  return model;
}

std::string weight_bits(const Model<float>& model) {
  std::string bits;
  for (const auto& tensor : tensors(model)) {
    bits.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes());
  }
  return bits;
}

}  // namespace kvcheck
