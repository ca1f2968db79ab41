// SPDX-License-Identifier: MIT
// One function for each question; the list of them at the end is the signature.
#include "verify/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include "engine/error.h"
#include "engine/generated.h"
#include "verify/faults.h"
#include "verify/token_log.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Shown of a ranking.
constexpr std::size_t kShown = 5;

using Tokens = std::vector<int>;

// Largest difference between a row and the engine's own recomputation, as a share of the largest
// logit.
double error_of(std::span<const double> right, std::span<const double> found) {
  double apart = 0;
  double largest = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double difference = std::abs(right[i] - found[i]);
    apart = std::max(apart, std::isnan(difference) ? kInfinity : difference);
    largest = std::max(largest, std::abs(right[i]));
  }
  return largest > 0 ? apart / largest : apart;
}

// An engine with what was fed to each of its sequences.
class Examined {
 public:
  explicit Examined(Engine& engine)
      : engine_(engine), length_(std::min(engine.hello().context, kSignatureContext)) {}
  Examined(const Examined&) = delete;
  Examined& operator=(const Examined&) = delete;
  ~Examined() {
    for (const SequenceId sequence : open_) engine_.close(sequence);
  }

  [[nodiscard]] int length() const { return length_; }
  [[nodiscard]] const Capabilities& can() const { return engine_.hello().can; }
  [[nodiscard]] Engine& engine() { return engine_; }

  [[nodiscard]] Tokens tokens(int branch, int count) const {
    Tokens found;
    for (int k = 0; k < count; ++k)
      found.push_back(own_token(branch, k, engine_.hello().vocabulary));
    return found;
  }
  SequenceId keep(SequenceId sequence) {
    open_.push_back(sequence);
    return sequence;
  }
  SequenceId open() { return keep(engine_.open()); }

  // Errors of the rows of feeding `next` to a sequence that holds `before`.
  std::vector<double> feed(SequenceId sequence, const Tokens& before, const Tokens& next) {
    Logits found;
    engine_.feed(sequence, next, Rows::all, found);
    return errors(before, next, found, 0);
  }

  std::vector<double> errors(Tokens all, const Tokens& next, const Logits& found, int first) {
    all.insert(all.end(), next.begin(), next.end());
    Logits right;
    engine_.full({all, 1}, Rows::all, right);
    std::vector<double> apart;
    for (int i = 0; i < static_cast<int>(next.size()); ++i) {
      const int row = right.rows() - static_cast<int>(next.size()) + i;
      apart.push_back(error_of(right.row(row), found.row(first + i)));
    }
    return apart;
  }

  // Errors of feeding the tokens in pieces of these lengths, row after row.
  std::vector<double> schedule(const Tokens& all, const std::vector<int>& lengths) {
    const SequenceId sequence = open();
    std::vector<double> found;
    Tokens before;
    for (const int length : lengths) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(before.size());
      const Tokens next(from, from + length);
      const auto apart = feed(sequence, before, next);
      found.insert(found.end(), apart.begin(), apart.end());
      before.insert(before.end(), next.begin(), next.end());
    }
    return found;
  }

 private:
  Engine& engine_;
  const int length_;
  std::vector<SequenceId> open_;
};

bool wrong(double error) { return !(error <= kWrongShare); }
bool any_wrong(const std::vector<double>& errors) { return std::ranges::any_of(errors, wrong); }
std::string word(bool is_wrong) { return is_wrong ? "wrong" : "right"; }

std::string first_wrong(const std::vector<double>& errors) {
  const auto found = std::ranges::find_if(errors, wrong);
  return found == errors.end() ? "none" : fmt::format("{}", found - errors.begin() + 1);
}

std::vector<double> decoded(Examined& at, int prompt) {
  std::vector<int> lengths(static_cast<std::size_t>(at.length() - prompt), 1);
  lengths.insert(lengths.begin(), prompt);
  return at.schedule(at.tokens(0, at.length()), lengths);
}

// ---- Lengths

std::string decode_first(Examined& at) { return first_wrong(decoded(at, 1)); }
std::string decode_after_prompt(Examined& at) {
  return first_wrong(decoded(at, std::min(3, at.length())));
}
std::string prefill_first(Examined& at) {
  return first_wrong(at.schedule(at.tokens(0, at.length()), {at.length()}));
}

std::string chunk_rows(Examined& at) {
  std::vector<int> lengths(static_cast<std::size_t>(at.length() / 2), 2);
  const auto errors = at.schedule(at.tokens(0, at.length() / 2 * 2), lengths);
  bool first = false;
  bool second = false;
  for (std::size_t i = 2; i < errors.size(); ++i) (i % 2 == 0 ? first : second) |= wrong(errors[i]);
  return first && second ? "both" : first ? "first" : second ? "second" : "none";
}

