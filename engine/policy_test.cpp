// SPDX-License-Identifier: MIT
// Choices against values worked by hand, against a plain reference that sorts everything, and, as
// draws, against the exact probabilities.
#include "engine/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/random.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

DecodingPolicy policy_of(std::string_view text) { return parse_decoding(text, 1 << 20, "test"); }

// "token:probability" of each candidate, four digits.
std::string shown(std::string_view policy, const std::vector<double>& logits,
                  const std::vector<int>& seen = {}) {
  std::string text;
  for (const Candidate& one : candidates(policy_of(policy), logits, seen)) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%s%d:%.4f", text.empty() ? "" : " ", one.token,
                  one.probability);
    text += buffer;
  }
  return text;
}

Chosen chosen(std::string_view policy, const std::vector<double>& logits, DrawPlace place = {},
              const std::vector<int>& seen = {}) {
  PolicyScratch scratch;
  return choose(policy_of(policy), logits, seen, place, scratch);
}

// Weights 1, 2, 4, 8 and 1 at temperature 1, of 16 in all.
const std::vector<double> kLogits{0, std::log(2), std::log(4), std::log(8), 0};

// ---- Worked by hand

TEST(Policy, greedy_takes_the_largest_and_of_equal_ones_the_lowest_id) {
  EXPECT_EQ(chosen("greedy", {1, 3, 2}), (Chosen{1, 1}));
  EXPECT_EQ(chosen("greedy", {1, 3, 3, 2, 3}).token, 1);
  EXPECT_EQ(chosen("greedy", {-0.0, 0.0}).token, 0);
  EXPECT_EQ(chosen("greedy", std::vector<double>(200, 5)).token, 0);
  EXPECT_EQ(chosen("temperature:0", {1, 3, 2}), (Chosen{1, 1}));
}

TEST(Policy, temperature_divides_the_logits) {
  EXPECT_EQ(shown("temperature:1", kLogits), "0:0.0625 1:0.1250 2:0.2500 3:0.5000 4:0.0625");
  // Square roots of the weights, of 1 + 1.41421 + 2 + 2.82843 + 1 = 8.24264.
  EXPECT_EQ(shown("temperature:2", kLogits), "0:0.1213 1:0.1716 2:0.2426 3:0.3431 4:0.1213");
  // Squares, of 1 + 4 + 16 + 64 + 1 = 86.
  EXPECT_EQ(shown("temperature:0.5", kLogits), "0:0.0116 1:0.0465 2:0.1860 3:0.7442 4:0.0116");
}

TEST(Policy, top_k_keeps_the_largest_and_of_equal_ones_the_lowest_ids) {
  EXPECT_EQ(shown("top-k:1", kLogits), "3:1.0000");
  EXPECT_EQ(shown("top-k:3", kLogits), "1:0.1429 2:0.2857 3:0.5714");           // 2, 4, 8 of 14
  EXPECT_EQ(shown("top-k:4", kLogits), "0:0.0667 1:0.1333 2:0.2667 3:0.5333");  // not 4
  EXPECT_EQ(shown("top-k:5", kLogits), shown("temperature:1", kLogits));
}

TEST(Policy, top_p_keeps_the_fewest_that_come_to_the_share) {
  EXPECT_EQ(shown("top-p:0.4", kLogits), "3:1.0000");
  EXPECT_EQ(shown("top-p:0.49999", kLogits), "3:1.0000");
  EXPECT_EQ(shown("top-p:0.50001", kLogits), "2:0.3333 3:0.6667");
  EXPECT_EQ(shown("top-p:0.9", kLogits), "0:0.0667 1:0.1333 2:0.2667 3:0.5333");  // 15 of 16
  EXPECT_EQ(shown("top-p:0.95", kLogits), shown("temperature:1", kLogits));
  EXPECT_EQ(shown("top-p:1", kLogits), shown("temperature:1", kLogits));
}

TEST(Policy, min_p_keeps_what_is_at_least_a_share_of_the_largest) {
  EXPECT_EQ(shown("min-p:1", kLogits), "3:1.0000");
  EXPECT_EQ(shown("min-p:0.49", kLogits), "2:0.3333 3:0.6667");
  EXPECT_EQ(shown("min-p:0.24", kLogits), "1:0.1429 2:0.2857 3:0.5714");
  EXPECT_EQ(shown("min-p:0.12", kLogits), shown("temperature:1", kLogits));
}

