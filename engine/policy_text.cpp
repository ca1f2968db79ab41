// SPDX-License-Identifier: MIT
// Decoding policies as text.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

#include "engine/echo.h"
#include "engine/policy.h"

namespace kvcheck {
namespace {

constexpr std::string_view kWords =
    "greedy, temperature:T, top-k:K, top-p:P, min-p:P or penalty:R, joined by commas";

struct Item {
  std::string_view word;
  std::string_view value;
};

class Parser {
 public:
  Parser(int vocabulary, std::string_view where) : vocabulary_(vocabulary), where_(where) {}

  DecodingPolicy parse(std::string_view text) {
    std::size_t at = 0;
    while (at <= text.size()) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      take(text.substr(at, end - at), text);
      at = end + 1;
    }
    return finished(text);
  }

 private:
  void take(std::string_view item, std::string_view text) {
    const std::size_t colon = item.find(':');
    const std::string word(item.substr(0, colon));
    const bool bare = colon == item.npos;
    const std::string_view value = bare ? std::string_view() : item.substr(colon + 1);
    if (!words_.insert(word).second) {
      throw bad_input(
          {where_, fmt::format("{} twice", one_line(word)), "each once", one_line(text)});
    }
    if (word == "greedy" && bare) return;
    if (word == "temperature" && !bare) {
      policy_.temperature = number(
          word, value,
          [](double t) { return t == 0 || (t >= kTemperatureMin && t <= kTemperatureMax); },
          "0 (greedy) or a number from 1e-6 to 1e6");
    } else if (word == "top-k" && !bare) {
      policy_.top_k = whole(word, value);
    } else if (word == "top-p" && !bare) {
      policy_.top_p = number(word, value, is_share, kShare);
    } else if (word == "min-p" && !bare) {
      policy_.min_p = number(word, value, is_share, kShare);
    } else if (word == "penalty" && !bare) {
      policy_.penalty = number(
          word, value, [](double r) { return r >= kPenaltyMin && r <= kPenaltyMax; },
          "a number from 0.01 to 100");
    } else {
      throw bad_input({where_, "policy", kWords, one_line(item)});
    }
  }

  DecodingPolicy finished(std::string_view text) {
    const bool samples = policy_.top_k || policy_.top_p || policy_.min_p;
    const bool has_temperature = words_.contains("temperature");
    if (words_.contains("greedy") && (samples || has_temperature)) {
      throw bad_input({where_, "greedy beside what only sampling knows",
                       "greedy alone or with penalty:R", one_line(text)});
    }
    if (!has_temperature && samples) policy_.temperature = 1;
    // The largest logit passes every one of them.
    if (policy_.greedy()) policy_.top_k = {}, policy_.top_p = {}, policy_.min_p = {};
    return policy_;
  }

  static bool is_share(double share) { return share > 0 && share <= 1; }
  static constexpr std::string_view kShare = "a number above 0 and at most 1";

  template <typename InRange>
  double number(std::string_view word, std::string_view text, InRange in_range,
                std::string_view expected) const {
    double value{};
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && next == end && in_range(value)) return value;
    throw bad_input({where_, word, expected, one_line(text)});
  }

  int whole(std::string_view word, std::string_view text) const {
    int value{};
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && next == end && value >= 1 && value <= vocabulary_) return value;
    throw bad_input({where_, word,
                     fmt::format("a whole number from 1 to the vocabulary's {}", vocabulary_),
                     one_line(text)});
  }

  const int vocabulary_;
  const std::string_view where_;
  DecodingPolicy policy_;
  std::set<std::string> words_;
};

}  // namespace

std::string to_text(const DecodingPolicy& policy) {
  std::string text = policy.greedy() ? "greedy" : fmt::format("temperature:{}", policy.temperature);
  if (!policy.greedy()) {
    if (policy.top_k) text += fmt::format(",top-k:{}", *policy.top_k);
    if (policy.top_p) text += fmt::format(",top-p:{}", *policy.top_p);
    if (policy.min_p) text += fmt::format(",min-p:{}", *policy.min_p);
  }
  if (policy.penalty != 1) text += fmt::format(",penalty:{}", policy.penalty);
  return text;
}

DecodingPolicy parse_decoding(std::string_view text, int vocabulary, std::string_view where) {
  return Parser(vocabulary, where).parse(text);
}

}  // namespace kvcheck
