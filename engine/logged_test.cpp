// SPDX-License-Identifier: MIT
// The oracle for logs against the plain one: the same bits where nothing was dropped, and where
// something was, just those differences that the dropped rows have left behind in later ones.
#include "engine/logged.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "engine/generated.h"
#include "engine/test_support.h"
#include "engine/uncached.h"

namespace kvcheck {
namespace {

using Tokens = std::vector<int>;
using Log = std::vector<LoggedRow>;

// Writes the log of a sequence under the verbs of a cache; ranges are of positions, [first, last).
struct Writer {
  Log log;
  std::vector<SeenRow> held = {};
  int next = 0;

  void feed(const Tokens& tokens) {
    for (const int token : tokens) {
      held.push_back({static_cast<int>(log.size()), next});
      log.push_back({token, next++, held});
    }
  }
  void evict(int first, int last) {
    std::erase_if(held, [&](SeenRow r) { return r.position >= first && r.position < last; });
  }
  void shift(int first, int last) {
    evict(first, last);
    for (SeenRow& row : held) row.position -= row.position >= last ? last - first : 0;
    next -= last - first;
  }
};

template <typename T>
LogitRows<T> logged(const Model<T>& model, const Log& log, int answered,
                    Arithmetic arithmetic = Arithmetic::row) {
  LogitRows<T> out;
  copy_rows(Logged<T>(model, ops_for<T>(arithmetic)).logits(log, answered), out);
  return out;
}

template <typename T>
LogitRows<T> uncached(const Model<T>& model, const Tokens& tokens) {
  LogitRows<T> out;
  copy_rows(Uncached<T>(model, row_ops<T>()).logits({tokens}, Rows::all), out);
  return out;
}

template <typename T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

template <typename T>
double apart(std::span<const T> a, std::span<const T> b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return most;
}

// The last rows of both, as many as the first one has.
template <typename T>
double last_rows_apart(const LogitRows<T>& a, const LogitRows<T>& b) {
  return apart(std::span<const T>(a.values), std::span<const T>(b.values).last(a.values.size()));
}

Config config_of(Positions positions, int layers, int window = 0) {
  Config c;
  c.vocabulary = 11;
  c.width = 6;
  c.layers = layers;
  c.windows.assign(static_cast<std::size_t>(layers), window);
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_size = 4;
  c.mlp_width = 9;
  c.context = 12;
  c.positions = positions;
  c.qkv_bias = true;
  return c;
}

Model<float> model_of(Positions positions, int layers, int window = 0) {
  return random_model(config_of(positions, layers, window), WeightScales{}, 5);
}

constexpr Positions kPositions[] = {Positions::none, Positions::learned, Positions::rotary,
                                    Positions::alibi};

TEST(PlainLog, says_that_every_row_sees_all_before_it) {
  const Log expected{{7, 0, {{0, 0}}}, {5, 1, {{0, 0}, {1, 1}}}};
  EXPECT_EQ(plain_log(Tokens{7, 5}), expected);
  Writer writer;
  writer.feed({7, 5});
  EXPECT_EQ(writer.log, expected);
}

// ---- Nothing dropped

template <typename T>
class LoggedOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(LoggedOf, Scalars);

// What the generated models have between them.
void note_features(const Config& config, std::set<std::string>& met) {
  met.insert(std::string(name(config.positions)));
  if (config.positions == Positions::rotary) met.insert(std::string(name(config.rotary_pairs)));
  if (config.kv_heads < config.query_heads) met.insert("grouped");
  if (config.head_norm) met.insert("head norm");
  if (config.attention_cap > 0 && config.logit_cap > 0) met.insert("caps");
  if (config.embedding_scale != 1) met.insert("embedding scale");
  if (config.rotated() < config.head_size) met.insert("partial rotary");
  if (config.rotary_bases().size() > 1) met.insert("two bases");
  if (std::ranges::any_of(config.windows, [](int w) { return w > 0; })) met.insert("windows");
}

// The longest log first, so that the shorter ones find the work space used.
TYPED_TEST(LoggedOf, plain_logs_give_the_bits_of_the_plain_oracle) {
  using T = TypeParam;
  std::set<std::string> met;
  for (const Family& family : families()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const Model<T> model = cast<T>(generate_model(family, seed));
      note_features(model.config, met);
      const int context = model.config.context;
      const Tokens tokens = random_tokens(model.config.vocabulary, context, seed, 0);
      const LogitRows<T> expected = uncached(model, tokens);
      Logged<T> oracle(model, row_ops<T>());
      for (int n = context; n > 0; --n) {
        LogitRows<T> found;
        copy_rows(oracle.logits(plain_log(std::span(tokens).first(n)), n), found);
        ASSERT_EQ(found.rows(), n);
        const auto size = found.values.size();
        ASSERT_TRUE(same_bits<T>(found.values, std::span<const T>(expected.values).first(size)))
            << generated_name(family, seed) << ", " << n << " rows";
      }
    }
  }
  EXPECT_EQ(met, (std::set<std::string>{"none", "learned", "rotary", "alibi", "halves",
                                        "interleaved", "grouped", "windows", "head norm", "caps",
                                        "embedding scale", "partial rotary", "two bases"}));
}

TYPED_TEST(LoggedOf, matrix_arithmetic_differs_by_rounding_only) {
  using T = TypeParam;
  for (const Positions positions : kPositions) {
    const Model<T> model = cast<T>(model_of(positions, 2));
    const Tokens tokens = random_tokens(11, 12, 1, 0);
    const auto found = logged(model, plain_log(tokens), 12, Arithmetic::matrix);
    EXPECT_LT(last_rows_apart(found, uncached(model, tokens)),
              200 * double{std::numeric_limits<T>::epsilon()});
  }
}

TEST(Logged, answers_for_the_last_rows_of_a_log) {
  const Model<float> model = model_of(Positions::rotary, 2);
  Writer writer;
  writer.feed({1, 2, 3, 4});
  writer.shift(1, 2);
  writer.feed({5, 6});
  const auto all = logged(model, writer.log, 6);
  for (int answered = 1; answered <= 6; ++answered) {
    const auto last = logged(model, writer.log, answered);
    ASSERT_EQ(last.rows(), answered);
    EXPECT_EQ(last_rows_apart(last, all), 0) << answered;
  }
}

// ---- Rows dropped, the others where they were

// Six rows, positions 1 and 2 evicted, three more: and the same log had they never been there. The
// rows before keep their positions but do not see the evicted ones.
struct Evicted {
  Log dropped, never;
  Tokens left = {1, 4, 5, 6, 7, 8, 9};
  std::vector<int> positions = {0, 3, 4, 5, 6, 7, 8};

