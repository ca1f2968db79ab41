// SPDX-License-Identifier: MIT
// Which models and which prefixes a run gets for what was asked.
#include "verify/models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/sequences.h"
#include "engine/test_support.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

using Kind = PrefixChoice::Kind;

ModelData model_with_corpus() {
  ModelData model = small_model();
  model.corpus = {{0, 1, 2, 0, 1}, {0, 1}};
  return model;
}

std::string sources_text(const ModelData& model, const PrefixChoice& choice) {
  std::string text;
  for (const SourceOfPrefixes& source : sources_of(model, choice, {1, 0, 3})) {
    text += std::to_string(static_cast<int>(source.source)) + ":" +
            std::to_string(source.tree.count()) + " ";
  }
  return text;
}

std::string text_of(Source source, std::int64_t count) {
  return std::to_string(static_cast<int>(source)) + ":" + std::to_string(count) + " ";
}

TEST(LoadModel, makes_a_generated_one_from_its_name) {
  const ModelData model = load_model("gen:plain:7");
  EXPECT_EQ(model.name, "gen:plain:7");
  EXPECT_EQ(weight_bits(model.weights), weight_bits(generate_model("gen:plain:7")));
  EXPECT_EQ(model.sha256, model_sha256(model.weights));
  EXPECT_TRUE(model.corpus.empty());
}

TEST(LoadModel, reads_a_folder) {
  const TemporaryFolder folder;
  save_model(folder / "m", small_model().weights);
  const ModelData model = load_model((folder / "m").string());
  EXPECT_EQ(model.name, (folder / "m").string());
  EXPECT_EQ(model.sha256, small_model().sha256);
}

TEST(LoadModel, bundled_ones_keep_their_short_name) {
  for (const char* name : {"chapter8", "chapter8-rotary"}) {
    ASSERT_TRUE(has_bundled(name)) << name;
    EXPECT_EQ(load_model(name).name, name);
    EXPECT_EQ(PrefixTree::of(load_model(name).corpus, 4).count(), 11);
  }
}

TEST(LoadModel, what_is_nothing_of_it_is_an_error) {
  EXPECT_NE(error_of([] { (void)load_model("no/such/folder"); }), "no error");
  EXPECT_NE(error_of([] { (void)load_model("gen:nothing:1"); }), "no error");
}

TEST(DefaultModels, are_the_frozen_ones_and_twenty_generated) {
  const std::vector<std::string> names = default_models(5);
  ASSERT_EQ(names.size(), 22U);
  EXPECT_EQ(names[0], "chapter8");
  EXPECT_EQ(names[1], "chapter8-rotary");
  EXPECT_EQ(std::vector<std::string>(names.begin() + 2, names.end()), default_set(5));
  EXPECT_NE(default_models(6), names);
}

TEST(PrefixChoice, known_words_and_files) {
  EXPECT_EQ(parse_prefix_choice("corpus").kind, Kind::corpus);
  EXPECT_EQ(parse_prefix_choice("all").kind, Kind::all);
  const PrefixChoice random = parse_prefix_choice("random:12");
  EXPECT_EQ(random.kind, Kind::random);
  EXPECT_EQ(random.random, 12);
  for (const char* file : {"prefixes.txt", "random", "corpus.txt", "./all", "random.txt"}) {
    EXPECT_EQ(parse_prefix_choice(file).kind, Kind::file);
    EXPECT_EQ(parse_prefix_choice(file).file, file);
  }
  EXPECT_EQ(PrefixChoice{}.kind, Kind::standard);
}

TEST(PrefixChoice, a_number_of_random_sequences_has_bounds) {
  EXPECT_EQ(parse_prefix_choice("random:1").random, 1);
  EXPECT_EQ(parse_prefix_choice("random:1000000").random, 1'000'000);
  for (const char* text : {"random:0", "random:-1", "random:", "random:x", "random:3x", "random: 3",
                           "random:1000001", "random:99999999999"}) {
    EXPECT_EQ(
        error_of([&] { (void)parse_prefix_choice(text); }),
        std::string("--prefixes: random, expected random:N with N from 1 to 1000000, got ") + text);
  }
}

TEST(RandomSequences, are_addressed_by_seed_and_number) {
  const Config config = load_model("gen:plain:1").weights.config;
  const auto found = random_sequences(config, {7, 10, 5});
  ASSERT_EQ(found.size(), 5U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i], random_tokens(config.vocabulary, config.context, 7, 10 + i));
  }
  EXPECT_EQ(random_sequences(config, {7, 12, 1}).at(0), found[2]);
  EXPECT_NE(random_sequences(config, {8, 10, 5}), found);
}

TEST(RandomSequences, are_as_long_as_the_context_but_not_endless) {
  Config config = small_config();
  EXPECT_EQ(random_sequences(config, {1, 0, 1}).at(0).size(), 4U);
  config.context = 1000;
  EXPECT_EQ(random_sequences(config, {1, 0, 1}).at(0).size(),
            static_cast<std::size_t>(kRandomLengthMax));
}

TEST(RandomSequences, numbers_of_a_model_end_where_those_of_the_next_begin) {
  EXPECT_EQ(parse_prefix_choice(fmt::format("random:{}", kRandomSequencesMax)).random,
            kRandomSequencesMax);
  EXPECT_EQ(random_sequence(small_config(), 7, 3), random_sequences(small_config(), {7, 3, 1})[0]);
}

