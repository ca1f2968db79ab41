// SPDX-License-Identifier: MIT
// Each invariant is checked by the checks that the list names, holds of the built-in engine, and is
// the one that is named when an engine violates it and nothing else.
#include "verify/invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "engine/error.h"
#include "verify/builtin_inside.h"
#include "verify/generation.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

using testing::HasSubstr;

std::string id_of(Invariant invariant) { return std::string(invariants()[index_of(invariant)].id); }

TEST(Invariants, have_names_of_their_own_and_claims) {
  std::set<std::string_view> ids;
  for (const InvariantRow& row : invariants()) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_FALSE(row.claim.empty()) << row.id;
    EXPECT_FALSE(row.checks.empty()) << row.id;
  }
  EXPECT_EQ(id_of(Invariant::nothing_left), "nothing-left");
  EXPECT_LT(invariants().size(), kInvariantsMax);
}

TEST(Invariants, counts_add_up) {
  InvariantCounts sum;
  sum.add(0, true);
  InvariantCounts more;
  more.add(0, false);
  more.add(3, true, 5);
  sum += more;
  EXPECT_EQ(sum.checked[0], 2);
  EXPECT_EQ(sum.failed[0], 1);
  EXPECT_EQ(sum.checked[3], 5);
  EXPECT_EQ(sum.failed[3], 0);
}

// ---- Each is checked

// Every verb, and a roll back that a ring refuses.
Operations some_operations(const OperationSpace&, std::uint64_t, std::uint64_t number) {
  return parse_operations(
      number == 0
          ? "open.feed:0x5.open.batch:0x1-1x3.fork:1.feed:2x2.reorder:0-2@1-0.feed:0x1.save:1."
            "truncate:1x2.feed:1x2.load:0.feed:3x1.close:1.open.prompt:4@3x4+1.reset:3.feed:3x16"
          : "open.feed:0x4.feed:0x1.truncate:0x2",
      "test");
}

TEST(Invariants, are_each_checked_by_the_checks_that_the_list_names) {
  const ModelData model = two_window_model();
  SuiteOptions options = options_for(Arithmetic::row);
  options.operations = {
      .kind = OperationChoice::Kind::random,
      .count = 2,
      .caches = {{.layout = CacheLayout::ring}, {.layout = CacheLayout::paged, .block = 2}},
      .draw = some_operations};
  Collector collector;
  const RunResult result = run_on(options, random_run(model, 4), builtin_engine, collector);
  EXPECT_EQ(result.verdict, Verdict::agree);
  std::set<std::pair<std::string, std::string>> looked;
  for (const CheckSummary& summary : result.checks) {
    for (std::size_t i = 0; i < invariants().size(); ++i) {
      EXPECT_EQ(summary.counts.invariants.failed[i], 0) << summary.check << invariants()[i].id;
      if (summary.counts.invariants.checked[i] == 0) continue;
      looked.emplace(summary.check, invariants()[i].id);
    }
  }
  for (const InvariantRow& row : invariants()) {
    for (const Check& check : checks()) {
      const bool named = row.checks.find(check.id) != std::string_view::npos;
      EXPECT_EQ(looked.contains({std::string(check.id), std::string(row.id)}), named)
          << check.id << ": " << row.id;
    }
  }
}

// ---- Each is named where it is violated

// What a check found on an engine: the first note, and the counts.
struct Found {
  std::string note;
  InvariantCounts counts;
};

// Of the sequence [0, 1, 2] of the small model.
Found found_by(ProbeFunction probe, Hooks hooks) {
  const ModelData model = small_model();
  Bench bench = make_bench(model, {ScalarKind::f32, Arithmetic::row}, 1, hooked(std::move(hooks)));
  const PrefixTree tree = PrefixTree::of({{0, 1, 2}}, 4);
  Found found;
  const auto failure = run_probe(probe, bench, {.tree = tree}, [&](const Measured& measured) {
    if (found.note.empty()) found.note = measured.note;
  });
  if (failure) found.note = failure->what;
  found.counts = bench.invariants;
  return found;
}

Found found_by_operations(std::string_view operations, Hooks hooks) {
  const ModelData model = two_window_model();
  const CacheKind paged{.layout = CacheLayout::paged, .block = 2};
  const Case subject = operations_case(model, paged, operations);
  OperationRunner runner = runner_of(subject, model, hooked(std::move(hooks)));
  const CaseResult result = runner.run(subject.operations);
  return {result.note, runner.invariants()};
}

void expect_only(Invariant invariant, const Found& found) {
  const std::string id = id_of(invariant);
  EXPECT_THAT(found.note, HasSubstr("invariant " + id + " violated"));
  for (std::size_t i = 0; i < invariants().size(); ++i) {
    EXPECT_EQ(found.counts.failed[i] > 0, invariants()[i].id == id)
        << invariants()[i].id << " where " << id << " is violated";
  }
}

KvCache<float>& cache_of(Engine& engine, SequenceId sequence) {
  return builtin_inside<float>(engine)->cache(sequence);
}

// A number that is held, in layer 0.
void change_row(Engine& engine, SequenceId sequence) {
  KvCache<float>& cache = cache_of(engine, sequence);
  *cache.key(0, cache.slot(0, 0)) += 1;
}

Hooks saying(void (*change)(Held&)) {
  return {.held = [change](const Engine& inner, SequenceId sequence) {
    Held held = inner.held(sequence);
    change(held);
    return held;
  }};
}

