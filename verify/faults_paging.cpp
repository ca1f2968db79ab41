// SPDX-License-Identifier: MIT
// Wrong answers to: which blocks hold a sequence, and which may be reused?
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/generated.h"
#include "engine/reuse_rules.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kKey = "key of a block";
constexpr std::string_view kRemembered = "when a block can be taken";
constexpr std::string_view kTaken = "blocks that a prompt takes";
constexpr std::string_view kTable = "blocks of a sequence";

using Trace = std::shared_ptr<FaultTrace>;

// Rules are asked in the course of a step; a wrong answer counts as a change, and a wrong constant
// whenever a prompt finds something.
ReuseRules noting_hits(ReuseRules rules, const Trace& trace) {
  rules.provided = [provided = rules.provided, trace](const Hit& hit) {
    if (hit.known > 0) trace->changed();
    return provided(hit);
  };
  return rules;
}

ReuseRules few_bits(const Trace& trace) {
  ReuseRules rules;
  rules.key = [](std::uint64_t parent, std::span<const int> tokens) {
    return key_of_block(parent, tokens) & 1U;
  };
  rules.compared = Compared::nothing;
  return noting_hits(rules, trace);
}

ReuseRules no_parent(const Trace& trace) {
  ReuseRules rules;
  rules.key = [](std::uint64_t, std::span<const int> tokens) { return key_of_block(0, tokens); };
  rules.compared = Compared::tokens;
  return noting_hits(rules, trace);
}

ReuseRules partial_registered(const Trace& trace) {
  ReuseRules rules;
  rules.remembered_from = 1;
  return noting_hits(rules, trace);
}

ReuseRules physical_order(const Trace& trace) {
  ReuseRules rules;
  rules.taken = [trace](std::vector<int> known) {
    std::vector<int> taken(known.size());
    std::iota(taken.begin(), taken.end(), 0);
    if (taken != known) trace->changed();
    return taken;
  };
  return rules;
}

// A prompt takes a row less, and goes on behind the block that this leaves unfilled.
ReuseRules next_block(const Trace& trace) {
  ReuseRules rules;
  rules.provided = [](const Hit& hit) { return std::max(rows_provided(hit) - 1, 0); };
  rules.place = [trace](const FedRow& fed) {
    const int unfilled = (fed.block - fed.reused % fed.block) % fed.block;
    if (unfilled > 0) trace->changed();
    return fed.row + unfilled;
  };
  return rules;
}

ReuseRules narrow_numbers(const Trace& trace) {
  ReuseRules rules;
  rules.stored = [trace](int block) {
    if ((block & 3) != block) trace->changed();
    return block & 3;
  };
  return rules;
}

ReuseRules shared_tail(const Trace&) {
  ReuseRules rules;
  rules.copies_unfilled = false;
  return rules;
}

ReuseRules freed_early(const Trace&) {
  ReuseRules rules;
  rules.free_at = 1;
  return rules;
}

ReuseRules not_forgotten(const Trace& trace) {
  ReuseRules rules;
  rules.forgets_taken = false;
  return noting_hits(rules, trace);
}

ReuseRules whole_prompt(const Trace& trace) {
  ReuseRules rules;
  rules.provided = [trace](const Hit& hit) {
    if (hit.known != rows_provided(hit)) trace->changed();
    return hit.known;
  };
  return rules;
}

// Constants that matter once a sequence is copied.
void note_forks(const auto& planting) {
  planting.hooks.fork = [trace = planting.trace](Engine& inner, SequenceId sequence) {
    trace->changed();
    return inner.fork(sequence);
  };
}

bool is_prompt(const Engine& engine, std::span<const Feed> feeds, Rows rows) {
  return feeds.size() == 1 && rows == Rows::last && engine.held(feeds[0].sequence).rows == 0;
}

