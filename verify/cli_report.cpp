// SPDX-License-Identifier: MIT
// kvcheck report: the worst cases of a run, from its files.
#include <fmt/format.h>

#include "reports/prefix_row.h"
#include "reports/summary_json.h"
#include "reports/worst.h"
#include "verify/cli.h"

namespace kvcheck {

int run_report(const ReportArguments& arguments) {
  const std::filesystem::path run(arguments.run);
  const RunSummary summary = read_summary(run / "summary.json");
  WorstRows worst;
  read_prefixes(run / "prefixes.csv", [&](PrefixRow row) { worst.add(std::move(row)); });
  print(worst_listing(worst.checks()) +
        fmt::format("verdict of the run: {}{} ({} checks, {} cases, {} logits compared)\n",
                    name(summary.verdict), summary.interrupted ? ", interrupted" : "",
                    summary.checks.size(), summary.compared.cases, summary.compared.logits));
  return kExitAgree;
}

}  // namespace kvcheck
