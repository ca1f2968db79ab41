// SPDX-License-Identifier: MIT
// Runs the engine and tells operations apart by the weights that they read. Operations that do not
// go through the table of operations (embedding, rotation) belong to the layer at hand.
#include "engine/cost_count.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "engine/cached.h"
#include "engine/counted.h"
#include "engine/uncached.h"

namespace kvcheck {
namespace {

constexpr int kOutside = -1;  // the layer of what belongs to none

// What is computed with a tensor of weights.
struct Purpose {
  int layer;
  Count Work::*kind = &Work::rest;
};

// Where the operations of this thread go.
class Ledger {
 public:
  explicit Ledger(const Model<Counted>& model) : layers_(model.config.layers) {
    for (int l = 0; l < layers_; ++l) know_layer(model.layers[static_cast<std::size_t>(l)], l);
    purposes_[&model.final_norm] = {kOutside};
    purposes_[&model.output] = {kOutside, &Work::output};
  }

  void begin() {
    work_ = {.layers = std::vector<Work>(static_cast<std::size_t>(layers_)), .outside = {}};
    layer_ = kOutside;
    settled_ = Counted::operations();
  }
  [[nodiscard]] PhaseWork end() {
    settle();
    return std::move(work_);
  }

  // Operations with the weights at `weights` begin; none: the layer at hand goes on.
  Count Work::*enter(const void* weights) {
    settle();
    if (weights == nullptr) return &Work::rest;
    const Purpose& purpose = purposes_.at(weights);
    layer_ = purpose.layer;
    return purpose.kind;
  }
  // They end: every product that was added to a sum is a multiply-add of that kind.
  void leave(Count Work::*kind) {
    if (kind == &Work::rest) return;
    const OperationCounts done = Counted::operations() - settled_;
    const std::uint64_t pairs = std::min(done.multiplications, done.additions);
    at_hand().*kind += pairs;
    at_hand().rest += done.all() - 2 * pairs;
    settled_ = Counted::operations();
  }

 private:
  void know_layer(const Layer<Counted>& layer, int l) {
    for (const NormWeights<Counted>* norm :
         {&layer.attention_norm, &layer.mlp_norm, &layer.query_norm, &layer.key_norm,
          &layer.attention_post_norm, &layer.mlp_post_norm}) {
      purposes_[norm] = {l};
    }
    for (const Linear<Counted>* linear :
         {&layer.query, &layer.key, &layer.value, &layer.attention_output}) {
      purposes_[&linear->weight] = {l, &Work::projections};
    }
    for (const Linear<Counted>* linear : {&layer.mlp_gate, &layer.mlp_up, &layer.mlp_down}) {
      purposes_[&linear->weight] = {l, &Work::mlp};
    }
  }
  [[nodiscard]] Work& at_hand() {
    return layer_ == kOutside ? work_.outside : work_.layers[static_cast<std::size_t>(layer_)];
  }
  // What was done since then is no multiply-add.
  void settle() {
    at_hand().rest += (Counted::operations() - settled_).all();
    settled_ = Counted::operations();
  }

