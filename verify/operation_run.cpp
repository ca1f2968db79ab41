// SPDX-License-Identifier: MIT
// Operations on an engine, and what is compared after each.
#include "verify/operation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error.h"
#include "verify/held_facts.h"

namespace kvcheck {
namespace {

template <Scalar T>
class OwnLogOracle final : public LogOracle {
 public:
  OwnLogOracle(const HeldModel& model, Arithmetic arithmetic)
      : model_(model.in<T>()), logged_(*model_, ops_for<T>(arithmetic)) {}

  void logits(std::span<const LoggedRow> log, int answered, Logits& out) override {
    copy_rows(logged_.logits(log, answered), out);
  }

 private:
  const std::shared_ptr<const Model<T>> model_;
  Logged<T> logged_;
};

// Kullback-Leibler divergence of the distributions that two rows of logits stand for, in nats;
// infinite where it cannot be computed, so that the largest one of many never hides a NaN.
double divergence(std::span<const double> right, std::span<const double> found) {
  const auto log_sum = [](std::span<const double> row) {
    const double most = std::ranges::max(row);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit - most);
    return most + std::log(sum);
  };
  const double right_sum = log_sum(right);
  const double found_sum = log_sum(found);
  double total = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double log_p = right[i] - right_sum;
    total += std::exp(log_p) * (log_p - (found[i] - found_sum));
  }
  return std::isnan(total) ? std::numeric_limits<double>::infinity() : std::max(total, 0.0);
}

bool worse(const CaseResult& a, const CaseResult& b, const Policy& policy) {
  if (a.verdict != b.verdict) return a.verdict > b.verdict;
  // Rows that agree to the last bit are worth more than no rows.
  if (a.row.has_value() != b.row.has_value()) return a.row.has_value();
  return badness(policy, a) > badness(policy, b);
}

bool all_same_bits(std::span<const MeasuredRow> rows) {
  return std::ranges::all_of(rows, [](const MeasuredRow& row) { return row.comparison.same_bits; });
}

// The largest difference in units of these floors.
double ratio_of(std::span<const MeasuredRow> rows, std::span<const NoiseFloor> floors) {
  double most = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double difference = rows[i].comparison.max_abs_difference;
    // Written so that a floor that is not a number makes it infinite: it is never enough.
    if (difference == 0) continue;
    const double ratio = difference / floors[i].floor;
    most = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : std::max(most, ratio);
  }
  return most;
}

}  // namespace

std::unique_ptr<LogOracle> make_log_oracle(HeldModel model, ScalarKind scalar,
                                           Arithmetic arithmetic) {
  if (scalar == ScalarKind::f32)
    return std::make_unique<OwnLogOracle<float>>(std::move(model), arithmetic);
  return std::make_unique<OwnLogOracle<double>>(std::move(model), arithmetic);
}

VerbSet verbs_of(const Capabilities& can) {
  VerbSet verbs = VerbSet::all();
  const auto need = [&](bool has, VerbSet those) {
    if (!has) verbs = verbs.without(those);
  };
  need(can.truncate, {Verb::truncate, Verb::reset});
  need(can.fork, {Verb::fork});
  need(can.batch, {Verb::batch});
  need(can.reorder, {Verb::reorder});
  need(can.state, {Verb::save, Verb::load});
  need(can.shift, {Verb::shift});
  need(can.evict, {Verb::evict});
  return verbs;
}

OperationSpace operation_space(const Config& config, const CacheKind& kind,
                               const Capabilities& can) {
  OperationSpace space;
  space.limits = {.vocabulary = config.vocabulary,
                  .context = std::min(config.context, kOperationPositionsMax),
                  .learned_positions = config.positions == Positions::learned,
                  .verbs = verbs_of(can)};
  for (const int window : config.windows) {
    if (window > 0 && window < config.context) {
      space.window = space.window == 0 ? window : std::min(space.window, window);
    }
  }
  space.block = kind.block < config.context ? kind.block : 0;
  return space;
}

