// SPDX-License-Identifier: MIT
// Shrinking a case of operations.
#include "verify/smaller.h"

#include "verify/audit.h"
#include "verify/checks.h"
#include "verify/operation_run.h"

namespace kvcheck {
namespace {

// A batch of one sequence is a feed, so that what fails in both may become the simpler one.
Verb verb_at(const Case& subject, const CaseResult& result) {
  const auto step = static_cast<std::size_t>(result.step.value_or(0));
  if (step >= subject.operations.size()) return Verb::close;
  const Verb verb = subject.operations[step].verb;
  return verb == Verb::batch ? Verb::feed : verb;
}

bool by_logits(const CaseResult& result) { return result.row && result.note.empty(); }

// The same case with another value of one field.
struct Variation {
  std::string_view field;
  Case subject;
};

std::vector<Variation> variations(const Case& subject, const ModelData& model) {
  std::vector<Variation> found;
  Case arithmetic = subject;
  const bool row = subject.arithmetic == Arithmetic::row;
  arithmetic.arithmetic = row ? Arithmetic::matrix : Arithmetic::row;
  if (subject.policy == default_policy(model, subject.arithmetic)) {
    arithmetic.policy = default_policy(model, arithmetic.arithmetic);
  }
  found.push_back({"the other arithmetic", arithmetic});
  Case scalar = subject;
  scalar.scalar = subject.scalar == ScalarKind::f32 ? ScalarKind::f64 : ScalarKind::f32;
  found.push_back({"the other scalar", scalar});
  Case cache = subject;
  cache.cache_kind = {};
  if (!(cache.cache_kind == subject.cache_kind)) found.push_back({"a flat cache", cache});
  return found;
}

// Where the cached run first parts from the oracle; none where nothing shows it.
std::optional<AuditPoint> parting(const Case& subject, const ModelData& model,
                                  const EngineFactory& factory) {
  const auto first = first_divergence(subject, model, factory);
  return first ? std::optional(first->point) : std::nullopt;
}

}  // namespace

bool same_class(const Case& a, const CaseResult& of_a, const Case& b, const CaseResult& of_b) {
  return of_a.verdict == of_b.verdict && verb_at(a, of_a) == verb_at(b, of_b) &&
         by_logits(of_a) == by_logits(of_b);
}

SmallerCase make_smaller(const Case& subject, const CaseResult& result, const ModelData& model,
                         const EngineFactory& factory, std::optional<ShrinkBudget> budget) {
  const EngineSetup setup{subject.scalar, subject.arithmetic, subject.cache_kind};
  OperationRunner runner(model, setup, subject.policy, subject.seed, factory);
  SmallerCase smaller{.subject = subject, .result = result};
  if (!budget) {
    budget = {.tries = kSmallerTries, .deadline = std::chrono::steady_clock::now() + kSmallerTime};
  }
  const std::optional<AuditPoint> point = parting(subject, model, factory);
  const auto fails = [&](const Operations& operations) {
    Case candidate = subject;
    candidate.operations = operations;
    const CaseResult found = runner.run(operations);
    if (!same_class(subject, result, candidate, found)) return false;
    if (parting(candidate, model, factory) != point) return false;
    smaller.result = found;
    return true;
  };
  const Shrunk shrunk = shrink(subject.operations, fails, runner.space().limits, *budget);
  smaller.subject.operations = shrunk.smallest;
  smaller.tries = shrunk.tries;
  smaller.complete = shrunk.complete;
  for (const Variation& variation : variations(smaller.subject, model)) {
    const CaseResult other = run_case(variation.subject, model, factory).result;
    if (same_class(smaller.subject, smaller.result, variation.subject, other) &&
        parting(variation.subject, model, factory) == point) {
      smaller.indifferent.emplace_back(variation.field);
    }
  }
  return smaller;
}

}  // namespace kvcheck
