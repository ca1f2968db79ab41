// SPDX-License-Identifier: MIT
// The kinds of questions. What is asked for is computed by whoever decides it in a run: formulas of
// engine/cost.h, step plans, policies, generations, shapes as recorded, the table of faults.
#include "verify/quiz.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/builtin.h"
#include "engine/cost.h"
#include "engine/features.h"
#include "engine/generate.h"
#include "engine/generated.h"
#include "engine/policy.h"
#include "engine/step_plan.h"
#include "verify/faults.h"
#include "verify/shapes.h"

namespace kvcheck {
namespace {

constexpr int kNumberBytes = 4;  // of float32

// ---- What is asked about

Config small_config(Draw& draw) {
  Config config;
  config.vocabulary = draw.next_of({8, 16, 32});
  config.kv_heads = draw.next_of({1, 2, 4});
  config.query_heads = config.kv_heads * draw.next_of({1, 2, 4});
  config.head_size = draw.next_of({4, 8});
  config.width = config.query_width();
  config.mlp_width = 4 * config.width;
  config.layers = draw.next_in({1, 4});
  config.context = draw.next_of({8, 16, 32});
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  validate(config, "quiz");
  return config;
}

Config windowed_config(Draw& draw) {
  Config config = small_config(draw);
  std::ranges::fill(config.windows, draw.next_in({2, 6}));
  return config;
}

std::string plural(int count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string heads_text(const Config& c) {
  return fmt::format("{}, {} and {} of size {}", plural(c.layers, "layer"),
                     plural(c.query_heads, "query head"), plural(c.kv_heads, "K/V head"),
                     c.head_size);
}

std::string row_formula(const Config& c, std::string_view rows, int bytes) {
  return fmt::format("{} x 2 (key and value) x {} rows x {} x {} numbers x {}",
                     plural(c.layers, "layer"), rows, plural(c.kv_heads, "K/V head"), c.head_size,
                     plural(bytes, "byte"));
}

int rows_of(Draw& draw, const Config& config) { return draw.next_in({3, config.context}); }

std::string numbers(const std::vector<int>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}

// ---- Memory

Question ask_cache_bytes(Draw& draw) {
  const Config config = small_config(draw);
  const int rows = rows_of(draw, config);
  return {
      fmt::format("{}, float32: how many bytes do {} rows of a cache take?", heads_text(config),
                  rows),
      cache_kind_bytes(config, {}, rows, kNumberBytes).held.digits(),
      row_formula(config, fmt::format("{}", rows), kNumberBytes) + "; query heads do not count"};
}

Question ask_paged_bytes(Draw& draw) {
  const Config config = small_config(draw);
  const CacheKind kind{.layout = CacheLayout::paged, .block = draw.next_of({2, 4, 8})};
  const int rows = rows_of(draw, config);
  return {fmt::format("{}, float32, pages of {} rows: how many bytes are set aside for {} rows?",
                      heads_text(config), kind.block, rows),
          cache_kind_bytes(config, kind, rows, kNumberBytes).taken.digits(),
          "whole pages: " +
              row_formula(config, fmt::format("({} rounded up to pages of {})", rows, kind.block),
                          kNumberBytes)};
}

Question ask_growing_bytes(Draw& draw) {
  const Config config = small_config(draw);
  const int rows = rows_of(draw, config);
  const CacheKind kind{.layout = CacheLayout::growing};
  return {fmt::format("{}, float32, context {}, a cache that begins with one row and doubles: how "
                      "many bytes has it set aside when it holds {} rows?",
                      heads_text(config), config.context, rows),
          cache_kind_bytes(config, kind, rows, kNumberBytes).taken.digits(),
          "a power of two of rows: " +
              row_formula(config, fmt::format("({} rounded up to a power of two)", rows),
                          kNumberBytes)};
}

Question ask_ring_bytes(Draw& draw) {
  const Config config = windowed_config(draw);
  const int rows = draw.next_in({config.windows[0], config.context});
  const CacheKind kind{.layout = CacheLayout::ring};
  return {
      fmt::format("{}, float32, a window of {} in every layer, kept in rings: how many bytes "
                  "hold rows after {} tokens?",
                  heads_text(config), config.windows[0], rows),
      cache_kind_bytes(config, kind, rows, kNumberBytes).held.digits(),
      "a ring holds no more than the window: " +
          row_formula(config, fmt::format("{}", std::min(rows, config.windows[0])), kNumberBytes)};
}

Question ask_half_bytes(Draw& draw) {
  const Config config = small_config(draw);
  const int rows = rows_of(draw, config);
  const CacheKind kind{.format = draw.next_one_in(2) ? RowFormat::bf16 : RowFormat::f16};
  return {fmt::format("{}, rows stored as {}: how many bytes do {} of them take?",
                      heads_text(config), name(kind), rows),
          cache_kind_bytes(config, kind, rows, kNumberBytes).held.digits(),
          row_formula(config, fmt::format("{}", rows), 2)};
}

// ---- Work

Question ask_scores_of_decode(Draw& draw) {
  const Config config = small_config(draw);
  const int held = rows_of(draw, config) - 1;
  const Work work = work_of(config, {.held = held}).total();
  return {
      fmt::format("{}: how many multiply-adds do scores and sums of values take in a step of "
                  "one token after {} rows?",
                  heads_text(config), held),
      work.attention.digits(),
      fmt::format("{} x {} x {} visible rows x {} dimensions x 2", plural(config.layers, "layer"),
                  plural(config.query_heads, "query head"), held + 1, config.head_size)};
}

Question ask_mlp_of_decode(Draw& draw) {
  const Config config = small_config(draw);
  const int held = draw.next_in({1, config.context - 1});
  const Work work = work_of(config, {.held = held}).total();
  return {fmt::format("{}, width {}, MLP {} wide without a gate: how many multiply-adds does the "
                      "MLP take in a step of one token after {} rows?",
                      plural(config.layers, "layer"), config.width, config.mlp_width, held),
          work.mlp.digits(),
          fmt::format("{} x 2 matrices x {} x {}, however many rows are held",
                      plural(config.layers, "layer"), config.width, config.mlp_width)};
}

Question ask_visible_pairs(Draw& draw) {
  const int window = draw.next_one_in(2) ? 0 : draw.next_in({2, 5});
  const int tokens = draw.next_in({3, 12});
  const std::string seen =
      window == 0 ? "all tokens up to itself" : fmt::format("itself and {} before it", window - 1);
  return {fmt::format("{} tokens are fed to an empty cache, each query sees {}: how many pairs of "
                      "query and key are visible in a layer?",
                      tokens, seen),
          visible_pairs(0, tokens, window).digits(),
          window == 0 ? fmt::format("1 + 2 + ... + {}", tokens)
                      : fmt::format("1 + 2 + ... up to {} each, {} queries", window, tokens)};
}

Question ask_rows_read(Draw& draw) {
  const Config config = draw.next_one_in(2) ? small_config(draw) : windowed_config(draw);
  const int held = rows_of(draw, config) - 1;
  const int window = config.windows[0];
  const int visible = window == 0 ? held + 1 : std::min(held + 1, window);
  return {fmt::format("{}, {}: how many K/V rows does a step of one token read, all layers, when "
                      "{} are held before?",
                      plural(config.layers, "layer"),
                      window == 0 ? "no window" : fmt::format("a window of {}", window), held),
          row_traffic(config, {.held = held}).read.digits(),
          fmt::format("{} x {} visible rows, its own among them", plural(config.layers, "layer"),
                      visible)};
}

Question ask_rows_written(Draw& draw) {
  const Config config = small_config(draw);
  const int held = draw.next_in({1, config.context - 2});
  const int tokens = draw.next_in({1, config.context - held});
  return {fmt::format("{}, {} rows held: how many K/V rows does a feed of {} write, all layers?",
                      plural(config.layers, "layer"), held, plural(tokens, "token")),
          row_traffic(config, {.held = held, .tokens = tokens}).written.digits(),
          fmt::format("{} x {}; rows that are held stay", plural(config.layers, "layer"),
                      plural(tokens, "token"))};
}

// ---- Positions and shapes

StepPlan plan_of(const Config& config, int held, int tokens) {
  const std::array feeds{PlannedFeed{.held = held, .tokens = tokens}};
  StepPlan plan;
  plan_step(config, feeds, plan);
  return plan;
}

Question ask_position(Draw& draw) {
  const Config config = small_config(draw);
  const int held = draw.next_in({1, config.context - 3});
  const int tokens = draw.next_in({1, 3});
  return {fmt::format("A cache holds {} rows, counted from position 0, and {} fed: which position "
                      "does the last of them take?",
                      held, tokens == 1 ? "one token is" : fmt::format("{} tokens are", tokens)),
          fmt::format("{}", plan_of(config, held, tokens).rows.back().position),
          fmt::format("positions go on at the number of rows held: {} + {} - 1", held, tokens)};
}

Question ask_first_visible(Draw& draw) {
  const Config config = windowed_config(draw);
  const int held = draw.next_in({1, config.context - 1});
  const StepPlan plan = plan_of(config, held, 1);
  const SlotView& view = plan.views[static_cast<std::size_t>(plan.view_of_layer[0])];
  return {fmt::format("A window of {}, the query itself included: which is the first position that "
                      "the query at position {} sees?",
                      config.windows[0], held),
          fmt::format("{}", view.of(0).front()),
          fmt::format("the larger of 0 and {} - {} + 1", held, config.windows[0])};
}

Question ask_kv_head(Draw& draw) {
  const Config config = small_config(draw);
  const int head = draw.next_below(config.query_heads);
  return {fmt::format("{} and {}, counted from 0: which K/V head serves query head {}?",
                      plural(config.query_heads, "query head"), plural(config.kv_heads, "K/V head"),
                      head),
          fmt::format("{}", plan_of(config, 0, 1).kv_head_of[static_cast<std::size_t>(head)]),
          fmt::format("{} / {}, rounded down: {} to each", head, config.group(),
                      plural(config.group(), "query head"))};
}

ModelData model_of(const Config& config, std::uint64_t seed) {
  ModelData model;
  model.name = "quiz";
  model.weights = random_model(config, {}, seed);
  return model;
}

// Of the second feed, of one token, after a first one of `held`.
StepShapes cached_shapes(const ModelData& model, int held) {
  const auto engine = make_builtin(model.weights, ScalarKind::f32, Arithmetic::row);
  std::vector<StepShapes> steps;
  record_shapes(*engine, ScalarKind::f32, steps);
  GenerationRequest request;
  request.prompt.assign(static_cast<std::size_t>(held), 0);
  request.steps = 2;
  (void)generate_cached(*engine, request);
  return steps.at(1);
}

Question ask_shape(Draw& draw) {
  Config config = small_config(draw);
  config.windows.push_back(0);  // of the last layer the oracle computes fewer queries
  ++config.layers;
  const int held = draw.next_in({2, config.context - 1});
  const Site site = draw.next_of({Site::query, Site::key, Site::cached_key, Site::scores});
  const bool cached = draw.next_one_in(2) || site == Site::cached_key || site == Site::scores;
  const ModelData model = model_of(config, draw.next_bits());
  const std::vector<int> tokens(static_cast<std::size_t>(held) + 1, 0);
  const StepShapes shapes =
      cached ? cached_shapes(model, held)
             : uncached_shapes(model, {ScalarKind::f32, Arithmetic::row}, std::span(tokens));
  const auto found = std::ranges::find_if(
      shapes, [&](const SiteShape& shape) { return shape.site == site && shape.layer == 0; });
  return {fmt::format("{}: token {} is computed {}. Rows and columns of {} in layer 0?",
                      heads_text(config), held + 1,
                      cached ? fmt::format("with a cache of {} rows", held)
                             : "without a cache, logits for the last row",
                      name(site)),
          fmt::format("{} {}", found->rows_max, found->columns_max),
          site == Site::scores ? "one row for each query head, a column for each visible position"
                               : "a row for each token that is computed or read, a column for each "
                                 "dimension of all its heads"};
}

// ---- Policies

// One weight, in logits, for each token of the draw.
struct SmallRow {
  std::vector<int> weights;
  std::vector<double> logits;
};

// Powers of two, so that no share that is asked for is met exactly.
SmallRow small_row(Draw& draw) {
  SmallRow row{{1, 1, 2, 4, 8}, {}};
  for (std::size_t i = row.weights.size() - 1; i > 0; --i) {
    std::swap(row.weights[i],
              row.weights[static_cast<std::size_t>(draw.next_below(static_cast<int>(i) + 1))]);
  }
  for (const int weight : row.weights) row.logits.push_back(std::log(weight));
  return row;
}

std::string kept(const DecodingPolicy& policy, std::span<const double> logits) {
  std::vector<int> ids;
  for (const Candidate& one : candidates(policy, logits, {})) ids.push_back(one.token);
  return numbers(ids);
}

Question ask_kept(const SmallRow& row, const DecodingPolicy& policy, std::string_view why) {
  return {fmt::format("Tokens 0 to {} have the weights {} (e to the logit). Which ids may be drawn "
                      "with {}?",
                      row.weights.size() - 1, numbers(row.weights), to_text(policy)),
          kept(policy, row.logits), std::string(why)};
}

Question ask_top_k(Draw& draw) {
  const SmallRow row = small_row(draw);
  return ask_kept(row, {.temperature = 1, .top_k = draw.next_in({1, 4})},
                  "the largest; of equal ones the lowest ids");
}

Question ask_top_p(Draw& draw) {
  const SmallRow row = small_row(draw);
  return ask_kept(row, {.temperature = 1, .top_p = draw.next_of({0.3, 0.55, 0.7, 0.9})},
                  "from the largest on, the fewest that come to the share of 16");
}

Question ask_min_p(Draw& draw) {
  const SmallRow row = small_row(draw);
  return ask_kept(row, {.temperature = 1, .min_p = draw.next_of({0.1, 0.2, 0.3, 0.6})},
                  "those with at least that share of the largest weight, 8");
}

Question ask_penalty(Draw& draw) {
  std::vector<double> logits;
  for (int i = 0; i < 4; ++i) logits.push_back(draw.next_in({-6, 6}));
  const int seen = static_cast<int>(std::ranges::max_element(logits) - logits.begin());
  const DecodingPolicy policy{.penalty = 2};
  PolicyScratch scratch;
  const std::array tokens{seen};
  const int token = choose(policy, logits, tokens, {}, scratch).token;
  return {fmt::format("Logits {}; token {} was seen before. Which token does greedy choose with a "
                      "repetition penalty of 2?",
                      fmt::join(logits, " "), seen),
          fmt::format("{}", token),
          fmt::format("a seen token's logit is halved if positive, else doubled: {} becomes {}; of "
                      "equal ones the lowest id",
                      logits[static_cast<std::size_t>(seen)],
                      penalised(policy, logits, tokens)[static_cast<std::size_t>(seen)])};
}

// ---- Generation

struct SmallRun {
  GenerationRequest request;
  Generation generation;
  int context;

  [[nodiscard]] std::string asked() const {
    return fmt::format("Context {}, a prompt of {}, at most {} to return, no EOS", context,
                       plural(static_cast<int>(request.prompt.size()), "token"), request.steps);
  }
};

SmallRun small_run(Draw& draw) {
  const Config config = small_config(draw);
  const ModelData model = model_of(config, draw.next_bits());
  SmallRun run;
  run.context = config.context;
  run.request.prompt.assign(static_cast<std::size_t>(draw.next_in({1, config.context})), 0);
  run.request.steps = draw.next_in({1, config.context});
  const auto engine = make_builtin(model.weights, ScalarKind::f32, Arithmetic::row);
  run.generation = generate_cached(*engine, run.request);
  return run;
}

Question ask_returned(Draw& draw) {
  const SmallRun run = small_run(draw);
  return {run.asked() + ": how many tokens are returned?",
          fmt::format("{}", run.generation.returned().size()),
          fmt::format("the smaller of {} and {} - {} + 1: the last one has no position to be fed "
                      "at",
                      run.request.steps, run.context, run.request.prompt.size())};
}

Question ask_held_at_end(Draw& draw) {
  const SmallRun run = small_run(draw);
  return {run.asked() + ": how many rows does the cache hold at the end?",
          fmt::format("{}", run.generation.steps.back().cache_length.value()),
          fmt::format("the prompt and all {} returned but the last, which is never fed",
                      run.generation.returned().size())};
}

Question ask_stop(Draw& draw) {
  const SmallRun run = small_run(draw);
  return {run.asked() + ": what stops it, eos, context or steps?",
          std::string(name(run.generation.stop)),
          fmt::format("{} returned, {} positions left; a full context comes before the number "
                      "allowed",
                      run.generation.returned().size(), run.generation.steps.back().remaining)};
}

// ---- Faults

const Fault& any_fault(Draw& draw) {
  const std::vector<Fault>& all = faults();
  return all[static_cast<std::size_t>(draw.next_below(static_cast<int>(all.size())))];
}

constexpr int kChoices = 4;

Question ask_fault_name(Draw& draw) {
  std::vector<const Fault*> choices;
  while (choices.size() < kChoices) {
    const Fault& fault = any_fault(draw);
    const auto same = [&](const Fault* other) { return other->summary == fault.summary; };
    if (std::ranges::none_of(choices, same)) choices.push_back(&fault);
  }
  const int right = draw.next_below(kChoices);
  const Fault& fault = *choices[static_cast<std::size_t>(right)];
  std::string text = fmt::format("Which fault is this: {}?", fault.summary);
  for (int i = 0; i < kChoices; ++i) {
    text += fmt::format(" ({}) {}", i + 1, choices[static_cast<std::size_t>(i)]->id);
  }
  return {text, fmt::format("{}", right + 1),
          fmt::format("{} answers wrongly: {}", fault.id, fault.question)};
}

Question ask_fault_shows(Draw& draw) {
  const Fault& fault = any_fault(draw);
  Features features = fault.needs;
  if (draw.next_one_in(2)) features = any_fault(draw).needs;
  const Config config = tiny_decoder(features);
  const bool shows = fault.applies(config, cache_kind(fault.cache, "quiz"));
  return {fmt::format("A decoder with {}, its cache {}. Can this fault show, yes or no: {}?",
                      to_text(features_of(config)), fault.cache, fault.summary),
          shows ? "yes" : "no", fmt::format("{} needs {}", fault.id, to_text(fault.needs))};
}

Question ask_fault_expected(Draw& draw) {
  const Fault& fault = any_fault(draw);
  return {fmt::format("What do the checks make of this fault, caught, missed or equivalent: {}?",
                      fault.summary),
          std::string(name(fault.expected)),
          fault.reason.empty() ? fmt::format("{} changes what is computed from the cache", fault.id)
                               : fmt::format("{}: {}", fault.id, fault.reason)};
}

constexpr std::array kKinds{
    QuizKind{"cache-bytes", ask_cache_bytes},
    QuizKind{"paged-bytes", ask_paged_bytes},
    QuizKind{"growing-bytes", ask_growing_bytes},
    QuizKind{"ring-bytes", ask_ring_bytes},
    QuizKind{"half-bytes", ask_half_bytes},
    QuizKind{"attention-work", ask_scores_of_decode},
    QuizKind{"mlp-work", ask_mlp_of_decode},
    QuizKind{"visible-pairs", ask_visible_pairs},
    QuizKind{"rows-read", ask_rows_read},
    QuizKind{"rows-written", ask_rows_written},
    QuizKind{"position", ask_position},
    QuizKind{"first-visible", ask_first_visible},
    QuizKind{"kv-head", ask_kv_head},
    QuizKind{"shape", ask_shape},
    QuizKind{"top-k", ask_top_k},
    QuizKind{"top-p", ask_top_p},
    QuizKind{"min-p", ask_min_p},
    QuizKind{"penalty", ask_penalty},
    QuizKind{"returned", ask_returned},
    QuizKind{"held-at-end", ask_held_at_end},
    QuizKind{"stop", ask_stop},
    QuizKind{"fault-name", ask_fault_name},
    QuizKind{"fault-shows", ask_fault_shows},
    QuizKind{"fault-expected", ask_fault_expected},
};

// ---- Marking

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::string_view kBetween = " \t\r,;[]()_";

// The words of a text, lower case, joined by `joint`.
std::string plain(std::string_view text, std::string_view joint) {
  std::string result;
  bool gap = false;
  for (const char c : text) {
    if (kBetween.find(c) != kBetween.npos) {
      gap = !result.empty();
      continue;
    }
    if (std::exchange(gap, false)) result += joint;
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

}  // namespace

std::span<const QuizKind> quiz_kinds() { return kKinds; }

std::vector<QuizItem> quiz(std::uint64_t seed, int count) {
  std::vector<QuizItem> items;
  std::array<std::size_t, kKinds.size()> order{};
  for (int i = 0; i < count; ++i) {
    const auto place = static_cast<std::size_t>(i) % order.size();
    const auto number = static_cast<std::uint64_t>(i);
    if (place == 0) {
      Draw draw{seed, stream_of("quiz order"), number << 32};
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (std::size_t k = order.size() - 1; k > 0; --k) {
        std::swap(order[k],
                  order[static_cast<std::size_t>(draw.next_below(static_cast<int>(k) + 1))]);
      }
    }
    const QuizKind& kind = kKinds[order[place]];
    Draw draw{hash(seed, stream_of("quiz"), number), stream_of(kind.id)};
    items.push_back({kind.id, kind.ask(draw)});
  }
  return items;
}

bool is_right(const Question& question, std::string_view given) {
  const std::string_view joint = is_number(question.answer) ? "" : " ";
  return plain(given, joint) == plain(question.answer, joint);
}

}  // namespace kvcheck
