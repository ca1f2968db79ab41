// SPDX-License-Identifier: MIT
// kvcheck generate: tokens with a cache, without one, or both side by side; one request or a batch.
#include "verify/cli_generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/sequences.h"
#include "reports/generation_row.h"
#include "reports/names.h"
#include "reports/number_text.h"
#include "verify/checks.h"
#include "verify/cli.h"
#include "verify/cli_case.h"
#include "verify/cli_process.h"
#include "verify/faults.h"
#include "verify/generation_invariants.h"
#include "verify/hooked_engine.h"
#include "verify/models.h"
#include "verify/planted.h"

namespace kvcheck {
namespace {

// Tokens returned when nobody says how many.
constexpr int kStepsDefault = 64;
// Requests of one batch; each keeps a sequence open until all have stopped.
constexpr std::size_t kRequestsMax = 4096;

using Prompt = std::vector<int>;

template <Named Enum>
Enum choice(std::string_view text, std::string_view option) {
  const std::optional<Enum> value = from_name<Enum>(text);
  if (value) return *value;
  throw bad_input({option, "bad value", expected_names<Enum>(), one_line(text)});
}

// ---- Requests

// At least one: there is no text without any.
std::vector<Prompt> parse(std::string_view text, std::string_view where, const ModelData& model) {
  const Config& config = model.weights.config;
  return parse_sequences(text, where, model.words, config.vocabulary,
                         static_cast<std::size_t>(config.context));
}

int parse_join(std::string_view text, std::string_view where) {
  int step{};
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, step);
  if (error == std::errc() && next == end && step >= 0 && step <= kStepsMax) return step;
  throw bad_input({where, "step to join at", "a whole number from 0 to 1000000", one_line(text)});
}

struct Asked {
  Prompt prompt;
  int join = 0;
};

// A prompt a line; "@N " before it says how many steps it waits.
std::vector<Asked> read_batch(const std::string& path, const ModelData& model) {
  const std::string where = path_text(path);
  std::string text = read_text(path);
  std::vector<int> joins;
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const std::size_t first = std::exchange(at, end + 1);
    if (line.starts_with("# ") || line.find_first_not_of(" \t\r") == line.npos) continue;
    if (joins.size() == kRequestsMax) {
      throw bad_input({where, "requests", fmt::format("at most {}", kRequestsMax), "more"});
    }
    joins.push_back(0);
    if (!line.starts_with('@')) continue;
    const std::size_t blank = std::min(line.find(' '), line.size());
    joins.back() = parse_join(line.substr(1, blank - 1), fmt::format("{}:{}", where, number));
    // Where no token follows, the sign is left to be complained about.
    const bool empty = line.find_first_not_of(" \t\r", blank) == line.npos;
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(first + (empty ? 1 : 0)),
                blank - (empty ? 1 : 0), ' ');
  }
  if (joins.empty()) throw bad_input({where, "no requests", "a prompt a line", "none"});
  std::vector<Prompt> prompts = parse(text, where, model);
  require(prompts.size() == joins.size(), "a prompt for each line");
  std::vector<Asked> asked;
  for (std::size_t i = 0; i < joins.size(); ++i) asked.push_back({std::move(prompts[i]), joins[i]});
  return asked;
}

std::vector<Asked> asked_for(const GenerateArguments& arguments, const ModelData& model) {
  std::vector<Asked> asked;
  if (!arguments.batch.empty()) asked = read_batch(arguments.batch, model);
  for (const auto& [option, text] : arguments.prompts) {
    asked.push_back({one_sequence(text, option, model)});
  }
  if (asked.empty()) {
    throw bad_input({"generate", "no prompt", "--prompt, --tokens or --batch", "nothing"});
  }
  if (asked.size() > kRequestsMax) {
    throw bad_input({"--batch", "requests", fmt::format("at most {}", kRequestsMax),
                     fmt::format("{}", asked.size())});
  }
  return asked;
}

// The steps of --join, one for each request.
void apply_joins(const std::string& joins, std::vector<Asked>& asked) {
  if (joins.empty()) return;
  std::size_t count = 0;
  for (std::size_t at = 0; at <= joins.size(); ++count) {
    const std::size_t end = std::min(joins.find(',', at), joins.size());
    if (count < asked.size()) {
      asked[count].join = parse_join(std::string_view(joins).substr(at, end - at), "--join");
    }
    at = end + 1;
  }
  if (count == asked.size()) return;
  throw bad_input({"--join", "steps", fmt::format("one for each of {} requests", asked.size()),
                   one_line(joins)});
}

