// SPDX-License-Identifier: MIT
// One small function for each style of test, done as the project that it stands for does it; only
// the lengths follow the model's context where that is short.
#include "verify/replicas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/error.h"
#include "engine/random.h"
#include "engine/uncached.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

constexpr std::uint64_t kPrompt = 0;  // number of the random sequence that prompts are cut from

// A prompt and what is fed after it, within the context.
struct Lengths {
  int prompt;
  int more;

  [[nodiscard]] int total() const { return prompt + more; }
};

// At least one token each; in a short context both are cut, the prompt no shorter than half.
Lengths lengths(const ReplicaBench& bench, Lengths wanted) {
  const int context = bench.model.weights.config.context;
  const int prompt = std::clamp(wanted.prompt, 1, std::max(1, context / 2));
  return {prompt, std::clamp(wanted.more, 0, context - prompt)};
}

std::vector<int> random_prompt(const ReplicaBench& bench, int length) {
  std::vector<int> tokens = random_sequence(bench.model.weights.config, bench.seed, kPrompt);
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(length)));
  return tokens;
}

std::span<const int> first(const std::vector<int>& tokens, int count) {
  return std::span(tokens).first(static_cast<std::size_t>(count));
}

// Logits of every row without a cache.
Logits recomputed(ReplicaBench& bench, std::span<const int> tokens) {
  Logits logits;
  bench.engine->full({tokens}, Rows::all, logits);
  return logits;
}

Logits fed(ReplicaBench& bench, SequenceId sequence, std::span<const int> tokens) {
  Logits logits;
  bench.engine->feed(sequence, tokens, Rows::all, logits);
  return logits;
}

std::span<const double> last_row(const Logits& logits) { return logits.row(logits.rows() - 1); }

int largest(std::span<const double> row) {
  return static_cast<int>(std::ranges::max_element(row) - row.begin());
}

// |a - b| <= absolute + relative * |b| for every number, as torch, numpy and mlx have it.
struct Close {
  double absolute;
  double relative;

  [[nodiscard]] bool operator()(double a, double b) const {
    return std::abs(a - b) <= absolute + relative * std::abs(b);
  }
  [[nodiscard]] bool operator()(std::span<const double> a, std::span<const double> b) const {
    return std::ranges::equal(a, b, *this);
  }
};

constexpr double kTorchRelative = 1e-5;  // what allclose takes when nothing else is said

// Greedy choices with and without a cache, one after each prefix that grows by the choice.
bool argmax_of_growing_prefixes(ReplicaBench& bench) {
  const Lengths n = lengths(bench, {5, 20});
  std::vector<int> tokens = random_prompt(bench, n.prompt);
  const SequenceId sequence = bench.engine->open();
  Logits cached = fed(bench, sequence, tokens);
  for (int step = 0;; ++step) {
    const int choice = largest(last_row(cached));
    if (choice != largest(last_row(recomputed(bench, tokens)))) return false;
    if (step == n.more) return true;
    tokens.push_back(choice);
    cached = fed(bench, sequence, std::span(tokens).last(1));
  }
}

std::vector<int> generated(ReplicaBench& bench, int count, bool cached) {
  std::vector<int> tokens{0};
  const SequenceId sequence = bench.engine->open();
  for (int step = 0; step < count; ++step) {
    const Logits logits =
        cached ? fed(bench, sequence, std::span(tokens).last(1)) : recomputed(bench, tokens);
    tokens.push_back(largest(last_row(logits)));
  }
  return tokens;
}

bool greedy_tokens(ReplicaBench& bench) {
  constexpr int kTokensMax = 32;
  const int count = std::min(bench.model.weights.config.context, kTokensMax);
  return generated(bench, count, true) == generated(bench, count, false);
}

// All tokens but the last at once, then the last one.
bool last_position(ReplicaBench& bench) {
  const Lengths n = lengths(bench, {8, 1});
  const std::vector<int> tokens = random_prompt(bench, n.total());
  const SequenceId sequence = bench.engine->open();
  Logits cached = fed(bench, sequence, first(tokens, n.prompt));
  if (n.more > 0) cached = fed(bench, sequence, std::span(tokens).last(1));
  return Close{1e-5, 0}(last_row(cached), last_row(recomputed(bench, tokens)));
}

// Where a sequence is cut in two, and the one feature that is looked at.
struct Split {
  std::vector<int> tokens;
  int appended;
  int feature;
};

