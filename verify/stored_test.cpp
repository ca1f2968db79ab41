// SPDX-License-Identifier: MIT
// Failures outlive a run, each in one file, and come back to their own model and engine only.
#include "verify/stored.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/test_support.h"
#include "verify/case_text.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

Case failure_on(const ModelData& model, std::vector<int> tokens) {
  return {.check = "random-prefixes",
          .model = model.name,
          .model_hash = short_hash(model),
          .arithmetic = Arithmetic::row,
          .tokens = std::move(tokens),
          .schedule = {}};
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

TEST(StoredFailures, come_back_as_they_were) {
  const TemporaryFolder folder;
  const ModelData model = small_model();
  Case other = failure_on(model, {2, 1, 0});
  other.check = "schedules";
  other.schedule = {2, 1};
  other.policy = NoiseLimit{};
  other.seed = 99;
  other.siblings = true;
  store_failure(folder.path(), failure_on(model, {0, 1}));
  store_failure(folder.path(), other);
  const std::vector<Case> loaded = load_stored(folder.path(), model, "builtin");
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(std::ranges::count(loaded, failure_on(model, {0, 1})), 1);
  EXPECT_EQ(std::ranges::count(loaded, other), 1);
}

TEST(StoredFailures, are_read_in_the_order_of_their_files) {
  const TemporaryFolder folder;
  const ModelData model = small_model();
  for (int token = 0; token < 3; ++token) {
    store_failure(folder.path(), failure_on(model, {token}));
  }
  const std::vector<fs::path> files = files_in(folder.path());
  const std::vector<Case> loaded = load_stored(folder.path(), model, "builtin");
  ASSERT_EQ(files.size(), 3U);
  ASSERT_EQ(loaded.size(), 3U);
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(read_bytes(files[i]), to_json(loaded[i]));
  }
}

TEST(StoredFailures, lie_in_a_folder_of_model_and_engine) {
  const TemporaryFolder folder;
  const ModelData model = small_model();
  store_failure(folder.path(), failure_on(model, {0}));
  const std::vector<fs::path> files = files_in(folder.path());
  ASSERT_EQ(files.size(), 1U) << "and no temporary file stays";
  EXPECT_EQ(files[0].parent_path(), folder / (short_hash(model) + "-builtin"));
  EXPECT_EQ(files[0].extension(), ".json");
  EXPECT_EQ(files[0].stem().string().size(), 16U);
}

TEST(StoredFailures, a_case_that_is_there_is_left_alone) {
  const TemporaryFolder folder;
  const ModelData model = small_model();
  store_failure(folder.path(), failure_on(model, {0}));
  const fs::path file = files_in(folder.path()).at(0);
  const std::string with_notes =
      replaced(read_bytes(file), {"{", "{\"outcomes\": \"looked at in March\","});
  write_bytes(file, with_notes);
  store_failure(folder.path(), failure_on(model, {0}));
  EXPECT_EQ(files_in(folder.path()).size(), 1U);
  EXPECT_EQ(read_bytes(file), with_notes);
  EXPECT_EQ(load_stored(folder.path(), model, "builtin").size(), 1U);
}

TEST(StoredFailures, of_another_model_or_engine_stay_there) {
  const TemporaryFolder folder;
  const ModelData model = small_model();
  store_failure(folder.path(), failure_on(model, {0}));
  EXPECT_TRUE(load_stored(folder.path(), load_model("gen:plain:1"), "builtin").empty());
  EXPECT_TRUE(load_stored(folder.path(), model, "other").empty());
  EXPECT_TRUE(load_stored(folder / "nowhere", model, "builtin").empty());
}

TEST(StoredFailures, go_by_the_name_that_the_model_has_now) {
  const TemporaryFolder folder;
  ModelData model = small_model();
  store_failure(folder.path(), failure_on(model, {0}));
  model.name = "moved/small";
  EXPECT_EQ(load_stored(folder.path(), model, "builtin").at(0).model, "moved/small");
}

TEST(StoredFailures, files_of_other_kinds_are_not_read) {
  const TemporaryFolder folder;
  const ModelData model = small_model();
  store_failure(folder.path(), failure_on(model, {0}));
  write_bytes(files_in(folder.path())[0].parent_path() / "notes.txt", "hello");
  EXPECT_EQ(load_stored(folder.path(), model, "builtin").size(), 1U);
}

// What load_stored says of the only file after `change`, without the folder.
std::string error_after(const std::pair<std::string, std::string>& change) {
  const TemporaryFolder folder;
  const ModelData model = small_model();
  store_failure(folder.path(), failure_on(model, {0}));
  const fs::path file = files_in(folder.path()).at(0);
  write_bytes(file, replaced(read_bytes(file), change));
  const std::string error =
      error_in(folder, [&] { (void)load_stored(folder.path(), model, "builtin"); });
  const std::string where = fs::relative(file, folder.path()).string() + ": ";
  EXPECT_TRUE(error.starts_with(where)) << error;
  return error.substr(std::min(where.size(), error.size()));
}

