// SPDX-License-Identifier: MIT
// What `kvcheck faults` prints of a matrix, and what its summary holds.
#include "reports/faults_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/faults_json.h"
#include "reports/test_matrix.h"

namespace kvcheck {
namespace {

TEST(MatrixTable, is_a_line_for_each_fault_below_its_question) {
  EXPECT_EQ(matrix_table(matrix_report()),
            "  fault                      as said  abc d  first failing   largest  smallest case   "
            "        seen on         stands for\n"
            "position of a layer's queries and keys\n"
            "  rope-key-raw                   1/1  - # .  prefix 3           0.5  0 2 4 (1+1+1)   "
            "        tiny, chapter8  gpt-neox 363, sparkinfer 149\n"
            "  pos-all-offset-rotary          1/2  # = =                          equivalent       "
            "       0 of 2          class of one-based positions\n"
            "# caught   . missed   - inert   = equivalent   blank: not applicable; letters as "
            "below\n");
}

TEST(TotalsTable, says_what_each_check_is_worth) {
  EXPECT_EQ(
      totals_table(matrix_report()),
      "  check               caught  missed   inert  equivalent     n.a.    rate\n"
      "a exact                    1       0       1           0        0 100.0 %\n"
      "b contract                 0       0       0           0        2    none\n"
      "c noise                1,999       1       0           1        0  99.9 %\n"
      "as other projects test\n"
      "d shapes                   0       1       0           1        0   0.0 %  mlx-lm sliding "
      "window of Llama, gemma.cpp, onnxruntime-genai\n"
      "fails without a fault, and so is not counted: argmax on gen:saturated:1 (flat)\n"
      "kill rate of exact       100.0 %  (1 of 1; row arithmetic, to the last bit)\n"
      "kill rate of noise        99.9 %  (1,999 of 2,000; float32, within 30 noise floors)\n");
}

TEST(UnexpectedText, names_the_variants) {
  EXPECT_EQ(unexpected_text(matrix_report()),
            "not as expected\n"
            "  pos-all-offset-rotary:amount1: caught, and expected to be equivalent\n");
  EXPECT_EQ(unexpected_text({}), "");
}

TEST(Explanation, says_all_that_the_table_knows) {
  EXPECT_EQ(explanation(find_fault("pos-all-offset-rotary", "test"), "tiny:rotary:1", 2),
            "pos-all-offset-rotary\n"
            "  question      position of a layer's queries and keys\n"
            "  wrong         every position of queries and keys is off by as much\n"
            "  stands for    class of one-based positions\n"
            "  needs         a model with: rotary; cache: flat\n"
            "  expected      equivalent\n"
            "  because       " +
                std::string(find_fault("pos-all-offset-rotary", "test").reason) +
                "\n"
                "  variants      pos-all-offset-rotary:amount1\n"
                "                pos-all-offset-rotary:amount3\n"
                "  shown by      kvcheck faults tiny:rotary:1 --fault pos-all-offset-rotary\n");
}

TEST(ListOfFaults, has_a_line_for_each) {
  const Fault* one = &find_fault("rope-key-raw", "test");
  EXPECT_EQ(list_of_faults(std::span(&one, 1)),
            "fault                      cache        needs                    expected   what is "
            "wrong\n"
            "position of a layer's queries and keys\n"
            "  rope-key-raw             flat         rotary                   caught     decode "
            "stores keys that are not rotated\n");
}

TEST(FaultsJson, is_the_summary_of_the_run) {
  const auto json = nlohmann::json::parse(faults_json(matrix_report()));
  EXPECT_EQ(json["verdict"], "diverge");
  EXPECT_EQ(json["interrupted"], false);
  EXPECT_EQ(json["rows"], 2);
  EXPECT_EQ(json["checks"][1]["kill_rate"], nullptr);
  EXPECT_EQ(json["checks"][2]["id"], "noise");
  EXPECT_EQ(json["checks"][2]["caught"], 1999);
  EXPECT_EQ(json["checks"][2]["kill_rate"], 1999.0 / 2000);
  EXPECT_EQ(json["checks"][3]["own"], false);
  EXPECT_EQ(json["faults"][0]["not_applicable"], 1);
  EXPECT_EQ(json["faults"][0]["seen_on"][0], "chapter8");
  EXPECT_EQ(json["faults"][0]["smallest"].get<std::string>().find("kvcheck repro kv1:"), 0U);
  EXPECT_EQ(json["faults"][1]["smallest"], nullptr);
  EXPECT_EQ(json["faults"][1]["unexpected"].size(), 1U);
  EXPECT_EQ(json["false_alarms"].size(), 1U);
  MatrixReport fine = matrix_report();
  fine.faults.pop_back();
  EXPECT_EQ(nlohmann::json::parse(faults_json(fine))["verdict"], "agree");
}

}  // namespace
}  // namespace kvcheck