TEST(Policy, the_penalty_makes_seen_tokens_less_likely_once_each) {
  // Token 3 becomes log(8) / 3 = log(2); twice seen is seen. A logit of 0 stays.
  EXPECT_EQ(shown("temperature:1,penalty:3", kLogits, {3, 3, 0}),
            "0:0.1000 1:0.2000 2:0.4000 3:0.2000 4:0.1000");
  // Negative: -log(2) x 2 = -log(4).
  EXPECT_EQ(shown("temperature:1,penalty:2", {0, -std::log(2)}, {1}), "0:0.8000 1:0.2000");
  EXPECT_EQ(chosen("greedy,penalty:2", {1, 3, 2}, {}, {1}).token, 2);
  EXPECT_EQ(chosen("greedy,penalty:2", {1, 3, 2}, {}, {}).token, 1);
  EXPECT_EQ(shown("temperature:1,penalty:2", kLogits), shown("temperature:1", kLogits));
}

TEST(Policy, the_stages_come_in_their_order) {
  // The penalty before top-k: log(8) / 3 falls out.
  EXPECT_EQ(shown("top-k:1,penalty:4", kLogits, {3}), "2:1.0000");
  // Top-k before top-p: 8 of the 14 that are left are more than 0.55, 8 of 16 are not.
  EXPECT_EQ(shown("top-k:3,top-p:0.55", kLogits), "3:1.0000");
  // Temperature before top-p: 64 of 86 are more than 0.7.
  EXPECT_EQ(shown("temperature:0.5,top-p:0.7", kLogits), "3:1.0000");
  EXPECT_EQ(shown("temperature:1,top-p:0.7", kLogits), "2:0.3333 3:0.6667");
  // Temperature before min-p: 16 of 64 are less than 0.3, 4 of 8 are not.
  EXPECT_EQ(shown("temperature:0.5,min-p:0.3", kLogits), "3:1.0000");
  // Min-p does not change what top-p counts: 12 of 16 by top-p, then 4 / 8 by min-p.
  EXPECT_EQ(shown("top-p:0.8,min-p:0.4", kLogits), "2:0.3333 3:0.6667");
}

TEST(Policy, the_draw_takes_the_first_token_whose_running_sum_exceeds_it) {
  for (std::uint64_t step = 0; step < 100; ++step) {
    const double u = uniform_of({7, step});
    const int expected = u < 0.0625 ? 0 : u < 0.1875 ? 1 : u < 0.4375 ? 2 : u < 0.9375 ? 3 : 4;
    EXPECT_EQ(chosen("temperature:1", kLogits, {7, step}).token, expected) << u;
  }
}

TEST(Policy, softmax_is_of_the_logits_as_they_are) {
  EXPECT_NEAR(softmax_at(kLogits, 3), 0.5, 1e-15);
  EXPECT_NEAR(softmax_at(kLogits, 4), 0.0625, 1e-15);
  EXPECT_EQ(softmax_at(std::vector<double>{-kInfinity, 3}, 0), 0);
}

// ---- What is no row of logits

TEST(Policy, impossible_tokens_are_never_chosen) {
  const std::vector<double> logits{-kInfinity, 1, -kInfinity, 1, -kInfinity};
  EXPECT_EQ(chosen("greedy", logits).token, 1);
  for (const char* policy : {"temperature:1", "top-k:4", "top-k:4,top-p:1", "top-p:0.999999",
                             "min-p:0.0001", "temperature:1000,penalty:2"}) {
    EXPECT_EQ(shown(policy, logits, {0}), "1:0.5000 3:0.5000") << policy;
  }
}

std::string bad_logits(std::vector<double> logits, std::string_view policy) {
  try {
    (void)chosen(policy, logits);
  } catch (const BadLogits& error) {
    return error.what();
  }
  return "none";
}

