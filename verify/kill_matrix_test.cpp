// SPDX-License-Identifier: MIT
// A few faults whose outcomes are known, the order of rows, and what makes a matrix worthless.
#include "verify/kill_matrix.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <type_traits>

#include "engine/test_support.h"
#include "verify/case_text.h"
#include "verify/faults.h"
#include "verify/models.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// Writes down all that it is told.
class Notes final : public MatrixListener {
 public:
  void on_start(std::size_t rows) override { announced = rows; }
  void on_row(const MatrixRow& row) override {
    text += fmt::format("{} on {}{}\n", to_text(row.variant), row.model.name,
                        row.smallest ? ", the smallest" : "");
    for (const TrialCell& cell : row.cells) {
      text += fmt::format("  {} {} {} {}", cell.check, name(cell.outcome), cell.cases,
                          cell.max_abs_difference);
      if (cell.first) text += " " + repro_line(cell.first->subject);
      text += "\n";
      outcomes[{to_text(row.variant), row.model.name, std::string(cell.check)}] = cell.outcome;
    }
  }

  std::size_t announced = 0;
  std::string text;
  std::map<std::array<std::string, 3>, Outcome> outcomes;
};

constexpr std::atomic<bool> kGoOn{false};

Operations two_feeds(const OperationSpace&, std::uint64_t, std::uint64_t number) {
  return parse_operations(number % 2 == 0 ? "open.feed:0x2.feed:0x1" : "open.feed:0x1.feed:0x2",
                          "test");
}

MatrixOptions options(std::vector<const Fault*> faults) {
  MatrixOptions options;
  options.faults = std::move(faults);
  options.sequences = 2;
  options.draw = two_feeds;
  return options;
}

const Fault* row(std::string_view id) { return &find_fault(id, "test"); }

struct Loaded {
  std::deque<ModelData> models;
  std::vector<ModelRun> runs;

  explicit Loaded(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const ModelData& model = models.emplace_back(load_model(name));
      runs.push_back({model, matrix_sources(model, 1), {}});
    }
  }
};

TEST(KillMatrix, tells_what_each_check_makes_of_a_fault) {
  const Loaded loaded({"chapter8"});
  Notes notes;
  const MatrixReport report =
      run_kill_matrix(options({row("pos-multi-constant"), row("pos-all-offset-rotary")}),
                      loaded.runs, notes, kGoOn);
  const auto outcome = [&](const char* variant, const char* model, const char* check) {
    return notes.outcomes.at({variant, model, check});
  };
  // Feeds of several tokens: no check that feeds one at a time can see it.
  for (const char* model : {"chapter8", "tiny:positions:1"}) {
    EXPECT_EQ(outcome("pos-multi-constant", model, "noise"), Outcome::inert);
    EXPECT_EQ(outcome("pos-multi-constant", model, "schedules"), Outcome::caught);
    EXPECT_EQ(outcome("pos-multi-constant", model, "operations"), Outcome::caught);
    EXPECT_EQ(outcome("pos-multi-constant", model, "argmax"), Outcome::inert);
    EXPECT_EQ(outcome("pos-multi-constant", model, "shapes"), Outcome::inert);
  }
  EXPECT_EQ(outcome("pos-multi-constant", "chapter8", "one-split"), Outcome::caught);
  EXPECT_EQ(outcome("pos-multi-constant", "chapter8", "embedding"), Outcome::missed);
  EXPECT_EQ(outcome("pos-multi-constant", "tiny:positions:1", "contract"), Outcome::not_applicable);
  EXPECT_EQ(outcome("pos-all-offset-rotary:amount1", "tiny:rotary:1", "exact"),
            Outcome::equivalent);
  EXPECT_EQ(outcome("pos-all-offset-rotary:amount1", "chapter8", "exact"), Outcome::not_applicable);
  EXPECT_TRUE(report.as_expected());
  ASSERT_EQ(report.faults.size(), 2U);
  const FaultReport& constant = report.faults[0];
  EXPECT_EQ(constant.variants, (OutcomeCounts{1, 0, 0, 0, 0}));
  EXPECT_EQ(constant.seen_on, std::vector<std::string>{"chapter8"});
  EXPECT_TRUE(constant.seen_on_smallest);
  EXPECT_EQ(constant.smallest->subject.tokens.size(), 3U);
  EXPECT_EQ(constant.smallest->subject.model, "tiny:positions:1");
  EXPECT_EQ(to_text(constant.smallest->subject.schedule), "1+2");
  EXPECT_EQ(report.faults[1].variants, (OutcomeCounts{0, 0, 0, 2, 0}));
  EXPECT_EQ(report.faults[1].models, 0);
  EXPECT_EQ(report.rows, 6);
  EXPECT_EQ(report.models, 3);
  EXPECT_FALSE(report.interrupted);
}

