// SPDX-License-Identifier: MIT
// kvcheck report: the worst cases of a run, from its files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "reports/operation_row.h"
#include "reports/prefix_row.h"
#include "reports/summary_json.h"
#include "reports/worst.h"
#include "verify/case.h"
#include "verify/cli.h"

namespace kvcheck {

int run_report(const ReportArguments& arguments) {
  const std::filesystem::path run(arguments.run);
  std::error_code ignored;
  if (std::filesystem::exists(run / "faults.csv", ignored)) {
    throw bad_input({path_text(run), "run", "one of kvcheck verify",
                     "one of kvcheck faults, whose faults.csv has a row for each fault and check"});
  }
  const RunSummary summary = read_summary(run / "summary.json");
  WorstRows<PrefixRow> prefixes;
  read_prefixes(run / "prefixes.csv", [&](PrefixRow row) { prefixes.add(std::move(row)); });
  WorstRows<OperationRow> operations;
  std::error_code unknown;  // what cannot be looked at is told when it is read
  const bool listed = std::ranges::any_of(summary.checks, [](const SummaryCheck& check) {
    return check.id == kOperationsCheck && check.cases > 0;
  });
  if (listed || std::filesystem::exists(run / "operations.csv", unknown) || unknown) {
    read_operations(run / "operations.csv",
                    [&](OperationRow row) { operations.add(std::move(row)); });
  }
  print(worst_listing(prefixes.checks()) + worst_listing(operations.checks()) +
        fmt::format("verdict of the run: {}{} ({} checks, {} cases, {} logits compared)\n",
                    name(summary.verdict), summary.interrupted ? ", interrupted" : "",
                    summary.checks.size(), summary.compared.cases, summary.compared.logits));
  return kExitAgree;
}

}  // namespace kvcheck
