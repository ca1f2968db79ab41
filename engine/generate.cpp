// SPDX-License-Identifier: MIT
// The loops of generation.
#include "engine/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/error.h"
#include "engine/tokens.h"

namespace kvcheck {
namespace {

// What is asked here is valid: an engine that refuses it is broken.
template <typename Ask>
auto must_answer(Ask ask) {
  try {
    return ask();
  } catch (const Error& error) {
    throw EngineError(fmt::format("refused a valid step of a generation: {}", error.what()));
  }
}

// One request on its way.
class Growing {
 public:
  Growing(const GenerationRequest& request, int context, KeepLogits keep)
      : request_(request), context_(context), keep_(keep) {
    generation_.tokens = request.prompt;
    generation_.prompt = static_cast<int>(request.prompt.size());
  }

  // What a cache does not hold yet.
  [[nodiscard]] std::span<const int> next() const {
    return std::span<const int>(generation_.tokens).subspan(static_cast<std::size_t>(consumed_));
  }
  [[nodiscard]] std::span<const int> all() const { return generation_.tokens; }
  [[nodiscard]] bool stopped() const { return stopped_; }

  // `step` has all but what the choice is about.
  void choose_from(std::span<const double> logits, GenerationStep step) {
    consumed_ = static_cast<int>(generation_.tokens.size());
    const DrawPlace place{request_.seed, generation_.steps.size()};
    const Chosen chosen = choose(request_.policy, logits, generation_.tokens, place, scratch_);
    step.consumed = consumed_;
    step.position = consumed_ - 1;
    step.remaining = context_ - consumed_;
    step.token = chosen.token;
    step.logit = logits[static_cast<std::size_t>(chosen.token)];
    step.probability = softmax_at(logits, chosen.token);
    step.drawn_with = chosen.probability;
    generation_.tokens.push_back(chosen.token);
    step.returned = static_cast<int>(generation_.steps.size()) + 1;
    generation_.steps.push_back(step);
    if (keep_ == KeepLogits::yes) generation_.logits.emplace_back(logits.begin(), logits.end());
    stop_if_due(step);
  }

  [[nodiscard]] Generation take() { return std::move(generation_); }
  void disturbed() { generation_.undisturbed = false; }

 private:
  void stop_if_due(const GenerationStep& step) {
    stopped_ = true;
    if (request_.eos == step.token) {
      generation_.stop = Stop::eos;
    } else if (step.remaining == 0) {
      generation_.stop = Stop::context;
    } else if (step.returned == request_.steps) {
      generation_.stop = Stop::steps;
    } else {
      stopped_ = false;
    }
  }

  const GenerationRequest& request_;
  const int context_;
  const KeepLogits keep_;
  Generation generation_;
  int consumed_ = 0;
  bool stopped_ = false;
  PolicyScratch scratch_;
};

GenerationStep cached_step(const Engine& engine, SequenceId sequence, int step, std::size_t fed) {
  const Held held = must_answer([&] { return engine.held(sequence); });
  return {.step = step,
          .fed = static_cast<int>(fed),
          .cache_length = held.rows,
          .next_position = held.next_position};
}

// A batch on its way.
class Batch {
 public:
  Batch(Engine& engine, std::span<const GenerationRequest> requests, KeepLogits keep)
      : engine_(engine) {
    for (const GenerationRequest& request : requests) {
      rows_.push_back({request.join, Growing(request, engine.hello().context, keep)});
    }
  }

  std::vector<Generation> run() {
    for (int step = 0; !all_stopped(); ++step) take_step(step);
    std::vector<Generation> generations;
    for (Row& row : rows_) {
      if (state_of(row) != row.at_stop) row.growing.disturbed();
      generations.push_back(row.growing.take());
    }
    for (Row& row : rows_) must_answer([&] { engine_.close(*row.sequence); });
    return generations;
  }

