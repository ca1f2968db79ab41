// SPDX-License-Identifier: MIT
// The columns of a generation, and a file read back.
#include "reports/generation_row.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/test_support.h"
#include "reports/csv_writer.h"

namespace kvcheck {
namespace {

Generation generation() {
  Generation made{.tokens = {0, 2, 4, 1}, .prompt = 2, .steps = {}, .stop = Stop::eos};
  made.steps = {{.step = 3,
                 .fed = 2,
                 .consumed = 2,
                 .returned = 1,
                 .position = 1,
                 .cache_length = 2,
                 .next_position = 2,
                 .remaining = 2,
                 .token = 4,
                 .logit = 7.25,
                 .probability = 0.5,
                 .drawn_with = 1},
                {.step = 4,
                 .fed = 1,
                 .consumed = 3,
                 .returned = 2,
                 .position = 2,
                 .remaining = 1,
                 .token = 1,
                 .logit = -1e-7,
                 .probability = 0.1,
                 .drawn_with = 0.25}};
  return made;
}

TEST(GenerationRow, has_a_column_for_each_number_of_a_step) {
  EXPECT_EQ(csv_header(kGenerationColumns),
            "request,run,step,fed,consumed,returned,position,cache_length,next_position,remaining,"
            "token,logit,probability,drawn_with,stop\n");
  const auto rows = generation_rows(1, GenerationRun::cached, generation());
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(csv_line(kGenerationColumns, rows[0]), "2,cached,4,0 2,2,1,1,2,2,2,4,7.25,0.5,1,\n");
  EXPECT_EQ(csv_line(kGenerationColumns, rows[1]),
            "2,cached,5,4,3,2,2,,,1,1,-1e-07,0.1,0.25,eos\n");
  EXPECT_EQ(generation_rows(0, GenerationRun::uncached, generation())[0].run, "uncached");
}

TEST(GenerationRow, is_read_back_as_it_was_written) {
  const TemporaryFolder folder;
  const auto rows = generation_rows(0, GenerationRun::cached, generation());
  write_generations(folder / "steps.csv", rows);
  std::vector<GenerationRow> read;
  read_generations(folder / "steps.csv",
                   [&](GenerationRow row) { read.push_back(std::move(row)); });
  EXPECT_EQ(read, rows);
}

}  // namespace
}  // namespace kvcheck