  Evicted() {
    Writer writer;
    writer.feed({1, 2, 3, 4, 5, 6});
    writer.evict(1, 3);
    writer.feed({7, 8, 9});
    dropped = writer.log;
    Writer other;
    for (std::size_t i = 0; i < left.size(); ++i) {
      other.next = positions[i];
      other.feed({left[i]});
    }
    never = other.log;
  }
};

// In one layer a key depends on nothing but its token and position.
TYPED_TEST(LoggedOf, one_layer_forgets_evicted_rows_to_the_last_bit) {
  using T = TypeParam;
  const Evicted logs;
  for (const Positions positions : kPositions) {
    const Model<T> model = cast<T>(model_of(positions, 1));
    const auto found = logged(model, logs.dropped, 3);
    EXPECT_TRUE(same_bits<T>(found.values, logged(model, logs.never, 3).values)) << name(positions);
    EXPECT_GT(last_rows_apart(found, uncached(model, Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9})), 1e-4);
  }
}

// The same without a log on the other side: the plain oracle over what is left, whose table of
// positions holds the positions that are left.
TYPED_TEST(LoggedOf, one_layer_without_rotation_is_the_plain_oracle_over_the_rows_left) {
  using T = TypeParam;
  const Evicted logs;
  for (const Positions positions : {Positions::none, Positions::learned}) {
    const Model<T> model = cast<T>(model_of(positions, 1));
    Model<T> moved = model;
    for (std::size_t i = 0; i < logs.positions.size() && positions == Positions::learned; ++i) {
      moved.positions.row(static_cast<int>(i)) = model.positions.row(logs.positions[i]);
    }
    const auto expected = uncached(moved, logs.left);
    const auto found = logged(model, logs.dropped, 3);
    EXPECT_TRUE(
        same_bits<T>(found.values, std::span<const T>(expected.values).last(found.values.size())))
        << name(positions);
  }
}