// Another model serves every prompt first, from the same memory.
template <Scalar T>
void plant_weights_ignored(const Planting<T>& planting) {
  Builtin<T>& engine = planting.engine;
  auto other = std::make_shared<Builtin<T>>(random_model(planting.config, {}, 99), engine);
  ReuseRules rules;
  rules.first_parent = [](std::uint64_t) { return key_before_first(0); };
  engine.reuse_rules(noting_hits(rules, planting.trace));
  planting.hooks.feed = [other](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                Logits& out) {
    if (is_prompt(inner, feeds, rows)) {
      Logits unwanted;
      const SequenceId sequence = other->open();
      other->feed(sequence, feeds[0].tokens, Rows::last, unwanted);
      other->close(sequence);
    }
    inner.batch(feeds, rows, out);
  };
}

// Every prompt comes twice in one step.
template <Scalar T>
void plant_registered_early(const Planting<T>& planting) {
  ReuseRules rules;
  rules.remembered = Remembered::once_reserved;
  planting.engine.reuse_rules(noting_hits(rules, planting.trace));
  planting.hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (!is_prompt(inner, feeds, rows)) return inner.batch(feeds, rows, out);
    // The later of the two must not lie on rows that the earlier one is still to write.
    const SequenceId twin = inner.open();
    const std::array both{feeds[0], Feed{twin, feeds[0].tokens}};
    Logits found;
    inner.batch(both, rows, found);
    inner.close(twin);
    out.vocabulary = found.vocabulary;
    out.values.assign(found.row(1).begin(), found.row(1).end());
  };
}

constexpr std::string_view kPaged = "paged";

constexpr std::array kFaults{
    Fault{"hash-truncated",
          kKey,
          "blocks are known by a bit of their key, tokens are not compared",
          "openvino.genai 3722, vLLM 12621",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(few_bits(p.trace)); })},
    Fault{"hash-no-parent",
          kKey,
          "blocks are known by their own tokens, whatever stood before",
          "kvcached 446",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(no_parent(p.trace)); }),
          Expected::caught,
          {},
          128},
    Fault{"key-no-weights",
          kKey,
          "blocks of another model are taken",
          "vLLM 3264, 30931, llama.cpp 26207",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { plant_weights_ignored(p); })},
    Fault{"register-early",
          kRemembered,
          "a block can be taken before its rows are written",
          "vLLM 37152",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { plant_registered_early(p); })},
    Fault{"register-partial",
          kRemembered,
          "a partly written block can be taken as a full one",
          "vLLM 34587, 34798",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(partial_registered(p.trace)); })},
    Fault{"lookup-then-evict",
          kRemembered,
          "a block is still found after others took it",
          "vLLM 17305",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(not_forgotten(p.trace)); }),
          Expected::caught,
          {},
          16},
    Fault{"full-hit-zero-tokens",
          kTaken,
          "a prompt that is known is taken whole",
          "vLLM 3239, mlx-lm 1581",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(whole_prompt(p.trace)); })},
    Fault{"page-identity-on-hit",
          kTaken,
          "a hit reads blocks in the order of memory",
          "ssd 23",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(physical_order(p.trace)); })},
    Fault{"page-slot-by-block",
          kTable,
          "after a hit rows go on in the next block",
          "MinivLLM 73",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(next_block(p.trace)); })},
    Fault{"page-id-narrow",
          kTable,
          "numbers of blocks are kept in two bits",
          "ATOM 702",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) { p.engine.reuse_rules(narrow_numbers(p.trace)); })},
    Fault{"free-while-shared",
          kTable,
          "a block is free as soon as one of its holders leaves",
          "sglang 38355, 24193",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) {
            note_forks(p);
            p.engine.reuse_rules(freed_early(p.trace));
          })},
    Fault{"fork-tail-shared",
          kTable,
          "copies go on in the same partly filled block",
          "vLLM 56196",
          {},
          kPaged,
          {},
          at_verbs([](const auto& p) {
            note_forks(p);
            p.engine.reuse_rules(shared_tail(p.trace));
          })},
};

}  // namespace

std::span<const Fault> paging_faults() { return kFaults; }

}  // namespace kvcheck
