// SPDX-License-Identifier: MIT
// The harness can fail: engines with planted faults, each of which the checks that should see it
// must call a divergence, and which every other check must let pass.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/error.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// The checks whose verdict is not what the fault's row of the table says.
std::vector<std::string> surprises(const PlantedFault& fault, const Collector& run) {
  std::vector<std::string> found;
  for (const CheckSummary& summary : run.summaries) {
    const Verdict expected = fault.seen_by(summary.check) ? Verdict::diverge : Verdict::agree;
    if (summary.verdict == expected) continue;
    std::string line = describe(summary);
    if (!run.failures.empty()) line += "\n  first: " + describe(run.failures.front());
    found.push_back(line);
  }
  return found;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A model, walked as its kind is walked.
struct Subject {
  std::string_view model;
  Arithmetic arithmetic;
};

void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.model << " in " << name(subject.arithmetic) << " arithmetic";
}

struct SabotageTest : testing::TestWithParam<Subject> {
  SabotageTest() : model(GetParam().model == "small" ? small_model() : load()) {}

  static ModelData load() {
    // Of the skipped models something else is loaded.
    const std::string_view name = GetParam().model;
    return load_model(name.starts_with("chapter8") && !has_bundled(name) ? "gen:plain:2" : name);
  }

  void SetUp() override {
    const std::string_view name = GetParam().model;
    ASSERT_TRUE(!name.starts_with("chapter8") || has_bundled(name)) << name;
  }

  ModelRun run() const {
    if (GetParam().model == "small") return whole_run(model);
    if (model.corpus.empty()) return random_run(model, 3);
    return {
        model, {{Source::corpus, PrefixTree::of(model.corpus, model.weights.config.context)}}, {}};
  }

  ModelData model;
};

TEST_P(SabotageTest, the_right_engine_agrees_everywhere) {
  Collector collector;
  const RunResult result =
      run_on(options_for(GetParam().arithmetic), run(), builtin_engine, collector);
  EXPECT_EQ(result.verdict, Verdict::agree) << collector.text;
  for (const CheckSummary& summary : collector.summaries) {
    EXPECT_EQ(summary.verdict, Verdict::agree) << describe(summary);
    EXPECT_GT(summary.counts.cases, 0) << describe(summary);
  }
  EXPECT_TRUE(collector.failures.empty());
}

TEST_P(SabotageTest, each_fault_is_seen_by_the_checks_that_should_see_it) {
  for (const PlantedFault& fault : planted_faults()) {
    SCOPED_TRACE(fault.id);
    Collector collector;
    const RunResult result =
        run_on(options_for(GetParam().arithmetic), run(), fault.factory, collector);
    EXPECT_EQ(result.verdict, Verdict::diverge);
    EXPECT_EQ(joined(surprises(fault, collector)), "");
    EXPECT_FALSE(collector.failures.empty());
  }
}

std::string test_name(const testing::TestParamInfo<Subject>& param) {
  std::string text(param.param.model);
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return text + "_" + std::string(name(param.param.arithmetic));
}

INSTANTIATE_TEST_SUITE_P(Models, SabotageTest,
                         testing::Values(Subject{"small", Arithmetic::row},
                                         Subject{"small", Arithmetic::matrix},
                                         Subject{"gen:plain:2", Arithmetic::row},
                                         Subject{"gen:plain:2", Arithmetic::matrix},
                                         Subject{"gen:windowed:1", Arithmetic::row},
                                         Subject{"gen:windowed:1", Arithmetic::matrix},
                                         Subject{"gen:windowed:4", Arithmetic::row},
                                         Subject{"gen:windowed:4", Arithmetic::matrix},
                                         Subject{"chapter8", Arithmetic::row},
                                         Subject{"chapter8", Arithmetic::matrix},
                                         Subject{"chapter8-rotary", Arithmetic::row},
                                         Subject{"chapter8-rotary", Arithmetic::matrix}),
                         test_name);

// Every prefix beyond the first token has the fault: if a single one were dropped from the walk, or
// its last row skipped, the count would tell.
TEST(Sabotage, every_prefix_that_is_wrong_is_counted) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    for (int r = 0; r < out.rows(); ++r) first_logit(out, r) += 0.5;
  };
  const ModelData model = small_model();
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    Collector collector;
    (void)run_on(options_for(arithmetic), whole_run(model), hooked(hooks), collector);
    EXPECT_EQ(collector.summary("all-prefixes").counts.diverged, 120);
    EXPECT_EQ(collector.summary("all-prefixes").counts.prefixes, 120);
    // A prefix of n tokens has 2^(n-1) schedules: 3 + 9 x 2 + 27 x 4 + 81 x 8.
    EXPECT_EQ(collector.summary("schedules").counts.diverged, 777);
    EXPECT_EQ(collector.summary("causality").counts.diverged, 0);
  }
}