OperationRunner::OperationRunner(const ModelData& model, const EngineSetup& setup,
                                 const Policy& policy, std::uint64_t seed,
                                 const EngineFactory& factory, Floors floors)
    : model_(model),
      setup_(setup),
      policy_(policy),
      seed_(seed),
      factory_(factory),
      noise_(floors == Floors::none ? nullptr
                                    : make_noise_meter(model.weights, setup.scalar,
                                                       setup.arithmetic, setup.cache.format)),
      log_oracle_(make_log_oracle(model.weights, setup.scalar, setup.arithmetic)) {
  engine_ = start_engine(factory_, model_, setup_);
  space_ = operation_space(model.weights.config, setup.cache, engine_->hello().can);
  if (setup.cache.lossy()) whole_ = builtin_engine(model, {setup.scalar, setup.arithmetic});
}

CaseResult OperationRunner::run(const Operations& operations, const Watcher& watch) {
  result_ = {};
  worst_.reset();
  ended_ = false;
  any_refused_ = false;
  sequences_.clear();
  saved_.clear();
  executed_.clear();
  open_steps_.clear();
  watched_ = static_cast<bool>(watch);
  log_.emplace(space_.limits);
  int index = 0;
  try {
    engine_ = start_engine(factory_, model_, setup_);
    for (; index < static_cast<int>(operations.size()) && !ended_; ++index) {
      take_step(index, operations[static_cast<std::size_t>(index)], watch);
    }
    if (!ended_) finish(index);
    close_steps();
  } catch (const EngineError& error) {
    end_with(Verdict::broken, Mark::crash, error.what(), index);
  } catch (const Error& error) {
    end_with(Verdict::diverge, Mark::none, fmt::format("refused: {}", error.what()), index);
  }
  new_facts();
  if (any_refused_ && result_.verdict == Verdict::agree && result_.mark == Mark::none) {
    result_.mark = Mark::refused;
  }
  return result_;
}

// Rows of earlier steps have no part in it.
void OperationRunner::end_with(Verdict verdict, Mark mark, std::string note, int step) {
  result_ = {.verdict = verdict,
             .mark = mark,
             .rows_compared = result_.rows_compared,
             .step = step,
             .note = std::move(note)};
  worst_.reset();
}

void OperationRunner::take_step(int index, const Operation& operation, const Watcher& watch) {
  // After a refusal the log is another one than that for which the sequence was made.
  if (log_->why_not(operation)) return;
  new_facts();
  rows_.clear();
  unmeasured_.clear();
  renumbered_ = false;
  OperationStep step;
  std::string refusal;
  if (operation.verb == Verb::truncate && refused(operation)) {
    refusal = "refused";
    look_at_sequences(operation, step, Invariant::refusal);
  } else {
    const std::vector<Sequence> before = sequences(operation.sequences);
    executed_.push_back(operation);
    step = log_->apply(operation);
    if (witness_ != nullptr) witness_->before({index, operation, step, *log_, sequence_ids()});
    execute(operation, step);
    if (witness_ != nullptr) {
      const Logits* const answer = step.feeds.empty() ? nullptr : &answer_;
      witness_->after({index, operation, step, *log_, sequence_ids(), answer});
    }
    carry_peaks(operation, step, before);
    look_at_sequences(operation, step, Invariant::others);
    expect_copies(operation, step, before);
  }
  judge_step(index, renumbered_);
  if (!watch) return;
  SeenStep seen{index, operation, {}, rows_, facts_.note.empty() ? refusal : facts_.note};
  for (const int handle : step.changed) {
    const SequenceId id = at(handle).id;
    const bool places = engine_->hello().can.places;
    seen.changed.push_back({handle, engine_->held(id), places ? engine_->places(id) : Places{}});
  }
  watch(seen);
}

// Only rolling back may be refused, and only by a ring that no longer holds what would be needed;
// then it must be.
bool OperationRunner::refused(const Operation& operation) {
  const bool must = must_refuse(operation.sequences[0], operation.numbers[0]);
  try {
    engine_->truncate(at(operation.sequences[0]).id, operation.numbers[0]);
  } catch (const Unsupported&) {
    throw;
  } catch (const Error&) {
    if (!must) throw;
    ++refusals_;
    any_refused_ = true;
    facts_.expect(Invariant::refused, "", 1, 1);
    return true;
  }
  if (must) facts_.expect(Invariant::refused, "by a roll back to rows that are gone", 1, 0);
  return false;
}