std::string how_it_grows(Examined& at) {
  const auto errors = decoded(at, 1);
  const auto first = std::ranges::find_if(errors, wrong);
  if (first == errors.end()) return "right";
  if (std::ranges::any_of(errors, [](double error) { return std::isinf(error); }))
    return "not finite";
  const double ratio = errors.back() / *first;
  return ratio > 3 ? "grows" : ratio < 1.0 / 3 ? "falls" : "stays";
}

std::string once_wrong(Examined& at) {
  const auto errors = decoded(at, 1);
  const auto first = std::ranges::find_if(errors, wrong);
  if (first == errors.end()) return "right";
  return std::all_of(first, errors.end(), wrong) ? "always wrong" : "not always";
}

// ---- Neighbours

std::string batch_of(Examined& at, int shorter, int longer) {
  const Tokens a = at.tokens(1, shorter);
  const Tokens b = at.tokens(2, longer);
  const SequenceId one = at.open();
  const SequenceId other = at.open();
  (void)at.feed(one, {}, a);
  (void)at.feed(other, {}, b);
  const Tokens next = at.tokens(3, 1);
  const std::array feeds{Feed{one, next}, Feed{other, next}};
  Logits found;
  at.engine().batch(feeds, Rows::all, found);
  const bool wrong_a = any_wrong(at.errors(a, next, found, 0));
  const bool wrong_b = any_wrong(at.errors(b, next, found, 1));
  return wrong_a && wrong_b ? "both" : wrong_a ? "first" : wrong_b ? "second" : "none";
}

std::string batch_unequal(Examined& at) {
  return at.can().batch ? batch_of(at, 1, std::min(3, at.length() - 1)) : "unsupported";
}
std::string batch_turned(Examined& at) {
  return at.can().batch ? batch_of(at, std::min(3, at.length() - 1), 1) : "unsupported";
}
std::string batch_equal(Examined& at) {
  return at.can().batch ? batch_of(at, 1, 1) : "unsupported";
}

// ---- Operations: a step after each

std::string after_truncate(Examined& at) {
  if (!at.can().truncate) return "unsupported";
  const int held = std::min(4, at.length());
  const SequenceId sequence = at.open();
  (void)at.feed(sequence, {}, at.tokens(1, held));
  at.engine().truncate(sequence, held - 2);
  return word(any_wrong(at.feed(sequence, at.tokens(1, held - 2), at.tokens(2, 2))));
}

std::string after_reset(Examined& at) {
  if (!at.can().truncate) return "unsupported";
  const SequenceId sequence = at.open();
  (void)at.feed(sequence, {}, at.tokens(1, 2));
  at.engine().truncate(sequence, 0);
  return word(any_wrong(at.feed(sequence, {}, at.tokens(2, 3))));
}

std::string after_fork(Examined& at) {
  if (!at.can().fork) return "unsupported";
  const Tokens held = at.tokens(1, 3);
  const SequenceId parent = at.open();
  (void)at.feed(parent, {}, held);
  const SequenceId child = at.keep(at.engine().fork(parent));
  const bool in_child = any_wrong(at.feed(child, held, at.tokens(2, 1)));
  const bool in_parent = any_wrong(at.feed(parent, held, at.tokens(3, 1)));
  return in_child && in_parent ? "both" : in_child ? "child" : in_parent ? "parent" : "right";
}

std::string after_reorder(Examined& at) {
  if (!at.can().reorder) return "unsupported";
  const Tokens a = at.tokens(1, 2);
  const Tokens b = at.tokens(2, 2);
  const std::array ids{at.open(), at.open()};
  (void)at.feed(ids[0], {}, a);
  (void)at.feed(ids[1], {}, b);
  const std::array from{1, 0};
  at.engine().reorder(ids, from);
  const Tokens next = at.tokens(3, 1);
  return word(any_wrong(at.feed(ids[0], b, next)) || any_wrong(at.feed(ids[1], a, next)));
}

std::string after_load(Examined& at) {
  if (!at.can().state) return "unsupported";
  const Tokens held = at.tokens(1, 3);
  const SequenceId sequence = at.open();
  (void)at.feed(sequence, {}, held);
  const SequenceId loaded = at.keep(at.engine().load(at.engine().save(sequence)));
  return word(any_wrong(at.feed(loaded, held, at.tokens(2, 1))));
}

// A step after an operation that leaves rows with positions of their own has no reference that
// needs no weights; that it is a number at all can be seen, and that twice gives the same.
std::string same_prompt_twice(Examined& at) {
  const Tokens prompt = at.tokens(1, std::min(5, at.length()));
  bool is_wrong = false;
  for (int i = 0; i < 2; ++i) {
    Logits found;
    at.engine().feed(at.open(), prompt, Rows::last, found);
    is_wrong = is_wrong ||
               any_wrong(at.errors({prompt.begin(), prompt.end() - 1}, {prompt.back()}, found, 0));
  }
  return word(is_wrong);
}