TEST(Policy, rows_that_are_no_logits_are_the_engines_fault) {
  for (const char* policy : {"greedy", "temperature:1", "top-k:1", "top-p:0.5"}) {
    for (const std::size_t size : {1U, 7U, 8U, 70U}) {
      for (std::size_t at = 0; at < size; ++at) {
        std::vector<double> logits(size, 1);
        logits[at] = kNan;
        EXPECT_NE(bad_logits(logits, policy), "none") << policy << " " << at << " of " << size;
        logits[at] = kInfinity;
        EXPECT_NE(bad_logits(logits, policy), "none") << policy << " " << at << " of " << size;
      }
      EXPECT_EQ(bad_logits(std::vector<double>(size, -kInfinity), policy),
                "logits: no token is possible, all are -inf");
    }
    EXPECT_NE(bad_logits({}, policy), "none");
  }
}

// ---- Against a reference that sorts everything

struct Weighed {
  double logit;
  double weight;
  int id;
};

// The stages word by word.
std::vector<Weighed> reference(const DecodingPolicy& policy, const std::vector<double>& logits,
                               const std::vector<int>& seen) {
  std::vector<Weighed> all;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double logit = logits[i];
    if (std::ranges::count(seen, static_cast<int>(i)) > 0) {
      logit = logit > 0 ? logit / policy.penalty : logit * policy.penalty;
    }
    all.push_back({logit, 0, static_cast<int>(i)});
  }
  std::ranges::stable_sort(all, std::greater<>(), &Weighed::logit);
  const double largest = all.front().logit;
  if (policy.top_k) all.resize(static_cast<std::size_t>(*policy.top_k));
  double total = 0;
  for (Weighed& one : all) {
    const double exponent = (one.logit - largest) * (1 / policy.temperature);
    one.weight = exponent < -708 ? 0 : std::exp(exponent);
    total += one.weight;
  }
  std::ranges::stable_sort(all, [](const Weighed& a, const Weighed& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
  });
  if (policy.top_p && *policy.top_p < 1) {
    double sum = 0;
    std::size_t kept = 0;
    while (kept < all.size() && sum < *policy.top_p * total) sum += all[kept++].weight;
    all.resize(kept);
  }
  if (policy.min_p) std::erase_if(all, [&](const Weighed& w) { return w.weight < *policy.min_p; });
  std::erase_if(all, [](const Weighed& w) { return w.weight == 0; });
  std::ranges::sort(all, {}, &Weighed::id);
  return all;
}

// A policy of every kind, and logits from a grid (ties) or from everywhere.
struct Drawn {
  DecodingPolicy policy;
  std::vector<double> logits;
  std::vector<int> seen;
};

Drawn draw_case(Draw& draw, int vocabulary) {
  Drawn drawn;
  const double spread = draw.next_of({0.1, 1.0, 4.0, 20.0});
  const bool grid = draw.next_one_in(3);
  for (int i = 0; i < vocabulary; ++i) {
    const double logit = spread * draw.next_normal();
    drawn.logits.push_back(grid ? std::round(logit) : logit);
  }
  for (int i = 0; i < 5; ++i) drawn.seen.push_back(draw.next_below(vocabulary));
  drawn.policy.temperature = draw.next_of({0.3, 1.0, 2.5});
  if (draw.next_one_in(2)) drawn.policy.top_k = 1 + draw.next_below(vocabulary);
  if (draw.next_one_in(2)) drawn.policy.top_p = 1 - draw.next_uniform();
  if (draw.next_one_in(6)) drawn.policy.top_p = 1;
  if (draw.next_one_in(3)) drawn.policy.min_p = 0.2 * (1 - draw.next_uniform());
  if (draw.next_one_in(3)) drawn.policy.penalty = draw.next_of({0.7, 1.3, 5.0});
  return drawn;
}

// The first one at which the running sum exceeds u times the sum, one by one.
int drawn_of(const std::vector<Weighed>& kept, double u) {
  double total = 0;
  for (const Weighed& one : kept) total += one.weight;
  double sum = 0;
  for (const Weighed& one : kept) {
    sum += one.weight;
    if (sum > u * total) return one.id;
  }
  return kept.back().id;
}

