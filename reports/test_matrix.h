// SPDX-License-Identifier: MIT
// A row and a report of the kill matrix that the tests of this folder share.
#pragma once

#include <string>
#include <vector>

#include "verify/faults.h"
#include "verify/kill_matrix.h"

namespace kvcheck {

[[nodiscard]] inline ModelData matrix_model() {
  ModelData model;
  model.name = "chapter8";
  return model;
}

// rope-key-raw in layer 1 from two rows on: noise sees it at the third token, exact never saw it at
// work, shapes missed it, and the model declares no contract.
[[nodiscard]] inline MatrixRow matrix_row(const ModelData& model) {
  CaseRecord first;
  first.subject = {.check = "noise",
                   .model = "chapter8",
                   .model_hash = "0123abcd",
                   .policy = NoiseLimit{},
                   .tokens = {0, 2, 4},
                   .schedule = {1, 1, 1},
                   .fault = "rope-key-raw:layer1:onset2"};
  return {parse_fault("rope-key-raw:layer1:onset2", "test"),
          model,
          false,
          {{.check = "exact", .outcome = Outcome::inert, .cases = 4},
           {.check = "contract"},
           {.check = "noise",
            .outcome = Outcome::caught,
            .cases = 4,
            .first = first,
            .max_abs_difference = 0.5,
            .max_ratio = 1000},
           {.check = "shapes", .outcome = Outcome::missed}}};
}

// What that row comes to, and one of an equivalent fault that some check saw.
[[nodiscard]] inline MatrixReport matrix_report() {
  const ModelData model = matrix_model();
  const MatrixRow row = matrix_row(model);
  MatrixReport report;
  report.rows = 2;
  report.models = 1;
  for (const char* id : {"exact", "contract", "noise", "shapes"}) {
    for (const MatrixCheck& check : matrix_checks()) {
      if (check.id == id) report.checks.push_back({check, {}});
    }
  }
  report.checks[0].cells = {1, 0, 1, 0, 0};
  report.checks[1].cells = {0, 0, 0, 0, 2};
  report.checks[2].cells = {1999, 1, 0, 1, 0};
  report.checks[3].cells = {0, 1, 0, 1, 0};
  report.false_alarms = {"argmax on gen:saturated:1 (flat)"};
  report.faults.push_back(
      {.fault = row.variant.fault,
       .variants = {1, 0, 0, 0, 1},
       .checks = {Outcome::inert, Outcome::not_applicable, Outcome::caught, Outcome::missed},
       .models = 1,
       .seen_on = {"chapter8"},
       .seen_on_smallest = true,
       .smallest = row.cells[2].first,
       .max_abs_difference = 0.5});
  report.faults.push_back({.fault = &find_fault("pos-all-offset-rotary", "test"),
                           .variants = {1, 0, 0, 1, 0},
                           .checks = {Outcome::caught, Outcome::not_applicable, Outcome::equivalent,
                                      Outcome::equivalent},
                           .unexpected = {"pos-all-offset-rotary:amount1: caught, and expected to "
                                          "be equivalent"},
                           .models = 2});
  return report;
}

}  // namespace kvcheck
