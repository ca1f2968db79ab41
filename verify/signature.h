// SPDX-License-Identifier: MIT
// What is wrong with an engine whose weights nobody can load: which lengths, chunks, operations and
// neighbours its answers go wrong with, beside its own recomputation, compared with what the known
// faults look like from outside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/port.h"
#include "verify/fault.h"

namespace kvcheck {

// An answer to one of a fixed list of questions about an engine.
struct Evidence {
  std::string_view question;
  std::string answer;

  bool operator==(const Evidence&) const = default;
};
// All answers, in the order of the questions.
using Signature = std::vector<Evidence>;

// Rows further apart than this share of their largest logit count as wrong: what single precision
// rounds stays far below, and no weights are at hand to measure it.
inline constexpr double kWrongShare = 1e-4;
// Positions that are looked at.
inline constexpr int kSignatureContext = 8;

// Feeds the engine through its port only. Sequences that are open stay as they are. What the engine
// cannot do is answered "unsupported".
[[nodiscard]] Signature signature_of(Engine& engine);
// Whether nothing at all looks wrong; what an engine refuses is not wrong.
[[nodiscard]] bool looks_right(const Signature& signature);

struct Resemblance {
  FaultVariant fault;
  int alike = 0;  // answers that are the same
};

// All known faults, each on the smallest model that shows it, from like to unlike.
[[nodiscard]] std::vector<Resemblance> resemblances(const Signature& signature);

// The best ones, with what speaks for them and what against.
[[nodiscard]] std::string to_text(const Signature& signature,
                                  const std::vector<Resemblance>& found);

}  // namespace kvcheck