// How many of the cases kept something, but not everything.
int compare_with_reference(int cases, int vocabulary_max, std::uint64_t seed) {
  int narrowed = 0;
  PolicyScratch scratch;
  Draw draw{seed, stream_of("policy test")};
  for (int i = 0; i < cases; ++i) {
    const Drawn drawn = draw_case(draw, 1 + draw.next_below(vocabulary_max));
    const auto expected = reference(drawn.policy, drawn.logits, drawn.seen);
    const auto found = candidates(drawn.policy, drawn.logits, drawn.seen);
    const std::string where = to_text(drawn.policy) + " case " + std::to_string(i);
    double total = 0;
    for (const Weighed& one : expected) total += one.weight;
    EXPECT_EQ(found.size(), expected.size()) << where;
    for (std::size_t c = 0; c < std::min(found.size(), expected.size()); ++c) {
      EXPECT_EQ(found[c].token, expected[c].id) << where;
      EXPECT_EQ(found[c].logit, expected[c].logit) << where;
      EXPECT_NEAR(found[c].probability, expected[c].weight / total, 1e-13) << where;
    }
    const DrawPlace place{seed, static_cast<std::uint64_t>(i)};
    EXPECT_EQ(choose(drawn.policy, drawn.logits, drawn.seen, place, scratch).token,
              drawn_of(expected, uniform_of(place)))
        << where;
    if (found.size() < drawn.logits.size() && found.size() > 1) ++narrowed;
    if (testing::Test::HasFailure()) break;
  }
  return narrowed;
}

