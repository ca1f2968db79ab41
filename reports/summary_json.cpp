// SPDX-License-Identifier: MIT
// Writes and reads summary.json by one table of fields.
#include "reports/summary_json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "engine/echo.h"
#include "engine/files.h"
#include "engine/strict_json.h"
#include "reports/names.h"
#include "verify/suite.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using MarkCounts = std::map<std::string, std::int64_t>;

template <typename Struct>
struct Field {
  const char* key;
  std::variant<std::string Struct::*, std::int64_t Struct::*, double Struct::*,
               std::optional<double> Struct::*, bool Struct::*, MarkCounts Struct::*,
               Verdict Struct::*, std::optional<Verdict> Struct::*, Arithmetic Struct::*,
               ScalarKind Struct::*>
      member;
};

constexpr auto kCheckFields = std::to_array<Field<SummaryCheck>>({
    {"id", &SummaryCheck::id},
    {"model", &SummaryCheck::model},
    {"arithmetic", &SummaryCheck::arithmetic},
    {"scalar", &SummaryCheck::scalar},
    {"policy", &SummaryCheck::policy},
    {"cache_kind", &SummaryCheck::cache_kind},
    {"cases", &SummaryCheck::cases},
    {"prefixes", &SummaryCheck::prefixes},
    {"logits", &SummaryCheck::logits},
    {"worst_abs", &SummaryCheck::worst_abs},
    {"worst_ratio", &SummaryCheck::worst_ratio},
    {"worst_kappa", &SummaryCheck::worst_kappa},
    {"float64_abs", &SummaryCheck::float64_abs},
    {"float64_verdict", &SummaryCheck::float64_verdict},
    {"gave_up", &SummaryCheck::gave_up},
    {"marks", &SummaryCheck::marks},
    {"verdict", &SummaryCheck::verdict},
    {"seconds", &SummaryCheck::seconds},
});
constexpr auto kComparedFields = std::to_array<Field<Counts>>({
    {"cases", &Counts::cases},
    {"prefixes", &Counts::prefixes},
    {"logits", &Counts::logits},
});
constexpr auto kInvariantFields = std::to_array<Field<SummaryInvariant>>({
    {"id", &SummaryInvariant::id},
    {"checked", &SummaryInvariant::checked},
    {"failed", &SummaryInvariant::failed},
});
constexpr auto kRunFields = std::to_array<Field<RunSummary>>({
    {"verdict", &RunSummary::verdict},
    {"interrupted", &RunSummary::interrupted},
});

// ---- Writing

OrderedJson to_json(const std::string& text) { return text; }
OrderedJson to_json(std::int64_t number) { return number; }
OrderedJson to_json(bool value) { return value; }
OrderedJson to_json(double number) {
  // JSON has no word for these, and the library would write null: a report must not lose a NaN.
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}
OrderedJson to_json(const MarkCounts& counts) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, count] : counts) json[key] = count;
  return json;
}
template <Named Enum>
OrderedJson to_json(Enum value) {
  return std::string(name(value));
}
template <typename Value>
OrderedJson to_json(const std::optional<Value>& value) {
  return value ? to_json(*value) : OrderedJson(nullptr);
}

template <typename Struct, std::size_t N>
OrderedJson object_of(const Struct& from, const std::array<Field<Struct>, N>& fields) {
  OrderedJson json = OrderedJson::object();
  for (const Field<Struct>& field : fields) {
    std::visit([&](auto member) { json[field.key] = to_json(from.*member); }, field.member);
  }
  return json;
}

// ---- Reading

void parse(const Json& json, const JsonPlace& place, std::string& into) {
  if (!json.is_string()) throw bad_value(place, "a string", &json);
  into = json.get<std::string>();
}
void parse(const Json& json, const JsonPlace& place, bool& into) {
  if (!json.is_boolean()) throw bad_value(place, "true or false", &json);
  into = json.get<bool>();
}
void parse(const Json& json, const JsonPlace& place, std::int64_t& into) {
  // The library keeps non-negative numbers unsigned and would cut those that do not fit.
  const bool fits =
      json.is_number_unsigned() && std::in_range<std::int64_t>(json.get<std::uint64_t>());
  if (!fits) throw bad_value(place, "a count", &json);
  into = json.get<std::int64_t>();
}
void parse(const Json& json, const JsonPlace& place, double& into) {
  if (json == "nan") {
    into = std::numeric_limits<double>::quiet_NaN();
  } else if (json == "inf" || json == "-inf") {
    into = json == "inf" ? HUGE_VAL : -HUGE_VAL;
  } else if (json.is_number()) {
    into = json.get<double>();
  } else {
    throw bad_value(place, "a number, \"nan\", \"inf\" or \"-inf\"", &json);
  }
}
void parse(const Json& json, const JsonPlace& place, MarkCounts& into) {
  require_object(json, place);
  for (const auto& item : json.items()) {
    const std::string what = fmt::format("{}.{}", place.what, one_line(item.key()));
    parse(item.value(), {place.where, what}, into[item.key()]);
  }
}
template <Named Enum>
void parse(const Json& json, const JsonPlace& place, Enum& into) {
  const auto value =
      json.is_string() ? from_name<Enum>(json.get<std::string>()) : std::optional<Enum>();
  if (!value) throw bad_value(place, expected_names<Enum>(), &json);
  into = *value;
}
template <typename Value>
void parse(const Json& json, const JsonPlace& place, std::optional<Value>& into) {
  into.reset();
  if (!json.is_null()) parse(json, place, into.emplace());
}