TEST(Logged, two_layers_remember_evicted_rows) {
  const Evicted logs;
  for (const Positions positions : kPositions) {
    const Model<double> model = cast<double>(model_of(positions, 2));
    const auto found = logged(model, logs.dropped, 3);
    EXPECT_GT(last_rows_apart(found, logged(model, logs.never, 3)), 1e-4) << name(positions);
  }
}

// ---- Rows dropped, the later ones renumbered

struct Shifted {
  Log log;
  Tokens left = {1, 4, 5, 6, 7, 8, 9};

  Shifted() {
    Writer writer;
    writer.feed({1, 2, 3, 4, 5, 6});
    writer.shift(1, 3);
    writer.feed({7, 8, 9});
    log = writer.log;
  }
};

TYPED_TEST(LoggedOf, one_rotary_layer_after_a_shift_is_a_recompute_of_the_text_left) {
  using T = TypeParam;
  const Shifted shifted;
  for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::halves}) {
    Model<T> model = cast<T>(model_of(Positions::rotary, 1));
    model.config.rotary_pairs = pairs;
    const auto found = logged(model, shifted.log, 3);
    EXPECT_LT(last_rows_apart(found, uncached(model, shifted.left)),
              (std::is_same_v<T, float> ? 1e-5 : 1e-12));
    EXPECT_GT(last_rows_apart(found, logged(model, Evicted().dropped, 3)), 1e-4)
        << "renumbered or not must matter";
  }
}

// Neither a rotation nor a rounding: the distances of the rows that are left are those of the text.
TYPED_TEST(LoggedOf, one_alibi_layer_after_a_shift_is_a_recompute_of_the_text_left) {
  using T = TypeParam;
  const Shifted shifted;
  const Model<T> model = cast<T>(model_of(Positions::alibi, 1));
  const auto found = logged(model, shifted.log, 3);
  const auto expected = uncached(model, shifted.left);
  const auto size = found.values.size();
  EXPECT_TRUE(same_bits<T>(found.values, std::span<const T>(expected.values).last(size)));
  EXPECT_GT(last_rows_apart(found, logged(model, Evicted().dropped, 3)), 1e-4)
      << "renumbered or not must matter";
}

TEST(Logged, two_rotary_layers_after_a_shift_are_no_recompute_of_the_text_left) {
  const Shifted shifted;
  const Model<double> model = cast<double>(model_of(Positions::rotary, 2));
  EXPECT_GT(last_rows_apart(logged(model, shifted.log, 3), uncached(model, shifted.left)), 1e-4);
}

// What shifts are for: text without end in a context of 12.
TEST(Logged, a_log_may_be_longer_than_the_context) {
  const Model<double> model = cast<double>(model_of(Positions::rotary, 1));
  Writer writer;
  const Tokens tokens = random_tokens(11, 30, 1, 0);
  for (const int token : tokens) {
    if (writer.next == 12) writer.shift(0, 6);
    writer.feed({token});
  }
  const Tokens left(tokens.end() - static_cast<int>(writer.held.size()), tokens.end());
  EXPECT_LT(last_rows_apart(logged(model, writer.log, 1), uncached(model, left)), 1e-12);
}

