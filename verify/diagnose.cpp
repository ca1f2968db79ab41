// SPDX-License-Identifier: MIT
// Simulated faults beside what was observed.
#include "verify/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "verify/faults.h"
#include "verify/operation_run.h"
#include "verify/token_log.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double epsilon(ScalarKind scalar) {
  return scalar == ScalarKind::f32 ? double{std::numeric_limits<float>::epsilon()}
                                   : std::numeric_limits<double>::epsilon();
}

Arithmetic other(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::row ? Arithmetic::matrix : Arithmetic::row;
}

// The largest difference between two rows; infinite where one of them alone is not finite. That
// both are NaN is a likeness: the same row that nobody has written was read.
double apart(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return kInfinity;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    const double difference = a[i] == b[i] ? 0 : std::abs(a[i] - b[i]);
    largest = std::max(largest, std::isnan(difference) ? kInfinity : difference);
  }
  return largest;
}

double largest(const std::vector<double>& row) {
  double most = 0;
  for (const double value : row) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

bool alike(const Transcript& a, const Transcript& b) {
  return a.rows.size() == b.rows.size() && a.refused == b.refused &&
         a.failure.empty() == b.failure.empty();
}

// Rows further apart than this share of their largest logit are never taken for each other: beyond
// that no rounding is measured.
constexpr double kFarShare = 0.03;

bool far(const Transcript& observed, const Transcript& simulated) {
  if (!alike(observed, simulated)) return true;
  for (std::size_t i = 0; i < observed.rows.size(); ++i) {
    const std::vector<double>& row = simulated.rows[i].logits;
    if (!(apart(observed.rows[i].logits, row) <= kFarShare * largest(row))) return true;
  }
  return false;
}

// Of two simulations, in double and in single precision: in units of their own rounding, brought to
// the scalar of the observed engine.
double error_of(const Transcript& observed, const Transcript& wide, const Transcript& narrow,
                ScalarKind scalar) {
  const double share = epsilon(scalar) / epsilon(ScalarKind::f32);
  double error = 0;
  for (std::size_t i = 0; i < observed.rows.size(); ++i) {
    const std::vector<double>& row = wide.rows[i].logits;
    const double difference = apart(observed.rows[i].logits, row);
    if (difference == 0) continue;
    const double floor = share * apart(narrow.rows[i].logits, row) + epsilon(scalar) * largest(row);
    // A fault that shows no finite rounding of its own explains nothing by it.
    const double ratio = std::isfinite(floor) ? difference / floor : kInfinity;
    error = std::max(error, std::isnan(ratio) ? kInfinity : ratio);
  }
  return error;
}

// Simulates an engine in setups that the observed one did not have, and says how far off it is.
double simulated_error(const Transcript& observed, const Case& subject, const ModelData& model,
                       const EngineFactory& factory) {
  const Arithmetic arithmetic = other(subject.arithmetic);
  const auto play = [&](ScalarKind scalar) {
    return transcript_of(subject, model, {scalar, arithmetic, subject.cache_kind}, factory);
  };
  const Transcript wide = play(ScalarKind::f64);
  if (far(observed, wide)) return kInfinity;
  const Transcript narrow = play(ScalarKind::f32);
  if (!alike(observed, narrow)) return kInfinity;
  return error_of(observed, wide, narrow, subject.scalar);
}

std::vector<Explanation> candidates_of(const Case& subject, const ModelData& model) {
  std::vector<Explanation> all;
  const Config& config = model.weights.config;
  for (const Fault& fault : faults()) {
    if (fault.expected == Expected::equivalent) continue;
    if (!fault.applies(config, subject.cache_kind)) continue;
    for (const FaultVariant& variant : variants(fault, config.layers)) all.push_back({variant});
  }
  return all;
}

// The tokens of a case of prefixes, gone on with to the end of the context.
std::vector<int> continued(std::vector<int> tokens, const Config& config) {
  const int end = std::min(config.context, kOperationPositionsMax);
  for (int k = static_cast<int>(tokens.size()); k < end; ++k) {
    tokens.push_back(own_token(0, k, config.vocabulary));
  }
  return tokens;
}

// Further cases on the same engine, from like to unlike.
class Further {
 public:
  Further(const Case& subject, const ModelData& model, const DiagnosisOptions& options,
          const OperationSpace& space)
      : subject_(subject), options_(options), space_(space) {
    if (subject.operations.empty()) add_prefixes(model.weights.config);
  }

  // None when there are no more.
  std::optional<Case> next() {
    if (taken_ < cases_.size()) return cases_[taken_++];
    if (!options_.draw) return {};
    Case drawn = subject_;
    drawn.check = kOperationsCheck;
    drawn.tokens.clear();
    drawn.schedule.clear();
    drawn.siblings = false;
    drawn.operations = options_.draw(space_, subject_.seed, drawn_++);
    return drawn;
  }

 private:
  void add_prefixes(const Config& config) {
    Case longer = subject_;
    longer.siblings = false;
    longer.check = "schedules";
    longer.tokens = continued(subject_.tokens, config);
    const int length = static_cast<int>(longer.tokens.size());
    for (const int first : {1, 2, 3}) {
      for (const int then : {1, 2, 3}) {
        longer.schedule.clear();
        for (int fed = 0; fed < length;) {
          longer.schedule.push_back(std::min(fed == 0 ? first : then, length - fed));
          fed += longer.schedule.back();
        }
        cases_.push_back(longer);
      }
    }
  }

  const Case& subject_;
  const DiagnosisOptions& options_;
  const OperationSpace space_;
  std::vector<Case> cases_;
  std::size_t taken_ = 0;
  std::uint64_t drawn_ = 0;
};

// Keeps the candidates that answer as was observed on this case.
void sift(std::vector<Explanation>& candidates, const Case& subject, const ModelData& model,
          const Transcript& observed) {
  const auto trace = std::make_shared<FaultTrace>();
  std::erase_if(candidates, [&](Explanation& candidate) {
    const EngineFactory factory = faulty_engine(candidate.fault, trace);
    candidate.error = std::max(candidate.error, simulated_error(observed, subject, model, factory));
    return !(candidate.error <= kNoiseLimit);
  });
}

}  // namespace