Hooks placing(void (*change)(Places&)) {
  return {.places = [change](const Engine& inner, SequenceId sequence) {
    Places places = inner.places(sequence);
    if (places.slots.size() > 1) change(places);
    return places;
  }};
}

Hooks after_feeds(void (*change)(Engine&, SequenceId)) {
  return {.feed = [change](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    change(inner, feeds.back().sequence);
  }};
}

TEST(Invariants, of_what_a_sequence_holds_are_told_apart) {
  const auto accounting = [](Hooks hooks) { return found_by(probe_accounting, std::move(hooks)); };
  expect_only(Invariant::length, accounting(saying([](Held& held) { ++held.rows; })));
  expect_only(Invariant::next_position,
              accounting(saying([](Held& held) { ++held.next_position; })));
  expect_only(Invariant::bytes, accounting(saying([](Held& held) { ++held.bytes; })));
  expect_only(Invariant::positions,
              accounting(placing([](Places& places) { ++places.positions.back(); })));
  expect_only(
      Invariant::slots,
      accounting(placing([](Places& places) { places.slots.back() = places.slots.front(); })));
}

TEST(Invariants, of_memory_are_read_from_the_store) {
  const Found layers = found_by(probe_accounting, after_feeds([](Engine& inner, SequenceId id) {
                                  cache_of(inner, id).store().poison(1, 0, 1);
                                }));
  expect_only(Invariant::layers, layers);
  EXPECT_THAT(layers.note, HasSubstr("violated in layer 1 after a feed: expected 1, got 0"));
  // A key alone, or a value, is no row.
  expect_only(Invariant::layers,
              found_by(probe_accounting, after_feeds([](Engine& inner, SequenceId id) {
                         KvStore<float>& store = cache_of(inner, id).store();
                         std::vector<float> key(static_cast<std::size_t>(store.row()));
                         std::vector<float> value(key.size());
                         store.read(1, 0, key.data(), value.data());
                         store.poison(1, 0, 1);
                         std::ranges::copy(key, store.key(1, 0));
                       })));
  expect_only(Invariant::memory,
              found_by(probe_accounting, after_feeds([](Engine& inner, SequenceId id) {
                         *cache_of(inner, id).key(0, 3) = 1;
                       })));
}

TEST(Invariants, of_answers_and_refusals_are_told_apart) {
  Hooks last_only;
  last_only.feed = [](Engine& inner, std::span<const Feed> feeds, Rows, Logits& out) {
    inner.batch(feeds, Rows::last, out);
  };
  expect_only(Invariant::rows_answered, found_by(probe_accounting, last_only));
  Hooks takes_nothing;
  takes_nothing.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (!feeds[0].tokens.empty()) inner.batch(feeds, rows, out);
  };
  expect_only(Invariant::refused, found_by(probe_accounting, takes_nothing));
  Hooks changes;
  changes.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    try {
      inner.batch(feeds, rows, out);
    } catch (const Error&) {
      change_row(inner, feeds[0].sequence);
      throw;
    }
  };
  expect_only(Invariant::refusal, found_by(probe_accounting, changes));
}

TEST(Invariants, of_several_sequences_are_told_apart) {
  expect_only(Invariant::others, found_by_operations("open.feed:0x2.open.feed:1x2",
                                                     after_feeds([](Engine& inner, SequenceId id) {
                                                       if (id == 1) change_row(inner, 0);
                                                     })));
  Hooks copies;
  copies.fork = [](Engine& inner, SequenceId sequence) {
    const SequenceId copy = inner.fork(sequence);
    inner.truncate(copy, 0);
    Logits logits;
    inner.feed(copy, std::vector<int>{0, 0}, Rows::last, logits);
    return copy;
  };
  expect_only(Invariant::copies, found_by_operations("open.feed:0x2.fork:0", copies));
  Hooks knows;
  knows.lookup = [](Engine&, std::span<const int> tokens) {
    return static_cast<int>(tokens.size());
  };
  expect_only(Invariant::reuse, found_by_operations("open.feed:0x4.open.prompt:1@0x4+1", knows));
  Hooks leaves;
  leaves.held = [opened = 0](const Engine& inner, SequenceId sequence) mutable {
    Held held = inner.held(sequence);
    if (held.rows == 0 && ++opened > 1) held.bytes = 64;
    return held;
  };
  expect_only(Invariant::nothing_left, found_by_operations("open.feed:0x2", leaves));
}

// Of those of a generation, generation_invariants_test.cpp shows each; what goes on beside one that
// has stopped, only a batch can show.
TEST(Invariants, of_what_has_stopped_are_seen_in_a_batch) {
  std::set<SequenceId> open;
  Hooks hooks;
  hooks.open = [&](Engine& inner) { return *open.insert(inner.open()).first; };
  hooks.close = [&](Engine& inner, SequenceId sequence) {
    open.erase(sequence);
    inner.close(sequence);
  };
  hooks.feed = [&](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if (open.size() < 2 || feeds.size() > 1) return;
    change_row(inner, *open.begin() == feeds[0].sequence ? *open.rbegin() : *open.begin());
  };
  const Found found = found_by(probe_generation, hooks);
  EXPECT_THAT(found.note, HasSubstr("in a batch: invariant undisturbed violated"));
  for (std::size_t i = 0; i < invariants().size(); ++i) {
    EXPECT_EQ(found.counts.failed[i] > 0, invariants()[i].id == "undisturbed");
  }
}

}  // namespace
}  // namespace kvcheck