// Of a sequence of up to 7 + 3 tokens, the last 3 or fewer.
Split random_split(const ReplicaBench& bench, int features) {
  const Lengths n = lengths(bench, {7, 3});
  Draw draw{bench.seed, stream_of("replica split"), 0};
  return {random_prompt(bench, n.total()), n.more, draw.next_below(features)};
}

bool one_random_split(ReplicaBench& bench) {
  const Split split = random_split(bench, bench.model.weights.config.vocabulary);
  const SequenceId sequence = bench.engine->open();
  const int held = static_cast<int>(split.tokens.size()) - split.appended;
  (void)fed(bench, sequence, first(split.tokens, held));
  if (split.appended == 0) return true;
  const Logits cached =
      fed(bench, sequence, std::span(split.tokens).last(static_cast<std::size_t>(split.appended)));
  const Logits full = recomputed(bench, split.tokens);
  for (int row = 0; row < split.appended; ++row) {
    const auto at = static_cast<std::size_t>(split.feature);
    const double right = full.row(held + row)[at];
    if (!Close{1e-3, kTorchRelative}(cached.row(row)[at], right)) return false;
  }
  return true;
}

bool shapes_and_offsets(ReplicaBench& bench) {
  const Lengths n = lengths(bench, {8, 2});
  const std::vector<int> tokens = random_prompt(bench, n.total());
  const SequenceId sequence = bench.engine->open();
  for (int held = 0; held < n.total();) {
    const int count = held == 0 ? n.prompt : 1;
    const Logits logits = fed(
        bench, sequence,
        std::span(tokens).subspan(static_cast<std::size_t>(held), static_cast<std::size_t>(count)));
    held += count;
    if (logits.rows() != count || bench.engine->held(sequence).rows != held ||
        logits.vocabulary != bench.model.weights.config.vocabulary) {
      return false;
    }
  }
  return true;
}

// What the decoder without a cache has at Site::embedding, row after row.
std::vector<double> embedded(const ReplicaBench& bench, std::span<const int> tokens) {
  std::vector<double> rows;
  const Observer<float> observer(
      [&](const SiteTensor<float>& tensor) {
        for (int r = 0; r < tensor.rows; ++r) {
          for (int c = 0; c < tensor.columns; ++c) rows.push_back(tensor.at(r, c));
        }
      },
      SiteSet().with(Site::embedding));
  Uncached<float> uncached(bench.model.weights, ops_for<float>(Arithmetic::matrix));
  (void)uncached.logits({tokens}, Rows::all, &observer);
  return rows;
}

// The first of all hidden states instead of the last: no layer has been at work yet.
bool embedding_output(ReplicaBench& bench) {
  const int width = bench.model.weights.config.width;
  const Split split = random_split(bench, width);
  const SequenceId sequence = bench.engine->open();
  const int held = static_cast<int>(split.tokens.size()) - split.appended;
  bench.embedded->clear();
  (void)fed(bench, sequence, first(split.tokens, held));
  if (split.appended > 0) {
    (void)fed(bench, sequence,
              std::span(split.tokens).last(static_cast<std::size_t>(split.appended)));
  }
  const std::vector<double> full = embedded(bench, split.tokens);
  if (bench.embedded->size() != full.size()) return false;
  for (int row = held; row < held + split.appended; ++row) {
    const auto at = static_cast<std::size_t>(row * width + split.feature);
    if (!Close{1e-3, kTorchRelative}((*bench.embedded)[at], full[at])) return false;
  }
  return true;
}

double normalised_error(std::span<const double> a, std::span<const double> b) {
  double apart = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    size += a[i] * a[i];
  }
  if (size > 0) return apart / size;
  return apart == 0 ? 0 : std::numeric_limits<double>::infinity();
}

// A sequence beside its copies, loaded and forked after the prompt: no oracle, only another cache.
bool restored_sequences(ReplicaBench& bench) {
  Engine& engine = *bench.engine;
  const Lengths n = lengths(bench, {100, 16});
  const SequenceId baseline = engine.open();
  Logits logits = fed(bench, baseline, random_prompt(bench, n.prompt));
  std::vector<SequenceId> copies;
  if (engine.hello().can.state) copies.push_back(engine.load(engine.save(baseline)));
  if (engine.hello().can.fork) copies.push_back(engine.fork(baseline));
  for (int step = 0; step < n.more; ++step) {
    const std::vector<int> token{largest(last_row(logits))};
    logits = fed(bench, baseline, token);
    for (const SequenceId copy : copies) {
      const Logits again = fed(bench, copy, token);
      if (!(normalised_error(last_row(logits), last_row(again)) <= 1e-5)) return false;
    }
  }
  return true;
}

