// SPDX-License-Identifier: MIT
// Generation: the logits of what is known -> a token by the policy -> appended, and again. With a
// cache the prompt is fed in one step and then each returned token alone; without one everything is
// recomputed for every token. A record of every step says what was fed, held and chosen.
//
// A token is *consumed* when it was fed (without a cache: was part of a forward), and *returned*
// when it was chosen. The last returned token is never fed: at the context's last position one more
// token is predicted, for which there is no position to feed it at.
//
// A generation stops at the first of: the EOS token was returned (one inside the prompt stops
// nothing), the context is full, as many tokens as allowed were returned.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/policy.h"
#include "engine/port.h"

namespace kvcheck {

enum class Stop { eos, context, steps };
[[nodiscard]] constexpr std::string_view name(Stop stop) {
  return stop == Stop::eos ? "eos" : stop == Stop::context ? "context" : "steps";
}

// More tokens than any context has room for.
inline constexpr int kStepsMax = 1'000'000;

struct GenerationRequest {
  std::vector<int> prompt;      // 1 token to the context
  int steps = kStepsMax;        // most tokens that are returned, 1 to kStepsMax
  std::optional<int> eos = {};  // none: nothing but context and steps stops it
  DecodingPolicy policy = {};
  std::uint64_t seed = 1;
  int join = 0;  // step of a batch at which it joins, 0 to kStepsMax

  bool operator==(const GenerationRequest&) const = default;
};

// Throws Error naming `where`.
void validate(const GenerationRequest& request, const Config& config, std::string_view where);

struct GenerationStep {
  int step = 0;      // of the engine, from 0; in a batch all requests count the same ones
  int fed = 0;       // tokens fed in it; without a cache all of them, every time
  int consumed = 0;  // tokens fed so far
  int returned = 0;  // tokens chosen so far, this one included
  int position = 0;  // of the row of logits that the choice was made from
  std::optional<int> cache_length = {};   // rows held after the feed, as the engine says
  std::optional<int> next_position = {};  // likewise; none without a cache
  int remaining = 0;                      // positions of the context that are left
  int token = 0;                          // that was chosen
  double logit = 0;                       // its own
  double probability = 0;                 // softmax(logits)[token]
  double drawn_with = 0;                  // its probability under the policy, 1 if greedy

  bool operator==(const GenerationStep&) const = default;
};

struct Generation {
  std::vector<int> tokens;  // the prompt, then what was returned
  int prompt = 0;           // tokens of it
  std::vector<GenerationStep> steps;
  Stop stop = Stop::steps;
  // What the engine held of it when it stopped is what it held when all of its batch had.
  bool undisturbed = true;
  std::vector<std::vector<double>> logits = {};  // [steps][vocabulary], if they are kept

  [[nodiscard]] std::span<const int> returned() const {
    return std::span<const int>(tokens).subspan(static_cast<std::size_t>(prompt));
  }
};

enum class KeepLogits { no, yes };

// All of these throw BadLogits, and EngineError for an engine that fails or refuses what it must
// take; what was open then stays open. The requests must be valid.

[[nodiscard]] Generation generate_uncached(Engine& engine, const GenerationRequest& request,
                                           KeepLogits keep = KeepLogits::no);
[[nodiscard]] Generation generate_cached(Engine& engine, const GenerationRequest& request,
                                         KeepLogits keep = KeepLogits::no);

// All requests side by side, a batch in each step: the prompts of those that join at it, and the
// last token of each that goes on. Those that stopped are not fed, and held until the end. Where
// nobody is left but some still join, steps pass without a batch. No requests: no generations.
// The engine must offer `batch`.
[[nodiscard]] std::vector<Generation> generate_batch(Engine& engine,
                                                     std::span<const GenerationRequest> requests,
                                                     KeepLogits keep = KeepLogits::no);

}  // namespace kvcheck
