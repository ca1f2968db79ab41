// SPDX-License-Identifier: MIT
// Watching the cached decoder step by step beside the oracle.
#include "verify/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>

#include "engine/builtin.h"
#include "engine/error.h"
#include "engine/sequences.h"
#include "verify/asked.h"
#include "verify/audit_findings.h"
#include "verify/audit_plan.h"
#include "verify/audit_rows.h"
#include "verify/builtin_inside.h"
#include "verify/checks.h"
#include "verify/generation.h"
#include "verify/operation_run.h"
#include "verify/replay.h"

namespace kvcheck {
namespace {

using Stage = Findings::Stage;

struct Done {};  // no further step is wanted

// An engine that keeps its values to itself.
struct Unwatchable : Error {
  using Error::Error;
};

// What decides at a site: nothing else is known there.
Policy own_policy(const Case& subject) {
  if (std::holds_alternative<Exact>(subject.policy)) return Exact{};
  if (std::holds_alternative<NoiseLimit>(subject.policy)) return subject.policy;
  return subject.arithmetic == Arithmetic::row ? Policy{Exact{}} : Policy{NoiseLimit{}};
}

double limit_of(const Policy& policy) {
  const auto* const noise = std::get_if<NoiseLimit>(&policy);
  return noise == nullptr ? kNoiseLimit : noise->limit;
}

// Of a long text one measurement answers for the rows of several steps: what comes after a row is
// nothing to it. As many as this, or fewer, since each sees all rows before it.
constexpr int kMeasuredAhead = 64;                          // rows
constexpr int kMeasuredAlone = 16;                          // rows of a text that is not long
constexpr std::int64_t kScoresMax = std::int64_t{1} << 23;  // of the rows that are measured at once

bool with_scores(Site site) { return site == Site::scores || site == Site::probabilities; }
bool as_stored(Site site) { return site == Site::cached_key || site == Site::cached_value; }

template <Scalar T>
class Auditor final : public OperationWitness, public AskedWitness {
 public:
  Auditor(const Case& subject, const ModelData& model, const EngineFactory& factory,
          const AuditOptions& options)
      : subject_(subject),
        model_(model),
        config_(model.weights.config),
        options_(options),
        policy_(own_policy(subject)),
        factory_(factory),
        meter_(make_site_meter(model.weights, subject.scalar, subject.arithmetic,
                               subject.cache_kind.format)) {}

  AuditResult run() {
    try {
      if (!subject_.operations.empty()) {
        run_operations();
      } else if (feeds_one_sequence(subject_)) {
        run_feeds();
      } else {
        run_check();
      }
    } catch (const Done&) {
    } catch (const EngineError& error) {
      fail(Verdict::broken, error.what());
    }
    require_watchable();
    const Verdict by_values = result_.first          ? Verdict::diverge
                              : result_.compared > 0 ? Verdict::agree
                                                     : Verdict::gave_up;
    result_.verdict = worst(by_values, settled_);
    return std::move(result_);
  }

  void before(const At& at) override {
    begin_step(at.step, to_text(at.operation));
    for (const FedTokens& fed : at.meaning.feeds) {
      follow(fed.handle, at.log, at.engine, static_cast<int>(fed.tokens.size()));
      fed_.push_back({fed.handle, static_cast<int>(fed.tokens.size())});
    }
  }

  void after(const At& at) override {
    std::erase_if(sequences_, [&](const auto& entry) { return !at.log.is_live(entry.first); });
    for (const int handle : at.meaning.changed) {
      if (at.meaning.feeds.empty()) follow(handle, at.log, at.engine, 0);
    }
    if (at.answer != nullptr) compare_answer(*at.answer, at.meaning.last_row_only);
    end_step();
  }

  void before(const AskedStep& step) override {
    begin_step(asked_, step.what);
    for (const AskedStep::Sequence& sequence : step.changed) follow(sequence);
  }

