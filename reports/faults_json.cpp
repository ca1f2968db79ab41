// SPDX-License-Identifier: MIT
// Writes the summary of a run of faults.
#include "reports/faults_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "verify/case_text.h"
#include "verify/verdict.h"

namespace kvcheck {
namespace {

using Json = nlohmann::ordered_json;

void add_counts(Json& to, const OutcomeCounts& counts) {
  for (std::size_t o = 0; o < counts.size(); ++o) {
    std::string key(name(static_cast<Outcome>(o)));
    std::ranges::replace(key, ' ', '_');
    to[key] = counts[o];
  }
}

Json check_json(const CheckReport& check) {
  Json json{{"id", check.check.id}, {"own", check.check.own}};
  add_counts(json, check.cells);
  const auto rate = check.kill_rate();
  json["kill_rate"] = rate ? Json(*rate) : Json(nullptr);
  return json;
}

Json fault_json(const FaultReport& fault) {
  Json json{{"id", fault.fault->id}, {"expected", name(fault.fault->expected)}};
  add_counts(json, fault.variants);
  json["models"] = fault.models;
  json["seen_on"] = fault.seen_on;
  json["unexpected"] = fault.unexpected;
  json["smallest"] = fault.smallest ? Json(repro_line(fault.smallest->subject)) : Json(nullptr);
  return json;
}

}  // namespace

std::string faults_json(const MatrixReport& report) {
  Json json{{"verdict", name(report.verdict())},
            {"interrupted", report.interrupted},
            {"rows", report.rows},
            {"models", report.models},
            {"checks", Json::array()},
            {"faults", Json::array()},
            {"false_alarms", report.false_alarms}};
  for (const CheckReport& check : report.checks) json["checks"].push_back(check_json(check));
  for (const FaultReport& fault : report.faults) json["faults"].push_back(fault_json(fault));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvcheck
