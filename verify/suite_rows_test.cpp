// SPDX-License-Identifier: MIT
// Every check that was planned ends up as a row that says what came of it, even where there was
// nothing to compare and where the engine never came to life.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/error.h"
#include "verify/case_text.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

constexpr const char* kChecksOfAll[] = {"all-prefixes", "exact", "causality", "schedules",
                                        "accounting"};

TEST(SuiteRows, a_check_without_prefixes_gave_up_whatever_the_others_say) {
  const ModelData model = small_model();
  ModelRun run = whole_run(model);
  run.sources.insert(run.sources.begin(), {Source::corpus, PrefixTree::of({}, 4)});
  Collector collector;
  const RunResult result = run_on(options_for(Arithmetic::row), run, builtin_engine, collector);
  EXPECT_EQ(collector.announced, collector.summaries.size());
  const CheckSummary& nothing = collector.summary("corpus-prefixes");
  EXPECT_EQ(nothing.verdict, Verdict::gave_up);
  EXPECT_EQ(nothing.counts, Counts{});
  for (const char* check : kChecksOfAll) {
    EXPECT_EQ(collector.summary(check).verdict, Verdict::agree) << check;
  }
  EXPECT_EQ(result.verdict, Verdict::gave_up);
}

// ---- Engines that fail before anything is compared

// Every check has a row of its own that is broken for this reason, and what it tells can be run
// again and breaks again.
void expect_broken(const Collector& collector, const ModelData& model, const EngineFactory& factory,
                   std::string_view why) {
  EXPECT_EQ(collector.announced, collector.summaries.size());
  for (const char* check : kChecksOfAll) {
    SCOPED_TRACE(check);
    const CheckSummary& summary = collector.summary(check);
    EXPECT_EQ(summary.verdict, Verdict::broken);
    EXPECT_EQ(summary.counts.crashed, 3) << "once for each first token";
    for (const CaseRecord& record : collector.records_of(check)) {
      EXPECT_EQ(record.result.note, why);
      const Case subject = parse_token(to_token(record.subject), "test");
      ASSERT_NO_THROW(require_same_model(subject, model, "test"));
      const CaseResult again = run_case(subject, model, factory).result;
      EXPECT_EQ(again.verdict, Verdict::broken);
      EXPECT_EQ(again.note, why);
    }
  }
}

TEST(SuiteRows, an_engine_that_does_not_start_is_broken) {
  const ModelData model = small_model();
  const EngineFactory factories[] = {
      [](const ModelData&, const EngineSetup&) -> std::unique_ptr<Engine> {
        throw EngineError("no such program");
      },
      [](const ModelData&, const EngineSetup&) -> std::unique_ptr<Engine> {
        throw Error("no such program");
      }};
  for (const EngineFactory& factory : factories) {
    Collector collector;
    const RunResult result =
        run_on(options_for(Arithmetic::row), whole_run(model), factory, collector);
    EXPECT_EQ(result.verdict, Verdict::broken);
    EXPECT_FALSE(result.interrupted);
    expect_broken(collector, model, factory, "no such program");
  }
}

TEST(SuiteRows, an_engine_that_opens_no_sequence_is_broken_at_the_first_prefix) {
  const ModelData model = small_model();
  Hooks hooks;
  hooks.open = [](Engine&) -> SequenceId { throw EngineError("full"); };
  Collector collector;
  const SuiteOptions options = options_for(Arithmetic::row);
  const RunResult result = run_on(options, whole_run(model), hooked(hooks), collector);
  EXPECT_EQ(result.verdict, Verdict::broken);
  EXPECT_EQ(collector.summary("causality").verdict, Verdict::agree) << "it needs no sequence";
  const auto records = collector.records_of("all-prefixes");
  ASSERT_EQ(records.size(), 3U);
  for (int token = 0; token < 3; ++token) {
    const CaseRecord& record = records[static_cast<std::size_t>(token)];
    EXPECT_EQ(record.subject.tokens, std::vector{token});
    const Case subject = parse_token(to_token(record.subject), "test");
    EXPECT_EQ(run_case(subject, model, hooked(hooks)).result.note, "full");
  }
}