  void after(const AskedStep& step) override {
    ++asked_;
    if (step.answer != nullptr) {
      compare_answer(*step.answer, step.last_row_only);
    } else {
      for (const AskedStep::Sequence& sequence : step.changed) follow(sequence);
    }
    end_step();
  }

  void refused() override { in_step_ = false; }
  void closed(SequenceId sequence) override { sequences_.erase(sequence); }

 private:
  struct Fed {
    int handle;
    int tokens;
  };
  // A row of the plan.
  struct Row {
    int handle;
    ExpectedRow expected;
    int log_row;
  };

  // ---- Steps

  std::unique_ptr<Engine> start(const ModelData& model, const EngineSetup& setup) {
    std::unique_ptr<Engine> engine = factory_(model, setup);
    engine_ = builtin_inside<T>(*engine);
    if (engine_ == nullptr) {
      unwatchable_ = engine->hello().name;
      return engine;
    }
    engine_->rewrite_plans(
        [this, earlier = engine_->plan_rewrite()](StepPlan& plan, PlannedFeeds feeds) {
          right_ = plan;
          if (earlier) earlier(plan, feeds);
          feeds_.assign(feeds.begin(), feeds.end());
        });
    engine_->observe_cached(Observer<T>(
        [this, earlier = engine_->observer()](const SiteTensor<T>& tensor) {
          earlier(tensor);
          look_at(tensor);
        },
        SiteSet::all()));
    return engine;
  }

  void require_watchable() const {
    if (unwatchable_.empty()) return;
    throw Unwatchable(
        bad_input({"audit", "an engine that cannot be watched", "the built-in one", unwatchable_})
            .what());
  }

  void run_feeds() {
    if (subject_.schedule.empty()) {
      throw bad_input({"audit", "case", "one with a schedule or operations",
                       fmt::format("{} without a cached path", subject_.check)});
    }
    std::unique_ptr<Engine> engine;
    try {
      engine = start(model_, {subject_.scalar, subject_.arithmetic, subject_.cache_kind});
    } catch (const std::runtime_error& error) {
      throw EngineError(error.what());
    }
    require_watchable();
    const SequenceId id = engine->open();
    Logits logits;
    int fed = 0;
    for (std::size_t i = 0; i < subject_.schedule.size(); ++i) {
      const int count = subject_.schedule[i];
      const std::span<const int> tokens(subject_.tokens);
      begin_step(static_cast<int>(i),
                 "tokens " + join_tokens(tokens.subspan(static_cast<std::size_t>(fed),
                                                        static_cast<std::size_t>(count))));
      follow_prefix(id, fed + count, count);
      try {
        engine->feed(id,
                     tokens.subspan(static_cast<std::size_t>(fed), static_cast<std::size_t>(count)),
                     Rows::all, logits);
      } catch (const Error& error) {
        fail(Verdict::diverge, fmt::format("refused: {}", error.what()));
        return;
      }
      fed += count;
      compare_answer(logits, false);
      end_step();
    }
  }

  // Never diverges by logits, so that what comes after the first wrong ones can be seen.
  static Policy anything() { return AbsLimit{std::numeric_limits<double>::max()}; }

  // Siblings beside a prefix, roll backs and refusals, tokens that are generated: the check itself,
  // on an engine that shows what it is asked.
  void run_check() {
    Case shown = subject_;
    shown.policy = anything();
    const EngineFactory factory = [this](const ModelData& model, const EngineSetup& setup) {
      return shown_to(*this, start(model, setup));
    };
    const CaseResult found = run_case(shown, model_, factory).result;
    require_watchable();
    if (asked_ == 0) result_.note = "the check of this case feeds no cache";
    if (found.verdict == Verdict::broken || found.verdict == Verdict::diverge) {
      fail(found.verdict, found.note);
    }
  }

