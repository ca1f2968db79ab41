// SPDX-License-Identifier: MIT
// kvcheck audit: the first place where a cached run parts from the oracle, and the step around it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "engine/echo.h"
#include "engine/error.h"
#include "reports/names.h"
#include "reports/number_text.h"
#include "reports/step_text.h"
#include "reports/trace_row.h"
#include "verify/audit.h"
#include "verify/checks.h"
#include "verify/cli.h"
#include "verify/cli_case.h"
#include "verify/cli_process.h"
#include "verify/faults.h"
#include "verify/models.h"
#include "verify/planted.h"
#include "verify/replay.h"

namespace kvcheck {
namespace {

// Of a long run, the last steps.
constexpr std::size_t kStepsShown = 40;

template <Named Enum>
Enum choice(std::string_view text, std::string_view option) {
  const std::optional<Enum> value = from_name<Enum>(text);
  if (value) return *value;
  throw bad_input({option, "bad value", expected_names<Enum>(), one_line(text)});
}

// The tokens of a model, as a case of single steps or of the schedule.
Case case_of_tokens(const AuditArguments& arguments, const ModelData& model) {
  Case subject{.check = "schedules",
               .model = arguments.subject,
               .model_hash = short_hash(model),
               .arithmetic = Arithmetic::row,
               .policy = Exact{},
               .tokens = one_sequence(arguments.tokens, "--tokens", model),
               .schedule = {}};
  subject.schedule = schedule_of(static_cast<int>(subject.tokens.size()), arguments.schedule);
  return subject;
}

void apply_options(const AuditArguments& arguments, const ModelData& model, Case& subject) {
  if (!arguments.scalar.empty()) {
    subject.scalar = choice<ScalarKind>(arguments.scalar, "--scalar");
  }
  if (!arguments.fault.empty()) subject.fault = arguments.fault;
  if (!arguments.cache_kind.empty()) {
    subject.cache_kind = cache_kind(arguments.cache_kind, "--cache-kind");
  }
  if (arguments.arithmetic.empty()) return;
  const Arithmetic arithmetic = choice<Arithmetic>(arguments.arithmetic, "--arithmetic");
  if (arithmetic == subject.arithmetic) return;
  subject.arithmetic = arithmetic;
  subject.policy = default_policy(model, arithmetic, subject.cache_kind.lossy());
}

// ---- Text

std::string header(const AuditArguments& arguments, const Case& subject, const ModelData& model) {
  std::string text =
      fmt::format("model      {} ({}, {} arithmetic, {} cache)\n", path_text(model.name),
                  name(subject.scalar), name(subject.arithmetic), name(subject.cache_kind));
  if (!subject.fault.empty()) {
    text += fmt::format("fault      {}: {}\n", subject.fault,
                        parse_fault(subject.fault, "case").fault->summary);
  }
  if (!arguments.set.empty()) text += fmt::format("set        {}\n", arguments.set);
  if (!subject.operations.empty()) {
    return text + fmt::format("operations {}\n", subject.operations.size());
  }
  text += fmt::format("tokens     {}\n", tokens_text(model, subject.tokens));
  return text + fmt::format("schedule   {}\n", to_text(subject.schedule));
}

std::string number(double value, ScalarKind scalar) {
  if (scalar == ScalarKind::f32) return fmt::format("{}", static_cast<float>(value));
  return fmt::format("{}", value);
}

std::string place(const AuditFinding& finding) {
  if (!finding.worst) return "";
  const AuditValue& worst = *finding.worst;
  std::string text = fmt::format("row {}", worst.at.row);
  if (worst.at.key >= 0) text += fmt::format(" key {}", worst.at.key);
  if (worst.at.head >= 0) text += fmt::format(" head {}", worst.at.head);
  if (worst.at.column >= 0) text += fmt::format(" [{}]", worst.at.column);
  return text;
}

class Table {
 public:
  explicit Table(ScalarKind scalar) : scalar_(scalar) {
    text_ = fmt::format("{:>5}  {:<18}  {:>8}  {:<24}  {:>14}  {:>14}  {:>10}  {:>9}  {:>9}  {}\n",
                        "layer", "what", "numbers", "worst at", "uncached", "cached", "ULPs",
                        "floor", "ratio", "verdict");
  }

