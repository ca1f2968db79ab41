// SPDX-License-Identifier: MIT
// Rewriting what rows see, as worked out by hand; and what engines read where a fault is planted.
#include "verify/fault_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "verify/models.h"

namespace kvcheck {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Rows 1 and 2 stand behind a gap.
constexpr std::array<int, 3> kGap{0, 3, 4};

// A step of two layers, the first of them with a window of 3.
struct Step {
  explicit Step(std::vector<PlannedFeed> of, FaultParameters parameters = {}, Features has = {})
      : config(tiny_decoder(has)), feeds(std::move(of)), at(parameters) {
    config.windows = {3, 0};
    plan_step(config, feeds, plan);
  }

  [[nodiscard]] FaultStep seen() const { return {config, cache, at, feeds, plan}; }
  [[nodiscard]] std::vector<int> slots(int layer, int row) const {
    const int view = plan.view_of_layer[static_cast<std::size_t>(layer)];
    const auto of_row = plan.views[static_cast<std::size_t>(view)].of(row);
    return {of_row.begin(), of_row.end()};
  }

  Config config;
  CacheKind cache = {};
  std::vector<PlannedFeed> feeds;
  FaultParameters at;
  StepPlan plan;
};

std::vector<int> slots_in(const ViewRows& rows) {
  std::vector<int> slots;
  for (const ViewRow& row : rows) slots.push_back(row.slot);
  return slots;
}

void see_nothing(ViewRows& seen, int, int, const FaultStep&) { seen.clear(); }
void drop_second(ViewRows& seen, int, int, const FaultStep&) {
  if (seen.size() > 3) seen.erase(seen.begin() + 1);
}
void as_it_is(ViewRows&, int, int, const FaultStep&) {}
void empty_first(ViewRows& seen, int, int, const FaultStep&) { seen.front().source = kZeros; }

TEST(FaultRows, are_counted_in_their_own_sequence) {
  const Step step({{.held = 2, .tokens = 2}, {.held = 5, .tokens = 1}});
  EXPECT_EQ(index_of(step.seen(), 1), 3);
  EXPECT_EQ(index_of(step.seen(), 2), 5);
}

TEST(FaultRows, lie_where_the_kind_of_cache_puts_them) {
  const std::vector<int> slots{6, 4, 9};
  const std::vector<int> rings{3, 0};
  const Step placed({{.held = 2, .tokens = 1, .slots = slots}});
  const Step ring({{.held = 4, .tokens = 1, .rings = rings}});
  EXPECT_EQ(slot_of(placed.seen(), 0, 0, 1), 4);
  EXPECT_EQ(slot_of(ring.seen(), 0, 0, 4), 1);
  EXPECT_EQ(slot_of(ring.seen(), 1, 0, 4), 4);
}

TEST(FaultRows, from_one_on_end_with_the_row_itself) {
  const Step step({{.held = 3, .tokens = 2}});
  EXPECT_THAT(slots_in(rows_from(step.seen(), 1, 0, 2)), ElementsAre(2, 3));
  EXPECT_THAT(slots_in(rows_from(step.seen(), 1, 1, -1)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(slots_in(rows_from(step.seen(), 1, 1, 9)), ElementsAre(4));
}

TEST(RewriteSeen, touches_nothing_where_nothing_changes) {
  Step step({{.held = 3, .tokens = 2}});
  const StepPlan before = step.plan;
  ViewSources sources;
  rewrite_seen(step.plan, step.seen(), as_it_is, sources);
  EXPECT_EQ(step.plan, before);
  EXPECT_THAT(sources, IsEmpty());
}

TEST(RewriteSeen, leaves_a_row_itself_and_other_layers_alone) {
  Step step({{.held = 3, .tokens = 2}}, {.layer = 0});
  ViewSources sources;
  rewrite_seen(step.plan, step.seen(), see_nothing, sources);
  EXPECT_THAT(step.slots(0, 0), ElementsAre(3));
  EXPECT_THAT(step.slots(0, 1), ElementsAre(4));
  EXPECT_THAT(step.slots(1, 1), ElementsAre(0, 1, 2, 3, 4));
}

TEST(RewriteSeen, takes_down_sources_where_not_all_is_stored) {
  Step step({{.held = 1, .tokens = 2}}, {.layer = 1});
  const StepPlan before = step.plan;
  ViewSources sources;
  rewrite_seen(step.plan, step.seen(), empty_first, sources);
  EXPECT_EQ(step.plan, before);
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_THAT(sources[0], IsEmpty());
  EXPECT_THAT(sources[1],
              ElementsAre(ElementsAre(kZeros, kStored), ElementsAre(kZeros, kStored, kStored)));
}

TEST(RewriteWrites, touches_nothing_where_nothing_changes) {
  Step step({{.held = 3, .tokens = 2}});
  const StepPlan before = step.plan;
  rewrite_writes(step.plan, step.seen(), [](int, int, int right) { return right; });
  EXPECT_EQ(step.plan, before);
}

TEST(RewriteWrites, knows_the_right_slots_of_rings_and_of_other_layers) {
  const std::vector<int> rings{3, 0};
  Step step({{.held = 3, .tokens = 2, .rings = rings}});
  std::vector<int> right_slots;
  rewrite_writes(step.plan, step.seen(), [&](int, int row, int right) {
    right_slots.push_back(right);
    return row == 1 ? kNowhere : right;
  });
  EXPECT_THAT(right_slots, ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(step.plan.views[0].write, ElementsAre(0, kNowhere));
  EXPECT_THAT(step.plan.views[1].write, ElementsAre(3, kNowhere));
}

TEST(RowsAsRead, come_from_their_sources) {
  std::vector<float> fed{10, 11, 20, 21};
  std::vector<float> seen{1, 2, 3, 4, 5, 6, 7, 8, kNan, kNan, kNan, 9};
  RowsAsRead<float> rows{tiny_decoder({}), {}, {}};
  rows.keys.emplace(SiteTensor<float>{Site::key, 0, 0, fed.data(), 2, 2, 2, 1});
  rows.sources = {{{kStored, kZeros, kLeftovers, 1, kStored, kStored}}};
  rows.fill({Site::cached_key, 0, 0, seen.data(), 6, 2, 2, 1});
  seen.pop_back();
  EXPECT_TRUE(std::isnan(seen.back())) << "a row of which a number is there was written";
  seen.pop_back();
  EXPECT_THAT(seen, ElementsAre(1, 2, 0, 0, 1, 1, 20, 21, 0, 0));
}

TEST(RowsAsRead, that_come_later_have_the_score_that_is_given) {
  std::vector<float> scores{1, 2, 3, 4, 5, 6};
  RowsAsRead<float> rows{tiny_decoder({}), {}, {}};
  rows.sources = {{{}, {kStored, 1, 2}}};
  rows.later_score = -9;
  rows.score({Site::scores, 0, 1, scores.data(), 2, 3, 3, 1});
  EXPECT_THAT(scores, ElementsAre(1, 2, -9, 4, 5, -9));
}

TEST(RewriteSeen, gives_keys_their_positions_where_scores_fall_with_the_distance) {
  Step step({{.held = 3, .tokens = 1, .ahead = 2, .positions = kGap}}, {}, {Feature::alibi});
  ViewSources sources;
  rewrite_seen(step.plan, step.seen(), drop_second, sources);
  const auto view = static_cast<std::size_t>(step.plan.view_of_layer[1]);
  EXPECT_THAT(step.slots(1, 0), ElementsAre(0, 2, 3));
  EXPECT_THAT(step.plan.views[view].positions_of(0), ElementsAre(0, 4, 5));
}

// ---- Planted

void write_nothing(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [](int, int, int) { return kNowhere; });
}

// Of a new sequence: all that is seen is fed in this step.
void take_all_fresh(ViewRows& seen, int, int row, const FaultStep&) {
  int fed = row;
  for (auto one = seen.rbegin(); one != seen.rend(); ++one) one->source = fed--;
}

void fresh_and_not_stored(StepPlan& plan, const FaultStep& step, ViewSources& sources) {
  rewrite_seen(plan, step, take_all_fresh, sources);
  write_nothing(plan, step);
}

// Logits of a prompt fed to an engine with the change.
std::vector<double> answers(const std::variant<PlanFault, SiteFault, VerbFault>& change,
                            std::int64_t* changes = nullptr) {
  const Fault fault{"test", "", "", "", {}, "flat", {}, change};
  const auto trace = std::make_shared<FaultTrace>();
  const ModelData model = load_model(tiny_name({}, 1));
  const auto engine = faulty_engine({&fault, {}}, trace)(model, {ScalarKind::f32, Arithmetic::row});
  Logits logits;
  engine->feed(engine->open(), std::vector{1, 2, 3}, Rows::all, logits);
  if (changes != nullptr) *changes = trace->changes();
  return logits.values;
}

void change_nothing(StepPlan&, const FaultStep&) {}

TEST(PlantRows, reads_rows_that_are_fed_as_they_would_be_stored) {
  std::int64_t changes = 0;
  const auto fresh = answers(with_sources<fresh_and_not_stored>(), &changes);
  EXPECT_EQ(fresh, answers(PlanFault{change_nothing}));
  EXPECT_EQ(changes, 1);
}

TEST(PlantRows, reads_what_nobody_has_written_as_zeros) {
  const auto is_nan = [](double x) { return std::isnan(x); };
  const auto cleared = answers(in_cleared_memory<write_nothing>());
  EXPECT_TRUE(std::ranges::none_of(cleared, is_nan));
  EXPECT_NE(cleared, answers(PlanFault{change_nothing}));
  EXPECT_TRUE(std::ranges::all_of(answers(PlanFault{write_nothing}), is_nan));
}

TEST(PlantRows, counts_no_change_where_there_is_none) {
  std::int64_t changes = -1;
  EXPECT_EQ(answers(in_cleared_memory<change_nothing>(), &changes),
            answers(PlanFault{change_nothing}));
  EXPECT_EQ(changes, 0);
}

// ---- Tokens

// What a fault was given last. Faults of a table have no captures.
std::vector<SequenceTokens>& given() {
  static std::vector<SequenceTokens> tokens;
  return tokens;
}

void look(StepPlan&, const FaultStep&, const std::vector<SequenceTokens>& tokens) {
  given() = tokens;
}

class TokenFaults : public ::testing::Test {
 protected:
  void feed(SequenceId sequence, std::vector<int> tokens) {
    Logits logits;
    engine_->feed(sequence, tokens, Rows::last, logits);
  }

  const Fault fault_{"test", "", "", "", {}, "flat", {}, by_tokens<look>()};
  const ModelData model_ = load_model(tiny_name({}, 1));
  const std::unique_ptr<Engine> engine_ = faulty_engine(
      {&fault_, {}}, std::make_shared<FaultTrace>())(model_, {ScalarKind::f32, Arithmetic::row});
  const SequenceId first_ = engine_->open();
};

TEST_F(TokenFaults, are_given_all_tokens_of_each_sequence) {
  feed(first_, {1, 2, 3});
  feed(first_, {4});
  EXPECT_THAT(given(), ElementsAre(ElementsAre(1, 2, 3, 4)));
}

TEST_F(TokenFaults, forget_those_that_were_rolled_back) {
  feed(first_, {1, 2, 3});
  engine_->truncate(first_, 1);
  feed(first_, {4});
  EXPECT_THAT(given(), ElementsAre(ElementsAre(1, 4)));
}

TEST_F(TokenFaults, follow_copies_and_rows_that_leave) {
  feed(first_, {1, 2, 3, 4});
  const SequenceId copy = engine_->fork(first_);
  engine_->evict(copy, 1, 2);
  feed(copy, {5});
  EXPECT_THAT(given(), ElementsAre(ElementsAre(1, 4, 5)));
  engine_->shift(first_, 0, 1);
  feed(first_, {6});
  EXPECT_THAT(given(), ElementsAre(ElementsAre(2, 3, 4, 6)));
}

TEST_F(TokenFaults, do_not_know_what_was_loaded) {
  feed(first_, {1, 2});
  const SequenceId loaded = engine_->load(engine_->save(first_));
  feed(loaded, {3});
  EXPECT_THAT(given(), ElementsAre(ElementsAre(-1, -1, 3)));
}

}  // namespace
}  // namespace kvcheck