// ---- Windows count positions, not rows

// The rows of the log whose token the last row depends on, in one layer with a window of 3.
std::vector<int> rows_that_matter(Log log) {
  const Model<float> model = model_of(Positions::learned, 1, 3);
  const auto before = logged(model, log, 1);
  std::vector<int> found;
  for (std::size_t r = 0; r < log.size(); ++r) {
    const int token = std::exchange(log[r].token, 10);
    if (!same_bits<float>(before.values, logged(model, log, 1).values)) {
      found.push_back(static_cast<int>(r));
    }
    log[r].token = token;
  }
  return found;
}

TEST(Logged, windows_reach_by_the_positions_at_the_time) {
  Writer writer;
  writer.feed({1, 2, 3, 4, 5, 6});
  Writer evicted = writer;
  evicted.evict(3, 5);
  evicted.feed({7});  // at 6, sees 4 .. 6
  EXPECT_EQ(rows_that_matter(evicted.log), (std::vector<int>{5, 6}));
  Writer shifted = writer;
  shifted.shift(1, 3);
  shifted.feed({7});  // at 4, sees 2 .. 4, where the rows 4 .. 6 now are
  EXPECT_EQ(rows_that_matter(shifted.log), (std::vector<int>{4, 5, 6}));
  shifted = writer;
  shifted.shift(3, 5);
  shifted.feed({7});
  EXPECT_EQ(rows_that_matter(shifted.log), (std::vector<int>{2, 5, 6}));
}

// ---- Observers

// The sites in order, each once, with "rows x columns".
std::vector<std::string> sites_seen(const Model<float>& model, const Log& log, int answered) {
  std::vector<std::string> seen;
  const auto note = [&](const SiteTensor<float>& t) {
    seen.push_back(
        fmt::format("{} {} {}: {} x {}", name(t.site), t.layer, t.row, t.rows, t.columns));
  };
  const Observer<float> observer(note, SiteSet::all());
  (void)Logged<float>(model, row_ops<float>()).logits(log, answered, &observer);
  return seen;
}

TEST(Logged, observers_see_every_site_in_the_order_of_dependence) {
  Writer writer;
  writer.feed({1, 2});
  writer.evict(0, 1);
  writer.feed({3});
  const std::vector<std::string> expected{
      "embedding -1 0: 3 x 6",
      "input -1 0: 3 x 6",
      "attention_norm 0 0: 3 x 6",
      "query 0 0: 3 x 16",
      "key 0 0: 3 x 8",
      "value 0 0: 3 x 8",
      "cached_key 0 0: 1 x 8",
      "cached_value 0 0: 1 x 8",
      "scores 0 0: 4 x 1",
      "probabilities 0 0: 4 x 1",
      "cached_key 0 1: 2 x 8",
      "cached_value 0 1: 2 x 8",
      "scores 0 1: 4 x 2",
      "probabilities 0 1: 4 x 2",
      "cached_key 0 2: 2 x 8",
      "cached_value 0 2: 2 x 8",
      "scores 0 2: 4 x 2",
      "probabilities 0 2: 4 x 2",
      "attention 0 0: 3 x 16",
      "attention_output 0 0: 3 x 6",
      "attention_residual 0 0: 3 x 6",
      "mlp_norm 0 0: 3 x 6",
      "mlp_hidden 0 0: 3 x 9",
      "mlp_output 0 0: 3 x 6",
      "residual 0 0: 3 x 6",
      "final_norm -1 0: 2 x 6",
      "logits -1 0: 2 x 11",
  };
  EXPECT_EQ(sites_seen(model_of(Positions::rotary, 1), writer.log, 2), expected);
}