// Where nobody says anything: the vocabulary's <eos>, if it has one.
std::optional<int> eos_of(const std::string& text, const ModelData& model) {
  if (text == "none") return std::nullopt;
  if (text.empty()) {
    const auto found = std::ranges::find(model.words, "<eos>");
    if (found == model.words.end()) return std::nullopt;
    return static_cast<int>(found - model.words.begin());
  }
  const Prompt one = one_sequence(text, "--eos", model);
  if (one.size() != 1) {
    throw bad_input({"--eos", "tokens", "one, or none", fmt::format("{}", one.size())});
  }
  return one.front();
}

std::vector<GenerationRequest> requests_of(const GenerateArguments& arguments,
                                           const ModelData& model) {
  std::vector<Asked> asked = asked_for(arguments, model);
  apply_joins(arguments.join, asked);
  std::vector<GenerationRequest> requests;
  for (Asked& one : asked) {
    GenerationRequest request;
    request.prompt = std::move(one.prompt);
    request.join = one.join;
    request.steps = arguments.steps.value_or(kStepsDefault);
    request.eos = eos_of(arguments.eos, model);
    request.policy = parse_decoding(arguments.policy, model.weights.config.vocabulary, "--policy");
    request.seed = arguments.seed + requests.size();
    validate(request, model.weights.config, "--prompt");
    requests.push_back(std::move(request));
  }
  return requests;
}

// ---- Runs

enum class CacheUse { on, off, both };

CacheUse cache_use(const std::string& text) {
  if (text == "on") return CacheUse::on;
  if (text == "off") return CacheUse::off;
  if (text == "both") return CacheUse::both;
  throw bad_input({"--cache", "bad value", "one of on, off, both", one_line(text)});
}

struct Setup {
  const GenerateArguments& arguments;
  const ModelData& model;
  CacheUse use;
  EngineSetup engine;
  EngineFactory factory;
};

Policy tolerance_of(const Setup& setup) {
  return default_policy(setup.model, setup.engine.arithmetic, setup.engine.cache.lossy());
}

// What a trial came to; a row too ill-conditioned to judge leaves it undecided.
GenerationShown judged(const Setup& setup, const GenerationRequest& request,
                       GenerationTrial trial) {
  GenerationShown shown{.request = request, .first = trial.first, .decision = trial.decision};
  static const Schedule none;
  const Measured measured{request.prompt, none, trial.rows, trial.facts, trial.note, trial.tied()};
  const CaseResult result = judge_case(tolerance_of(setup), measured, setup.engine.scalar);
  shown.verdict = result.verdict;
  shown.note = trial.note;
  for (const MeasuredRow& row : trial.rows) {
    shown.largest_difference =
        std::max(shown.largest_difference, row.comparison.max_abs_difference);
    shown.logits += setup.model.weights.config.vocabulary;
  }
  if (shown.note.empty() && result.verdict == Verdict::diverge) {
    shown.note = fmt::format("logits after position {} differ by {:.4g}", result.position,
                             result.row->max_abs_difference);
    if (result.ratio) shown.note += fmt::format(", {:.3g} times the noise floor", *result.ratio);
  }
  shown.uncached = std::move(trial.uncached);
  if (!trial.cached.steps.empty()) shown.cached = std::move(trial.cached);
  return shown;
}

// A single run has nothing to be compared with but the invariants.
GenerationShown accounted(const Setup& setup, const GenerationRequest& request,
                          Generation generation, bool cached) {
  GenerationShown shown{.request = request};
  const Config& config = setup.model.weights.config;
  shown.note = violated_invariant({request, generation, config.context, config.vocabulary, cached});
  if (!shown.note.empty()) shown.verdict = Verdict::diverge;
  (cached ? shown.cached : shown.uncached) = std::move(generation);
  return shown;
}

GenerationShown run_one(const Setup& setup, const GenerationRequest& request,
                        std::vector<StepShapes>& shapes) {
  Bench bench = make_bench(setup.model, setup.engine, 1, setup.factory);
  if (setup.arguments.trace) record_shapes(*bench.engine, setup.engine.scalar, shapes);
  if (setup.use == CacheUse::both) return judged(setup, request, try_generation(bench, request));
  const bool cached = setup.use == CacheUse::on;
  return accounted(
      setup, request,
      cached ? generate_cached(*bench.engine, request) : generate_uncached(*bench.engine, request),
      cached);
}

