// SPDX-License-Identifier: MIT
// Trials of generation, and the probe that runs them.
#include "verify/generation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/generated.h"
#include "engine/model_file.h"
#include "engine/random.h"
#include "verify/generation_invariants.h"

namespace kvcheck {
namespace {

// ---- One trial

class Trial {
 public:
  Trial(Bench& bench, const GenerationRequest& request)
      : bench_(bench), config_(bench.model.weights.config), request_(request) {
    trial_.uncached = generate_uncached(*bench.engine, request, KeepLogits::yes);
  }

  GenerationTrial with(Generation cached) {
    trial_.cached = std::move(cached);
    account_for(trial_.uncached, false);
    account_for(trial_.cached, true);
    find_first();
    measure_rows();
    return std::move(trial_);
  }

  GenerationTrial without(const BadLogits& error) {
    account_for(trial_.uncached, false);
    wrong(fmt::format("with the cache: {}; not so without", error.what()));
    return std::move(trial_);
  }

 private:
  void wrong(std::string what) {
    if (trial_.note.empty()) trial_.note = std::move(what);
  }

  void account_for(const Generation& generation, bool cached) {
    GenerationRequest request = request_;
    if (!cached) request.join = 0;
    trial_.facts += static_cast<int>(generation_invariants().size());
    const std::string violated = violated_invariant(
        {request, generation, config_.context, config_.vocabulary, cached}, bench_.invariants);
    if (violated.empty()) return;
    wrong(fmt::format("{} a cache: {}", cached ? "with" : "without", violated));
  }

  void find_first() {
    const std::vector<GenerationStep>& a = trial_.uncached.steps;
    const std::vector<GenerationStep>& b = trial_.cached.steps;
    trial_.facts += 2;  // the tokens, and why they end
    const std::size_t both = std::min(a.size(), b.size());
    for (std::size_t i = 0; i < both; ++i) {
      if (a[i].token != b[i].token) return decide(i);
    }
    if (a.size() == b.size() && trial_.uncached.stop == trial_.cached.stop) return;
    trial_.first = static_cast<int>(both) - 1;
    wrong(fmt::format("step {}: {} without a cache, {} with", both, how_on(trial_.uncached, both),
                      how_on(trial_.cached, both)));
  }

  static std::string how_on(const Generation& generation, std::size_t steps) {
    if (generation.steps.size() > steps) return "goes on";
    return fmt::format("stops ({})", name(generation.stop));
  }

  // Two tokens, from the same ones before.
  void decide(std::size_t i) {
    trial_.first = static_cast<int>(i);
    const auto seen = std::span<const int>(trial_.uncached.tokens)
                          .first(static_cast<std::size_t>(trial_.uncached.prompt) + i);
    const DrawPlace place{request_.seed, i};
    trial_.decision = compare_decisions(request_.policy, seen, trial_.uncached.logits[i],
                                        trial_.cached.logits[i], place);
    if (trial_.decision->tie && bench_.arithmetic == Arithmetic::matrix) return;
    wrong(
        fmt::format("step {}: token {} without a cache, {} with; {} {:.3g}, which differs by "
                    "{:.3g}",
                    i + 1, trial_.uncached.steps[i].token, trial_.cached.steps[i].token,
                    trial_.decision->by, trial_.decision->margin, trial_.decision->change));
  }

  void measure_rows() {
    const std::size_t both = std::min(trial_.uncached.steps.size(), trial_.cached.steps.size());
    const std::size_t count = trial_.first ? static_cast<std::size_t>(*trial_.first) + 1 : both;
    bool differ = bench_.arithmetic == Arithmetic::matrix;
    for (std::size_t i = 0; i < count; ++i) {
      MeasuredRow row;
      row.position = trial_.uncached.steps[i].position;
      row.comparison =
          compare_rows(trial_.uncached.logits[i], trial_.cached.logits[i], bench_.scalar);
      differ = differ || !row.comparison.same_bits;
      if (bench_.keep_rows) {
        row.uncached = trial_.uncached.logits[i];
        row.cached = trial_.cached.logits[i];
      }
      trial_.rows.push_back(std::move(row));
    }
    if (bench_.noise && differ && count > 0) measure_floors();
  }

