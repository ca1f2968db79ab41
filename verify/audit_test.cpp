// SPDX-License-Identifier: MIT
// The audit names where a wrong engine first parts from the oracle, and nothing on a right one.
#include "verify/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/builtin.h"
#include "engine/test_support.h"
#include "verify/checks.h"
#include "verify/models.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- Engines

// The built-in engine in float32, changed by `plant`.
template <typename Plant>
EngineFactory planted(Plant plant) {
  return [plant](const ModelData& model, const EngineSetup& setup) {
    auto engine = std::make_unique<Builtin<float>>(model.weights, setup.arithmetic, setup.cache);
    Hooks hooks;
    plant(*engine, hooks);
    return std::make_unique<HookedEngine>(std::move(engine), std::move(hooks));
  };
}

// Steps that go on from a cache have a plan that `change` was at.
EngineFactory with_plan(const std::function<void(StepPlan&)>& change) {
  return planted([change](Builtin<float>& engine, Hooks&) {
    engine.rewrite_plans([change](StepPlan& plan, PlannedFeeds feeds) {
      if (feeds[0].held > 0) change(plan);
    });
  });
}

using Change = std::function<void(const SiteTensor<float>&)>;
EngineFactory with_site(Site site, int layer, const Change& change) {
  return planted([=](Builtin<float>& engine, Hooks&) {
    engine.observe_cached(Observer<float>(
        [=](const SiteTensor<float>& tensor) {
          if (tensor.layer == layer) change(tensor);
        },
        SiteSet().with(site)));
  });
}

// After every truncation the cache is changed.
EngineFactory after_truncation(const std::function<void(KvCache<float>&)>& change) {
  return planted([change](Builtin<float>& engine, Hooks& hooks) {
    hooks.truncate = [&engine, change](Engine& inner, SequenceId sequence, int length) {
      inner.truncate(sequence, length);
      change(engine.cache(sequence));
    };
  });
}

// ---- Cases

Case prefix_case(const ModelData& model, std::vector<int> tokens, Schedule schedule = {},
                 Arithmetic arithmetic = Arithmetic::row) {
  if (schedule.empty()) schedule = decode_schedule(static_cast<int>(tokens.size()));
  Case subject;
  subject.check = "schedules";
  subject.model = model.name;
  subject.arithmetic = arithmetic;
  subject.policy = default_policy(model, arithmetic);
  subject.tokens = std::move(tokens);
  subject.schedule = std::move(schedule);
  return subject;
}

Case check_case(std::string_view check, std::vector<int> tokens, Schedule schedule = {}) {
  Case subject = prefix_case(two_window_model(), std::move(tokens));
  subject.check = check;
  subject.schedule = std::move(schedule);
  return subject;
}

Case siblings_case(std::string_view check) {
  Case subject = check_case(check, {3, 1, 4});
  subject.siblings = true;
  return subject;
}

// "feed 2: layer 0, scores, ...", as the first divergence of the model of two windows says it.
std::string first_of(const Case& subject, const ModelData& model, const EngineFactory& factory) {
  const AuditResult result = audit(subject, model, factory);
  EXPECT_TRUE(!result.first || result.verdict == Verdict::diverge);
  if (!result.first) return std::string(name(result.verdict)) + ": " + result.note;
  const auto short_way = first_divergence(subject, model, factory);
  EXPECT_TRUE(short_way && short_way->point == result.first->point &&
              short_way->step == result.first->step);
  return std::to_string(result.first->step + 1) + ": " + result.first->sentence;
}

std::string first_of(const EngineFactory& factory) {
  const ModelData model = two_window_model();
  return first_of(prefix_case(model, {3, 1, 4, 12, 5}), model, factory);
}

std::string first_of(std::string_view operations, const EngineFactory& factory) {
  const ModelData model = two_window_model();
  return first_of(operations_case(model, {}, operations), model, factory);
}

// ---- Answers of a plan