// The last row of the prompt, and that of one further token.
bool prompt_and_one_token(ReplicaBench& bench, const Close& close) {
  const Lengths n = lengths(bench, {8, 1});
  const std::vector<int> tokens = random_prompt(bench, n.total());
  const Logits full = recomputed(bench, tokens);
  const SequenceId sequence = bench.engine->open();
  const Logits prompt = fed(bench, sequence, first(tokens, n.prompt));
  if (!close(last_row(prompt), full.row(n.prompt - 1))) return false;
  if (n.more == 0) return true;
  return close(last_row(fed(bench, sequence, std::span(tokens).last(1))), last_row(full));
}

bool allclose_loose(ReplicaBench& bench) { return prompt_and_one_token(bench, {0.4, 0.4}); }

bool absolute_limit(ReplicaBench& bench) { return prompt_and_one_token(bench, {1e-3, 0}); }

bool every_prefix_of_one_sequence(ReplicaBench& bench) {
  constexpr int kTokens = 12;
  const int count = std::min(kTokens, bench.model.weights.config.context);
  const std::vector<int> tokens = random_prompt(bench, count);
  const Logits full = recomputed(bench, tokens);
  const SequenceId sequence = bench.engine->open();
  for (int row = 0; row < count; ++row) {
    const Logits cached =
        fed(bench, sequence, std::span(tokens).subspan(static_cast<std::size_t>(row), 1));
    if (!Close{1e-3, 1e-3}(last_row(cached), full.row(row))) return false;
  }
  return true;
}

constexpr std::array kReplicas{
    Replica{"argmax", "largest logit of 20 growing prefixes of one sequence",
            "litgpt test_kv_cache", argmax_of_growing_prefixes},
    Replica{"greedy-tokens", "32 greedy tokens after the first word",
            "llama2.c test_argmax_inference, torchtune parity", greedy_tokens},
    Replica{"last-position", "last row of one prompt, all but its last token at once, 1e-5",
            "llama-runtime RuntimeVerifier; last rows: transformers left padding", last_position},
    Replica{"one-split", "3 tokens after one prompt, one random logit of each, 1e-3",
            "transformers past_large_inputs (BART and others)", one_random_split},
    Replica{"shapes", "numbers of rows, columns and rows held",
            "mlx-lm sliding window of Llama, gemma.cpp, onnxruntime-genai", shapes_and_offsets},
    Replica{"embedding", "as one-split, of the embedding's output",
            "transformers past_large_inputs (copies of Llama's)", embedding_output},
    Replica{"nmse-1e-5", "16 tokens of a loaded and a forked sequence beside the original",
            "llama.cpp test-save-load-state", restored_sequences},
    Replica{"allclose-0.4", "last rows of 8 tokens and of one more, rtol = atol = 0.4",
            "TensorRT-LLM test_llama_allclose_to_hf", allclose_loose},
    Replica{"abs-1e-3", "last rows of 8 tokens and of one more, 1e-3",
            "ONNX Runtime llama_parity (float32)", absolute_limit},
    Replica{"every-prefix", "each prefix of one sequence of 12, token by token, 1e-3",
            "mlx-lm test_llama4_chunked_kv_cache", every_prefix_of_one_sequence},
};

}  // namespace

std::span<const Replica> replicas() { return kReplicas; }

ReplicaBench make_replica_bench(const ModelData& model, const CacheKind& cache, std::uint64_t seed,
                                const FaultVariant& variant,
                                const std::shared_ptr<FaultTrace>& trace) {
  ReplicaBench bench{model, seed, nullptr};
  const SiteWatch watch{SiteSet().with(Site::embedding),
                        [to = bench.embedded](Site, int, const std::vector<double>& values) {
                          to->insert(to->end(), values.begin(), values.end());
                        }};
  bench.engine = start_engine(faulty_engine(variant, trace, Tells::all, watch), model,
                              {ScalarKind::f32, Arithmetic::matrix, cache});
  return bench;
}

ReplicaResult run_replica(const Replica& replica, ReplicaBench& bench) {
  try {
    return {replica.passes(bench)};
  } catch (const Error& error) {
    return {false, error.what()};
  } catch (const EngineError& error) {
    return {false, error.what()};
  }
}

}  // namespace kvcheck