  void add(const AuditFinding& finding, bool first) {
    const std::string layer = finding.point.layer < 0 ? "" : fmt::format("{}", finding.point.layer);
    text_ +=
        fmt::format("{:>5}  {:<18}  {:>8}  ", layer, finding.point.name, grouped(finding.compared));
    if (!finding.wrong.empty() || !finding.worst) {
      text_ += fmt::format("{:<93}", finding.wrong);
    } else {
      const AuditValue& worst = *finding.worst;
      text_ += fmt::format("{:<24}  {:>14}  {:>14}  {:>10}  {:>9}  {:>9}", place(finding),
                           number(worst.uncached, scalar_), number(worst.cached, scalar_),
                           ulps_text(worst.ulps), worst.floor ? three_digits(*worst.floor) : "-",
                           worst.ratio ? three_digits(*worst.ratio) : "-");
    }
    text_ += fmt::format("  {}{}\n", name(finding.verdict), first ? "  <- first" : "");
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  ScalarKind scalar_;
  std::string text_;
};

std::string_view step_word(const Case& subject) {
  if (!subject.operations.empty()) return "operation";
  return feeds_one_sequence(subject) ? "feed" : "step";
}

std::string table(const AuditResult& result, const Case& subject) {
  Table table(subject.scalar);
  const bool has_first = result.first && result.first->step == result.shown.step;
  bool pending = has_first;
  for (const AuditFinding& finding : result.shown.findings) {
    const bool first = pending && finding.verdict == Verdict::diverge;
    table.add(finding, first);
    if (first) pending = false;
  }
  return fmt::format("\n{} {}, {}\n", step_word(subject), result.shown.step + 1,
                     result.shown.what) +
         table.text();
}

std::string summary_line(const AuditSummary& step, const Case& subject) {
  std::string text =
      fmt::format("  {} {:>3}  {:<26}  ", step_word(subject), step.step + 1, step.what);
  if (!step.first) {
    text += "agrees";
  } else {
    text += step.first->layer < 0 ? "" : fmt::format("layer {}, ", step.first->layer);
    text += step.first->name;
  }
  if (step.first && step.logits) {
    text += fmt::format("; logits differ by {:.3g}",
                        std::abs(step.logits->cached - step.logits->uncached));
  }
  return text + "\n";
}

// Which steps part, where several were run.
std::string steps(const AuditResult& result, const Case& subject) {
  if (result.steps.size() < 2) return "";
  std::string text = "\nfirst to part in each step\n";
  const std::size_t from =
      result.steps.size() > kStepsShown ? result.steps.size() - kStepsShown : 0;
  if (from > 0) text += fmt::format("  ... {} steps ...\n", from);
  for (std::size_t i = from; i < result.steps.size(); ++i) {
    text += summary_line(result.steps[i], subject);
  }
  return text;
}

std::string outcome(const AuditResult& result, const Case& subject) {
  std::string text = "\n";
  if (result.first) {
    text += fmt::format("first divergence: {} {} ({}): {}\n", step_word(subject),
                        result.first->step + 1, result.shown.what, result.first->sentence);
  }
  if (!result.note.empty()) {
    text += fmt::format("{}{}\n", result.first ? "" : "no value parts, but: ", result.note);
  }
  if (result.worst_ratio > 0) {
    text += fmt::format(
        "largest ratio of what agrees: {:.3g} times the noise floor ({}{})\n", result.worst_ratio,
        result.worst_ratio_at.layer < 0 ? ""
                                        : fmt::format("layer {}, ", result.worst_ratio_at.layer),
        result.worst_ratio_at.name);
  }
  return text + fmt::format("verdict: {}{} ({} numbers compared in {} steps)\n",
                            name(result.verdict), result.interrupted ? ", interrupted" : "",
                            grouped(result.compared), result.steps.size());
}

bool feeds_something(const Case& subject) {
  return subject.operations.empty() ||
         std::ranges::any_of(subject.operations, [](const Operation& operation) {
           return operation.verb == Verb::feed || operation.verb == Verb::prompt ||
                  operation.verb == Verb::batch;
         });
}

void require_step(const AuditArguments& arguments, std::size_t steps) {
  if (!arguments.step || steps == 0) return;  // then nothing is fed, which is told
  if (static_cast<std::size_t>(*arguments.step) <= steps) return;
  throw bad_input({"--step", "step", steps == 1 ? "1" : fmt::format("1 to {}", steps),
                   fmt::format("{}", *arguments.step)});
}

// Every number of the step, from 1.
std::string one_step(const AuditResult& result, const Case& subject, int step,
                     const ModelData& model, const std::vector<StepValue>& values) {
  const auto of = std::ranges::find(result.steps, step - 1, &AuditSummary::step);
  std::string text = fmt::format("\n{} {}", step_word(subject), step);
  if (of != result.steps.end()) text += ", " + of->what;
  if (values.empty()) return text + ": nothing was computed\n";
  const int row = values.front().value.at.row;
  if (row == values.back().value.at.row) text += fmt::format(", row {}", row);
  return text + "\n" + step_text(model.weights.config, values);
}

// Either tokens of a model, or a case.
void require_subject(const AuditArguments& arguments) {
  const bool tokens = !arguments.tokens.empty();
  if (!tokens && !arguments.schedule.empty()) {
    throw bad_input({"--schedule", "without tokens", "--tokens", arguments.schedule});
  }
  if (tokens && !arguments.model.empty()) {
    throw bad_input(
        {"--model", "with --tokens", "the model as SUBJECT", one_line(arguments.model)});
  }
  if (!tokens && !names_case(arguments.subject)) {
    throw bad_input({"audit", "SUBJECT without --tokens",
                     "a kv1:... token or case file, or --tokens for a model",
                     one_line(arguments.subject)});
  }
}

// Until a signal or the clock ends it. `steps` is 0 where nobody knows before.
AuditResult watched_audit(std::size_t steps, const Case& subject, const ModelData& model,
                          const EngineFactory& factory, AuditOptions& options) {
  StepProgress progress(fmt::format("{}s", step_word(subject)), steps);
  options.go_on = [&](std::size_t done) { return go_on(progress, done); };
  return audit(subject, model, factory, options);
}

}  // namespace

int run_audit(const AuditArguments& arguments) {
  require_subject(arguments);
  stop_on_signals();
  start_clock(arguments.time_seconds);
  const bool tokens = !arguments.tokens.empty();
  Case subject = tokens ? Case{} : read_case(arguments.subject);
  const std::string& named = tokens ? arguments.subject : subject.model;
  const ModelData model = load_model(arguments.model.empty() ? named : arguments.model);
  if (tokens) subject = case_of_tokens(arguments, model);
  apply_options(arguments, model, subject);
  require_same_model(subject, model, tokens ? "--tokens" : "case");
  const auto changes = std::make_shared<FaultTrace>();
  const EngineFactory factory =
      engine_of(subject, model, changes, arguments.fault.empty() ? "case" : "--fault");
  AuditOptions options{.to_end = true};
  if (!arguments.set.empty()) {
    options.set = parse_set_value(arguments.set, model.weights.config, "--set");
  }
  const bool asked = feeds_something(subject);
  std::optional<TraceWriter> trace;
  std::vector<StepValue> values;
  const std::size_t known = std::max(subject.schedule.size(), subject.operations.size());
  const bool counted = feeds_one_sequence(subject) || !subject.operations.empty();
  if (counted) require_step(arguments, known);
  if (!arguments.trace.empty()) {
    require_new_file(arguments.trace, "--trace");
    trace.emplace(std::filesystem::path(arguments.trace));
  }
  if (trace || arguments.step) {
    options.trace = [&](int step, Site site, int layer, const AuditValue& value) {
      if (trace) trace->add(trace_row(step, site, layer, value));
      if (arguments.step == step + 1) values.push_back({site, layer, value});
    };
  }
  AuditResult result = watched_audit(counted ? known : 0, subject, model, factory, options);
  if (!counted && !result.interrupted) require_step(arguments, result.steps.size());
  if (options.set && !result.value_set && !result.interrupted) {
    throw bad_input({"--set", "no such value in this run",
                     "a row that is fed, and a key that it sees", arguments.set});
  }
  if (result.verdict == Verdict::agree && !asked) {
    result.verdict = Verdict::gave_up;
    result.note = "no row of logits was compared";
  }
  std::string text = header(arguments, subject, model);
  text += arguments.step ? one_step(result, subject, *arguments.step, model, values)
                         : table(result, subject) + steps(result, subject);
  if (!subject.fault.empty() && changes->changes() == 0) {
    text += "\nthe fault changed nothing in this case\n";
  }
  if (trace && result.interrupted) text += "\nthe trace, which is not complete, was not written\n";
  text += outcome(result, subject);
  const auto write = [&] {
    if (trace && !result.interrupted) trace->commit();
  };
  print_after(write, [&](bool) { return text; });
  const int code = exit_code(result.verdict);
  return code == kExitAgree && result.interrupted ? kExitGaveUp : code;
}

}  // namespace kvcheck