  void run_operations() {
    OperationRunner runner(
        model_, {subject_.scalar, subject_.arithmetic, subject_.cache_kind}, anything(),
        subject_.seed,
        [this](const ModelData& model, const EngineSetup& setup) { return start(model, setup); });
    require_watchable();
    runner.show_to(this);
    const CaseResult found = runner.run(subject_.operations);
    if (found.verdict == Verdict::broken || found.verdict == Verdict::diverge) {
      fail(found.verdict, found.note);
    }
  }

  // What is wrong besides all values.
  void fail(Verdict verdict, const std::string& note) {
    settled_ = verdict;
    result_.note = note;
    if (!result_.first) result_.shown = {step_, what_, findings_.all()};
  }

  void begin_step(int step, std::string what) {
    if (options_.go_on && !options_.go_on(result_.steps.size())) {
      result_.interrupted = true;
      throw Done{};
    }
    step_ = step;
    what_ = std::move(what);
    findings_.clear();
    fed_.clear();
    rows_.clear();
    feeds_.clear();
    in_step_ = true;
  }

  void end_step() {
    in_step_ = false;
    for (auto& [handle, sequence] : sequences_) compare_held(handle, sequence);
    AuditSummary summary{.step = step_, .what = what_};
    const Findings::Kept* const first = findings_.first_diverging();
    const std::vector<AuditFinding> all = findings_.all();
    for (const AuditFinding& finding : all) take_totals(finding);
    if (const auto* const logits = findings_.find(Site::logits)) {
      summary.logits = logits->finding.worst;
    }
    if (first != nullptr) summary.first = first->finding.point;
    if (!result_.first) {
      if (first != nullptr) {
        result_.first = FirstDivergence{step_, first->finding.point, sentence(*first)};
      }
      result_.shown = {step_, what_, all};
    }
    result_.steps.push_back(std::move(summary));
    if (first != nullptr && !options_.to_end) throw Done{};
  }

  void take_totals(const AuditFinding& finding) {
    result_.compared += finding.compared;
    if (finding.verdict != Verdict::diverge) settled_ = worst(settled_, finding.verdict);
    if (finding.verdict != Verdict::agree || !finding.worst || !finding.worst->ratio) return;
    if (*finding.worst->ratio <= result_.worst_ratio) return;
    result_.worst_ratio = *finding.worst->ratio;
    result_.worst_ratio_at = finding.point;
  }

  // ---- The log

  void follow(int handle, const TokenLog& log, const std::vector<SequenceId>& engine, int tokens) {
    FollowedSequence& sequence = sequences_[handle];
    if (static_cast<std::size_t>(handle) < engine.size()) {
      sequence.id = engine[static_cast<std::size_t>(handle)];
    }
    sequence.log = log.log(handle);
    sequence.held = log.held_rows(handle);
    measure(sequence, tokens);
  }

  void follow(const AskedStep::Sequence& asked) {
    FollowedSequence& sequence = sequences_[asked.id];
    sequence.id = asked.id;
    sequence.log = plain_log(asked.tokens);
    sequence.held = asked.tokens.empty() ? std::vector<SeenRow>{} : sequence.log.back().sees;
    measure(sequence, asked.fed);
    if (asked.fed > 0) fed_.push_back({asked.id, asked.fed});
  }

  void follow_prefix(SequenceId id, int length, int tokens) {
    FollowedSequence& sequence = sequences_[id];
    sequence.id = id;
    for (int row = static_cast<int>(sequence.log.size()); row < length; ++row) {
      sequence.held.push_back({row, row});
      sequence.log.push_back({subject_.tokens[static_cast<std::size_t>(row)], row, sequence.held});
    }
    fed_.push_back({id, tokens});
    if (length <= measured_) return;
    measured_ = std::min(length + ahead_of(length), static_cast<int>(subject_.tokens.size()));
    FollowedSequence whole{.id = id};
    whole.log = plain_log(std::span(subject_.tokens).first(static_cast<std::size_t>(measured_)));
    measure(whole, measured_ - length + tokens);
    sequence.reference = std::move(whole.reference);
  }

