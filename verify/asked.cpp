// SPDX-License-Identifier: MIT
// Hooks around an engine that keep the tokens of every sequence.
#include "verify/asked.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/sequences.h"
#include "verify/hooked_engine.h"

namespace kvcheck {
namespace {

// Words of a batch of many sequences are cut.
constexpr std::size_t kWordsMax = 60;

class Shown {
 public:
  Shown(AskedWitness& witness, const Hello& hello)
      : witness_(witness), vocabulary_(hello.vocabulary), context_(hello.context) {}

  void opened(SequenceId sequence) { held_[sequence] = {}; }
  void closed(SequenceId sequence) {
    held_.erase(sequence);
    witness_.closed(sequence);
  }

  void feed(Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    const bool right = std::ranges::all_of(feeds, [&](const Feed& feed) { return fits(feed); });
    if (!right) return inner.batch(feeds, rows, out);
    AskedStep step{.what = words(feeds), .last_row_only = rows == Rows::last};
    for (const Feed& feed : feeds) {
      std::vector<int> tokens = held_[feed.sequence];
      tokens.insert(tokens.end(), feed.tokens.begin(), feed.tokens.end());
      step.changed.push_back(
          {feed.sequence, std::move(tokens), static_cast<int>(feed.tokens.size())});
    }
    take(step, [&] {
      inner.batch(feeds, rows, out);
      step.answer = &out;
    });
  }

  void truncate(Engine& inner, SequenceId sequence, int length) {
    AskedStep step{.what = fmt::format("roll back to {}", length)};
    take(step, [&] {
      inner.truncate(sequence, length);
      std::vector<int> tokens = held_[sequence];
      tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(length)));
      step.changed.push_back({sequence, std::move(tokens)});
    });
  }

  SequenceId fork(Engine& inner, SequenceId sequence) {
    SequenceId copy = 0;
    AskedStep step{.what = fmt::format("copy of sequence {}", sequence)};
    take(step, [&] {
      copy = inner.fork(sequence);
      step.changed.push_back({copy, held_[sequence]});
    });
    return copy;
  }

 private:
  [[nodiscard]] bool fits(const Feed& feed) const {
    const auto held = held_.find(feed.sequence);
    return held != held_.end() && !feed.tokens.empty() &&
           held->second.size() + feed.tokens.size() <= static_cast<std::size_t>(context_) &&
           std::ranges::all_of(feed.tokens,
                               [&](int token) { return token >= 0 && token < vocabulary_; });
  }

  static std::string words(std::span<const Feed> feeds) {
    if (feeds.size() == 1) return "tokens " + join_tokens(feeds[0].tokens);
    std::string text = fmt::format("batch of {}: tokens", feeds.size());
    for (const Feed& feed : feeds) {
      text += fmt::format("{} {}", &feed == &feeds.front() ? "" : " |", join_tokens(feed.tokens));
    }
    return one_line(text, kWordsMax);
  }

  template <typename Verb>
  void take(AskedStep& step, Verb verb) {
    witness_.before(step);
    try {
      verb();
    } catch (const Error&) {
      witness_.refused();
      throw;
    }
    for (const AskedStep::Sequence& sequence : step.changed) held_[sequence.id] = sequence.tokens;
    witness_.after(step);
  }

  AskedWitness& witness_;
  const int vocabulary_;
  const int context_;
  std::map<SequenceId, std::vector<int>> held_;
};

}  // namespace

std::unique_ptr<Engine> shown_to(AskedWitness& witness, std::unique_ptr<Engine> engine) {
  const auto shown = std::make_shared<Shown>(witness, engine->hello());
  Hooks hooks;
  hooks.can = [](Capabilities& can) { can.reorder = can.state = can.shift = can.evict = false; };
  hooks.open = [shown](Engine& inner) {
    const SequenceId sequence = inner.open();
    shown->opened(sequence);
    return sequence;
  };
  hooks.close = [shown](Engine& inner, SequenceId sequence) {
    inner.close(sequence);
    shown->closed(sequence);
  };
  hooks.feed = [shown](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    shown->feed(inner, feeds, rows, out);
  };
  hooks.truncate = [shown](Engine& inner, SequenceId sequence, int length) {
    shown->truncate(inner, sequence, length);
  };
  hooks.fork = [shown](Engine& inner, SequenceId sequence) { return shown->fork(inner, sequence); };
  return std::make_unique<HookedEngine>(std::move(engine), std::move(hooks));
}

}  // namespace kvcheck
