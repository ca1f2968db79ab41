// SPDX-License-Identifier: MIT
// A case played through to its end.
#include "verify/transcript.h"

#include <span>
#include <utility>

#include "engine/error.h"
#include "verify/operation_run.h"
#include "verify/token_log.h"

namespace kvcheck {
namespace {

void append(Transcript& transcript, int step, const Logits& logits) {
  for (int r = 0; r < logits.rows(); ++r) {
    const std::span<const double> row = logits.row(r);
    transcript.rows.push_back({step, {row.begin(), row.end()}});
  }
}

// ---- Prefixes

void play_schedule(const Case& subject, Engine& engine, Transcript& transcript) {
  const Schedule decode = decode_schedule(static_cast<int>(subject.tokens.size()));
  const Schedule& schedule = subject.schedule.empty() ? decode : subject.schedule;
  const SequenceId sequence = engine.open();
  std::span<const int> tokens = subject.tokens;
  Logits logits;
  for (std::size_t step = 0; step < schedule.size(); ++step) {
    const auto length = static_cast<std::size_t>(schedule[step]);
    engine.feed(sequence, tokens.first(length), Rows::all, logits);
    require_rows(engine, logits, length);
    append(transcript, static_cast<int>(step), logits);
    tokens = tokens.subspan(length);
  }
}

// Each prefix of the case as the walk over the whole vocabulary decodes it, beside its siblings.
void play_siblings(const Case& subject, const ModelData& model, const EngineSetup& setup,
                   const EngineFactory& factory, Transcript& transcript) {
  const PrefixTree tree = PrefixTree::all(model.weights.config);
  Bench bench = make_bench(model, setup, subject.seed, factory);
  bench.keep_rows = true;
  bench.noise = nullptr;
  for (std::size_t n = 1; n <= subject.tokens.size(); ++n) {
    const auto end = subject.tokens.begin() + static_cast<std::ptrdiff_t>(n);
    const Probe probe{.tree = tree,
                      .scope = {.path = {subject.tokens.begin(), end}, .path_only = true}};
    const auto failure = run_probe(probe_prefixes, bench, probe, [&](const Measured& measured) {
      transcript.rows.push_back({static_cast<int>(n) - 1, measured.rows.front().cached});
    });
    if (failure) throw EngineError(failure->what);
  }
}

// ---- Operations

class Player {
 public:
  Player(Engine& engine, const OperationLimits& limits, Transcript& transcript)
      : engine_(engine), log_(limits), transcript_(transcript) {}

  void play(const Operations& operations) {
    for (std::size_t i = 0; i < operations.size(); ++i) {
      // After a refusal the log is another one than that for which the case was made.
      if (!log_.why_not(operations[i])) take(static_cast<int>(i), operations[i]);
    }
  }

 private:
  void take(int step, const Operation& operation) {
    if (operation.verb == Verb::truncate && refused(operation)) {
      transcript_.refused.push_back(step);
      return;
    }
    const OperationStep done = log_.apply(operation);
    if (!done.feeds.empty()) return feed(step, done);
    execute(operation);
  }

  bool refused(const Operation& operation) {
    try {
      engine_.truncate(id(operation, 0), operation.numbers[0]);
      return false;
    } catch (const Unsupported&) {
      throw;
    } catch (const Error&) {
      return true;
    }
  }

  void feed(int step, const OperationStep& done) {
    std::vector<Feed> feeds;
    for (const FedTokens& fed : done.feeds) {
      feeds.push_back({ids_[static_cast<std::size_t>(fed.handle)], fed.tokens});
    }
    const Rows rows = done.last_row_only ? Rows::last : Rows::all;
    Logits logits;
    if (feeds.size() == 1) {
      engine_.feed(feeds[0].sequence, feeds[0].tokens, rows, logits);
    } else {
      engine_.batch(feeds, rows, logits);
    }
    append(transcript_, step, logits);
  }

  void execute(const Operation& operation) {
    switch (operation.verb) {
      case Verb::open:
        ids_.push_back(engine_.open());
        return;
      case Verb::fork:
        ids_.push_back(engine_.fork(id(operation, 0)));
        return;
      case Verb::reorder:
        return reorder(operation);
      case Verb::reset:
        return engine_.truncate(id(operation, 0), 0);
      case Verb::close:
        return engine_.close(id(operation, 0));
      case Verb::save:
        saved_.push_back(engine_.save(id(operation, 0)));
        return;
      case Verb::load:
        ids_.push_back(engine_.load(saved_[static_cast<std::size_t>(operation.numbers[0])]));
        return;
      case Verb::shift:
        return engine_.shift(id(operation, 0), operation.numbers[0], operation.numbers[1]);
      case Verb::evict:
        return engine_.evict(id(operation, 0), operation.numbers[0], operation.numbers[1]);
      case Verb::feed:
      case Verb::prompt:
      case Verb::batch:
      case Verb::truncate:
        return;  // done already
    }
  }

  void reorder(const Operation& operation) {
    std::vector<SequenceId> ids;
    for (std::size_t i = 0; i < operation.sequences.size(); ++i) ids.push_back(id(operation, i));
    engine_.reorder(ids, operation.numbers);
  }

  [[nodiscard]] SequenceId id(const Operation& operation, std::size_t i) const {
    return ids_[static_cast<std::size_t>(operation.sequences[i])];
  }

  Engine& engine_;
  TokenLog log_;
  Transcript& transcript_;
  std::vector<SequenceId> ids_;  // [handle]
  std::vector<State> saved_;
};

}  // namespace

Transcript transcript_of(const Case& subject, const ModelData& model, const EngineSetup& setup,
                         const EngineFactory& factory) {
  Transcript transcript;
  try {
    if (subject.operations.empty() && subject.siblings) {
      play_siblings(subject, model, setup, factory, transcript);
      return transcript;
    }
    const auto engine = start_engine(factory, model, setup);
    if (subject.operations.empty()) {
      play_schedule(subject, *engine, transcript);
    } else {
      const OperationSpace space =
          operation_space(model.weights.config, setup.cache, engine->hello().can);
      Player(*engine, space.limits, transcript).play(subject.operations);
    }
  } catch (const EngineError& error) {
    transcript.failure = error.what();
  } catch (const Error& error) {
    transcript.failure = error.what();  // it refused what it must take
  }
  return transcript;
}

}  // namespace kvcheck
