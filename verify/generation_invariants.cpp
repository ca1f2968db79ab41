// SPDX-License-Identifier: MIT
// The list of invariants of a generation.
#include "verify/generation_invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace kvcheck {
namespace {

using Account = GenerationAccount;

const GenerationStep& step_at(const Account& account, std::size_t i) {
  return account.generation.steps[i];
}
int prompt_of(const Account& account) { return static_cast<int>(account.request.prompt.size()); }

// ---- Of each step

bool numbered(const Account& account, std::size_t i) {
  return step_at(account, i).step == account.request.join + static_cast<int>(i);
}

bool fed(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  if (!account.cached) return step.fed == prompt_of(account) + static_cast<int>(i);
  return step.fed == (i == 0 ? prompt_of(account) : 1);
}

bool consumed(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  const int before = i == 0 || !account.cached ? 0 : step_at(account, i - 1).consumed;
  return step.consumed == before + step.fed;
}

bool length(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return account.cached ? step.cache_length == step.consumed : !step.cache_length;
}

bool next_position(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return account.cached ? step.next_position == step.cache_length : !step.next_position;
}

bool position(const Account& account, std::size_t i) {
  return step_at(account, i).position == step_at(account, i).consumed - 1;
}

bool returned(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return step.returned == step.consumed - prompt_of(account) + 1;
}

bool remaining(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return step.remaining >= 0 && step.remaining == account.context - step.consumed;
}

bool listed(const Account& account, std::size_t i) {
  const auto tokens = account.generation.returned();
  return i < tokens.size() && step_at(account, i).token == tokens[i];
}

bool in_vocabulary(const Account& account, std::size_t i) {
  const int token = step_at(account, i).token;
  return token >= 0 && token < account.vocabulary;
}

bool possible(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  return std::isfinite(step.logit) && step.probability >= 0 && step.probability <= 1 &&
         step.drawn_with > 0 && step.drawn_with <= 1;
}

bool goes_on(const Account& account, std::size_t i) {
  const GenerationStep& step = step_at(account, i);
  const bool last = i + 1 == account.generation.steps.size();
  const bool due = step.remaining == 0 || step.token == account.request.eos ||
                   step.returned >= account.request.steps;
  return last == due;
}

// ---- Of the whole

bool prompt_kept(const Account& account) {
  const std::vector<int>& tokens = account.generation.tokens;
  const std::vector<int>& prompt = account.request.prompt;
  return account.generation.prompt == prompt_of(account) && tokens.size() > prompt.size() &&
         std::equal(prompt.begin(), prompt.end(), tokens.begin());
}

bool one_unfed(const Account& account) {
  const std::vector<GenerationStep>& steps = account.generation.steps;
  const int tokens = static_cast<int>(account.generation.tokens.size());
  return !steps.empty() && tokens == steps.back().consumed + 1;
}

bool reason(const Account& account) {
  if (account.generation.steps.empty()) return false;
  const GenerationStep& last = account.generation.steps.back();
  const Stop expected = last.token == account.request.eos ? Stop::eos
                        : last.remaining == 0             ? Stop::context
                                                          : Stop::steps;
  return account.generation.stop == expected && last.returned <= account.request.steps;
}

bool undisturbed(const Account& account) { return account.generation.undisturbed; }

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
  if (invariant.of_whole != nullptr) {
    if (invariant.of_whole(account)) return "";
    return fmt::format("invariant {} violated: {}", invariant.name, invariant.claim);
  }
  for (std::size_t i = 0; i < account.generation.steps.size(); ++i) {
    if (invariant.of_step(account, i)) continue;
    return fmt::format("invariant {} violated at step {}: {}", invariant.name, i + 1,
                       invariant.claim);
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