// Logits that no token can be chosen from ended the batch. Where each request alone has others, the
// cache differs; where one has none either, the engine is broken and its own error says so.
std::vector<GenerationShown> ended_by(const BadLogits& error, const Setup& setup,
                                      const std::vector<GenerationRequest>& requests) {
  Bench bench = make_bench(setup.model, setup.engine, 1, setup.factory);
  std::vector<GenerationShown> shown;
  for (const GenerationRequest& request : requests) {
    shown.push_back(accounted(setup, request, generate_uncached(*bench.engine, request), false));
    shown.back().verdict = Verdict::diverge;
    shown.back().note = fmt::format("the batch with a cache ended with {}", error.what());
  }
  return shown;
}

std::vector<GenerationShown> run_batch(const Setup& setup,
                                       const std::vector<GenerationRequest>& requests) {
  Bench bench = make_bench(setup.model, setup.engine, 1, setup.factory);
  std::vector<Generation> generations;
  try {
    generations = generate_batch(*bench.engine, requests, KeepLogits::yes);
  } catch (const BadLogits& error) {
    if (setup.use == CacheUse::on) throw;
    return ended_by(error, setup, requests);
  }
  std::vector<GenerationShown> shown;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (setup.use == CacheUse::on) {
      shown.push_back(accounted(setup, requests[i], std::move(generations[i]), true));
      continue;
    }
    shown.push_back(judged(setup, requests[i],
                           compare_generation(bench, requests[i], std::move(generations[i]))));
  }
  return shown;
}

// Steps at most: of each request without a cache, and of those with one.
std::size_t steps_at_most(CacheUse use, const std::vector<GenerationRequest>& requests,
                          const Config& config) {
  std::size_t steps = 0;
  for (const GenerationRequest& request : requests) {
    const int room = config.context - static_cast<int>(request.prompt.size()) + 1;
    steps += static_cast<std::size_t>(std::min(request.steps, room));
  }
  return use == CacheUse::both ? 2 * steps : steps;
}

bool is_batch(const GenerateArguments& arguments, const std::vector<GenerationRequest>& requests) {
  return requests.size() > 1 || !arguments.batch.empty() || requests[0].join > 0;
}

// Throws Stopped where a signal or the clock ends it.
std::vector<GenerationShown> run_all(const Setup& setup,
                                     const std::vector<GenerationRequest>& requests,
                                     std::vector<StepShapes>& shapes) {
  StepProgress progress("steps at most",
                        steps_at_most(setup.use, requests, setup.model.weights.config));
  std::size_t done = 0;
  Setup watched = setup;
  watched.factory = hooked({.before_step =
                                [&] {
                                  if (!go_on(progress, done++)) throw Stopped{};
                                }},
                           setup.factory);
  if (is_batch(setup.arguments, requests)) return run_batch(watched, requests);
  return {run_one(watched, requests[0], shapes)};
}

// ---- Text

std::string limits_text(const GenerationRequest& request, const ModelData& model) {
  std::string text = fmt::format("after {} tokens, at the context of {}", request.steps,
                                 model.weights.config.context);
  if (request.eos) text += fmt::format(", or at {}", tokens_text(model, {*request.eos}));
  return text;
}

std::string header(const Setup& setup, const std::vector<GenerationRequest>& requests) {
  const GenerationRequest& first = requests.front();
  std::string text = fmt::format("model      {} ({}, {} arithmetic, {} cache)\n",
                                 path_text(setup.model.name), name(setup.engine.scalar),
                                 name(setup.engine.arithmetic), name(setup.engine.cache));
  if (!setup.arguments.fault.empty()) {
    text += fmt::format("fault      {}: {}\n", setup.arguments.fault,
                        parse_fault(setup.arguments.fault, "--fault").fault->summary);
  }
  if (requests.size() == 1) {
    text += fmt::format("prompt     {}\n", tokens_text(setup.model, first.prompt));
  }
  text += fmt::format("policy     {}", to_text(first.policy));
  if (!first.policy.greedy()) {
    text += requests.size() == 1
                ? fmt::format(", seed {}", first.seed)
                : fmt::format(", seeds {} to {}", first.seed, requests.back().seed);
  }
  return text + fmt::format("\nstops      {}\n\n", limits_text(first, setup.model));
}

std::string traces(const Setup& setup, const GenerationShown& shown,
                   const std::vector<StepShapes>& cached) {
  std::string text;
  const Generation& run = shown.uncached ? *shown.uncached : *shown.cached;
  const std::size_t steps = std::max(run.steps.size(), cached.size());
  for (std::size_t i = 0; i < steps; ++i) {
    if (stop_requested().load()) throw Stopped{};
    std::optional<StepShapes> uncached;
    if (setup.use != CacheUse::on && i < run.steps.size()) {
      const auto tokens =
          std::span<const int>(run.tokens).first(static_cast<std::size_t>(run.steps[i].consumed));
      uncached = uncached_shapes(setup.model, setup.engine, tokens);
    }
    text += shapes_table(static_cast<int>(i), uncached ? &*uncached : nullptr,
                         i < cached.size() ? &cached[i] : nullptr);
  }
  return text;
}