  // Rows that are measured together with a row at this place.
  [[nodiscard]] int ahead_of(int length) const {
    if (length < kMeasuredAlone) return 0;
    const std::int64_t scores = std::int64_t{config_.layers} * config_.query_heads * length;
    return static_cast<int>(std::clamp<std::int64_t>(kScoresMax / scores, 0, kMeasuredAhead));
  }

  void measure(FollowedSequence& sequence, int tokens) {
    sequence.moved =
        renumbered(sequence.log) || std::ranges::any_of(sequence.held, [&](const SeenRow& row) {
          return sequence.log[static_cast<std::size_t>(row.row)].position != row.position;
        });
    sequence.reference = {};
    if (sequence.log.empty()) return;
    const bool decide = std::holds_alternative<NoiseLimit>(policy_of(sequence));
    sequence.reference = meter_->measure({.log = sequence.log,
                                          .first = static_cast<int>(sequence.log.size()) - tokens,
                                          .seed = subject_.seed,
                                          .floors = options_.floors || decide});
  }

  // Keys that were rotated once more differ by rounding in any arithmetic.
  [[nodiscard]] Policy policy_of(const FollowedSequence& sequence) const {
    return sequence.moved && std::holds_alternative<Exact>(policy_) ? Policy{NoiseLimit{}}
                                                                    : policy_;
  }

  // ---- Plans

  // Which rows of the logs are fed, by what each sequence held before.
  [[nodiscard]] bool map_rows() {
    rows_.clear();
    if (feeds_.size() != fed_.size()) {
      add_step(fmt::format("{} sequences fed where {} were expected", feeds_.size(), fed_.size()));
      return false;
    }
    for (std::size_t s = 0; s < feeds_.size(); ++s) {
      const FollowedSequence& sequence = sequences_.at(fed_[s].handle);
      const int end = feeds_[s].held + feeds_[s].tokens;
      const int held = static_cast<int>(sequence.held.size());
      if (end != held) {
        add_step(fmt::format("{} rows in all where {} were expected", end, held));
        return false;
      }
      for (int row = feeds_[s].held; row < end; ++row) {
        const SeenRow& of = sequence.held[static_cast<std::size_t>(row)];
        const LoggedRow& logged = sequence.log[static_cast<std::size_t>(of.row)];
        rows_.push_back(
            {fed_[s].handle, {static_cast<int>(s), row, logged.position, logged.sees}, of.row});
      }
    }
    return true;
  }

  void add_step(const std::string& wrong) {
    findings_.add(Stage::step, 0, {.point = {"step", -1}, .compared = 1, .wrong = wrong});
  }

  void compare_plan() {
    if (!map_rows()) return rows_.clear();
    std::vector<ExpectedRow> expected;
    for (const Row& row : rows_) expected.push_back(row.expected);
    int order = 0;
    for (PlanFinding& found : compare_plans(config_, right_, engine_->plan(), feeds_, expected)) {
      findings_.add(Stage::question, order++,
                    {.point = {std::string(found.question), found.layer},
                     .compared = found.compared,
                     .wrong = std::move(found.wrong)});
    }
  }

  // The token whose embedding this is; -1: none.
  [[nodiscard]] int token_of(const SiteTensor<T>& tensor, int r) const {
    const T scale = static_cast<T>(config_.embedding_scale);
    for (int token = 0; token < config_.vocabulary; ++token) {
      int same = 0;
      while (same < tensor.columns &&
             tensor.at(r, same) == static_cast<T>(model_.weights.embedding(token, same)) * scale) {
        ++same;
      }
      if (same == tensor.columns) return token;
    }
    return -1;
  }

  void compare_tokens(const SiteTensor<T>& tensor) {
    AuditFinding finding{.point = {"token", -1}};
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const Row& row = rows_[r];
      const auto& log = sequences_.at(row.handle).log;
      const int expected = log[static_cast<std::size_t>(row.log_row)].token;
      ++finding.compared;
      if (!finding.wrong.empty() || same_as_reference(tensor, r)) continue;
      const int token = token_of(tensor, static_cast<int>(r));
      if (token < 0 || token == expected) continue;
      finding.wrong = fmt::format("{}row {}: token {} where {} was expected",
                                  sequence_text(row.handle), row.log_row, token, expected);
    }
    findings_.add(Stage::token, 0, std::move(finding));
  }

