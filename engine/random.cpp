// SPDX-License-Identifier: MIT
// The counter-based generator and what is drawn from its bits.
#include "engine/random.h"

#include <limits>

#include "engine/error.h"

namespace kvcheck {
namespace {

// SplitMix64's step: 2^64 over the golden ratio, made odd.
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;

// A normal number adds twelve pieces of 21 bits, three from each 64-bit draw.
constexpr int kPieceBits = 21;
constexpr std::int64_t kPieceMax = (std::int64_t{1} << kPieceBits) - 1;
constexpr int kPieces = 12;
constexpr int kPiecesPerDraw = 3;
static_assert(kPieceBits * kPiecesPerDraw <= 64 && kPieces % kPiecesPerDraw == 0);

// Twice the sum less twice its mean stays whole, and a float's 24 bits times it fit into a double.
static_assert(2 * kPieces * kPieceMax < (std::int64_t{1} << 26));
static_assert(25 + std::numeric_limits<float>::digits <= std::numeric_limits<double>::digits);

constexpr double kTwoToMinus53 = 0x1p-53;
constexpr double kTwoToMinus22 = 0x1p-22;  // one piece's 2^-21, halved for the doubled sum

}  // namespace

std::uint64_t mix(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EB;
  return state ^ (state >> 31);
}

std::uint64_t hash(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  const std::uint64_t start = mix(mix(seed + kStep) + stream);
  return mix(start + (counter + 1) * kStep);
}

std::uint64_t stream_of(std::string_view name) {
  std::uint64_t sum = 0xCBF29CE484222325;
  for (const char c : name) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return sum;
}

std::uint64_t Draw::next_bits() { return hash(seed, stream, counter++); }

double Draw::next_uniform() { return static_cast<double>(next_bits() >> 11) * kTwoToMinus53; }

int Draw::next_below(int n) {
  require(n >= 1, "a draw needs at least one value to choose from");
  return static_cast<int>(((next_bits() >> 32) * static_cast<std::uint64_t>(n)) >> 32);
}

int Draw::next_in(IntRange range) { return range.low + next_below(range.high - range.low + 1); }

bool Draw::next_one_in(int n) { return next_below(n) == 0; }

double Draw::next_normal() {
  std::int64_t sum = 0;
  for (int draw = 0; draw < kPieces / kPiecesPerDraw; ++draw) {
    const std::uint64_t bits = next_bits();
    for (int piece = 0; piece < kPiecesPerDraw; ++piece) {
      sum += static_cast<std::int64_t>(bits >> (kPieceBits * piece)) & kPieceMax;
    }
  }
  return static_cast<double>(2 * sum - kPieces * kPieceMax) * kTwoToMinus22;
}

}  // namespace kvcheck