TEST(KillMatrix, is_the_same_whatever_the_number_of_threads) {
  const Loaded loaded({"chapter8", "gen:windowed:1"});
  const auto run = [&](int jobs) {
    Notes notes;
    MatrixOptions some = options({row("pos-decode-reset"), row("pos-batch-shared")});
    some.jobs = jobs;
    const MatrixReport report = run_kill_matrix(some, loaded.runs, notes, kGoOn);
    for (const CheckReport& check : report.checks) {
      notes.text += fmt::format("{} {}\n", check.check.id, check.cells[0]);
    }
    return notes.text;
  };
  const std::string alone = run(1);
  EXPECT_NE(alone.find("caught"), std::string::npos);
  EXPECT_EQ(run(4), alone);
}

TEST(KillMatrix, runs_what_is_asked_for) {
  const Loaded loaded({"chapter8"});
  MatrixOptions some = options({row("pos-decode-offset")});
  some.checks = {"noise", "shapes"};
  some.wanted = [](const FaultVariant& variant) { return variant.at.amount == -1; };
  Notes notes;
  const MatrixReport report = run_kill_matrix(some, loaded.runs, notes, kGoOn);
  EXPECT_EQ(notes.announced, 6U);
  EXPECT_EQ(report.rows, 6);
  EXPECT_EQ(notes.outcomes.size(), 12U);
  ASSERT_EQ(report.checks.size(), 2U);
  EXPECT_EQ(report.checks[0].kill_rate(), 1.0);
  EXPECT_EQ(report.checks[1].kill_rate(), 0.0);
}

TEST(KillMatrix, can_be_stopped) {
  const std::atomic<bool> stop{true};
  const Loaded loaded({"chapter8"});
  Notes notes;
  const MatrixReport report =
      run_kill_matrix(options({row("pos-decode-reset")}), loaded.runs, notes, stop);
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.rows, 0);
}

// ---- What is not as the table says

void nothing(StepPlan&, const FaultStep&) {}

void first_position(StepPlan& plan, const FaultStep& step) {
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    if (step.held(static_cast<int>(r)) > 0) plan.rows[r].position = 0;
  }
}

Fault made(PlanFault change, Expected expected) {
  return {"made",
          "position of a row",
          "made here",
          "this test",
          {Feature::learned},
          "flat",
          {},
          change,
          expected,
          "because"};
}

std::vector<std::string> unexpected(const Fault& fault, std::vector<std::string_view> checks = {}) {
  const Loaded loaded({"chapter8"});
  MatrixOptions some = options({&fault});
  some.checks = std::move(checks);
  Notes notes;
  const MatrixReport report = run_kill_matrix(some, loaded.runs, notes, kGoOn);
  EXPECT_EQ(report.as_expected(), report.faults.at(0).unexpected.empty());
  return report.faults.at(0).unexpected;
}

TEST(KillMatrix, a_fault_that_never_changes_anything_is_not_as_expected) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(unexpected(made(nothing, Expected::caught)), Texts{"made: inert on every model"});
  EXPECT_EQ(unexpected(made(nothing, Expected::equivalent)), Texts{"made: inert on every model"});
  EXPECT_EQ(unexpected(made(first_position, Expected::caught)), Texts{});
  EXPECT_EQ(unexpected(made(first_position, Expected::equivalent)),
            Texts{"made: caught, and expected to be equivalent"});
  EXPECT_EQ(unexpected(made(first_position, Expected::missed)),
            Texts{"made: caught, and expected to be missed"});
  // Replicas decide nothing.
  EXPECT_EQ(unexpected(made(first_position, Expected::caught), {"shapes"}), Texts{});
}