  [[nodiscard]] bool same_as_reference(const SiteTensor<T>& tensor, std::size_t r) const {
    const Row& row = rows_[r];
    const SiteLines* const lines =
        sequences_.at(row.handle).reference.find(tensor.site, tensor.layer, row.log_row);
    const std::span<const double> right = lines->line(0);
    for (int c = 0; c < tensor.columns; ++c) {
      if (double{tensor.at(static_cast<int>(r), c)} != right[static_cast<std::size_t>(c)]) {
        return false;
      }
    }
    return true;
  }

  // ---- Sites

  void look_at(const SiteTensor<T>& tensor) {
    if (!in_step_) return;
    if (tensor.site == Site::embedding) compare_plan();
    if (rows_.empty()) return;
    if (options_.set) set_value(tensor);
    if (tensor.site == Site::embedding) compare_tokens(tensor);
    if (as_stored(tensor.site)) return compare_read(tensor);
    if (with_scores(tensor.site)) return compare_scores(tensor);
    for (int r = 0; r < tensor.rows; ++r) {
      const Row& row = row_of(tensor, r);
      compare_line(tensor, r, row, *reference(tensor, row), 0, {});
    }
  }

  // The row of the log that row `r` of a tensor is about. After the layers there may be the last
  // row of each feed only.
  [[nodiscard]] const Row& row_of(const SiteTensor<T>& tensor, int r) const {
    if (as_stored(tensor.site) || with_scores(tensor.site)) {
      return rows_[static_cast<std::size_t>(tensor.row)];
    }
    if (tensor.rows == static_cast<int>(rows_.size())) return rows_[static_cast<std::size_t>(r)];
    int last = -1;
    for (int s = 0; s <= r; ++s) last += feeds_[static_cast<std::size_t>(s)].tokens;
    return rows_[static_cast<std::size_t>(last)];
  }

  [[nodiscard]] const SiteLines* reference(const SiteTensor<T>& tensor, const Row& row) const {
    const SiteLines* const lines =
        sequences_.at(row.handle).reference.find(tensor.site, tensor.layer, row.log_row);
    require(lines != nullptr, "the oracle looks at every row that is fed");
    return lines;
  }

  // The rows that a row must see in the tensor's layer.
  [[nodiscard]] std::span<const SeenRow> seen_by(const SiteTensor<T>& tensor,
                                                 const Row& row) const {
    const int first = first_seen(config_, tensor.layer, row.expected);
    return row.expected.sees.subspan(static_cast<std::size_t>(first));
  }

  // Rows as they are read: a line for each row that is seen.
  void compare_read(const SiteTensor<T>& tensor) {
    const Row& row = row_of(tensor, 0);
    const std::span<const SeenRow> seen = seen_by(tensor, row);
    if (tensor.rows != static_cast<int>(seen.size())) {
      return findings_.add_shape({.site = tensor.site, .layer = tensor.layer},
                                 counts(tensor.rows, seen.size(), row));
    }
    const std::span<const int> slots = view_of(engine_->plan(), tensor.layer).of(tensor.row);
    for (int i = 0; i < tensor.rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const SiteLines expected =
          expected_row(*meter_, sequences_.at(row.handle), tensor.site, tensor.layer, seen[at]);
      compare_line(tensor, i, row, expected, 0, seen.subspan(at, 1), slots[at]);
    }
  }

  void compare_scores(const SiteTensor<T>& tensor) {
    const Row& row = row_of(tensor, 0);
    const std::span<const SeenRow> seen = seen_by(tensor, row);
    const SiteLines& expected = *reference(tensor, row);
    if (tensor.columns != expected.columns) {
      return findings_.add_shape({.site = tensor.site, .layer = tensor.layer},
                                 counts(tensor.columns, seen.size(), row));
    }
    for (int h = 0; h < tensor.rows; ++h) compare_line(tensor, h, row, expected, h, seen);
  }

  [[nodiscard]] std::string counts(int got, std::size_t expected, const Row& row) const {
    return fmt::format("{}row {} reads {} rows where {} were expected", sequence_text(row.handle),
                       row.log_row, got, expected);
  }

  // Line `t` of a tensor beside line `e` of what was expected; `seen` is what its keys are.
  void compare_line(const SiteTensor<T>& tensor, int t, const Row& row, const SiteLines& expected,
                    int e, std::span<const SeenRow> seen, int slot = -1) {
    line_.clear();
    for (int c = 0; c < tensor.columns; ++c) line_.push_back(double{tensor.at(t, c)});
    const FollowedSequence& sequence = sequences_.at(row.handle);
    const bool stored = as_stored(tensor.site);
    const auto index = [&](std::size_t column) {
      return index_of(tensor.site, row.log_row, e, static_cast<int>(column), seen);
    };
    take_line({.stage = Stage::site,
               .site = tensor.site,
               .layer = tensor.layer,
               .row = stored ? std::optional(seen[0]) : std::nullopt,
               .slot = slot},
              row.handle, sequence, expected, e, index);
    if (!options_.trace) return;
    const ComparedLine line = compared(expected, e);
    for (std::size_t c = 0; c < line_.size(); ++c) {
      options_.trace(step_, tensor.site, tensor.layer, value_at(line, c, row.handle, index(c)));
    }
  }

  [[nodiscard]] ValueIndex index_of(Site site, int row, int line, int column,
                                    std::span<const SeenRow> seen) const {
    ValueIndex at{.row = row};
    if (with_scores(site)) {
      at.key = seen[static_cast<std::size_t>(column)].row;
      at.head = line;
      return at;
    }
    if (as_stored(site)) at.key = seen[0].row;
    const int columns = head_columns(site, config_);
    at.head = columns > 0 ? column / columns : -1;
    at.column = columns > 0 ? column % columns : column;
    return at;
  }

  // line_ beside line `e` of what was expected.
  [[nodiscard]] ComparedLine compared(const SiteLines& expected, int e) const {
    std::optional<double> floor;
    if (!expected.floors.empty()) floor = expected.floors[static_cast<std::size_t>(e)];
    return {expected.line(e), line_, floor, subject_.scalar};
  }

  template <typename Index>
  void take_line(const Findings::Place& place, int handle, const FollowedSequence& sequence,
                 const SiteLines& expected, int e, Index index) {
    const ComparedLine line = compared(expected, e);
    const std::size_t worst = worst_column(line);
    findings_.take(place, policy_of(sequence), line, value_at(line, worst, handle, index(worst)));
  }

  // What is handed out, row by row: it may be something else than was computed.
  void compare_answer(const Logits& answer, bool last_row_only) {
    int next = 0;
    for (const Fed& fed : fed_) {
      const FollowedSequence& sequence = sequences_.at(fed.handle);
      const int rows = static_cast<int>(sequence.log.size());
      for (int row = rows - (last_row_only ? 1 : fed.tokens); row < rows; ++row, ++next) {
        if (next >= answer.rows()) {
          return add_step(fmt::format("{} rows answered, which is too few", answer.rows()));
        }
        const std::span<const double> found = answer.row(next);
        line_.assign(found.begin(), found.end());
        take_line({.stage = Stage::answer, .site = Site::logits, .layer = -1}, fed.handle, sequence,
                  *sequence.reference.find(Site::logits, -1, row), 0, [&](std::size_t column) {
                    return ValueIndex{.row = row, .column = static_cast<int>(column)};
                  });
      }
    }
  }

  // ---- What lies in a cache