TEST(FindRandom, gives_the_first_sequence_that_begins_so) {
  const Config config = load_model("gen:plain:1").weights.config;
  const RandomRange range{7, 100, 8};
  const auto sequences = random_sequences(config, range);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_EQ(find_random(config, range, sequences[i]), 100 + i);
  }
  const auto found = find_random(config, range, std::span(sequences[3]).first(1));
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(*found, 103U);
  std::vector<int> longer = sequences[3];
  longer.push_back(0);
  EXPECT_EQ(find_random(config, range, longer), std::nullopt);
}

TEST(Sources, of_a_model_without_a_corpus_are_random) {
  const ModelData model = load_model("gen:plain:1");
  const Config& config = model.weights.config;
  const std::int64_t count =
      PrefixTree::of(random_sequences(config, {1, 0, 3}), config.context).count();
  EXPECT_EQ(sources_text(model, {}), text_of(Source::random, count));
}

TEST(Sources, of_a_small_model_with_a_corpus_are_corpus_and_all) {
  EXPECT_EQ(sources_text(model_with_corpus(), {}),
            text_of(Source::corpus, 4) + text_of(Source::all, 120));
}

TEST(Sources, of_a_large_model_with_a_corpus_are_corpus_and_random) {
  ModelData model = load_model("gen:plain:1");
  ASSERT_GT(count_all_prefixes(model.weights.config.vocabulary, model.weights.config.context),
            kUnaskedPrefixesMax);
  model.corpus = {{0, 1}};
  const auto sources = sources_of(model, {}, {1, 0, 3});
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].source, Source::corpus);
  EXPECT_EQ(sources[1].source, Source::random);
}

TEST(Sources, are_just_what_was_asked_for) {
  EXPECT_EQ(sources_text(model_with_corpus(), {.kind = Kind::corpus}), text_of(Source::corpus, 4));
  EXPECT_EQ(sources_text(small_model(), {.kind = Kind::all}), text_of(Source::all, 120));
  const auto random = sources_of(model_with_corpus(), {.kind = Kind::random}, {1, 0, 1});
  ASSERT_EQ(random.size(), 1U);
  EXPECT_EQ(random[0].source, Source::random);
  EXPECT_EQ(random[0].tree.count(), 4);
}

TEST(Sources, a_file_is_read_with_the_models_words) {
  const TemporaryFolder folder;
  ModelData model = small_model();
  model.words = {"a", "b", "c"};
  write_bytes(folder / "p.txt", "a b c\na 2\n");
  const std::string file = (folder / "p.txt").string();
  EXPECT_EQ(sources_text(model, {.kind = Kind::file, .file = file}), text_of(Source::file, 4));
  write_bytes(folder / "p.txt", "a\n\na b c a b\n");
  EXPECT_EQ(error_in(folder,
                     [&] {
                       (void)sources_of(model, {.kind = Kind::file, .file = file}, {1, 0, 1});
                     }),
            "p.txt:3: sequence too long for the model, expected at most 4 tokens, got 5");
  write_bytes(folder / "p.txt", "a d\n");
  const std::string error = error_in(folder, [&] {
    (void)sources_of(model, {.kind = Kind::file, .file = file}, {1, 0, 1});
  });
  EXPECT_TRUE(error.starts_with("p.txt")) << error;
}

TEST(Sources, a_corpus_that_is_not_there_is_an_error) {
  EXPECT_EQ(error_of([] {
              (void)sources_of(small_model(), {.kind = Kind::corpus}, {1, 0, 1});
            }),
            "--prefixes corpus: model small has none, expected a model with a corpus, got none");
}

// A walk as deep as a context of millions would not fit on any stack.
TEST(Sources, no_prefix_is_longer_than_a_walk_can_be) {
  ModelData model = small_model();
  model.weights.config.vocabulary = 1;
  model.weights.config.context = kPrefixLengthMax + 1;
  EXPECT_EQ(error_of([&] {
              (void)sources_of(model, {.kind = Kind::all}, {1, 0, 1});
            }),
            "--prefixes all: too long prefixes of small, expected at most 4096 tokens, got 4097");
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < kPrefixLengthMax; ++i) text += "0 ";
  const std::string file = (folder / "p.txt").string();
  const auto depth = [&] {
    write_bytes(file, text);
    return sources_of(model, {.kind = Kind::file, .file = file}, {1, 0, 1})[0].tree.depth_max();
  };
  EXPECT_EQ(depth(), kPrefixLengthMax);
  text += "0";
  EXPECT_NE(error_of([&] { (void)depth(); }), "no error");
  model.corpus = {std::vector<int>(kPrefixLengthMax + 1, 0)};
  const auto sources = sources_of(model, {}, {1, 0, 1});
  EXPECT_EQ(sources[0].tree.depth_max(), kPrefixLengthMax);
  EXPECT_EQ(sources[1].source, Source::random) << "though there are few";
}

TEST(Sources, more_prefixes_than_can_be_walked_are_an_error_with_the_count) {
  ModelData model = small_model();
  model.weights.config.context = 15;  // (3^16 - 3) / 2
  const auto error = [&] {
    return error_of([&] { (void)sources_of(model, {.kind = Kind::all}, {1, 0, 1}); });
  };
  EXPECT_EQ(error(),
            "--prefixes all: too many prefixes of small, expected at most 10000000, got 21523359");
  model.weights.config.context = 1000;
  EXPECT_EQ(error(),
            "--prefixes all: too many prefixes of small, expected at most 10000000, got more than "
            "9223372036854775807");
  model.weights.config.context = 14;  // 7174452
  EXPECT_EQ(error(), "no error");
}

}  // namespace
}  // namespace kvcheck