  const int layers_;
  std::map<const void*, Purpose> purposes_;
  PhaseWork work_;
  int layer_ = kOutside;
  OperationCounts settled_;
};

thread_local Ledger* open_ledger = nullptr;

// The operation at hand, done for `kind` of the weights, or for attention without any.
template <typename Operation>
void note(const void* weights, std::optional<Count Work::*> kind, Operation operation) {
  Count Work::*const of_weights = open_ledger->enter(weights);
  operation();
  open_ledger->leave(kind.value_or(of_weights));
}

const Ops<Counted>& rows() { return row_ops<Counted>(); }

void product(View<const Counted> x, const Matrix<Counted>& weight, const Vector<Counted>& bias,
             View<Counted> out) {
  note(&weight, std::nullopt, [&] { rows().product(x, weight, bias, out); });
}

void normalize(View<const Counted> x, const NormWeights<Counted>& weights, Counted epsilon,
               View<Counted> out) {
  note(&weights, std::nullopt, [&] { rows().normalize(x, weights, epsilon, out); });
}

void scores(Heads heads, BlockShape shape, View<const Counted> query, View<const Counted> key,
            VisibleTokens visible, Counted scale, Counted* out) {
  note(nullptr, &Work::attention,
       [&] { rows().scores(heads, shape, query, key, visible, scale, out); });
}

void mix(Heads heads, BlockShape shape, const Counted* probabilities, View<const Counted> value,
         VisibleTokens visible, View<Counted> out) {
  note(nullptr, &Work::attention,
       [&] { rows().mix(heads, shape, probabilities, value, visible, out); });
}

void cached_scores(Heads heads, const Counted* query, const CachedRows<Counted>& keys,
                   Counted scale, Counted* out) {
  note(nullptr, &Work::attention, [&] { rows().cached_scores(heads, query, keys, scale, out); });
}

void cached_mix(Heads heads, const Counted* probabilities, const CachedRows<Counted>& values,
                Counted* out) {
  note(nullptr, &Work::attention, [&] { rows().cached_mix(heads, probabilities, values, out); });
}

// Row arithmetic that tells the ledger what it does. What is not named here is never a multiply-add
// and goes to the layer at hand.
const Ops<Counted>& noting_ops() {
  static const Ops<Counted> kOps = [] {
    Ops<Counted> noting = rows();
    noting.product = product;
    noting.normalize = normalize;
    noting.scores = scores;
    noting.mix = mix;
    noting.cached_scores = cached_scores;
    noting.cached_mix = cached_mix;
    return noting;
  }();
  return kOps;
}

std::vector<double> values_of(View<const Counted> logits) {
  LogitRows<Counted> rows_of_logits;
  copy_rows(logits, rows_of_logits);
  std::vector<double> values;
  for (const Counted& value : rows_of_logits.values) values.push_back(value.value());
  return values;
}

}  // namespace

class WorkCounter::Decoders {
 public:
  explicit Decoders(const Model<float>& model)
      : model_(cast<Counted>(model)),
        ledger_(model_),
        uncached_(model_, noting_ops()),
        cached_(model_, noting_ops()) {}

  CountedPhase run(const Phase& phase, const WorkCounter& counter) {
    open_ledger = &ledger_;
    ledger_.begin();  // of what comes before the phase, too
    return phase.cached ? feed(phase, counter) : full(phase, counter);
  }

  [[nodiscard]] const Config& config() const { return model_.config; }

 private:
  CountedPhase full(const Phase& phase, const WorkCounter& counter) {
    std::vector<int> tokens;
    for (std::int64_t t = 0; t < phase.tokens; ++t) {
      for (std::int64_t s = 0; s < phase.sequences; ++s) tokens.push_back(counter.token(s, t));
    }
    ledger_.begin();
    const View<const Counted> logits =
        uncached_.logits({tokens, static_cast<int>(phase.sequences)}, phase.answered);
    return {ledger_.end(), {}, values_of(logits)};
  }

  CountedPhase feed(const Phase& phase, const WorkCounter& counter) {
    std::vector<KvCache<Counted>> caches;
    for (std::int64_t s = 0; s < phase.sequences; ++s) caches.emplace_back(config());
    if (phase.held > 0) feed_rows(caches, 0, phase.held, Rows::last, counter);
    ledger_.begin();
    const View<const Counted> logits =
        feed_rows(caches, phase.held, phase.tokens, phase.answered, counter);
    return {ledger_.end(), rows_of_plan(), values_of(logits)};
  }

  View<const Counted> feed_rows(std::vector<KvCache<Counted>>& caches, std::int64_t first,
                                std::int64_t count, Rows answered, const WorkCounter& counter) {
    std::vector<std::vector<int>> tokens(caches.size());
    std::vector<CacheFeed<Counted>> feeds;
    for (std::size_t s = 0; s < caches.size(); ++s) {
      for (std::int64_t t = first; t < first + count; ++t) {
        tokens[s].push_back(counter.token(static_cast<std::int64_t>(s), t));
      }
      feeds.push_back({&caches[s], tokens[s]});
    }
    return cached_.feed(feeds, answered);
  }

  [[nodiscard]] RowTraffic rows_of_plan() const {
    const StepPlan& plan = cached_.plan();
    RowTraffic traffic;
    for (const int view : plan.view_of_layer) {
      traffic.read += plan.views[static_cast<std::size_t>(view)].slots.size();
      traffic.written += plan.rows.size();
    }
    return traffic;
  }

  const Model<Counted> model_;
  Ledger ledger_;
  Uncached<Counted> uncached_;
  Cached<Counted> cached_;
};

WorkCounter::WorkCounter(const Model<float>& model)
    : decoders_(std::make_unique<Decoders>(model)) {}
WorkCounter::~WorkCounter() = default;

int WorkCounter::token(std::int64_t sequence, std::int64_t index) const {
  return static_cast<int>((sequence * 7 + index * 3) % decoders_->config().vocabulary);
}

CountedPhase WorkCounter::count(const Phase& phase) { return decoders_->run(phase, *this); }

}  // namespace kvcheck