TEST(Policy, keeps_what_the_stages_say_word_by_word) {
  EXPECT_GT(compare_with_reference(3000, 12, 1), 500);
  EXPECT_GT(compare_with_reference(1000, 300, 2), 500);
  EXPECT_GT(compare_with_reference(100, 9000, 3), 50);
  EXPECT_GT(compare_with_reference(20, 60'000, 4), 10);
}

std::vector<int> kept_ids(std::string_view policy, const std::vector<double>& logits) {
  std::vector<int> ids;
  for (const Candidate& one : candidates(policy_of(policy), logits, {})) ids.push_back(one.token);
  return ids;
}

std::vector<int> reference_ids(std::string_view policy, const std::vector<double>& logits) {
  std::vector<int> ids;
  for (const Weighed& one : reference(policy_of(policy), logits, {})) ids.push_back(one.id);
  return ids;
}

TEST(Policy, keeps_exactly_as_many_of_equal_ones_as_there_must_be) {
  for (const int size : {10, 100, 1'000, 10'000}) {
    const std::vector<double> equal(static_cast<std::size_t>(size), 1.5);
    for (const char* policy : {"top-p:0.5", "top-p:0.3", "top-p:0.1"}) {
      const std::vector<int> kept = kept_ids(policy, equal);
      EXPECT_EQ(kept.size(), static_cast<std::size_t>(std::ceil(*policy_of(policy).top_p * size)));
      EXPECT_EQ(kept.back(), static_cast<int>(kept.size()) - 1) << policy << " of " << size;
    }
    EXPECT_EQ(kept_ids("top-k:7", equal), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  }
  std::vector<double> two(13'000, 0);
  for (std::size_t i = 0; i < two.size(); i += 3) two[i] = 1;
  EXPECT_EQ(kept_ids("top-p:0.8", two), reference_ids("top-p:0.8", two));
  EXPECT_EQ(kept_ids("top-k:6000", two), reference_ids("top-k:6000", two));
}

// Each of the others weighs less than 2^-30 of the largest.
TEST(Policy, counts_what_hardly_weighs_anything) {
  std::vector<double> logits(70'000, -21);
  logits[40'000] = 0;
  const std::vector<int> kept = kept_ids("top-p:0.99998", logits);
  EXPECT_EQ(kept, reference_ids("top-p:0.99998", logits));
  EXPECT_GT(kept.size(), 30'000U);
  EXPECT_LT(kept.size(), 60'000U);
}

// Rows that are made so that whoever looks at every 32nd value is misled.
TEST(Policy, does_not_depend_on_where_in_the_row_a_logit_stands) {
  for (const double shift : {-3.0, -1.0, 1.0, 3.0}) {
    Draw draw{5, stream_of("policy test")};
    std::vector<double> logits(20'000);
    for (double& logit : logits) logit = draw.next_normal();
    for (std::size_t i = 0; i < logits.size(); i += 32) logits[i] += shift;
    for (const char* policy :
         {"top-p:0.95", "top-p:0.5", "top-p:0.999", "top-k:400", "top-k:5000", "top-k:19000"}) {
      EXPECT_EQ(kept_ids(policy, logits), reference_ids(policy, logits)) << policy << " " << shift;
    }
  }
}

TEST(Policy, keeps_the_largest_of_a_row_most_of_which_is_impossible) {
  std::vector<double> logits(20'000, -kInfinity);
  for (std::size_t i = 0; i < logits.size(); i += 50) logits[i] = static_cast<double>(i % 7);
  EXPECT_EQ(kept_ids("top-k:5000", logits).size(), 400U);
  EXPECT_EQ(kept_ids("top-k:399", logits), reference_ids("top-k:399", logits));
  EXPECT_EQ(kept_ids("top-p:0.9", logits), reference_ids("top-p:0.9", logits));
}

// ---- Draws

// Pearson's statistic of the draws against the exact probabilities, over tokens that are possible.
double chi_square(const std::vector<double>& exact, int draws,
                  const std::function<int(int)>& draw) {
  std::vector<int> counts(exact.size(), 0);
  for (int i = 0; i < draws; ++i) ++counts.at(static_cast<std::size_t>(draw(i)));
  double sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double expected = exact[i] * draws;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " is impossible";
    } else {
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return sum;
}

constexpr int kDraws = 100'000;
// Exceeded by one correct sampler in a thousand, of 4 and of 3 degrees of freedom.
constexpr double kFourDegrees = 18.467;
constexpr double kThreeDegrees = 16.266;

TEST(PolicyDraws, come_as_often_as_the_exact_probabilities_say) {
  const std::vector<double> exact{1 / 16.0, 2 / 16.0, 4 / 16.0, 8 / 16.0, 1 / 16.0};
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const auto draw = [&](int i) {
      return chosen("temperature:1", kLogits, {seed, static_cast<std::uint64_t>(i)}).token;
    };
    EXPECT_LT(chi_square(exact, kDraws, draw), kFourDegrees);
  }
  const std::vector<double> four{1 / 15.0, 2 / 15.0, 4 / 15.0, 8 / 15.0, 0};
  for (const char* policy : {"top-k:4", "top-p:0.9"}) {
    const auto draw = [&](int i) {
      return chosen(policy, kLogits, {1, static_cast<std::uint64_t>(i)}).token;
    };
    EXPECT_LT(chi_square(four, kDraws, draw), kThreeDegrees) << policy;
  }
}

TEST(PolicyDraws, do_not_depend_on_the_step_before) {
  // The pair (token of step i, token of step i + 1) of the two halves.
  const auto half = [](int i) {
    return chosen("temperature:1", {0, 0}, {5, static_cast<std::uint64_t>(i)}).token;
  };
  const std::vector<double> exact(4, 0.25);
  EXPECT_LT(chi_square(exact, kDraws / 2, [&](int i) { return 2 * half(2 * i) + half(2 * i + 1); }),
            kThreeDegrees);
}

TEST(PolicyDraws, of_a_sampler_that_is_biased_are_found_out) {
  const std::vector<double> exact{1 / 16.0, 2 / 16.0, 4 / 16.0, 8 / 16.0, 1 / 16.0};
  // One token in fifty is taken for its neighbour.
  const auto neighbour = [&](int i) {
    const auto step = static_cast<std::uint64_t>(i);
    const int token = chosen("temperature:1", kLogits, {1, step}).token;
    return i % 50 == 0 ? (token + 1) % 5 : token;
  };
  EXPECT_GT(chi_square(exact, kDraws, neighbour), kFourDegrees);
  // A temperature of 0.98 where 1 was asked for.
  const auto colder = [&](int i) {
    return chosen("temperature:0.98", kLogits, {1, static_cast<std::uint64_t>(i)}).token;
  };
  EXPECT_GT(chi_square(exact, kDraws, colder), kFourDegrees);
}

TEST(PolicyDraws, are_the_same_for_ever) {
  std::vector<int> tokens;
  for (std::uint64_t step = 0; step < 16; ++step) {
    tokens.push_back(chosen("temperature:1", kLogits, {1, step}).token);
  }
  EXPECT_EQ(tokens, (std::vector<int>{0, 2, 3, 2, 0, 3, 3, 3, 2, 2, 1, 3, 2, 0, 3, 3}));
  EXPECT_EQ(uniform_of({1, 0}), 0x1.4ef13c87b79p-6);
}

TEST(PolicyDraws, depend_on_nothing_that_was_chosen_before) {
  Draw draw{11, stream_of("policy test")};
  PolicyScratch used;
  for (int i = 0; i < 300; ++i) {
    const Drawn drawn = draw_case(draw, 1 + draw.next_below(400));
    const DrawPlace place{3, static_cast<std::uint64_t>(i)};
    PolicyScratch fresh;
    EXPECT_EQ(choose(drawn.policy, drawn.logits, drawn.seen, place, used),
              choose(drawn.policy, drawn.logits, drawn.seen, place, fresh));
  }
}

// ---- As text

TEST(PolicyText, says_what_is_in_force_and_reads_it_back) {
  for (const char* text : {"greedy", "greedy,penalty:1.5", "temperature:1", "temperature:0.7",
                           "temperature:1,top-k:3", "temperature:2,top-p:0.25,min-p:0.5",
                           "temperature:1,top-k:2,top-p:1,min-p:0.125,penalty:0.5"}) {
    EXPECT_EQ(to_text(policy_of(text)), text);
  }
  EXPECT_EQ(to_text(policy_of("top-k:3")), "temperature:1,top-k:3");
  EXPECT_EQ(to_text(policy_of("penalty:2,min-p:0.5")), "temperature:1,min-p:0.5,penalty:2");
  EXPECT_EQ(to_text(policy_of("temperature:0,top-k:3")), "greedy");
  EXPECT_EQ(to_text(policy_of("penalty:2")), "greedy,penalty:2");
}

TEST(PolicyText, refuses_what_is_no_policy) {
  const auto error = [](std::string_view text) {
    return error_of([&] { (void)parse_decoding(text, 8, "--policy"); });
  };
  const std::string known =
      "--policy: policy, expected greedy, temperature:T, top-k:K, top-p:P, min-p:P or penalty:R, "
      "joined by commas, got ";
  for (const char* text : {"", "nope", "top-k", "greedy:1", "Greedy", "top_k:3"}) {
    EXPECT_EQ(error(text), known + text);
  }
  EXPECT_EQ(error("top-k:3,"), known);
  const std::string temperature =
      "--policy: temperature, expected 0 (greedy) or a number from 1e-6 to 1e6, got ";
  for (const char* t : {"-1", "nan", "inf", "1e-7", "1e7", "", "1x", " 1", "-nan", "1e999"}) {
    EXPECT_EQ(error(std::string("temperature:") + t), temperature + t);
  }
  for (const char* k : {"0", "9", "-1", "1.5", "nan", "99999999999999999999", ""}) {
    EXPECT_EQ(error(std::string("top-k:") + k),
              std::string("--policy: top-k, expected a whole number from 1 to the vocabulary's 8, "
                          "got ") +
                  k);
  }
  for (const char* word : {"top-p", "min-p"}) {
    for (const char* p : {"0", "-0.5", "1.0001", "nan", "inf", ""}) {
      EXPECT_EQ(
          error(std::string(word) + ":" + p),
          std::string("--policy: ") + word + ", expected a number above 0 and at most 1, got " + p);
    }
  }
  for (const char* r : {"0", "-1", "0.001", "101", "nan", "inf"}) {
    EXPECT_EQ(error(std::string("penalty:") + r),
              std::string("--policy: penalty, expected a number from 0.01 to 100, got ") + r);
  }
  EXPECT_EQ(error("top-k:3,top-k:4"),
            "--policy: top-k twice, expected each once, got top-k:3,top-k:4");
  EXPECT_EQ(error("greedy,top-k:3"),
            "--policy: greedy beside what only sampling knows, expected greedy alone or with "
            "penalty:R, got greedy,top-k:3");
}

}  // namespace
}  // namespace kvcheck