  void measure_floors() {
    Logits uncached{config_.vocabulary, {}};
    for (std::size_t i = 0; i < trial_.rows.size(); ++i) {
      const std::vector<double>& row = trial_.uncached.logits[i];
      uncached.values.insert(uncached.values.end(), row.begin(), row.end());
    }
    const auto tokens = std::span<const int>(trial_.uncached.tokens)
                            .first(static_cast<std::size_t>(trial_.rows.back().position) + 1);
    std::vector<NoiseFloor> floors;
    bench_.noise->floors(TokenBlock{tokens}, uncached, bench_.seed, floors);
    for (std::size_t i = 0; i < trial_.rows.size(); ++i) trial_.rows[i].floor = floors[i];
  }

  Bench& bench_;
  const Config& config_;
  const GenerationRequest& request_;
  GenerationTrial trial_;
};

// ---- What is drawn

DecodingPolicy draw_policy(Draw& draw, int vocabulary) {
  DecodingPolicy policy;
  if (draw.next_one_in(3)) policy.penalty = draw.next_of({0.8, 1.2, 2.0});
  if (draw.next_one_in(4)) return policy;
  policy.temperature = draw.next_of({0.25, 0.7, 1.0, 1.5, 4.0});
  if (draw.next_one_in(2)) policy.top_k = draw.next_in({1, std::min(vocabulary, 40)});
  if (draw.next_one_in(2)) policy.top_p = draw.next_of({0.1, 0.5, 0.9, 0.99, 1.0});
  if (draw.next_one_in(4)) policy.min_p = draw.next_of({0.01, 0.1, 0.5});
  return policy;
}

GenerationRequest draw_request(Draw& draw, int vocabulary) {
  GenerationRequest request;
  request.policy = draw_policy(draw, vocabulary);
  request.seed = draw.next_bits();
  request.steps = draw.next_in({1, kGenerationSteps});
  if (draw.next_one_in(2)) request.eos = draw.next_below(vocabulary);
  return request;
}

std::uint64_t number_of(std::span<const int> tokens) {
  std::uint64_t sum = tokens.size();
  for (const int token : tokens) sum = mix(sum ^ static_cast<std::uint64_t>(token + 1));
  return sum;
}

// ---- The probe

// Visits the prefixes of a scope, depth first.
void each_prefix(const Probe& probe, const PrefixTree::Node& node, std::vector<int>& path,
                 const std::function<void(std::span<const int>)>& visit) {
  for (const PrefixTree::Child& child : probe.tree.children(node)) {
    const int depth = node.depth + 1;
    if (!probe.scope.enters(depth, child.token)) continue;
    path.push_back(child.token);
    if (probe.scope.visits(depth)) visit(path);
    each_prefix(probe, child.node, path, visit);
    path.pop_back();
  }
}

// Of how many prefixes one is a prompt.
std::int64_t prompt_one_in(const Probe& probe) {
  if (probe.scope.path_only) return 1;
  const std::int64_t longest = std::max(1, probe.tree.depth_max());
  const std::int64_t wanted = std::clamp<std::int64_t>(
      kGenerationPrompts * kGenerationLength / longest, 2, kGenerationPrompts);
  return std::max<std::int64_t>(1, probe.tree.count() / wanted);
}

// The same ones whatever else is run; those of one token always, so that there is one.
bool is_prompt(std::span<const int> prefix, std::int64_t one_in) {
  return prefix.size() == 1 || number_of(prefix) % static_cast<std::uint64_t>(one_in) == 0;
}

// Beside one that goes on longer, if the context lets it: what has stopped does not grow or change,
// and in row arithmetic returns what it does alone. The first thing that is wrong; empty: nothing.
std::string wrong_beside(Bench& bench, const GenerationRequest& request, const Generation& alone) {
  if (!bench.engine->hello().can.batch) return "";
  const Config& config = bench.model.weights.config;
  const std::array requests{
      request, GenerationRequest{.prompt = {request.prompt[0]}, .steps = kGenerationSteps + 1}};
  const std::vector<Generation> both = generate_batch(*bench.engine, requests);
  const bool outlived = both[0].steps.size() < both[1].steps.size();
  const std::string violated = violated_invariant(
      {request, both[0], config.context, config.vocabulary, true, outlived}, bench.invariants);
  if (!violated.empty()) return fmt::format("in a batch: {}", violated);
  if (bench.arithmetic == Arithmetic::row && both[0].tokens != alone.tokens) {
    return fmt::format("in a batch: tokens {}, alone {}", fmt::join(both[0].tokens, " "),
                       fmt::join(alone.tokens, " "));
  }
  return "";
}

}  // namespace

GenerationTrial compare_generation(Bench& bench, const GenerationRequest& request,
                                   Generation cached) {
  return Trial(bench, request).with(std::move(cached));
}

GenerationTrial try_generation(Bench& bench, const GenerationRequest& request) {
  Trial trial(bench, request);
  try {
    return trial.with(generate_cached(*bench.engine, request, KeepLogits::yes));
  } catch (const BadLogits& error) {
    return trial.without(error);
  }
}

GenerationRequest drawn_request(const Config& config, std::span<const int> prompt,
                                std::uint64_t seed) {
  Draw draw{seed, stream_of("generation"), number_of(prompt)};
  GenerationRequest request = draw_request(draw, config.vocabulary);
  request.prompt.assign(prompt.begin(), prompt.end());
  return request;
}

RandomGeneration random_generation(std::uint64_t seed, std::uint64_t index) {
  Draw draw{hash(seed, stream_of("random generation"), index), stream_of("its choices")};
  RandomGeneration random;
  const auto all = families();
  const Family& family =
      all[static_cast<std::size_t>(draw.next_below(static_cast<int>(all.size())))];
  const std::uint64_t model_seed = draw.next_bits() >> 32;
  random.data.name = generated_name(family, model_seed);
  random.data.weights = generate_model(family, model_seed);
  random.model = random.data.name;
  const Config& config = random.data.weights.config;
  random.setup = {ScalarKind::f32, draw.next_one_in(2) ? Arithmetic::row : Arithmetic::matrix};
  const auto kinds = cache_kinds();
  random.setup.cache =
      kinds[static_cast<std::size_t>(draw.next_below(static_cast<int>(kinds.size())))];
  random.request = draw_request(draw, config.vocabulary);
  const int length = draw.next_in({1, config.context});
  random.request.prompt = random_tokens(config.vocabulary, length, draw.next_bits(), 0);
  return random;
}

std::string generate_line(const std::string& model, const EngineSetup& setup,
                          const GenerationRequest& request) {
  std::string line =
      fmt::format("kvcheck generate {} --tokens {} --policy {} --seed {} --eos {}",
                  shell_word(model), fmt::join(request.prompt, ","), to_text(request.policy),
                  request.seed, request.eos ? fmt::format("{}", *request.eos) : "none");
  line += fmt::format(" --steps {} --arithmetic {} --scalar {} --cache-kind {}", request.steps,
                      name(setup.arithmetic), name(setup.scalar), name(setup.cache));
  return line;
}

void probe_generation(Bench& bench, const Probe& probe, const Sink& sink) {
  const std::int64_t one_in = prompt_one_in(probe);
  std::vector<int> path;
  each_prefix(probe, probe.tree.root(), path, [&](std::span<const int> prefix) {
    if (probe.stop != nullptr && probe.stop->load(std::memory_order_relaxed)) throw Stopped{};
    if (!is_prompt(prefix, one_in)) return;
    const Schedule schedule = single_schedule(static_cast<int>(prefix.size()));
    const GenerationRequest request = drawn_request(bench.model.weights.config, prefix, bench.seed);
    try {
      GenerationTrial trial = try_generation(bench, request);
      ++trial.facts;
      if (trial.note.empty()) trial.note = wrong_beside(bench, request, trial.cached);
      if (!trial.note.empty()) {
        const EngineSetup setup{bench.scalar, bench.arithmetic, bench.cache};
        trial.note += "; " + generate_line(bench.model.name, setup, request);
      }
      sink({prefix, schedule, trial.rows, trial.facts, trial.note, trial.tied()});
    } catch (const EngineError& error) {
      throw ProbeFailure{{prefix.begin(), prefix.end()}, schedule, error.what()};
    }
  });
}

}  // namespace kvcheck