 private:
  // What the engine holds of a request, as far as it says.
  struct State {
    int rows = 0;
    int next_position = 0;
    std::uint64_t fingerprint = 0;
    bool operator==(const State&) const = default;
  };
  struct Row {
    int join;
    Growing growing;
    std::optional<SequenceId> sequence = {};  // from its first step on
    State at_stop = {};
  };

  [[nodiscard]] bool all_stopped() const {
    return std::ranges::all_of(rows_, [](const Row& row) { return row.growing.stopped(); });
  }

  void take_step(int step) {
    feeds_.clear();
    fed_.clear();
    for (Row& row : rows_) {
      if (row.join > step || row.growing.stopped()) continue;
      if (!row.sequence) row.sequence = must_answer([&] { return engine_.open(); });
      feeds_.push_back({*row.sequence, row.growing.next()});
      fed_.push_back(&row);
    }
    if (feeds_.empty()) return;
    must_answer([&] { engine_.batch(feeds_, Rows::last, logits_); });
    require_rows(engine_, logits_, feeds_.size());
    for (std::size_t i = 0; i < fed_.size(); ++i) {
      Row& row = *fed_[i];
      row.growing.choose_from(
          logits_.row(static_cast<int>(i)),
          cached_step(engine_, feeds_[i].sequence, step, feeds_[i].tokens.size()));
      if (row.growing.stopped()) row.at_stop = state_of(row);
    }
  }

  [[nodiscard]] State state_of(const Row& row) const {
    return must_answer([&] {
      const SequenceId id = *row.sequence;
      const Held held = engine_.held(id);
      const bool can = engine_.hello().can.fingerprint;
      return State{held.rows, held.next_position, can ? engine_.fingerprint(id) : 0};
    });
  }

  Engine& engine_;
  std::vector<Row> rows_;
  std::vector<Feed> feeds_;
  std::vector<Row*> fed_;
  Logits logits_;
};

}  // namespace

void validate(const GenerationRequest& request, const Config& config, std::string_view where) {
  validate_tokens(config, request.prompt, static_cast<int>(request.prompt.size()), where);
  if (request.steps < 1 || request.steps > kStepsMax) {
    throw bad_input({where, "steps", "1 to 1000000", fmt::format("{}", request.steps)});
  }
  if (request.join < 0 || request.join > kStepsMax) {
    throw bad_input({where, "step to join at", "0 to 1000000", fmt::format("{}", request.join)});
  }
  if (request.eos && (*request.eos < 0 || *request.eos >= config.vocabulary)) {
    throw bad_input({where, "EOS outside the vocabulary",
                     fmt::format("an id from 0 to {}", config.vocabulary - 1),
                     fmt::format("{}", *request.eos)});
  }
}

Generation generate_uncached(Engine& engine, const GenerationRequest& request, KeepLogits keep) {
  Growing growing(request, engine.hello().context, keep);
  Logits logits;
  for (int step = 0; !growing.stopped(); ++step) {
    must_answer([&] { engine.full({growing.all(), 1}, Rows::last, logits); });
    require_rows(engine, logits, 1);
    growing.choose_from(logits.row(0),
                        {.step = step, .fed = static_cast<int>(growing.all().size())});
  }
  return growing.take();
}

Generation generate_cached(Engine& engine, const GenerationRequest& request, KeepLogits keep) {
  Growing growing(request, engine.hello().context, keep);
  const SequenceId sequence = must_answer([&] { return engine.open(); });
  Logits logits;
  for (int step = 0; !growing.stopped(); ++step) {
    const std::span<const int> next = growing.next();
    must_answer([&] { engine.feed(sequence, next, Rows::last, logits); });
    require_rows(engine, logits, 1);
    growing.choose_from(logits.row(0), cached_step(engine, sequence, step, next.size()));
  }
  must_answer([&] { engine.close(sequence); });
  return growing.take();
}

std::vector<Generation> generate_batch(Engine& engine, std::span<const GenerationRequest> requests,
                                       KeepLogits keep) {
  return Batch(engine, requests, keep).run();
}

}  // namespace kvcheck