// The row that would be fed next sees window - 1 rows before it; a ring holds the last `window`
// that were fed.
bool OperationRunner::must_refuse(int handle, int length) {
  if (setup_.cache.layout != CacheLayout::ring) return false;
  if (length == 0 || length == log_->length(handle)) return false;
  const int peak = at(handle).peak;
  const auto gone = [&](int window) {
    return window > 0 && std::max(0, length - window + 1) < std::max(0, peak - window);
  };
  return std::ranges::any_of(model_.weights.config.windows, gone);
}

// A copy of rows is a copy of what was overwritten before them.
void OperationRunner::carry_peaks(const Operation& operation, const OperationStep& step,
                                  const std::vector<Sequence>& before) {
  if (operation.verb == Verb::fork) at(*step.created).peak = before[0].peak;
  if (operation.verb == Verb::load) {
    at(*step.created).peak = saved_[static_cast<std::size_t>(operation.numbers[0])].peak;
  }
  if (operation.verb == Verb::reorder) {
    for (std::size_t i = 0; i < operation.sequences.size(); ++i) {
      at(operation.sequences[i]).peak = before[static_cast<std::size_t>(operation.numbers[i])].peak;
    }
  }
  for (const int handle : log_->live()) {
    const int length = log_->length(handle);
    at(handle).peak = length == 0 ? 0 : std::max(at(handle).peak, length);
  }
}

void OperationRunner::execute(const Operation& operation, const OperationStep& step) {
  const auto id = [&](std::size_t i) { return at(operation.sequences[i]).id; };
  switch (operation.verb) {
    case Verb::open:
      sequences_.push_back({engine_->open()});
      return;
    case Verb::feed:
    case Verb::prompt:
    case Verb::batch:
      return feed(step);
    case Verb::truncate:
      return;  // done when it was not refused
    case Verb::fork:
      sequences_.push_back({engine_->fork(id(0))});
      return;
    case Verb::reorder: {
      std::vector<SequenceId> ids;
      for (std::size_t i = 0; i < operation.sequences.size(); ++i) ids.push_back(id(i));
      return engine_->reorder(ids, operation.numbers);
    }
    case Verb::reset:
      return engine_->truncate(id(0), 0);
    case Verb::close:
      return engine_->close(id(0));
    case Verb::save:
      saved_.push_back({engine_->save(id(0)), at(operation.sequences[0]).fingerprint,
                        at(operation.sequences[0]).peak});
      return;
    case Verb::load:
      sequences_.push_back(
          {engine_->load(saved_[static_cast<std::size_t>(operation.numbers[0])].state)});
      return;
    case Verb::shift:
      return engine_->shift(id(0), operation.numbers[0], operation.numbers[1]);
    case Verb::evict:
      return engine_->evict(id(0), operation.numbers[0], operation.numbers[1]);
  }
}

void OperationRunner::feed(const OperationStep& step) {
  const Rows rows = step.last_row_only ? Rows::last : Rows::all;
  feeds_.clear();
  int answered = 0;
  for (const FedTokens& fed : step.feeds) {
    feeds_.push_back({at(fed.handle).id, fed.tokens});
    answered += step.last_row_only ? 1 : static_cast<int>(fed.tokens.size());
  }
  if (step.last_row_only && engine_->hello().can.reuse) {
    const int known = engine_->lookup(feeds_[0].tokens);
    const int tokens = static_cast<int>(feeds_[0].tokens.size());
    // At least one row is computed: its logits are asked for.
    facts_.expect(Invariant::reuse, "by a prompt", std::clamp(known, 0, tokens - 1), known);
    reused_rows_ += known;
  }
  if (feeds_.size() == 1) {
    engine_->feed(feeds_[0].sequence, feeds_[0].tokens, rows, answer_);
  } else {
    engine_->batch(feeds_, rows, answer_);
  }
  require_rows(*engine_, answer_, static_cast<std::size_t>(answered));
  int first = 0;
  for (const FedTokens& fed : step.feeds) {
    const int count = step.last_row_only ? 1 : static_cast<int>(fed.tokens.size());
    compare_feed(fed, first, count);
    first += count;
  }
}