TEST(Audit, wrong_answers_of_a_plan_come_before_all_values) {
  EXPECT_EQ(first_of(with_plan([](StepPlan& plan) { --plan.rows[0].position; })),
            "2: position: row 1: position 0 where 1 was expected");
  EXPECT_EQ(first_of(with_plan([](StepPlan& plan) { plan.rules[1].score_scale *= 2; })),
            "2: layer 1, constants: score scale 1 where 0.5 was expected");
  EXPECT_EQ(first_of(with_plan([](StepPlan& plan) { plan.write_store[1] = 0; })),
            "2: layer 1, store: its rows go to the store of layer 0 where 1 was expected");
  EXPECT_EQ(first_of(with_plan([](StepPlan& plan) {
              SlotView& view = own_view(plan, 1);
              view.slots.erase(view.slots.begin());
              --view.first[1];
            })),
            "2: layer 1, visible rows: row 1 sees row 1 where 0-1 were expected");
}

// Where one measurement answers for several steps, and a feed is longer than that.
TEST(Audit, of_a_long_text_looks_at_every_row) {
  const ModelData model = load_model("gen:wide:1:context256");
  std::vector<int> tokens;
  for (int i = 0; i < 210; ++i) tokens.push_back(i * i % model.weights.config.vocabulary);
  Schedule schedule = decode_schedule(110);
  schedule.push_back(100);
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    const Case subject = prefix_case(model, tokens, schedule, arithmetic);
    EXPECT_EQ(first_of(subject, model, builtin_engine), "agree: ");
  }
  const Case subject = prefix_case(model, tokens, schedule);
  for (const auto& [held, where] :
       {std::pair{20, "21: "}, std::pair{97, "98: "}, std::pair{110, "111: "}}) {
    const auto engine = planted([held = held](Builtin<float>& inside, Hooks&) {
      inside.rewrite_plans([held](StepPlan& plan, PlannedFeeds feeds) {
        if (feeds[0].held == held) plan.rules[1].score_scale *= 2;
      });
    });
    EXPECT_THAT(first_of(subject, model, engine), testing::StartsWith(where));
  }
}

// What reaches the engine is not what it was told.
EngineFactory with_tokens(const std::function<void(std::vector<int>&)>& change) {
  return planted([change](Builtin<float>&, Hooks& hooks) {
    hooks.feed = [change](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
      std::vector<int> tokens(feeds[0].tokens.begin(), feeds[0].tokens.end());
      change(tokens);
      inner.feed(feeds[0].sequence, tokens, rows, out);
    };
  });
}

TEST(Audit, other_tokens_come_before_everything_else) {
  const ModelData model = two_window_model();
  const Case subject = prefix_case(model, {3, 1, 4}, {1, 2});
  EXPECT_EQ(first_of(subject, model, with_tokens([](std::vector<int>& tokens) {
                       if (tokens.size() == 2) tokens[1] = 7;
                     })),
            "2: token: row 2: token 7 where 4 was expected");
  EXPECT_EQ(first_of(subject, model, with_tokens([](std::vector<int>& tokens) {
                       if (tokens.size() == 2) tokens.pop_back();
                     })),
            "2: step: 2 rows in all where 3 were expected");
}

TEST(Audit, a_plan_that_cannot_be_executed_breaks_the_engine) {
  EXPECT_EQ(first_of(with_plan([](StepPlan& plan) { plan.read_store[0] = 7; })),
            "broken: a plan names a layer, K/V head, view or sequence that there is not");
}

TEST(Audit, the_wrong_k_v_head_is_an_answer_of_the_plan) {
  const ModelData model = load_model("gen:grouped-heads:1");
  const EngineFactory tiled = with_plan(
      [](StepPlan& plan) { std::ranges::rotate(plan.kv_head_of, plan.kv_head_of.begin() + 1); });
  EXPECT_THAT(first_of(prefix_case(model, {0, 1}), model, tiled), HasSubstr("2: K/V head: query"));
}

// ---- Values

void scale_row(const SiteTensor<float>& tensor, float by) {
  for (int c = 0; c < tensor.columns; ++c) tensor.at(tensor.rows - 1, c) *= by;
}

TEST(Audit, wrong_values_are_named_at_their_site) {
  EXPECT_THAT(first_of(with_site(Site::scores, 1, [](const auto& x) { scale_row(x, 2); })),
              HasSubstr("1: layer 1, scores, query head 1, row 0, key of row 0: "));
  EXPECT_THAT(first_of(with_site(Site::final_norm, -1, [](const auto& x) { scale_row(x, 1.01F); })),
              HasSubstr("1: final norm, row 0, column "));
  EXPECT_THAT(first_of(with_site(Site::mlp_hidden, 0, [](const auto& x) { scale_row(x, 1.01F); })),
              HasSubstr("1: layer 0, mlp hidden, row 0, column "));
  EXPECT_THAT(first_of(with_site(Site::value, 1, [](const auto& x) { scale_row(x, -1); })),
              HasSubstr("1: layer 1, value, K/V head 0, row 0, column "));
}

TEST(Audit, whose_numbers_a_stored_row_is) {
  EXPECT_EQ(first_of(with_site(Site::cached_key, 1,
                               [](const SiteTensor<float>& x) {
                                 if (x.rows < 3) return;
                                 for (int c = 0; c < x.columns; ++c) x.at(2, c) = x.at(1, c);
                               })),
            "3: layer 1, stored key, K/V head 0, slot 2: row 1 where row 2 was expected (as row 2 "
            "reads it)");
  EXPECT_EQ(first_of(with_site(Site::cached_value, 0,
                               [](const SiteTensor<float>& x) {
                                 for (int c = 0; c < x.columns; ++c) x.at(0, c) = 0;
                               })),
            "1: layer 0, stored value, K/V head 0, slot 0: zeros where row 0 was expected (as row "
            "0 reads it)");
}

// What was stored is not rotated: that is the rotation of position 0.
TEST(Audit, a_key_that_is_not_rotated_stands_at_position_0) {
  const EngineFactory raw = planted([](Builtin<float>& engine, Hooks&) {
    auto rotated = std::make_shared<std::vector<float>>();
    engine.rewrite_plans([](StepPlan& plan, PlannedFeeds feeds) {
      if (feeds[0].held == 3) own_positions(plan, 1).key[0] = 0;
    });
  });
  const ModelData model = two_window_model();
  const AuditResult result = audit(prefix_case(model, {3, 1, 4, 12, 5}), model, raw);
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->sentence,
            "layer 1, position: row 3, key: position 0 where 3 was expected");
  // The plan is named first; the values say the same.
  const auto stored =
      std::ranges::find(result.shown.findings, AuditPoint{"stored key", 1}, &AuditFinding::point);
  ASSERT_NE(stored, result.shown.findings.end());
  EXPECT_EQ(stored->verdict, Verdict::diverge);
}

TEST(Audit, nan_is_never_agreement) {
  const auto put = [](float value) {
    return with_site(Site::attention, 1, [=](const auto& x) { x.at(0, 3) = value; });
  };
  EXPECT_THAT(first_of(put(std::numeric_limits<float>::quiet_NaN())),
              HasSubstr("1: layer 1, attention, query head 0, row 0, column 3: nan where "));
  const ModelData model = two_window_model();
  const AuditResult result = audit(prefix_case(model, {3, 1}, {}, Arithmetic::matrix), model,
                                   put(std::numeric_limits<float>::quiet_NaN()));
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->point, (AuditPoint{"attention", 1}));
}

// The engine computes the right logits and hands them out in another order.
TEST(Audit, an_answer_of_other_rows_is_no_matter_of_any_site) {
  const auto swapped = planted([](Builtin<float>&, Hooks& hooks) {
    hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
      inner.batch(feeds, rows, out);
      if (out.rows() < 2) return;
      std::swap_ranges(out.values.begin(), out.values.begin() + out.vocabulary,
                       out.values.begin() + out.vocabulary);
    };
  });
  const ModelData model = two_window_model();
  EXPECT_THAT(first_of(prefix_case(model, {3, 1, 4}, {1, 2}), model, swapped),
              HasSubstr("2: answer, row "));
  EXPECT_THAT(first_of("open.feed:0x1.open.batch:0x1-1x1", swapped),
              HasSubstr("4: answer, sequence "));
}

// ---- What lies in a cache

TEST(Audit, a_cache_that_changes_between_operations_is_named_before_it_is_read) {
  EXPECT_EQ(
      first_of("open.feed:0x5.truncate:0x4.feed:0x1", after_truncation([](KvCache<float>& cache) {
                 std::copy_n(cache.key(1, 1), cache.slot_stride(), cache.key(1, 3));
               })),
      "3: layer 1, held key, sequence 0, K/V head 0, slot 3: row 1 where row 3 was expected");
  EXPECT_EQ(
      first_of("open.feed:0x5.truncate:0x4.feed:0x1", after_truncation([](KvCache<float>& cache) {
                 std::copy_n(cache.key(0, 2), cache.slot_stride(), cache.value(0, 2));
               })),
      "3: layer 0, held value, sequence 0, K/V head 0, slot 2: the key where the value was "
      "expected");
  EXPECT_EQ(first_of("open.feed:0x5.truncate:0x4.feed:0x1",
                     after_truncation([](KvCache<float>& cache) { cache.set_length(3); })),
            "3: held rows: sequence 0, 3 rows where 4 were expected");
  EXPECT_EQ(
      first_of("open.feed:0x5.truncate:0x4.feed:0x1", after_truncation([](KvCache<float>& cache) {
                 cache.renumber({0, 1, 2, 2}, 3);
               })),
      "3: held position: sequence 0, row 3: position 2 where 3 was expected");
}

// Rotated back by one position too few.
TEST(Audit, keys_that_a_shift_moves_too_little_are_named_by_their_position) {
  const EngineFactory factory = planted([](Builtin<float>& engine, Hooks& hooks) {
    hooks.shift = [&engine](Engine& inner, SequenceId sequence, int from, int to) {
      std::vector<float> key(engine.cache(sequence).key(1, to),
                             engine.cache(sequence).key(1, to) + 4);
      inner.shift(sequence, from, to);
      std::ranges::copy(key, engine.cache(sequence).key(1, from));
    };
  });
  EXPECT_EQ(
      first_of("open.feed:0x5.shift:0x1-3.feed:0x1", factory),
      "3: layer 1, held key, sequence 0, K/V head 0, slot 1: position 3 where 1 was expected");
}

TEST(Audit, rows_of_another_sequence_are_named_as_such) {
  const EngineFactory factory = planted([](Builtin<float>& engine, Hooks& hooks) {
    hooks.fork = [&engine](Engine& inner, SequenceId from) {
      const SequenceId copy = inner.fork(from);
      if (from == 1) {
        std::copy_n(engine.cache(0).value(1, 1), engine.cache(0).slot_stride(),
                    engine.cache(copy).value(1, 1));
      }
      return copy;
    };
  });
  EXPECT_EQ(first_of("open.feed:0x3.open.feed:1x3.fork:1", factory),
            "5: layer 1, held value, sequence 2, K/V head 0, slot 1: row 1 of sequence 0 where row "
            "1 of sequence 2 was expected");
}

// ---- A right engine

struct Worst {
  double ratio = 0;
  std::string where;
  std::int64_t compared = 0;

  void expect_agreement(const Case& subject, const ModelData& model, std::string_view what) {
    const AuditResult result = audit(subject, model, builtin_engine);
    EXPECT_EQ(result.verdict, Verdict::agree)
        << what << " " << (result.first ? result.first->sentence : result.note);
    compared += result.compared;
    if (result.worst_ratio <= ratio) return;
    ratio = result.worst_ratio;
    where = std::string(what) + ", " + result.worst_ratio_at.name;
  }
};

// In both arithmetics and scalars.
void expect_agreement(Case subject, const ModelData& model, std::string_view what, Worst& worst) {
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
      subject.arithmetic = arithmetic;
      subject.scalar = scalar;
      subject.policy = default_policy(model, arithmetic);
      worst.expect_agreement(subject, model, what);
    }
  }
}

// The limit is as far above the worst correct ratio as that of the logits is.
constexpr double kCalibrated = kNoiseLimit / 3;

TEST(Audit, the_right_engine_agrees_on_every_corpus_prefix_however_it_is_fed) {
  Worst worst;
  for (const std::string_view bundled : {"chapter8", "chapter8-rotary"}) {
    ASSERT_TRUE(has_bundled(bundled)) << bundled;
    const ModelData model = load_model(bundled);
    const PrefixTree tree = PrefixTree::of(model.corpus, model.weights.config.context);
    for (const std::vector<int>& sequence : model.corpus) {
      const int longest = std::min(static_cast<int>(sequence.size()), model.weights.config.context);
      for (int n = 1; n <= longest; ++n) {
        for (const Schedule& schedule : all_schedules(n)) {
          expect_agreement(prefix_case(model, {sequence.begin(), sequence.begin() + n}, schedule),
                           model, bundled, worst);
        }
      }
    }
  }
  EXPECT_GT(worst.compared, 100'000);
  EXPECT_LE(worst.ratio, kCalibrated) << worst.where;
  RecordProperty("worst_ratio", std::to_string(worst.ratio) + " " + worst.where);
}

TEST(Audit, the_right_engine_agrees_on_generated_models) {
  Worst worst;
  for (const std::string& name : default_models(1)) {
    const ModelData model = load_model(name);
    std::vector<int> tokens = random_sequence(model.weights.config, 1, 0);
    tokens.resize(std::min<std::size_t>(tokens.size(), 8));
    const int length = static_cast<int>(tokens.size());
    for (const Schedule& schedule : {decode_schedule(length), single_schedule(length)}) {
      expect_agreement(prefix_case(model, tokens, schedule), model, name, worst);
    }
  }
  EXPECT_LE(worst.ratio, kCalibrated) << worst.where;
  RecordProperty("worst_ratio", std::to_string(worst.ratio) + " " + worst.where);
}

TEST(Audit, the_right_engine_agrees_through_every_operation_in_every_kind_of_cache) {
  const ModelData model = two_window_model();
  Worst worst;
  for (const CacheKind& kind : all_cache_kinds()) {
    expect_agreement(
        operations_case(model, kind,
                        "open.feed:0x5.open.batch:0x1-1x3.fork:1.feed:2x2.reorder:0-2@1-0."
                        "feed:0x1.save:1.load:0.feed:3x1.close:1.open.prompt:4@3x4+1.reset:3."
                        "feed:3x16.batch:2x2-4x3"),
        model, name(kind), worst);
    if (!builtin_capabilities(model.weights.config, kind).shift) continue;
    expect_agreement(operations_case(model, kind,
                                     "open.feed:0x6.shift:0x1-3.feed:0x2.evict:0x2-1.feed:0x1."
                                     "truncate:0x5.feed:0x2.fork:0.shift:1x0-1.batch:0x1-1x2"),
                     model, name(kind), worst);
  }
  EXPECT_LE(worst.ratio, kCalibrated) << worst.where;
  RecordProperty("worst_ratio", std::to_string(worst.ratio) + " " + worst.where);
}

TEST(Audit, compares_every_site_and_what_is_held_in_the_order_of_dependence) {
  const ModelData model = two_window_model();
  const AuditResult result = audit(prefix_case(model, {3, 1, 4}), model, builtin_engine);
  std::vector<std::string> names;
  for (const AuditFinding& finding : result.shown.findings) {
    EXPECT_GT(finding.compared, 0) << finding.point.name;
    if (finding.point.layer < 1) names.push_back(finding.point.name);
  }
  EXPECT_THAT(names,
              ElementsAre("token", "position", "slot", "visible rows", "store", "K/V head",
                          "constants", "length", "embedding", "input", "attention norm", "query",
                          "key", "value", "stored key", "stored value", "scores", "probabilities",
                          "attention", "attention output", "attention residual", "mlp norm",
                          "mlp hidden", "mlp output", "residual", "final norm", "logits", "answer",
                          "held rows", "held position", "held key", "held value"));
}

// ---- Interventions and traces

TEST(Audit, a_value_that_is_set_changes_what_follows_from_it_and_nothing_before) {
  const ModelData model = two_window_model();
  const Case subject = prefix_case(model, {3, 1, 4, 12});
  const SetValue set =
      parse_set_value("layer1.key[row 2][head 0][3]=0.5", model.weights.config, "t");
  const AuditResult result = audit(subject, model, builtin_engine, {.to_end = true, .set = set});
  EXPECT_TRUE(result.value_set);
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->step, 2);
  EXPECT_THAT(result.first->sentence,
              HasSubstr("layer 1, key, K/V head 0, row 2, column 3: 0.5 where "));
  for (const AuditFinding& finding : result.shown.findings) {
    const bool follows = finding.point.layer == 1 &&
                         (finding.point.name == "stored key" || finding.point.name == "scores" ||
                          finding.point.name == "residual" || finding.point.name == "held key");
    const bool before = finding.point.layer < 1 && finding.point.name != "final norm" &&
                        finding.point.name != "logits" && finding.point.name != "answer";
    if (!follows && !before) continue;
    EXPECT_EQ(finding.verdict, follows ? Verdict::diverge : Verdict::agree) << finding.point.name;
  }
  ASSERT_EQ(result.steps.size(), 4U);
  EXPECT_FALSE(result.steps[1].first);
  EXPECT_EQ(result.steps[3].first, (AuditPoint{"stored key", 1})) << "the next row reads it";
}