// By one rounding: it changes numbers, and less than the noise floor forgives.
constexpr Fault kOneRounding{
    "made",
    "probabilities",
    "one of them by one epsilon",
    "this test",
    {},
    "flat",
    {},
    at_sites(SiteSet().with(Site::probabilities), [](const auto& tensor, const FaultStep& step) {
      using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
      if (!step.warm(tensor.row)) return;
      tensor.at(0, 0) *= 1 + std::numeric_limits<T>::epsilon();
    })};

TEST(KillMatrix, a_fault_that_every_check_misses_is_not_as_expected) {
  EXPECT_EQ(unexpected(kOneRounding, {"noise", "noise-f64"}),
            std::vector<std::string>{"made: missed by every check"});
}

// ---- Without a fault

TEST(KillMatrix, means_nothing_where_the_right_engine_fails) {
  ModelData model = wide_model();
  model.contract_abs = 0;
  const std::vector<ModelRun> runs{{model, matrix_sources(model, 1), {}}};
  Notes notes;
  std::string what;
  try {
    (void)run_kill_matrix(options({row("pos-decode-reset")}), runs, notes, kGoOn);
  } catch (const EngineError& error) {
    what = error.what();
  }
  EXPECT_EQ(what.find("baseline: "), 0U) << what;
  EXPECT_NE(what.find("expected agreement, got diverge: kvcheck repro kv1:"), std::string::npos)
      << what;
  EXPECT_EQ(notes.text, "");
}

TEST(KillMatrix, means_nothing_where_the_canary_is_not_seen) {
  const Loaded loaded({"chapter8"});
  MatrixOptions blind = options({row("pos-decode-reset")});
  blind.canary = &no_fault();
  Notes notes;
  EXPECT_THROW((void)run_kill_matrix(blind, loaded.runs, notes, kGoOn), EngineError);
}

TEST(KillMatrix, of_deep_models_has_the_first_and_the_last_layer) {
  Config deep = tiny_decoder({Feature::rotary});
  deep.layers = 8;
  deep.windows.assign(8, 0);
  const std::vector<FaultVariant> all = matrix_variants(*row("rope-backwards"), deep);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(to_text(all[0]), "rope-backwards");
  EXPECT_EQ(to_text(all[1]), "rope-backwards:layer0");
  EXPECT_EQ(to_text(all[2]), "rope-backwards:layer7");
  deep.windows[7] = 1;
  EXPECT_EQ(matrix_variants(*row("rope-backwards"), deep).size(), 2U);
}

// ---- Nothing planted

TEST(NoFault, is_the_built_in_engine_to_the_last_bit) {
  for (const std::string name : {"chapter8", "tiny:rotary+window:1", "gen:grouped-heads:1"}) {
    const ModelData model = load_model(name);
    const std::vector<int> tokens = random_sequence(model.weights.config, 1, 0);
    for (const CacheKind& cache : cache_kinds()) {
      for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
        for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
          const EngineSetup setup{scalar, arithmetic, cache};
          const auto trace = std::make_shared<FaultTrace>();
          const auto right = builtin_engine(model, setup);
          const auto planted = faulty_engine({&no_fault(), {}}, trace)(model, setup);
          const auto fed = [&](Engine& engine) {
            const SequenceId sequence = engine.open();
            Logits all;
            std::vector<double> values;
            for (std::size_t t = 0; t < tokens.size();) {
              const std::size_t count = std::min(tokens.size() - t, t == 0 ? std::size_t{2} : 1);
              engine.feed(sequence, std::span(tokens).subspan(t, count), Rows::all, all);
              values.insert(values.end(), all.values.begin(), all.values.end());
              t += count;
            }
            return values;
          };
          EXPECT_EQ(fed(*planted), fed(*right)) << name << " " << kvcheck::name(cache);
          EXPECT_EQ(trace->changes(), 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvcheck
