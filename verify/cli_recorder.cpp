// SPDX-License-Identifier: MIT
// What becomes of each case.
#include "verify/cli_recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/echo.h"
#include "engine/error.h"
#include "verify/case_text.h"
#include "verify/stored.h"

namespace kvcheck {
namespace {

// Failures of one run that are printed as they happen, and that get a file of their own; all are in
// prefixes.csv.
constexpr int kFailuresPrinted = 10;
constexpr int kFailuresFiled = 1000;
// Failures of one run that are kept for the next one, which runs them all before anything else.
constexpr int kFailuresStored = 100;

// A failure's file: the case, and what came of it.
std::string failure_json(const CaseRecord& record) {
  auto json = nlohmann::ordered_json::parse(to_json(record.subject));
  nlohmann::ordered_json outcome{{"verdict", name(record.result.verdict)}};
  if (record.result.row) {
    outcome["max_abs_difference"] = fmt::format("{}", record.result.row->max_abs_difference);
  }
  if (record.result.ratio) outcome["ratio"] = fmt::format("{}", *record.result.ratio);
  if (!record.result.note.empty()) outcome["note"] = record.result.note;
  json["outcomes"] = nlohmann::ordered_json::array({outcome});
  if (record.result.mark == Mark::flaky) {
    json["outcomes"].push_back({{"verdict", "no divergence when run again"}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string what_happened(const Case& subject, const CaseResult& result) {
  std::string text;
  const auto step = static_cast<std::size_t>(result.step.value_or(0));
  if (result.step && step < subject.operations.size()) {
    text = fmt::format("operation {}, {}: ", step + 1, to_text(subject.operations[step]));
  }
  if (result.row) text += fmt::format("largest difference {:.4g}", result.row->max_abs_difference);
  if (result.ratio) text += fmt::format(", {:.3g} times the noise floor", *result.ratio);
  if (!result.note.empty()) text += (text.empty() ? "" : "; ") + result.note;
  return text;
}

std::string check_of(const CaseRecord& record) {
  const bool flat = record.subject.cache_kind == CacheKind{};
  return fmt::format("{} on {} ({}{})", record.check(), path_text(record.subject.model),
                     name(record.subject.arithmetic),
                     flat ? "" : fmt::format(", {}", name(record.subject.cache_kind)));
}

// A random sequence that a case belongs to.
struct Numbered {
  std::uint64_t seed;
  std::uint64_t number;
};

std::optional<Numbered> number_of(const CaseRecord& record, const Runs& runs) {
  for (std::size_t m = 0; m < runs.runs.size(); ++m) {
    const ModelRun& run = runs.runs[m];
    if (run.model.name != record.subject.model || run.sources.back().source != Source::random) {
      continue;
    }
    const RandomRange& range = runs.ranges[m];
    const auto number = find_random(run.model.weights.config, range, record.subject.tokens);
    if (number) return Numbered{range.seed, *number};
  }
  return std::nullopt;
}

}  // namespace

void Recorder::on_failure(const CaseRecord& record) {
  // Seen first, kept after that: keeping it may fail.
  if (++failures_ <= kFailuresPrinted) {
    progress_.say(failure_text(record));
  }
  if (failures_ == kFailuresPrinted) progress_.say("further failures are in the run's files\n");
  if (store_ && record.result.verdict == Verdict::diverge) keep(record.subject);
}

void Recorder::on_smaller(const CaseRecord& record, const SmallerCase& smaller) {
  std::string text = fmt::format(
      "smallest of {}: {} of {} operations{}, after {} tries: {}\n  {}\n  {}\n", check_of(record),
      smaller.subject.operations.size(), record.subject.operations.size(),
      smaller.complete ? "" : " (the budget was spent)", smaller.tries,
      to_text(smaller.subject.operations), what_happened(smaller.subject, smaller.result),
      repro_line(smaller.subject));
  if (!smaller.indifferent.empty()) {
    text += fmt::format("  fails as well with {}\n", fmt::join(smaller.indifferent, ", "));
  }
  progress_.say(text);
  {
    const std::lock_guard lock(mutex_);
    smaller_.push_back(std::move(text));
  }
  if (store_ && smaller.result.verdict == Verdict::diverge) keep(smaller.subject);
}

void Recorder::on_record(const CaseRecord& record) {
  writer_.add_row(record, repro_line(record.subject));
  if (record.result.verdict == Verdict::agree) return;
  const std::string key = check_of(record);
  const auto same = [&](const auto& first) { return first.first == key; };
  if (std::ranges::none_of(first_, same)) first_.push_back({key, record});
  if (record.result.verdict != Verdict::gave_up && filed_ < kFailuresFiled) file(record);
}

// That a failure gets no file is told at the end: the run goes on to find more of them.
void Recorder::file(const CaseRecord& record) {
  try {
    writer_.add_failure(failure_json(record));
    ++filed_;
  } catch (const Error&) {
    filed_ = kFailuresFiled;
    no_file_ = std::current_exception();
  }
}

void Recorder::require_files() const {
  if (no_file_) std::rethrow_exception(no_file_);
}

std::string Recorder::first_failures() const {
  std::string text;
  for (const auto& [key, record] : first_) text += "\n" + failure_text(record);
  const std::lock_guard lock(mutex_);
  for (const std::string& smaller : smaller_) text += "\n" + smaller;
  return text;
}

// That a failure cannot be kept is no reason to end a run that finds more of them.
void Recorder::keep(const Case& subject) {
  try {
    store_failure(stored_failures_folder(), subject);
    store_ = ++stored_ < kFailuresStored;
  } catch (const Error& error) {
    store_ = false;
    progress_.say(fmt::format("kvcheck: failures are not kept: {}\n", error.what()));
  }
}

std::string Recorder::failure_text(const CaseRecord& record) const {
  std::optional<Numbered> of;
  if (record.subject.operations.empty()) of = number_of(record, runs_);
  if (record.number) of = Numbered{record.subject.seed, *record.number};
  std::string text = fmt::format("{}: {}", name(record.result.verdict), check_of(record));
  if (of) text += fmt::format(" (seed {}, index {})", of->seed, of->number);
  text += fmt::format("\n  {}\n  {}\n", what_happened(record.subject, record.result),
                      repro_line(record.subject));
  if (of) text += fmt::format("  {}\n", rerun_line(arguments_, record.subject, of->number));
  return text;
}

}  // namespace kvcheck