TEST(StoredFailures, a_broken_file_is_an_error_that_names_it) {
  EXPECT_TRUE(error_after({"}", ""}).starts_with("malformed JSON "));
  EXPECT_EQ(error_after({"\"engine\": \"builtin\",", ""}),
            "missing field, expected engine, got nothing");
  EXPECT_EQ(error_after({"\"tokens\": \"0\"", "\"tokens\": \"7\""}),
            "token outside the vocabulary, expected an id from 0 to 2, got 7");
  EXPECT_TRUE(error_after({"random-prefixes", "nope"}).starts_with("unknown check, expected one"));
  EXPECT_EQ(error_after({"{", R"({"fault": "pos-doubled:onset1",)"}),
            "case with a planted fault, expected one without, got pos-doubled:onset1");
  const std::string hash = short_hash(small_model());
  EXPECT_EQ(error_after({hash, "00000000"}),
            "another model named small, expected SHA-256 00000000..., got " + hash + "...");
}

TEST(StoredFailures, a_planted_fault_is_none) {
  const TemporaryFolder folder;
  Case subject = failure_on(small_model(), {0});
  subject.fault = "pos-doubled:onset1";
  EXPECT_EQ(error_of([&] { store_failure(folder.path(), subject); }),
            "stored failures: case with a planted fault, expected one without, "
            "got pos-doubled:onset1");
  EXPECT_TRUE(files_in(folder.path()).empty());
  EXPECT_EQ(error_of([&] { (void)promote_case(folder.path(), subject); }),
            "--promote: case with a planted fault, expected one without, got pos-doubled:onset1");
}

TEST(StoredFailures, are_kept_in_the_working_folder) {
  EXPECT_EQ(stored_failures_folder(), fs::path(".kvcheck") / "failures");
}

// ---- In a run

TEST(StoredFailures, are_run_first_and_reported_as_a_check) {
  const ModelData model = small_model();
  ModelRun run = random_run(model, 1);
  run.stored = {failure_on(model, {0, 1}), failure_on(model, {2})};
  Collector collector;
  const RunResult result = run_on(options_for(Arithmetic::row), run, builtin_engine, collector);
  ASSERT_FALSE(collector.summaries.empty());
  EXPECT_EQ(collector.summaries.front().check, "stored");
  EXPECT_EQ(collector.summaries.front().counts.cases, 2);
  EXPECT_EQ(collector.summaries.front().verdict, Verdict::agree);
  EXPECT_EQ(collector.announced, collector.summaries.size());
  EXPECT_EQ(collector.records.front().subject, run.stored.front());
  EXPECT_EQ(collector.records.front().check(), "stored");
  EXPECT_EQ(collector.records.back().check(), collector.records.back().subject.check);
  EXPECT_EQ(result.verdict, Verdict::agree);
}

// A row of the summary names one arithmetic, scalar and policy: it may not speak for others.
TEST(StoredFailures, have_a_row_for_each_way_of_judging) {
  const ModelData model = small_model();
  const Case row = failure_on(model, {0, 1});
  Case matrix = row;
  matrix.arithmetic = Arithmetic::matrix;
  matrix.policy = NoiseLimit{};
  Case wide = matrix;
  wide.scalar = ScalarKind::f64;
  Case loose = matrix;
  loose.policy = AbsLimit{9};
  ModelRun run = random_run(model, 1);
  run.stored = {row, matrix, wide, loose, failure_on(model, {2})};
  SuiteOptions options = options_for(Arithmetic::row);
  options.prefixes = options.schedules = false;
  Collector collector;
  EXPECT_EQ(run_on(options, run, positions_plus_one(), collector).verdict, Verdict::diverge);
  std::string rows;
  for (const CheckSummary& s : collector.summaries) {
    rows += fmt::format("{} {} {} {} {}: {}\n", s.check, name(s.arithmetic), name(s.scalar),
                        to_text(s.policy), s.counts.cases, name(s.verdict));
  }
  EXPECT_EQ(rows,
            "stored row f32 exact 2: diverge\n"
            "stored matrix f32 noise:30 1: diverge\n"
            "stored matrix f64 noise:30 1: diverge\n"
            "stored matrix f32 abs:9 1: agree\n");
  EXPECT_EQ(collector.announced, collector.summaries.size());
}

TEST(StoredFailures, that_still_fail_make_the_run_diverge) {
  const ModelData model = small_model();
  ModelRun run = random_run(model, 1);
  run.stored = {failure_on(model, {0}), failure_on(model, {0, 1})};
  SuiteOptions options = options_for(Arithmetic::row);
  options.prefixes = options.schedules = false;
  Collector collector;
  EXPECT_EQ(run_on(options, run, positions_plus_one(), collector).verdict, Verdict::diverge);
  EXPECT_EQ(collector.summary("stored").counts.diverged, 1);
  ASSERT_TRUE(collector.summary("stored").worst_difference.has_value());
  EXPECT_EQ(collector.summary("stored").worst_difference->subject, run.stored.back());
  EXPECT_EQ(collector.summary("stored").worst_difference->check(), "stored");
  ASSERT_EQ(collector.failures.size(), 1U);
  EXPECT_EQ(collector.failures[0].subject, run.stored.back());
  EXPECT_EQ(collector.failures[0].check(), "stored");
}

}  // namespace
}  // namespace kvcheck