std::string requests_text(const std::vector<GenerationShown>& shown, const ModelData& model) {
  std::string text = batch_table(shown, model);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i].note.empty()) text += fmt::format("\nrequest {}: {}\n", i + 1, shown[i].note);
  }
  return text + "\n";
}

std::string last_line(const std::vector<GenerationShown>& shown, Verdict verdict) {
  std::int64_t tokens = 0;
  std::int64_t logits = 0;
  std::int64_t runs = 0;
  for (const GenerationShown& one : shown) {
    for (const auto* run : {&one.uncached, &one.cached}) {
      if (!*run) continue;
      tokens += static_cast<std::int64_t>((*run)->steps.size());
      ++runs;
    }
    logits += one.logits;
  }
  // A single run that broke no invariant has nothing to agree with.
  const bool alone = logits == 0 && verdict == Verdict::agree;
  return fmt::format("{}{} ({} tokens in {} {}, {} invariants of each, {} logits compared)\n",
                     alone ? "" : "verdict: ", alone ? "generated" : name(verdict), grouped(tokens),
                     runs, runs == 1 ? "run" : "runs", generation_invariants().size(),
                     grouped(logits));
}

void write_csv(const std::string& path, const std::vector<GenerationShown>& shown) {
  std::vector<GenerationRow> rows;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const int request = static_cast<int>(i);
    for (const auto& [run, kind] : {std::pair(&shown[i].uncached, GenerationRun::uncached),
                                    std::pair(&shown[i].cached, GenerationRun::cached)}) {
      if (!*run) continue;
      for (GenerationRow& row : generation_rows(request, kind, **run)) {
        rows.push_back(std::move(row));
      }
    }
  }
  write_generations(path, rows);
}

Setup setup_of(const GenerateArguments& arguments, const ModelData& model,
               const std::shared_ptr<FaultTrace>& changes) {
  Case subject;
  subject.scalar = choice<ScalarKind>(arguments.scalar, "--scalar");
  subject.arithmetic = choice<Arithmetic>(arguments.arithmetic, "--arithmetic");
  subject.cache_kind = cache_kind(arguments.cache_kind, "--cache-kind");
  subject.fault = arguments.fault;
  return {arguments,
          model,
          cache_use(arguments.cache),
          {subject.scalar, subject.arithmetic, subject.cache_kind},
          engine_of(subject, model, changes, "--fault")};
}

}  // namespace

int run_generate(const GenerateArguments& arguments) {
  stop_on_signals();
  start_clock(arguments.time_seconds);
  const ModelData model = load_model(arguments.model);
  const auto changes = std::make_shared<FaultTrace>();
  const Setup setup = setup_of(arguments, model, changes);
  const std::vector<GenerationRequest> requests = requests_of(arguments, model);
  const bool batch = is_batch(arguments, requests);
  if (batch && setup.use == CacheUse::off) {
    throw bad_input({"--cache", "off with a batch", "on or both", arguments.cache});
  }
  if (batch && arguments.trace) {
    throw bad_input({"--trace", "with a batch", "one request", fmt::format("{}", requests.size())});
  }
  if (!arguments.csv.empty()) require_new_file(arguments.csv, "--csv");
  std::string text = header(setup, requests);
  std::vector<GenerationShown> shown;
  try {
    std::vector<StepShapes> shapes;
    shown = run_all(setup, requests, shapes);
    text += batch ? requests_text(shown, model)
                  : steps_table(shown[0], model) + outcome_text(shown[0], model);
    if (arguments.trace) text += traces(setup, shown[0], shapes) + "\n";
  } catch (const Stopped&) {
    print(text.append("verdict: gave-up, interrupted (nothing was compared or written)\n"));
    return kExitGaveUp;
  }
  if (!arguments.fault.empty() && changes->changes() == 0) {
    text += "the fault changed nothing in this run\n";
  }
  Verdict verdict = Verdict::agree;
  for (const GenerationShown& one : shown) verdict = worst(verdict, one.verdict);
  const auto write = [&] {
    if (!arguments.csv.empty()) write_csv(arguments.csv, shown);
  };
  print_after(write, [&](bool) { return text + last_line(shown, verdict); });
  return exit_code(verdict);
}

}  // namespace kvcheck
