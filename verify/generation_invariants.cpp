// SPDX-License-Identifier: MIT
// The list of invariants of a generation.
#include "verify/generation_invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

namespace kvcheck {
namespace {

using Account = GenerationAccount;

const GenerationStep& step_at(const Account& account, std::size_t i) {
  return account.generation.steps[i];
}
int prompt_of(const Account& account) { return static_cast<int>(account.request.prompt.size()); }

// ---- What is said of a wrong number

std::string shown(int value) { return fmt::format("{}", value); }
std::string shown(const std::optional<int>& value) { return value ? shown(*value) : "none"; }
std::string shown(Stop stop) { return std::string(name(stop)); }
std::string shown(bool value) { return value ? "yes" : "no"; }

std::string wrong(const std::string& expected, const std::string& got) {
  return fmt::format("expected {}, got {}", expected, got);
}

// Nothing if the two are the same.
template <typename T>
std::string same(const T& expected, const std::type_identity_t<T>& got) {
  return expected == got ? "" : wrong(shown(expected), shown(got));
}

// ---- Of each step

std::string numbered(const Account& account, std::size_t i) {
  return same(account.request.join + static_cast<int>(i), step_at(account, i).step);
}

std::string fed(const Account& account, std::size_t i) {
  const bool all = !account.cached || i == 0;
  const int before = account.cached ? 0 : static_cast<int>(i);
  return same(all ? prompt_of(account) + before : 1, step_at(account, i).fed);
}

std::string consumed(const Account& account, std::size_t i) {
  const int before = i == 0 || !account.cached ? 0 : step_at(account, i - 1).consumed;
  return same(before + step_at(account, i).fed, step_at(account, i).consumed);
}

std::string length(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return same(account.cached ? std::optional(step.consumed) : std::nullopt, step.cache_length);
}

std::string next_position(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return same(account.cached ? step.cache_length : std::nullopt, step.next_position);
}

std::string position(const Account& account, std::size_t i) {
  return same(step_at(account, i).consumed - 1, step_at(account, i).position);
}

std::string returned(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return same(step.consumed - prompt_of(account) + 1, step.returned);
}

std::string remaining(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  if (step.remaining < 0) return wrong("at least 0", shown(step.remaining));
  return same(account.context - step.consumed, step.remaining);
}

std::string listed(const Account& account, std::size_t i) {
  const auto tokens = account.generation.returned();
  return same(i < tokens.size() ? std::optional(tokens[i]) : std::nullopt,
              step_at(account, i).token);
}

std::string in_vocabulary(const Account& account, std::size_t i) {
  const int token = step_at(account, i).token;
  if (token >= 0 && token < account.vocabulary) return "";
  return wrong(fmt::format("0 to {}", account.vocabulary - 1), shown(token));
}

std::string possible(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  if (!std::isfinite(step.logit)) return wrong("a finite logit", fmt::format("{}", step.logit));
  if (!(step.probability >= 0 && step.probability <= 1)) {
    return wrong("a probability from 0 to 1", fmt::format("{}", step.probability));
  }
  if (step.drawn_with > 0 && step.drawn_with <= 1) return "";
  return wrong("a probability under the policy above 0 and at most 1",
               fmt::format("{}", step.drawn_with));
}

std::string goes_on(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  const bool last = i + 1 == account.generation.steps.size();
  const bool due = step.remaining == 0 || step.token == account.request.eos ||
                   step.returned >= account.request.steps;
  if (last == due) return "";
  return due ? wrong("the last step", "another one after it")
             : wrong("another step", "the end of the generation");
}

// ---- Of the whole

std::string prompt_kept(const Account& account) {
  const std::vector<int>& tokens = account.generation.tokens;
  const std::vector<int>& prompt = account.request.prompt;
  if (account.generation.prompt != prompt_of(account)) {
    return wrong(fmt::format("a prompt of {}", prompt.size()), shown(account.generation.prompt));
  }
  if (tokens.size() <= prompt.size()) {
    return wrong(fmt::format("more than {} tokens", prompt.size()),
                 fmt::format("{}", tokens.size()));
  }
  const auto [asked, kept] = std::ranges::mismatch(prompt, tokens);
  if (asked == prompt.end()) return "";
  return wrong(fmt::format("{} at position {}", *asked, asked - prompt.begin()), shown(*kept));
}

std::string one_unfed(const Account& account) {
  const std::vector<GenerationStep>& steps = account.generation.steps;
  if (steps.empty()) return wrong("a step", "none");
  const int tokens = static_cast<int>(account.generation.tokens.size());
  return same(tokens - 1, steps.back().consumed);
}

std::string reason(const Account& account) {
  if (account.generation.steps.empty()) return wrong("a step", "none");
  const GenerationStep& last = account.generation.steps.back();
  if (last.returned > account.request.steps) {
    return wrong(fmt::format("at most {} returned", account.request.steps), shown(last.returned));
  }
  const Stop expected = last.token == account.request.eos ? Stop::eos
                        : last.remaining == 0             ? Stop::context
                                                          : Stop::steps;
  return same(expected, account.generation.stop);
}

std::string undisturbed(const Account& account) {
  return same(true, account.generation.undisturbed);
}

constexpr std::array kInvariants{
    GenerationInvariant{"prompt-kept", "the tokens begin with the prompt, and some are returned",
                        nullptr, prompt_kept},
    GenerationInvariant{"steps-numbered", "steps count on by one from where the request joined",
                        numbered, nullptr},
    GenerationInvariant{"fed-once",
                        "the prompt is fed first, then one token a step; without a cache all", fed,
                        nullptr},
    GenerationInvariant{"consumed-adds-up", "consumed = what was fed so far", consumed, nullptr},
    GenerationInvariant{"length-is-consumed", "rows in the cache = tokens consumed", length,
                        nullptr},
    GenerationInvariant{"next-position-is-length", "next position = rows in the cache",
                        next_position, nullptr},
    GenerationInvariant{"position-is-last", "a choice is made at the last consumed position",
                        position, nullptr},
    GenerationInvariant{"returned-adds-up", "returned = consumed - prompt + 1", returned, nullptr},
    GenerationInvariant{"remaining-is-rest", "remaining = context - consumed, never negative",
                        remaining, nullptr},
    GenerationInvariant{"token-in-vocabulary", "a token that is chosen is an id of the vocabulary",
                        in_vocabulary, nullptr},
    GenerationInvariant{"token-listed", "what a step chose is the token that was returned", listed,
                        nullptr},
    GenerationInvariant{"choice-possible",
                        "the logit is finite, the probabilities lie in [0, 1] and (0, 1]", possible,
                        nullptr},
    GenerationInvariant{"stops-when-due",
                        "no step follows EOS, the full context or the last allowed one, and no end "
                        "comes before",
                        goes_on, nullptr},
    GenerationInvariant{"stop-reason", "the reason is the first of EOS, context and steps", nullptr,
                        reason},
    GenerationInvariant{"one-unfed", "all tokens but the last returned one were fed", nullptr,
                        one_unfed},
    GenerationInvariant{"undisturbed", "what has stopped is not changed by those that go on",
                        nullptr, undisturbed},
};

// Without a cache there is no length; alone there is nobody who could change anything.
bool says_something(const GenerationInvariant& invariant, const Account& account) {
  if (invariant.of_whole == undisturbed) return account.outlived;
  return account.cached || (invariant.of_step != length && invariant.of_step != next_position);
}

// Of one invariant: the first violation, or empty.
std::string violation(const GenerationInvariant& invariant, const Account& account) {
  const auto violated = [&](const std::string& place, const std::string& mismatch) {
    return fmt::format("invariant {} violated{}: {}, {}", invariant.name, place, invariant.claim,
                       mismatch);
  };
  if (invariant.of_whole != nullptr) {
    const std::string mismatch = invariant.of_whole(account);
    return mismatch.empty() ? "" : violated("", mismatch);
  }
  for (std::size_t i = 0; i < account.generation.steps.size(); ++i) {
    const std::string mismatch = invariant.of_step(account, i);
    if (!mismatch.empty()) return violated(fmt::format(" at step {}", i + 1), mismatch);
  }
  return "";
}

}  // namespace

std::span<const GenerationInvariant> generation_invariants() { return kInvariants; }

std::string violated_invariant(const GenerationAccount& account) {
  InvariantCounts counts;
  return violated_invariant(account, counts);
}

std::string violated_invariant(const GenerationAccount& account, InvariantCounts& counts) {
  std::string first;
  const auto steps = static_cast<std::int64_t>(account.generation.steps.size());
  for (std::size_t i = 0; i < kInvariants.size(); ++i) {
    const GenerationInvariant& invariant = kInvariants[i];
    std::string violated = violation(invariant, account);
    if (!violated.empty() || says_something(invariant, account)) {
      counts.add(index_of_generation(i), violated.empty(),
                 invariant.of_whole != nullptr ? 1 : steps);
    }
    if (first.empty()) first = std::move(violated);
  }
  return first;
}

}  // namespace kvcheck