TEST(Logged, what_an_observer_changes_changes_the_last_row) {
  const Model<float> model = model_of(Positions::rotary, 2);
  const Log log = Shifted().log;
  const auto before = logged(model, log, 1);
  for (int s = 0; s <= static_cast<int>(Site::logits); ++s) {
    const auto change = [s](const SiteTensor<float>& t) {
      if (t.site == static_cast<Site>(s)) t.at(t.rows - 1, 0) += 1;
    };
    const Observer<float> observer(change, SiteSet::all());
    LogitRows<float> after;
    copy_rows(Logged<float>(model, row_ops<float>()).logits(log, 1, &observer), after);
    EXPECT_FALSE(same_bits<float>(before.values, after.values)) << name(static_cast<Site>(s));
  }
}

// ---- Logs that cannot have happened

std::string refusal(const Log& log, int answered = 1) {
  const Model<float> model = model_of(Positions::rotary, 1);
  return error_of([&] { (void)logged(model, log, answered); });
}

TEST(Logged, refuses_tokens_and_positions_outside) {
  const Log good = plain_log(Tokens{1, 2, 3});
  EXPECT_EQ(refusal(good, 3), "no error");
  EXPECT_EQ(refusal({}), "log: no tokens, expected at least 1, got 0");
  EXPECT_EQ(refusal(plain_log(Tokens{1, 11})),
            "log: token outside the vocabulary, expected an id from 0 to 10, got 11");
  EXPECT_EQ(refusal(plain_log(Tokens(13, 0))),
            "log, row 12: position outside the context, expected from 0 to 11, got 12");
  EXPECT_EQ(refusal({{1, -1, {{0, -1}}}}),
            "log, row 0: position outside the context, expected from 0 to 11, got -1");
  const std::string answers = "log: answers for rows that it does not have, expected from 1 to 3 ";
  EXPECT_EQ(refusal(good, 0), answers + "rows, got 0");
  EXPECT_EQ(refusal(good, 4), answers + "rows, got 4");
}

// The last of three rows, at position 5, sees these.
std::string sight_refused(std::vector<SeenRow> sees) {
  Log log = plain_log(Tokens{1, 2});
  log.push_back({3, 5, std::move(sees)});
  return refusal(log);
}

TEST(Logged, refuses_rows_that_do_not_see_themselves_last) {
  EXPECT_EQ(sight_refused({{1, 4}, {2, 5}}), "no error");
  const std::string itself = "log, row 2: does not see itself last, expected row 2 at position 5, ";
  EXPECT_EQ(sight_refused({}), itself + "got nothing");
  EXPECT_EQ(sight_refused({{0, 0}, {1, 1}}), itself + "got row 1 at position 1");
  EXPECT_EQ(sight_refused({{2, 4}}), itself + "got row 2 at position 4");
}

TEST(Logged, refuses_sight_of_rows_to_come_or_out_of_order) {
  const std::string there = "log, row 2: sees a row that was not there yet, expected a row from 0 ";
  EXPECT_EQ(sight_refused({{3, 1}, {2, 5}}), there + "to 2, got 3");
  EXPECT_EQ(sight_refused({{-1, 1}, {2, 5}}), there + "to 2, got -1");
  const std::string order = "log, row 2: sees rows out of order, expected ";
  const std::string more = order + "more than ";
  EXPECT_EQ(sight_refused({{0, -1}, {2, 5}}),
            order + "a position from 0 on, got row 0 at position -1");
  EXPECT_EQ(sight_refused({{0, 2}, {1, 2}, {2, 5}}),
            more + "row 0 at position 2, got row 1 at position 2");
  EXPECT_EQ(sight_refused({{1, 0}, {0, 1}, {2, 5}}),
            more + "row 1 at position 0, got row 0 at position 1");
  EXPECT_EQ(sight_refused({{0, 0}, {0, 1}, {2, 5}}),
            more + "row 0 at position 0, got row 0 at position 1");
  EXPECT_EQ(sight_refused({{0, 0}, {1, 7}, {2, 5}}),
            more + "row 1 at position 7, got row 2 at position 5");
}

}  // namespace
}  // namespace kvcheck
