// SPDX-License-Identifier: MIT
// The probe on what a sequence says it holds: rows, positions, bytes; and on what it does hold
// after a roll back and after refusals: the rows fed from there on are the oracle's.
#include <algorithm>
#include <numeric>

#include "engine/error.h"
#include "verify/held_facts.h"
#include "verify/probes.h"

namespace kvcheck {
namespace {

// One sequence under the accountant's eye.
class Account {
 public:
  Account(Bench& bench, Facts& facts)
      : bench_(bench),
        engine_(*bench.engine),
        config_(bench.model.weights.config),
        facts_(facts),
        sequence_(engine_.open()) {
    check("after open");
  }

  void feed(std::span<const int> tokens) {
    engine_.feed(sequence_, tokens, Rows::all, logits_);
    hold(rows_ + static_cast<int>(tokens.size()));
    facts_.expect(Invariant::rows_answered, "by a feed", static_cast<int>(tokens.size()),
                  logits_.rows());
    check("after a feed");
  }

  // Feeds what the sequence does not hold of the walk's prefix, and measures the answer.
  void feed_the_rest(PrefixWalk& at, std::vector<MeasuredRow>& rows) {
    const int held = rows_;
    const auto rest = at.prefix().subspan(static_cast<std::size_t>(held));
    if (rest.empty()) return;  // the roll back was refused
    feed(rest);
    if (logits_.rows() != static_cast<int>(rest.size())) return;  // a wrong fact already
    require_rows(engine_, logits_, rest.size());
    for (int i = 0; i < logits_.rows(); ++i) {
      rows.push_back(measure_row(bench_, at, held + i + 1, logits_.row(i)));
    }
  }

  // A ring may refuse: what it would need may be overwritten. It then holds what it held.
  void truncate(int length) {
    try {
      engine_.truncate(sequence_, length);
      hold(length);
    } catch (const Error&) {
      if (bench_.cache.layout != CacheLayout::ring) throw;
    }
    check("after a roll back");
  }

  void refuse(std::string_view what, std::span<const int> tokens) {
    const std::uint64_t before = fingerprint();
    bool refused = false;
    try {
      engine_.feed(sequence_, tokens, Rows::all, logits_);
    } catch (const Error&) {
      refused = true;
    }
    facts_.expect(Invariant::refused, what, 1, refused ? 1 : 0);
    if (!refused) return;
    if (engine_.hello().can.fingerprint) {
      facts_.expect_same(Invariant::refusal, what, before, fingerprint());
    }
    check(what);
  }

  void close() { engine_.close(sequence_); }
  [[nodiscard]] int rows() const { return rows_; }

 private:
  void check(std::string_view when) {
    expect_held(
        engine_, sequence_, config_, {bench_.scalar, bench_.arithmetic, bench_.cache},
        {.positions = positions_, .next_position = rows_, .peak = peak_},
        [when] { return std::string(when); }, facts_);
  }

  void hold(int rows) {
    rows_ = rows;
    peak_ = rows == 0 ? 0 : std::max(peak_, rows);
    positions_.resize(static_cast<std::size_t>(rows));
    std::iota(positions_.begin(), positions_.end(), 0);
  }

  [[nodiscard]] std::uint64_t fingerprint() const {
    return engine_.hello().can.fingerprint ? engine_.fingerprint(sequence_) : 0;
  }

  Bench& bench_;
  Engine& engine_;
  const Config& config_;
  Facts& facts_;
  const SequenceId sequence_;
  int rows_ = 0;
  int peak_ = 0;
  std::vector<int> positions_;  // of the rows
  Logits logits_;
};

void feed_by_schedule(Account& account, std::span<const int> tokens, const Schedule& schedule) {
  std::size_t fed = 0;
  for (const int length : schedule) {
    account.feed(tokens.subspan(fed, static_cast<std::size_t>(length)));
    fed += static_cast<std::size_t>(length);
  }
}

// Asks for what must be refused.
void ask_too_much(Account& account, const Config& config) {
  account.refuse("by an empty feed", {});
  const int outside[] = {config.vocabulary};
  account.refuse("by an id outside the vocabulary", outside);
  const int negative[] = {-1};
  account.refuse("by a negative id", negative);
  const std::vector<int> too_many(static_cast<std::size_t>(config.context + 1 - account.rows()), 0);
  account.refuse("by a feed past the context", too_many);
}

// Feeds by the schedule, rolls half of it back and feeds that again: only what is fed afterwards
// shows what a roll back did to the rows that it kept. Refusals, which do not depend on how the
// rows came to be there, are tried in between where everything was fed at once.
void keep_account(Bench& bench, PrefixWalk& at, const Schedule& schedule, Facts& facts,
                  std::vector<MeasuredRow>& rows) {
  Account account(bench, facts);
  try {
    feed_by_schedule(account, at.prefix(), schedule);
    account.truncate(static_cast<int>(at.prefix().size() / 2));
    if (schedule.size() == 1) ask_too_much(account, bench.model.weights.config);
    account.feed_the_rest(at, rows);
  } catch (const Error&) {
    // A sequence that holds other rows than it should may well refuse what follows: the first wrong
    // fact is told.
    if (facts.note.empty()) throw;
  }
  account.close();
}

}  // namespace

void probe_accounting(Bench& bench, const Probe& probe, const Sink& sink) {
  PrefixWalk walk(probe.tree, *bench.engine, PrefixWalk::CachedSteps::none, probe.oracle);
  std::vector<MeasuredRow> rows;
  walk_prefixes(walk, probe, [&](PrefixWalk& at, Schedule& schedule) {
    if (!at.leaf() && !probe.scope.path_only) return;
    const int length = static_cast<int>(at.prefix().size());
    std::vector<Schedule> schedules{decode_schedule(length), single_schedule(length)};
    if (length == 1) schedules.pop_back();
    // A case that broke before anything was fed has no schedule.
    if (probe.only_schedule && !probe.only_schedule->empty()) schedules = {*probe.only_schedule};
    for (const Schedule& next : schedules) {
      schedule = next;
      Facts facts;
      rows.clear();
      try {
        keep_account(bench, at, schedule, facts, rows);
      } catch (...) {
        bench.invariants += facts.counts;  // what an engine broke counts too
        throw;
      }
      bench.invariants += facts.counts;
      sink({at.prefix(), schedule, rows, facts.count, facts.note});
    }
  });
}

}  // namespace kvcheck