// A key must be there even where its value is null: what is left out is a mistake.
const Json& required(const Json& object, const JsonPlace& place, std::string_view key) {
  require_object(object, place);
  const Json* found = find_key(object, key);
  if (found == nullptr) {
    throw bad_input({place.where, place.what, fmt::format("a key {}", key), "none"});
  }
  return *found;
}

template <typename Struct, std::size_t N>
void read_object(const Json& json, const JsonPlace& place,
                 const std::array<Field<Struct>, N>& fields, Struct& into) {
  for (const Field<Struct>& field : fields) {
    const Json& value = required(json, place, field.key);
    const std::string what = fmt::format("{}.{}", place.what, field.key);
    std::visit([&](auto member) { parse(value, {place.where, what}, into.*member); }, field.member);
  }
}

template <typename Struct, std::size_t N>
void read_objects(const Json& run, const std::string& where, const char* key,
                  const std::array<Field<Struct>, N>& fields, std::vector<Struct>& into) {
  const Json& objects = required(run, {where, "summary"}, key);
  if (!objects.is_array()) throw bad_value({where, key}, "an array", &objects);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    read_object(objects[i], {where, fmt::format("{}[{}]", key, i)}, fields, into.emplace_back());
  }
}

template <typename Struct, std::size_t N>
OrderedJson objects_of(const std::vector<Struct>& from,
                       const std::array<Field<Struct>, N>& fields) {
  OrderedJson json = OrderedJson::array();
  for (const Struct& one : from) json.push_back(object_of(one, fields));
  return json;
}

}  // namespace

SummaryCheck summary_check(const CheckSummary& summary) {
  const Counts& counts = summary.counts;
  SummaryCheck check;
  check.id = summary.check;
  check.model = summary.model;
  check.arithmetic = summary.arithmetic;
  check.scalar = summary.scalar;
  check.policy = to_text(summary.policy);
  check.cache_kind = name(summary.cache_kind);
  check.cases = counts.cases;
  check.prefixes = counts.prefixes;
  check.logits = counts.logits;
  if (summary.worst_difference && summary.worst_difference->result.row) {
    const CaseResult& worst = summary.worst_difference->result;
    check.worst_abs = worst.row->max_abs_difference;
    if (worst.noise) check.worst_kappa = worst.noise->kappa;
  }
  if (summary.in_float64) {
    check.float64_abs = summary.in_float64->difference;
    check.float64_verdict = summary.in_float64->verdict;
  }
  check.worst_ratio = summary.worst_ratio;
  check.gave_up = counts.undecided;
  const std::array<std::pair<Mark, std::int64_t>, 6> marks{{{Mark::flaky, counts.flaky},
                                                            {Mark::crash, counts.crashed},
                                                            {Mark::refused, counts.refused},
                                                            {Mark::widened, counts.widened},
                                                            {Mark::gated, counts.gated},
                                                            {Mark::tie, counts.ties}}};
  for (const auto& [mark, count] : marks) {
    if (count != 0) check.marks[std::string(name(mark))] = count;
  }
  check.verdict = summary.verdict;
  check.seconds = summary.seconds;
  return check;
}

RunSummary run_summary(const RunResult& result) {
  RunSummary run;
  run.verdict = result.verdict;
  run.interrupted = result.interrupted;
  for (const CheckSummary& summary : result.checks) {
    run.checks.push_back(summary_check(summary));
    run.compared += summary.counts;
  }
  const InvariantCounts& counts = run.compared.invariants;
  for (std::size_t i = 0; i < invariants().size(); ++i) {
    run.invariants.push_back(
        {std::string(invariants()[i].id), counts.checked[i], counts.failed[i]});
  }
  return run;
}

std::string summary_json(const RunSummary& summary) {
  OrderedJson json = object_of(summary, kRunFields);
  json["compared"] = object_of(summary.compared, kComparedFields);
  json["checks"] = objects_of(summary.checks, kCheckFields);
  json["invariants"] = objects_of(summary.invariants, kInvariantFields);
  // A model's path need not be UTF-8; a lost byte there is better than a lost report.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

RunSummary read_summary(const std::filesystem::path& path) {
  const std::string where = path_text(path);
  const Json json = parse_json(read_text(path), where);
  RunSummary summary;
  read_object(json, {where, "summary"}, kRunFields, summary);
  read_object(required(json, {where, "summary"}, "compared"), {where, "compared"}, kComparedFields,
              summary.compared);
  read_objects(json, where, "checks", kCheckFields, summary.checks);
  read_objects(json, where, "invariants", kInvariantFields, summary.invariants);
  return summary;
}

}  // namespace kvcheck