// A fault in one row only, for each row of one prefix: none of them may be overlooked.
TEST(Sabotage, a_single_wrong_row_is_found_wherever_it_is) {
  const ModelData model = small_model();
  for (int wrong = 0; wrong < model.weights.config.context; ++wrong) {
    Hooks hooks;
    hooks.feed = [wrong](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
      const int before = inner.held(feeds[0].sequence).rows;
      inner.batch(feeds, rows, out);
      if (feeds.size() > 1 || wrong < before || wrong >= before + out.rows()) return;
      first_logit(out, wrong - before) += 0.5;
    };
    Collector collector;
    (void)run_on(options_for(Arithmetic::matrix), random_run(model, 1), hooked(hooks), collector);
    EXPECT_EQ(collector.summary("random-prefixes").counts.diverged, 1) << wrong;
    EXPECT_EQ(collector.summary("schedules").verdict, Verdict::diverge) << wrong;
    ASSERT_TRUE(collector.summary("schedules").worst_difference.has_value());
    EXPECT_EQ(collector.summary("schedules").worst_difference->result.position, wrong);
  }
}

// In row arithmetic not even the last bit may differ.
TEST(Sabotage, one_unit_in_the_last_place_diverges_in_row_arithmetic) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    for (int r = 0; r < out.rows(); ++r) {
      double& logit = first_logit(out, r);
      logit = std::nextafter(static_cast<float>(logit), 1e30F);
    }
  };
  const ModelData model = small_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::row), whole_run(model), hooked(hooks), collector);
  for (const char* check : {"all-prefixes", "exact"}) {
    EXPECT_EQ(collector.summary(check).counts.diverged, 120);
    ASSERT_TRUE(collector.summary(check).worst_difference.has_value());
    EXPECT_EQ(collector.summary(check).worst_difference->result.row->ulps, 1U);
  }
  EXPECT_EQ(collector.summary("schedules").counts.diverged, 777);
}

// A full forward whose very last row is wrong: the likeliest one to be forgotten by a loop.
TEST(Sabotage, the_last_row_of_a_full_forward_is_compared) {
  Hooks hooks;
  hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    if (rows == Rows::all) first_logit(out, out.rows() - 1) += 0.5;
  };
  const ModelData model = small_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::matrix), whole_run(model), hooked(hooks), collector);
  EXPECT_EQ(collector.summary("causality").counts.diverged, 81);
  EXPECT_EQ(collector.summary("all-prefixes").verdict, Verdict::agree);
}

TEST(Sabotage, nan_logits_of_the_engine_diverge_under_every_policy) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    for (double& value : out.values) value = std::numeric_limits<double>::quiet_NaN();
  };
  const ModelData model = small_model();
  for (const char* policy : {"exact", "abs:1e300", "noise:1e300", "rel:1e300"}) {
    SuiteOptions options = options_for(Arithmetic::matrix);
    options.tolerance = parse_policy(policy, "test");
    Collector collector;
    (void)run_on(options, whole_run(model), hooked(hooks), collector);
    EXPECT_EQ(collector.summary("all-prefixes").counts.diverged, 120) << policy;
    EXPECT_EQ(collector.summary("all-prefixes").counts.flaky, 0) << policy;
  }
}

// Wrong on both sides alike: what the comparison of an engine with itself cannot see.
TEST(Sabotage, nan_in_the_reference_is_broken_and_never_agrees) {
  Hooks hooks;
  hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    for (double& value : out.values) value = std::numeric_limits<double>::quiet_NaN();
  };
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    for (double& value : out.values) value = std::numeric_limits<double>::quiet_NaN();
  };
  const ModelData model = small_model();
  Collector collector;
  const RunResult result =
      run_on(options_for(Arithmetic::matrix), random_run(model, 1), hooked(hooks), collector);
  EXPECT_EQ(collector.summary("random-prefixes").verdict, Verdict::broken);
  EXPECT_EQ(collector.summary("schedules").verdict, Verdict::broken);
  EXPECT_EQ(result.verdict, Verdict::broken);
}

}  // namespace
}  // namespace kvcheck
