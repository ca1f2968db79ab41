// SPDX-License-Identifier: MIT
// Running sequences of operations for the suite.
#include "verify/operation_unit.h"

#include <string>
#include <utility>

#include "engine/error.h"

namespace kvcheck {

Case operations_case(const Assignment& assignment, std::uint64_t seed,
                     const Operations& operations) {
  return {.check = std::string(assignment.checks.front().check->id),
          .model = assignment.run->model.name,
          .model_hash = short_hash(assignment.run->model),
          .scalar = assignment.scalar,
          .arithmetic = assignment.arithmetic,
          .cache_kind = assignment.cache,
          .policy = assignment.checks.front().policy,
          .seed = seed,
          .tokens = {},
          .schedule = {},
          .operations = operations};
}

void OperationUnit::run(std::size_t first, std::size_t count) {
  try {
    const EngineSetup setup{assignment_.scalar, assignment_.arithmetic, assignment_.cache};
    OperationRunner runner(assignment_.run->model, setup, assignment_.checks.front().policy,
                           context_.options.seed, context_.factory);
    each(runner.space(), first, count,
         [&](const Operations& operations, std::optional<std::uint64_t> number) {
           if (!context_.stop.load()) take(runner, operations, number);
         });
    loss_ += runner.loss();
    tally_.add_reused(runner.reused_rows());
    tally_.add_invariants(runner.invariants());
    tally_.add_refusals(runner.refusals());
  } catch (const EngineError& error) {
    record_no_engine(error.what());
  }
}

void OperationUnit::each(
    OperationSpace space, std::size_t first, std::size_t count,
    const std::function<void(const Operations&, std::optional<std::uint64_t>)>& visit) {
  const OperationChoice& choice = context_.options.operations;
  if (choice.kind == OperationChoice::Kind::exhaustive) {
    space.live_max = assignment_.space->live_max;
    return each_longest(space, choice.depth, first, count,
                        [&](const Operations& operations) { visit(operations, std::nullopt); });
  }
  for (std::size_t i = first; i < first + count && !context_.stop.load(); ++i) {
    const std::uint64_t number = choice.first + i;
    visit(choice.draw(space, context_.options.seed, number), number);
  }
}

void OperationUnit::take(OperationRunner& runner, const Operations& operations,
                         std::optional<std::uint64_t> number) {
  CaseResult judged = runner.run(operations);
  coverage_ += coverage_of(runner.executed(), runner.space());
  const std::int64_t logits =
      judged.rows_compared * assignment_.run->model.weights.config.vocabulary;
  if (judged.verdict != Verdict::agree) {
    judged = look_again({.subject = operations_case(assignment_, context_.options.seed, operations),
                         .result = std::move(judged),
                         .number = number});
  }
  tally_.add(operations, number, std::move(judged), logits);
}

// A gated case is decided in float64; a failure is shown at once, run again, and made smaller.
CaseResult OperationUnit::look_again(CaseRecord record) {
  const ModelData& model = assignment_.run->model;
  CaseResult& judged = record.result;
  if (judged.mark == Mark::gated) judged = decide_wide(record.subject, std::move(judged));
  if (judged.verdict == Verdict::agree || judged.verdict == Verdict::gave_up) return judged;
  context_.tell(record);
  if (++failures_ > kRerunsMax) return judged;
  const CaseResult again = run_case(record.subject, model, context_.factory).result;
  if (again.verdict != judged.verdict) {
    judged.mark = Mark::flaky;
    return judged;
  }
  if (failures_ > kSmallerMax || context_.stop.load() || !context_.may_shrink()) return judged;
  Case subject = record.subject;
  if (judged.mark == Mark::widened) subject.scalar = ScalarKind::f64;
  context_.tell_smaller(record, make_smaller(subject, judged, model, context_.factory));
  return judged;
}

CaseResult OperationUnit::decide_wide(const Case& subject, CaseResult narrow) {
  try {
    if (!wide_) {
      wide_.emplace(assignment_.run->model,
                    EngineSetup{ScalarKind::f64, subject.arithmetic, subject.cache_kind},
                    subject.policy, subject.seed, context_.factory);
    }
    return decided(std::move(narrow), wide_->run(subject.operations));
  } catch (const EngineError& error) {
    return decided(std::move(narrow), crashed(error.what()));
  }
}

void OperationUnit::record_no_engine(const std::string& why) {
  const Operations first{{Verb::open, {}, {}}};
  const CaseResult broken = crashed(why);
  tally_.add(first, std::nullopt, broken, 0);
  context_.tell(
      {.subject = operations_case(assignment_, context_.options.seed, first), .result = broken});
}

}  // namespace kvcheck