Diagnosis diagnose(const Case& subject, const ModelData& model, const EngineFactory& factory,
                   const DiagnosisOptions& options) {
  const EngineSetup setup{subject.scalar, subject.arithmetic, subject.cache_kind};
  Diagnosis diagnosis{.explains = candidates_of(subject, model), .right = true};
  diagnosis.candidates = static_cast<int>(diagnosis.explains.size());
  const auto engine = start_engine(builtin_engine, model, setup);
  Further further(subject, model, options,
                  operation_space(model.weights.config, setup.cache, engine->hello().can));
  std::optional<Case> next = subject;
  while (next && diagnosis.cases <= options.further) {
    const Transcript observed = transcript_of(*next, model, setup, factory);
    sift(diagnosis.explains, *next, model, observed);
    const double right = simulated_error(observed, *next, model, builtin_engine);
    diagnosis.right = diagnosis.right && right <= kNoiseLimit;
    ++diagnosis.cases;
    if (diagnosis.explains.empty()) break;
    next = further.next();
  }
  if (diagnosis.right) diagnosis.explains.clear();
  std::ranges::stable_sort(diagnosis.explains, {}, &Explanation::error);
  return diagnosis;
}

bool answers_rightly(const Case& subject, const ModelData& model, const EngineFactory& factory) {
  const EngineSetup setup{subject.scalar, subject.arithmetic, subject.cache_kind};
  const Transcript observed = transcript_of(subject, model, setup, factory);
  return simulated_error(observed, subject, model, builtin_engine) <= kNoiseLimit;
}

std::string to_text(const Diagnosis& diagnosis) {
  if (diagnosis.right) {
    return fmt::format("the logits of {} cases are right: nothing to explain\n", diagnosis.cases);
  }
  if (diagnosis.explains.empty()) {
    return fmt::format("no known fault explains this ({} were simulated)\n", diagnosis.candidates);
  }
  std::string text;
  const bool tie = diagnosis.explains.size() > 1;
  for (const Explanation& by : diagnosis.explains) {
    text += fmt::format("{} {}: {} (error {:.2g} of {:g}, {} cases)\n",
                        tie ? "explained as well by" : "explained by", to_text(by.fault),
                        by.fault.fault->summary, by.error, kNoiseLimit, diagnosis.cases);
  }
  return text;
}

}  // namespace kvcheck