TEST(SuiteRows, a_stored_failure_of_an_engine_that_does_not_start_is_broken) {
  const ModelData model = small_model();
  ModelRun run = random_run(model, 1);
  run.stored = {{.check = "random-prefixes",
                 .model = model.name,
                 .model_hash = short_hash(model),
                 .arithmetic = Arithmetic::row,
                 .tokens = {0},
                 .schedule = {1}}};
  const EngineFactory factory = [](const ModelData&,
                                   const EngineSetup&) -> std::unique_ptr<Engine> {
    throw EngineError("no such program");
  };
  Collector collector;
  EXPECT_EQ(run_on(options_for(Arithmetic::row), run, factory, collector).verdict, Verdict::broken);
  EXPECT_EQ(collector.summary("stored").counts.crashed, 1);
  EXPECT_EQ(collector.records.front().result.note, "no such program");
}

// ---- How long engines are kept

// Counts the engines that were made, and those that are left.
struct Census {
  std::map<std::string, int> made;
  std::map<std::string, int> alive;
  int together = 0;  // models that had an engine at the same time at most
};

class CountedEngine final : public Engine {
 public:
  CountedEngine(std::unique_ptr<Engine> inner, int& alive)
      : inner_(std::move(inner)), alive_(alive) {
    ++alive_;
  }
  ~CountedEngine() override { --alive_; }
  CountedEngine(const CountedEngine&) = delete;
  CountedEngine& operator=(const CountedEngine&) = delete;

  [[nodiscard]] const Hello& hello() const override { return inner_->hello(); }
  void full(const TokenBlock& block, Rows rows, Logits& out) override {
    inner_->full(block, rows, out);
  }
  [[nodiscard]] SequenceId open() override { return inner_->open(); }
  void close(SequenceId sequence) override { inner_->close(sequence); }
  void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) override {
    inner_->feed(sequence, tokens, rows, out);
  }
  void batch(std::span<const Feed> feeds, Rows rows, Logits& out) override {
    inner_->batch(feeds, rows, out);
  }
  void truncate(SequenceId sequence, int length) override { inner_->truncate(sequence, length); }
  [[nodiscard]] SequenceId fork(SequenceId sequence) override { return inner_->fork(sequence); }
  [[nodiscard]] Held held(SequenceId sequence) const override { return inner_->held(sequence); }
  [[nodiscard]] Places places(SequenceId sequence) const override {
    return inner_->places(sequence);
  }
  [[nodiscard]] std::uint64_t fingerprint(SequenceId sequence) const override {
    return inner_->fingerprint(sequence);
  }

 private:
  std::unique_ptr<Engine> inner_;
  int& alive_;
};

EngineFactory counted(Census& census) {
  return [&census](const ModelData& model, const EngineSetup& setup) {
    ++census.made[model.name];
    auto engine =
        std::make_unique<CountedEngine>(builtin_engine(model, setup), census.alive[model.name]);
    const auto has_some = [](const auto& entry) { return entry.second > 0; };
    const auto now = std::ranges::count_if(census.alive, has_some);
    census.together = std::max(census.together, static_cast<int>(now));
    return engine;
  };
}

TEST(SuiteRows, a_model_is_prepared_once_for_all_its_checks_and_let_go_before_the_next) {
  const ModelData first = small_model();
  ModelData second = small_model();
  second.name = "another";
  Census census;
  const std::atomic<bool> never = false;
  Collector collector;
  (void)run_suite(options_for(Arithmetic::row), {whole_run(first), whole_run(second)},
                  counted(census), collector, never);
  EXPECT_EQ(census.made.at("small"), 1);
  EXPECT_EQ(census.made.at("another"), 1);
  EXPECT_EQ(census.together, 1);
}

}  // namespace
}  // namespace kvcheck