TEST(Audit, scores_and_rows_as_they_are_read_can_be_set_too) {
  const ModelData model = two_window_model();
  const Case subject = prefix_case(model, {3, 1, 4, 12});
  const auto first = [&](std::string_view text) {
    const AuditResult result = audit(subject, model, builtin_engine,
                                     {.set = parse_set_value(text, model.weights.config, "test")});
    EXPECT_TRUE(result.value_set) << text;
    return result.first ? result.first->sentence : "none";
  };
  EXPECT_THAT(first("layer0.scores[row 2][key 1][head 1]=7"),
              HasSubstr("layer 0, scores, query head 1, row 2, key of row 1: 7 where "));
  EXPECT_THAT(first("layer1.cached_value[row 3][key 2][head 0][1]=7"),
              HasSubstr("layer 1, stored value, K/V head 0, slot 2: row 2, column 1: 7 where "));
  EXPECT_THAT(first("logits[row 3][12]=7"), HasSubstr("logits, row 3, column 12: 7 where "));
  const AuditResult unmet =
      audit(subject, model, builtin_engine,
            {.set = parse_set_value("logits[row 9][1]=0", model.weights.config, "test")});
  EXPECT_FALSE(unmet.value_set);
}

TEST(Audit, the_trace_has_every_value_once) {
  const ModelData model = two_window_model();
  std::int64_t values = 0;
  std::int64_t in_sites = 0;
  AuditOptions options;
  options.trace = [&](int step, Site, int, const AuditValue& value) {
    ++values;
    EXPECT_EQ(value.at.row, step) << "one token a step";
    EXPECT_EQ(value.uncached, value.cached);
  };
  const AuditResult result = audit(prefix_case(model, {3, 1, 4}), model, builtin_engine, options);
  EXPECT_EQ(result.verdict, Verdict::agree);
  const Config& c = model.weights.config;
  for (int n = 1; n <= 3; ++n) {
    const int layer = 7 * c.width + 2 * c.query_width() + 2 * c.kv_width() + c.mlp_width +
                      2 * n * c.kv_width() + 2 * n * c.query_heads;
    in_sites += c.layers * (layer - c.width) + 3 * c.width + c.vocabulary;
  }
  EXPECT_EQ(values, in_sites);
}

// ---- What cannot be audited

class Stranger final : public Engine {
 public:
  [[nodiscard]] const Hello& hello() const override { return hello_; }
  void full(const TokenBlock&, Rows, Logits&) override {}
  [[nodiscard]] SequenceId open() override { return 0; }
  void close(SequenceId) override {}
  void feed(SequenceId, std::span<const int>, Rows, Logits&) override {}
  [[nodiscard]] Held held(SequenceId) const override { return {}; }

 private:
  Hello hello_{.name = "stranger", .vocabulary = 13, .context = 16};
};

TEST(Audit, only_the_built_in_engine_can_be_watched) {
  const ModelData model = two_window_model();
  const EngineFactory strange = [](const ModelData&, const EngineSetup&) {
    return std::make_unique<Stranger>();
  };
  for (const Case& subject :
       {prefix_case(model, {3, 1}), operations_case(model, {}, "open.feed:0x2"),
        siblings_case("exact")}) {
    EXPECT_EQ(error_of([&] { (void)audit(subject, model, strange); }),
              "audit: an engine that cannot be watched, expected the built-in one, got stranger");
    EXPECT_FALSE(first_divergence(subject, model, strange));
  }
}

// ---- Checks that do more than to feed one sequence

std::vector<std::string> steps_of(const Case& subject, const EngineFactory& factory) {
  const AuditResult result = audit(subject, two_window_model(), factory, {.to_end = true});
  EXPECT_EQ(result.verdict, Verdict::agree) << result.note;
  EXPECT_EQ(result.note, "");
  std::vector<std::string> steps;
  for (const AuditSummary& step : result.steps) steps.push_back(step.what);
  return steps;
}