std::string same_start(Examined& at) {
  const int length = std::min(5, at.length());
  Tokens other = at.tokens(1, length);
  other.back() = at.tokens(2, 1).front();
  Logits found;
  at.engine().feed(at.open(), at.tokens(1, length), Rows::last, found);
  at.engine().feed(at.open(), other, Rows::last, found);
  return word(any_wrong(at.errors({other.begin(), other.end() - 1}, {other.back()}, found, 0)));
}

struct Question {
  std::string_view text;
  std::string (*answer)(Examined&);
};

constexpr std::array kQuestions{
    Question{"first wrong length, token by token", decode_first},
    Question{"first wrong length after a prompt of 3", decode_after_prompt},
    Question{"first wrong row of a prompt", prefill_first},
    Question{"wrong rows of further chunks of 2", chunk_rows},
    Question{"how the difference goes on", how_it_grows},
    Question{"once wrong", once_wrong},
    Question{"wrong in a batch of 1 and 3 rows", batch_unequal},
    Question{"wrong in a batch of 3 and 1 rows", batch_turned},
    Question{"wrong in a batch of equal rows", batch_equal},
    Question{"after rolling back", after_truncate},
    Question{"after a reset", after_reset},
    Question{"after a fork", after_fork},
    Question{"after a reordering", after_reorder},
    Question{"after loading", after_load},
    Question{"the same prompt twice", same_prompt_twice},
    Question{"a prompt that starts like another", same_start},
};

// An engine that fails has answered, too.
std::string answer(const Question& question, Engine& engine) {
  try {
    Examined examined(engine);
    return question.answer(examined);
  } catch (const Unsupported&) {
    return "unsupported";
  } catch (const EngineError&) {
    return "failed";
  } catch (const Error&) {
    return "refused";
  }
}

// ---- What is known

struct Recorded {
  FaultVariant fault;
  Signature signature;
};

// Small, but with so many tokens that sequences hold different ones: equal values hide what scores
// they are weighed with.
ModelData recording_model(Features features) {
  Config config = tiny_decoder(features);
  config.vocabulary = 31;
  ModelData model;
  model.weights = random_model(config, {}, 1);
  return model;
}

std::vector<Recorded> record_all() {
  std::vector<Recorded> all;
  for (const Fault& fault : faults()) {
    if (fault.expected == Expected::equivalent) continue;
    const ModelData model = recording_model(fault.needs);
    const EngineSetup setup{ScalarKind::f32, Arithmetic::row, cache_kind(fault.cache, "signature")};
    for (const FaultVariant& variant : variants(fault, model.weights.config.layers)) {
      const auto engine = faulty_engine(variant, std::make_shared<FaultTrace>())(model, setup);
      Signature signature = signature_of(*engine);
      if (!looks_right(signature)) all.push_back({variant, std::move(signature)});
    }
  }
  return all;
}

// Recorded when first asked for.
const std::vector<Recorded>& recorded() {
  static const std::vector<Recorded> kAll = record_all();
  return kAll;
}

int alike(const Signature& a, const Signature& b) {
  int same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1 : 0;
  return same;
}

}  // namespace

Signature signature_of(Engine& engine) {
  Signature signature;
  for (const Question& question : kQuestions) {
    signature.push_back({question.text, answer(question, engine)});
  }
  return signature;
}

bool looks_right(const Signature& signature) {
  const bool answered = std::ranges::any_of(signature, [](const Evidence& evidence) {
    return evidence.answer == "none" || evidence.answer == "right";
  });
  return answered && std::ranges::all_of(signature, [](const Evidence& evidence) {
           return evidence.answer == "none" || evidence.answer == "right" ||
                  evidence.answer == "unsupported" || evidence.answer == "refused";
         });
}

std::vector<Resemblance> resemblances(const Signature& signature) {
  std::vector<Resemblance> found;
  for (const Recorded& known : recorded()) {
    found.push_back({known.fault, alike(signature, known.signature)});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &Resemblance::alike);
  return found;
}

std::string to_text(const Signature& signature, const std::vector<Resemblance>& found) {
  if (looks_right(signature)) return "nothing looks wrong\n";
  std::string text;
  for (const Evidence& evidence : signature) {
    text += fmt::format("  {:40} {}\n", evidence.question, evidence.answer);
  }
  const std::size_t shown = std::min(found.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto known = std::ranges::find(recorded(), found[i].fault, &Recorded::fault);
    text += fmt::format("{} of {} answers as {}: {}\n", found[i].alike, signature.size(),
                        to_text(found[i].fault), found[i].fault.fault->summary);
    for (std::size_t q = 0; q < signature.size(); ++q) {
      if (signature[q] == known->signature[q]) continue;
      text +=
          fmt::format("    not so: {}: {}\n", signature[q].question, known->signature[q].answer);
    }
  }
  return text;
}

}  // namespace kvcheck