  void compare_held(int handle, const FollowedSequence& sequence) {
    const KvCache<T>& cache = engine_->cache(sequence.id);
    AuditFinding rows{.point = {"held rows", -1}, .compared = 1};
    const int held = static_cast<int>(sequence.held.size());
    if (cache.length() != held) {
      rows.wrong = fmt::format("{}{} rows where {} were expected", sequence_text(handle),
                               cache.length(), held);
      return findings_.add(Stage::held, 0, std::move(rows));
    }
    findings_.add(Stage::held, 0, std::move(rows));
    AuditFinding positions{.point = {"held position", -1}, .compared = held};
    for (int row = 0; row < held && positions.wrong.empty(); ++row) {
      const int expected = sequence.held[static_cast<std::size_t>(row)].position;
      if (cache.position(row) == expected) continue;
      positions.wrong = fmt::format("{}row {}: position {} where {} was expected",
                                    sequence_text(handle), row, cache.position(row), expected);
    }
    findings_.add(Stage::held, 1, std::move(positions));
    for (int layer = 0; layer < config_.layers; ++layer) {
      for (int row = cache.oldest_row(layer); row < held; ++row) {
        compare_held_row(handle, sequence, cache, layer, row);
      }
    }
  }

  void compare_held_row(int handle, const FollowedSequence& sequence, const KvCache<T>& cache,
                        int layer, int row) {
    const auto width = static_cast<std::size_t>(config_.kv_width());
    std::vector<T> key(width);
    std::vector<T> value(width);
    const int slot = cache.slot(layer, row);
    cache.store().read(layer, slot, key.data(), value.data());
    const SeenRow seen = sequence.held[static_cast<std::size_t>(row)];
    for (const Site site : {Site::cached_key, Site::cached_value}) {
      const std::vector<T>& found = site == Site::cached_key ? key : value;
      line_.assign(found.begin(), found.end());
      take_line({.stage = Stage::held_row, .site = site, .layer = layer, .row = seen, .slot = slot},
                handle, sequence, expected_row(*meter_, sequence, site, layer, seen), 0,
                [&](std::size_t column) {
                  ValueIndex at =
                      index_of(site, seen.row, 0, static_cast<int>(column), std::span(&seen, 1));
                  at.key = -1;
                  return at;
                });
    }
  }

  // ---- Interventions

  void set_value(const SiteTensor<T>& tensor) {
    const SetValue& set = *options_.set;
    if (tensor.site != set.site || tensor.layer != set.layer) return;
    const bool one_row = as_stored(set.site) || with_scores(set.site);
    for (int r = 0; r < (one_row ? 1 : tensor.rows); ++r) {
      const Row& row = row_of(tensor, r);
      if (row.handle != set.sequence || row.log_row != set.at.row) continue;
      const std::span<const SeenRow> seen =
          one_row ? seen_by(tensor, row) : std::span<const SeenRow>();
      const auto key = std::ranges::find(seen, set.at.key, &SeenRow::row) - seen.begin();
      if (one_row && key == static_cast<std::ptrdiff_t>(seen.size())) continue;
      const int columns = head_columns(set.site, config_);
      const int column = set.at.column + std::max(set.at.head, 0) * columns;
      const int k = static_cast<int>(key);
      const int line = with_scores(set.site) ? set.at.head : one_row ? k : r;
      const int at = with_scores(set.site) ? k : column;
      if (line >= tensor.rows || at >= tensor.columns) continue;
      tensor.at(line, at) = static_cast<T>(set.value);
      result_.value_set = true;
    }
  }

  // ---- Words

  [[nodiscard]] std::string sequence_text(int handle) const {
    return feeds_one_sequence(subject_) ? "" : fmt::format("sequence {}, ", handle);
  }

  [[nodiscard]] std::string sentence(const Findings::Kept& kept) const {
    const AuditFinding& finding = kept.finding;
    std::string text =
        finding.point.layer < 0 ? "" : fmt::format("layer {}, ", finding.point.layer);
    text += finding.point.name;
    if (!finding.wrong.empty() || !finding.worst) return text + ": " + finding.wrong;
    const AuditValue& worst = *finding.worst;
    if (!feeds_one_sequence(subject_)) text += fmt::format(", sequence {}", worst.sequence);
    if (kept.row) return text + stored_text(kept, worst);
    if (worst.at.head >= 0) {
      const bool kv = kept.site == Site::key || kept.site == Site::value;
      text += fmt::format(", {} head {}", kv ? "K/V" : "query", worst.at.head);
    }
    text += fmt::format(", row {}", worst.at.row);
    if (worst.at.key >= 0) text += fmt::format(", key of row {}", worst.at.key);
    if (worst.at.column >= 0) text += fmt::format(", column {}", worst.at.column);
    return text + ": " + values_text(worst);
  }

  [[nodiscard]] std::string stored_text(const Findings::Kept& kept, const AuditValue& worst) const {
    std::string text = fmt::format(", K/V head {}, slot {}", worst.at.head, kept.slot);
    const auto size = static_cast<std::size_t>(config_.head_size);
    const double floor =
        worst.floor.value_or(std::abs(worst.uncached) * double{std::numeric_limits<T>::epsilon()});
    const StrangeRow strange{
        .sequence = worst.sequence,
        .site = *kept.site,
        .layer = kept.finding.point.layer,
        .head = worst.at.head,
        .row = *kept.row,
        .found = std::span(kept.line).subspan(static_cast<std::size_t>(worst.at.head) * size, size),
        .tolerance = limit_of(policy_) * floor};
    const auto explained = explain(*meter_, config_, sequences_, strange);
    text += ": ";
    text += explained ? *explained
                      : fmt::format("row {}, column {}: {}", kept.row->row, worst.at.column,
                                    values_text(worst));
    if (worst.at.key >= 0) text += fmt::format(" (as row {} reads it)", worst.at.row);
    return text;
  }

  [[nodiscard]] static std::string values_text(const AuditValue& value) {
    std::string text =
        fmt::format("{:.6g} where {:.6g} was expected", value.cached, value.uncached);
    if (value.ratio) text += fmt::format(", {:.3g} times the noise floor", *value.ratio);
    return text;
  }

  const Case& subject_;
  const ModelData& model_;
  const Config& config_;
  const AuditOptions& options_;
  const Policy policy_;
  const EngineFactory& factory_;
  const std::unique_ptr<SiteMeter> meter_;
  Builtin<T>* engine_ = nullptr;  // of the run at hand
  std::string unwatchable_;

  FollowedSequences sequences_;
  int measured_ = 0;  // rows of the text, where feeds alone are run
  AuditResult result_;
  Verdict settled_ = Verdict::agree;  // of all that does not diverge by a value

  int asked_ = 0;  // steps of a check so far

  // Of the step at hand.
  int step_ = 0;
  std::string what_;
  bool in_step_ = false;
  Findings findings_;
  std::vector<Fed> fed_;
  std::vector<PlannedFeed> feeds_;
  StepPlan right_;
  std::vector<Row> rows_;     // of the plan
  std::vector<double> line_;  // of the cached decoder
};

}  // namespace

bool feeds_one_sequence(const Case& subject) {
  return subject.operations.empty() && !subject.siblings && subject.check != kAccountingCheck &&
         subject.check != kGenerationCheck;
}

AuditResult audit(const Case& subject, const ModelData& model, const EngineFactory& factory,
                  const AuditOptions& options) {
  if (subject.scalar == ScalarKind::f32) {
    return Auditor<float>(subject, model, factory, options).run();
  }
  return Auditor<double>(subject, model, factory, options).run();
}

std::optional<FirstDivergence> first_divergence(const Case& subject, const ModelData& model,
                                                const EngineFactory& factory) {
  if (feeds_one_sequence(subject) && subject.schedule.empty()) return std::nullopt;
  try {
    return audit(subject, model, factory, {.floors = false}).first;
  } catch (const Unwatchable&) {
    return std::nullopt;
  }
}

}  // namespace kvcheck