TEST(Audit, siblings_are_copied_and_fed_as_their_check_does) {
  const std::vector<std::string> steps = steps_of(siblings_case("exact"), builtin_engine);
  constexpr std::size_t kEachLevel = 13 + 1;  // a copy for each token, and the batch
  ASSERT_EQ(steps.size(), 3 * kEachLevel);
  EXPECT_EQ(steps[0], "copy of sequence 0");
  EXPECT_EQ(steps[13], "batch of 13: tokens 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | ...");
  EXPECT_EQ(steps[14], "copy of sequence 4") << "of the one that was fed token 3";
}

TEST(Audit, a_wrong_copy_beside_a_prefix_is_named_where_it_is_made) {
  const EngineFactory loses = planted([](Builtin<float>& engine, Hooks& hooks) {
    hooks.fork = [&engine](Engine& inner, SequenceId sequence) {
      const SequenceId copy = inner.fork(sequence);
      KvCache<float>& cache = engine.cache(copy);
      if (cache.length() > 1) std::fill_n(cache.key(1, 1), 4, 0.0F);
      return copy;
    };
  });
  const ModelData model = two_window_model();
  EXPECT_EQ(first_of(siblings_case("exact"), model, loses),
            "29: layer 1, held key, sequence 27, K/V head 0, slot 1: zeros where row 1 was "
            "expected");
  Case alone = siblings_case("exact");
  alone.siblings = false;
  alone.schedule = {1, 1, 1};
  EXPECT_EQ(first_of(alone, model, loses), "agree: ");
}

TEST(Audit, roll_backs_and_refusals_of_the_accounting_are_carried_out) {
  const Case subject = check_case("accounting", {3, 1, 4, 12}, {4});
  EXPECT_THAT(steps_of(subject, builtin_engine),
              ElementsAre("tokens 3 1 4 12", "roll back to 2", "tokens 4 12"));
  const ModelData model = two_window_model();
  EXPECT_EQ(first_of(subject, model, after_truncation([](KvCache<float>& cache) {
                       std::fill_n(cache.value(0, 1), 4, 0.0F);
                     })),
            "2: layer 0, held value, sequence 0, K/V head 0, slot 1: zeros where row 1 was "
            "expected");
  Hooks takes_all;
  takes_all.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (!feeds[0].tokens.empty()) inner.batch(feeds, rows, out);
  };
  EXPECT_EQ(first_of(subject, model, hooked(takes_all)),
            "diverge: invariant refused-when-due violated by an empty feed: expected 1, got 0");
}

TEST(Audit, tokens_that_are_generated_are_fed_as_they_come) {
  Case subject = check_case("generation", {3, 1});
  const std::vector<std::string> steps = steps_of(subject, builtin_engine);
  ASSERT_GT(steps.size(), 2U);
  EXPECT_THAT(steps[1], HasSubstr("tokens "));
  EXPECT_EQ(first_of(subject, two_window_model(),
                     with_plan([](StepPlan& plan) { --plan.rows[0].position; })),
            "3: position: row 1: position 0 where 1 was expected");
}

TEST(Audit, of_a_check_that_feeds_no_cache_gives_up) {
  EXPECT_EQ(first_of(siblings_case("causality"), two_window_model(), builtin_engine),
            "gave-up: the check of this case feeds no cache");
}

TEST(Audit, a_case_without_a_cached_path_has_nothing_to_audit) {
  const ModelData model = two_window_model();
  Case subject = prefix_case(model, {3, 1});
  subject.check = "causality";
  subject.schedule.clear();
  EXPECT_EQ(error_of([&] { (void)audit(subject, model, builtin_engine); }),
            "audit: case, expected one with a schedule or operations, got causality without a "
            "cached path");
  EXPECT_FALSE(first_divergence(subject, model, builtin_engine));
}

TEST(Audit, what_is_wrong_besides_values_is_told) {
  EXPECT_EQ(
      first_of("open.feed:0x2", hooked({.held =
                                            [](const Engine& inner, SequenceId sequence) {
                                              Held held = inner.held(sequence);
                                              held.bytes += 4;
                                              return held;
                                            }})),
      "diverge: invariant bytes-are-rows violated by sequence 0 after open: expected 0, got 4");
}

}  // namespace
}  // namespace kvcheck