void OperationRunner::compare_feed(const FedTokens& fed, int first, int count) {
  FedRows rows = compare(*log_, fed.handle, {answer_, first, count}, rows_);
  const std::span<const MeasuredRow> measured = std::span(rows_).subspan(rows.first, rows.count);
  renumbered_ = renumbered_ || renumbered(rows.log);
  if (whole_ && rows.log.empty()) add_loss(rows.tokens, count, first);
  if (all_same_bits(measured)) return;
  if (may_wait(rows)) {
    unmeasured_.push_back(std::move(rows));
  } else {
    measure_floors(rows, rows_);
  }
}

// The answered rows are the last ones of the sequence in the log; what is compared is added to
// `out`.
auto OperationRunner::compare(const TokenLog& log, int handle, const AnsweredRows& answered,
                              std::vector<MeasuredRow>& out) -> FedRows {
  FedRows fed{.first = out.size(),
              .count = static_cast<std::size_t>(answered.count),
              .tokens = {},
              .log = {}};
  if (log.plain(handle)) {
    fed.tokens = log.tokens(handle);
  } else {
    fed.log = log.log(handle);
  }
  reference(fed);
  for (int i = 0; i < answered.count; ++i) {
    MeasuredRow row;
    row.position = log.next_position(handle) - answered.count + i;
    const std::span<const double> right = expected_.row(expected_.rows() - answered.count + i);
    const std::span<const double> found = answered.logits.row(answered.first + i);
    row.comparison = compare_rows(right, found, setup_.scalar);
    row.uncached.assign(right.begin(), right.end());
    row.cached.assign(found.begin(), found.end());
    out.push_back(std::move(row));
  }
  return fed;
}

void OperationRunner::reference(const FedRows& fed) {
  const int count = static_cast<int>(fed.count);
  if (!fed.log.empty()) return log_oracle_->logits(fed.log, count, expected_);
  engine_->full({fed.tokens, 1}, count == 1 ? Rows::last : Rows::all, expected_);
  require_rows(*engine_, expected_, count == 1 ? 1 : fed.tokens.size());
}

// Whether the rows agree at any floor. Until theirs is measured they have the smallest.
bool OperationRunner::may_wait(FedRows& fed) {
  const NoiseLimit* const noise = std::get_if<NoiseLimit>(&policy_);
  if (noise == nullptr || watched_) return false;
  for (std::size_t i = fed.first; i < fed.first + fed.count; ++i) {
    const RowComparison& row = rows_[i].comparison;
    if (!agrees_at_any_floor(*noise, row, setup_.scalar)) return false;
  }
  for (std::size_t i = fed.first; i < fed.first + fed.count; ++i) {
    const RowComparison& row = rows_[i].comparison;
    const double floor = smallest_floor(row, setup_.scalar);
    rows_[i].floor = NoiseFloor{floor, 1};
    if (row.max_abs_difference == 0) continue;
    fed.ratio_most = std::max(fed.ratio_most, row.max_abs_difference / floor);
  }
  return true;
}

void OperationRunner::measure_floors(const FedRows& fed, std::span<MeasuredRow> rows,
                                     const EnoughFloors& enough) {
  if (!noise_) return;
  const std::span<MeasuredRow> measured = rows.subspan(fed.first, fed.count);
  Logits uncached{expected_.vocabulary, {}};
  for (const MeasuredRow& row : measured) {
    uncached.values.insert(uncached.values.end(), row.uncached.begin(), row.uncached.end());
  }
  if (fed.log.empty()) {
    noise_->floors({fed.tokens, 1}, uncached, seed_, floors_, enough);
  } else {
    noise_->floors(fed.log, uncached, seed_, floors_, enough);
  }
  for (std::size_t i = 0; i < measured.size(); ++i) measured[i].floor = floors_[i];
}

void OperationRunner::add_loss(const std::vector<int>& tokens, int count, int first) {
  whole_->full({tokens, 1}, Rows::all, unrounded_);
  for (int i = 0; i < count; ++i) {
    const std::span<const double> right = unrounded_.row(unrounded_.rows() - count + i);
    const std::span<const double> found = answer_.row(first + i);
    const RowComparison apart = compare_rows(right, found, setup_.scalar);
    loss_ += {.rows = 1,
              .same_choice = apart.argmax_uncached == apart.argmax_cached ? 1 : 0,
              .max_abs_difference = apart.max_abs_difference,
              .max_divergence = divergence(right, found)};
  }
}

void OperationRunner::new_facts() {
  invariants_ += facts_.counts;
  facts_ = {};
}

// What the log says of every open sequence; and those that no operation was about are as they were.
void OperationRunner::look_at_sequences(const Operation& operation, const OperationStep& step,
                                        Invariant untouched) {
  const bool prints = engine_->hello().can.fingerprint;
  for (const int handle : log_->live()) {
    const auto when = [&operation, handle] {
      return fmt::format("by sequence {} after {}", handle, name(operation.verb));
    };
    Sequence& sequence = at(handle);
    const std::vector<int> positions = log_->positions(handle);
    expect_held(*engine_, sequence.id, model_.weights.config, setup_,
                {.positions = positions,
                 .next_position = log_->next_position(handle),
                 .peak = sequence.peak},
                when, facts_);
    const bool same = std::ranges::find(step.changed, handle) == step.changed.end();
    if (!prints) {
      if (same) look_through_a_copy(handle, untouched, when);
      continue;
    }
    const std::uint64_t print = engine_->fingerprint(sequence.id);
    if (same) facts_.expect_same(untouched, when, sequence.fingerprint, print);
    sequence.fingerprint = print;
  }
}

// An engine that does not say which bytes it holds: a copy of the sequence is fed one token more.
// Not where the engine copies nothing, where no token fits, or where rounding hides what is seen.
void OperationRunner::look_through_a_copy(int handle, Invariant untouched,
                                          const std::function<std::string()>& when) {
  const Operation one_more{Verb::feed, {handle}, {1}};
  if (!engine_->hello().can.fork || log_->why_not(one_more)) return;
  TokenLog ahead = *log_;
  const OperationStep step = ahead.apply(one_more);
  const SequenceId copy = engine_->fork(at(handle).id);
  try {
    engine_->feed(copy, step.feeds[0].tokens, Rows::all, probed_);
  } catch (const Error&) {
    engine_->close(copy);
    throw;
  }
  engine_->close(copy);
  require_rows(*engine_, probed_, 1);
  std::vector<MeasuredRow> row;
  const FedRows fed = compare(ahead, handle, {probed_, 0, 1}, row);
  if (!all_same_bits(row)) measure_floors(fed, row);
  const Schedule none;
  const Measured measured{{}, none, row, 0, {}};
  const CaseResult judged = judge_case(policy_of(renumbered(fed.log)), measured, setup_.scalar);
  // An oracle that is no number says nothing of the engine.
  if (judged.verdict == Verdict::gave_up || judged.verdict == Verdict::broken) return;
  std::string complaint;
  if (judged.verdict != Verdict::agree) {
    complaint = fmt::format("{}, one token fed to a copy is answered wrong by {}", when(),
                            row[0].comparison.max_abs_difference);
  }
  facts_.expect(untouched, complaint);
}

std::vector<SequenceId> OperationRunner::sequence_ids() const {
  std::vector<SequenceId> ids;
  for (const Sequence& sequence : sequences_) ids.push_back(sequence.id);
  return ids;
}

auto OperationRunner::sequences(const std::vector<int>& handles) -> std::vector<Sequence> {
  std::vector<Sequence> found;
  for (const int handle : handles) found.push_back(at(handle));
  return found;
}

// A copy holds what was copied.
void OperationRunner::expect_copies(const Operation& operation, const OperationStep& step,
                                    const std::vector<Sequence>& before) {
  if (!engine_->hello().can.fingerprint) return;
  if (operation.verb == Verb::fork) {
    facts_.expect_same(Invariant::copies, "after fork", before[0].fingerprint,
                       at(*step.created).fingerprint);
  }
  if (operation.verb == Verb::load) {
    facts_.expect_same(Invariant::copies, "after load",
                       saved_[static_cast<std::size_t>(operation.numbers[0])].fingerprint,
                       at(*step.created).fingerprint);
  }
  if (operation.verb != Verb::reorder) return;
  for (std::size_t i = 0; i < operation.sequences.size(); ++i) {
    const int handle = operation.sequences[i];
    const auto source = static_cast<std::size_t>(operation.numbers[i]);
    const auto when = [handle] { return fmt::format("by sequence {} after reorder", handle); };
    facts_.expect_same(Invariant::copies, when, before[source].fingerprint, at(handle).fingerprint);
  }
}

// Keys that were rotated back differ by rounding from those rotated at once, in any arithmetic: the
// rows that saw them are judged by the noise floor.
Policy OperationRunner::policy_of(bool renumbered) const {
  const bool by_noise = std::holds_alternative<NoiseLimit>(policy_);
  return renumbered && !by_noise && noise_ ? Policy{NoiseLimit{}} : policy_;
}

void OperationRunner::judge_step(int index, bool renumbered) {
  if (facts_.count == 0 && rows_.empty()) return;  // nothing is open that could be looked at
  const Policy policy = policy_of(renumbered);
  if (!facts_.note.empty()) {
    for (const FedRows& fed : unmeasured_) measure_floors(fed, rows_);
    unmeasured_.clear();
  }
  const Schedule none;
  const Measured measured{{}, none, rows_, facts_.count, facts_.note};
  CaseResult judged = judge_case(policy, measured, setup_.scalar);
  judged.step = index;
  result_.rows_compared += judged.rows_compared;
  if (!unmeasured_.empty() && judged.verdict == Verdict::agree) {
    open_steps_.push_back({index, facts_.count, std::move(rows_), std::move(unmeasured_)});
    return;
  }
  take_result(std::move(judged), worst_of(policy, measured), policy);
  ended_ = result_.verdict == Verdict::diverge || result_.verdict == Verdict::broken;
}

// Of two that are as bad as each other the earlier step is reported.
void OperationRunner::take_result(CaseResult judged, std::optional<MeasuredRow> row,
                                  const Policy& policy) {
  const bool earlier = result_.step && judged.step < result_.step;
  const bool takes = !result_.step || worse(judged, result_, policy) ||
                     (earlier && !worse(result_, judged, policy));
  if (!takes) return;
  judged.rows_compared = result_.rows_compared;
  result_ = std::move(judged);
  worst_ = std::move(row);
}

// The rows that may be the worst of all; none if there are no unmeasured ones.
auto OperationRunner::most_open() -> OpenRows {
  OpenRows most{};
  for (OpenStep& step : open_steps_) {
    for (FedRows& fed : step.unmeasured) {
      if (most.fed == nullptr || fed.ratio_most > most.fed->ratio_most) most = {&step, &fed};
    }
  }
  return most;
}

// Of a run in which all agrees the worst row is reported: rows are measured in the order in which
// they may be it, each until it cannot be it any more. What is then left has floors that are too
// small: it seems worse than it is, and still is not the worst.
void OperationRunner::close_steps() {
  if (result_.step && result_.verdict != Verdict::agree) return;
  double worst_ratio = result_.ratio.value_or(0);
  for (OpenRows most = most_open(); most.fed != nullptr && most.fed->ratio_most >= worst_ratio;
       most = most_open()) {
    const std::span<const MeasuredRow> rows =
        std::span(most.step->rows).subspan(most.fed->first, most.fed->count);
    measure_floors(*most.fed, most.step->rows, [&](std::span<const NoiseFloor> floors) {
      return ratio_of(rows, floors) < worst_ratio;
    });
    worst_ratio = std::max(worst_ratio, ratio_of(rows, floors_));
    most.fed->ratio_most = -1;  // done with
  }
  for (OpenStep& step : open_steps_) {
    const Schedule none;
    const Measured measured{{}, none, step.rows, step.facts, {}};
    CaseResult judged = judge_case(policy_, measured, setup_.scalar);
    judged.step = step.index;
    take_result(std::move(judged), worst_of(policy_, measured), policy_);
  }
}

std::optional<MeasuredRow> OperationRunner::worst_of(const Policy& policy,
                                                     const Measured& measured) const {
  const auto found = worst_row(policy, measured, setup_.scalar);
  if (!found) return std::nullopt;
  return measured.rows[*found];
}

// Closes all that is open; an engine that then still holds something has lost count.
void OperationRunner::finish(int steps) {
  for (const int handle : log_->live()) engine_->close(at(handle).id);
  const SequenceId last = engine_->open();
  const Held held = engine_->held(last);
  new_facts();
  rows_.clear();
  facts_.expect(Invariant::nothing_left, "in rows of a new sequence at the end", 0, held.rows);
  facts_.expect(Invariant::nothing_left, "in bytes of a new sequence at the end", 0, held.bytes);
  if (!facts_.note.empty()) judge_step(steps, false);
}

}  // namespace kvcheck
