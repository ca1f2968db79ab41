// SPDX-License-Identifier: MIT
// Public reports of broken caches, planted and fed as they say: which rows of logits are wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "verify/faults.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

struct Report {
  std::string_view name;
  std::string_view model;
  std::string_view fault;
  std::string_view schedule;
  std::vector<int> differ;  // positions whose logits are not the oracle's, to the last bit
};

void PrintTo(const Report& report, std::ostream* out) { *out << report.name; }

std::vector<Report> reports() {
  return {
      // The basic fault: prefill 3, decode 1.
      {"mlx-vlm 1983", "tiny:rotary:1", "pos-decode-reset:onset1", "3+1", {3}},
      // Where keys are rotated: prefill 3, decode 1.
      {"shainet 110", "tiny:rotary:1", "rope-on-read-again", "3+1", {3}},
      // A prefill without a causal mask: the last row, which may see all of them, is wrong because
      // of what the rows below it have stored in the second layer.
      {"TinyLLM 18", "tiny:rotary:1", "mask-skip-when-cached", "3", {0, 1, 2}},
      // A window of 3 keys that is one wider in decode: right until the fourth row.
      {"transformers 26792, mlx-lm 390",
       "tiny:window:1",
       "win-off-by-decode:amount1",
       "1+1+1+1+1",
       {3, 4}},
      // One key hides much: softmax of one is 1, whatever the score.
      {"aprender 2085", "tiny:head-norm:1", "decode-no-head-norm:onset1", "1+1", {1}},
  };
}

class KnownReport : public ::testing::TestWithParam<Report> {};

TEST_P(KnownReport, has_wrong_logits_just_where_it_says) {
  const Report& report = GetParam();
  const ModelData model = load_model(report.model);
  const auto trace = std::make_shared<FaultTrace>();
  const auto engine = faulty_engine(parse_fault(report.fault, "test"), trace)(
      model, {ScalarKind::f32, Arithmetic::row});
  const Schedule schedule = parse_schedule(report.schedule, "test");
  std::vector<int> tokens = random_sequence(model.weights.config, 1, 0);
  int fed = 0;
  std::vector<int> differ;
  const SequenceId sequence = engine->open();
  for (const int length : schedule) {
    const auto chunk =
        std::span(tokens).subspan(static_cast<std::size_t>(fed), static_cast<std::size_t>(length));
    Logits cached;
    engine->feed(sequence, chunk, Rows::all, cached);
    fed += length;
    Logits right;
    engine->full({std::span(tokens).first(static_cast<std::size_t>(fed))}, Rows::all, right);
    for (int r = 0; r < length; ++r) {
      const int position = fed - length + r;
      if (!std::ranges::equal(cached.row(r), right.row(position))) differ.push_back(position);
    }
  }
  EXPECT_EQ(differ, report.differ);
  EXPECT_GT(trace->changes(), 0);
}

std::string test_name(const ::testing::TestParamInfo<Report>& info) {
  std::string text(info.param.name);
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return text;
}

INSTANTIATE_TEST_SUITE_P(Public, KnownReport, ::testing::ValuesIn(reports()), test_name);

}  // namespace
}  // namespace kvcheck
