// SPDX-License-Identifier: MIT
// Cases survive being written as a token and as JSON, a shell leaves tokens alone, and every way in
// which a text can be wrong has its message.
#include "verify/case_text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <ostream>

#include "engine/test_support.h"

namespace kvcheck {

void showValue(const Case& subject, std::ostream& out) { out << to_json(subject); }

namespace {

Case sample() {
  return {.check = "schedules",
          .model = "gen:plain:7",
          .model_hash = "0123abcd",
          .scalar = ScalarKind::f64,
          .arithmetic = Arithmetic::row,
          .policy = AbsLimit{1e-5},
          .seed = 18446744073709551615U,
          .siblings = true,
          .tokens = {0, 2, 4},
          .schedule = {2, 1}};
}

constexpr std::string_view kToken =
    "kv1:check=schedules,model=gen:plain:7,sha256=0123abcd,engine=builtin,scalar=f64,"
    "arithmetic=row,cache=flat,policy=abs:1e-05,seed=18446744073709551615,computed=siblings,"
    "tokens=0.2.4,schedule=2+1";

constexpr std::string_view kJson = R"({
  "version": 1,
  "check": "schedules",
  "model": "gen:plain:7",
  "sha256": "0123abcd",
  "engine": "builtin",
  "scalar": "f64",
  "arithmetic": "row",
  "cache": "flat",
  "policy": "abs:1e-05",
  "seed": "18446744073709551615",
  "computed": "siblings",
  "tokens": "0.2.4",
  "schedule": "2+1"
}
)";

TEST(CaseToken, is_one_line_of_named_fields) { EXPECT_EQ(to_token(sample()), kToken); }

TEST(CaseToken, is_read_as_it_was_written) { EXPECT_EQ(parse_token(kToken, "x"), sample()); }

TEST(CaseToken, fields_may_stand_in_any_order) {
  const std::string moved = "kv1:schedule=2+1," + std::string(kToken.substr(4));
  const std::string without = replaced(moved, {",schedule=2+1", ""});
  EXPECT_EQ(parse_token(without, "x"), sample());
}

TEST(CaseToken, what_a_shell_would_touch_is_encoded) {
  Case subject = sample();
  subject.model = "my models/a,b=c%\xc3\xa4";
  const std::string token = to_token(subject);
  EXPECT_NE(token.find("model=my%20models/a%2cb%3dc%25%c3%a4,"), std::string::npos) << token;
  EXPECT_EQ(parse_token(token, "x"), subject);
}

TEST(CaseToken, an_empty_schedule_stands_for_none) {
  Case subject = sample();
  subject.schedule.clear();
  EXPECT_TRUE(to_token(subject).ends_with(",schedule="));
  EXPECT_EQ(parse_token(to_token(subject), "x"), subject);
}

TEST(CaseToken, names_the_fault_only_where_there_is_one) {
  Case subject = sample();
  subject.fault = "pos-decode-offset:onset2:amount-1";
  EXPECT_EQ(to_token(subject), std::string(kToken) + ",fault=pos-decode-offset:onset2:amount-1");
  EXPECT_EQ(parse_token(to_token(subject), "x"), subject);
  EXPECT_EQ(parse_case_json(to_json(subject), "x"), subject);
  EXPECT_NE(to_json(subject).find("\"fault\": \"pos-decode-offset:onset2:amount-1\""),
            std::string::npos);
}

TEST(CaseToken, with_a_fault_that_there_is_not_is_an_error) {
  const auto error = [](std::string_view fault) {
    return error_of(
        [&] { (void)parse_token(std::string(kToken) + ",fault=" + std::string(fault), "t"); });
  };
  constexpr std::string_view kUnknown =
      "t: unknown fault, expected an id that kvcheck faults --list shows, got ";
  EXPECT_EQ(error("pos-nowhere"), std::string(kUnknown) + "pos-nowhere");
  EXPECT_TRUE(error("").starts_with(kUnknown)) << error("");
  for (const std::string wrong : {"pos-decode-reset", "pos-decode-reset:onset9",
                                  "pos-decode-reset:layer0:onset1", "pos-decode-reset:onset1:"}) {
    EXPECT_EQ(error(wrong), "t: fault, expected as pos-decode-reset:onset1, got " + wrong);
  }
  // As many layers as no model has must not be counted through.
  EXPECT_EQ(error("rope-backwards:layer2147483647"), "no error");
  EXPECT_EQ(error("rope-backwards:layer-1"),
            "t: fault, expected as rope-backwards, got rope-backwards:layer-1");
}

TEST(CaseJson, is_an_object_of_strings) { EXPECT_EQ(to_json(sample()), kJson); }

TEST(CaseJson, is_read_as_it_was_written) { EXPECT_EQ(parse_case_json(kJson, "x"), sample()); }

TEST(CaseJson, notes_for_people_are_skipped) {
  const std::string text =
      replaced(std::string(kJson), {"\"version\": 1,", "\"version\": 1, \"outcomes\": [1, 2],"});
  EXPECT_EQ(parse_case_json(text, "x"), sample());
}

TEST(CaseJson, what_json_cannot_hold_is_encoded) {
  Case subject = sample();
  subject.model = "m\xff/50%";
  EXPECT_NE(to_json(subject).find("\"m%ff/50%25\""), std::string::npos) << to_json(subject);
  EXPECT_EQ(parse_case_json(to_json(subject), "x"), subject);
  subject.model = "gr\xc3\xbc\xc3\x9f";
  EXPECT_NE(to_json(subject).find("gr\xc3\xbc\xc3\x9f"), std::string::npos);
}

// An engine may fail before it is fed: such a case has no schedule, whatever its check.
TEST(CaseToken, of_a_failing_engine_needs_no_schedule) {
  for (const char* check : {"causality", "golden", "all-prefixes", "schedules", "accounting"}) {
    Case subject = sample();
    subject.check = check;
    subject.schedule.clear();
    EXPECT_EQ(parse_token(to_token(subject), "x"), subject);
  }
}

TEST(CaseToken, with_a_schedule_that_its_check_does_not_look_at_is_an_error) {
  const auto error = [](const char* check, Schedule schedule) {
    Case subject = sample();
    subject.check = check;
    subject.schedule = std::move(schedule);
    const std::string json = error_of([&] { (void)parse_case_json(to_json(subject), "f"); });
    std::string token = error_of([&] { (void)parse_token(to_token(subject), "f"); });
    EXPECT_EQ(json, token);
    return token;
  };
  for (const std::string check :
       {"corpus-prefixes", "all-prefixes", "exact", "contract", "noise", "golden"}) {
    EXPECT_EQ(error(check.c_str(), {1, 1, 1}), "no error");
    EXPECT_EQ(error(check.c_str(), {2, 1}),
              "f: schedule of " + check + ", expected feeds of one token, as 1+1, got 2+1");
  }
  EXPECT_EQ(error("causality", {1, 1, 1}), "f: schedule of causality, expected none, got 1+1+1");
  EXPECT_EQ(error("accounting", {3}), "no error");
}

// ---- Operations

Case operations_case() {
  Case subject = sample();
  subject.check = "operations";
  subject.siblings = false;
  subject.tokens.clear();
  subject.schedule.clear();
  subject.cache_kind = {.layout = CacheLayout::paged, .block = 2};
  subject.operations =
      parse_operations("open.feed:0x3.open.prompt:1@0x3+1.reorder:0-1@1-1.shift:0x1-2", "sample");
  return subject;
}

TEST(CaseToken, of_operations_has_them_instead_of_tokens) {
  EXPECT_EQ(to_token(operations_case()),
            "kv1:check=operations,model=gen:plain:7,sha256=0123abcd,engine=builtin,scalar=f64,"
            "arithmetic=row,cache=paged:2,policy=abs:1e-05,seed=18446744073709551615,"
            "operations=open.feed:0x3.open.prompt:1@0x3+1.reorder:0-1@1-1.shift:0x1-2");
}

TEST(CaseText, of_operations_is_read_as_it_was_written_for_every_kind_of_cache) {
  std::vector<CacheKind> kinds = cache_kinds();
  kinds.push_back({.layout = CacheLayout::paged, .block = kBlockRowsMax});
  for (const CacheKind& kind : kinds) {
    Case subject = operations_case();
    subject.cache_kind = kind;
    EXPECT_EQ(parse_token(to_token(subject), "x"), subject) << name(kind);
    EXPECT_EQ(parse_case_json(to_json(subject), "x"), subject) << name(kind);
  }
}

TEST(CaseText, with_a_field_of_the_other_kind_is_an_error) {
  const auto error = [](const std::string& token) {
    return error_of([&] { (void)parse_token(token, "token"); });
  };
  const std::string unknown = "token: unknown field, expected a field of a case, got ";
  for (const char* field : {"tokens=0", "schedule=1", "computed=alone"}) {
    const std::string key(field, std::string_view(field).find('='));
    EXPECT_EQ(error(to_token(operations_case()) + "," + field), unknown + key);
  }
  EXPECT_EQ(error(to_token(sample()) + ",operations=open"), unknown + "operations");
  EXPECT_EQ(
      error(replaced(to_token(sample()), {"check=schedules", std::string("check=operations")})),
      "token: missing field, expected operations, got nothing");
}

// ---- Every case there can be

std::string any_text() {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "a", "Z", "0", " ", ",", "=", "%", "\xc3\xa4", "\xe2\x82\xac", "/", ":", ".", "..", "'", "\"",
      "$x", "`", ";", "|", "&", "\\", "\n", "\t", "~", "*", "gen:", "%41", "\xff", "\xc3", "\x1b"));
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

Case any_case() {
  const auto wide = rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>());
  Case subject;
  subject.check = *rc::gen::element<std::string>("accounting", "schedules");
  subject.model = any_text();
  subject.model_hash = *rc::gen::element<std::string>("00000000", "deadbeef");
  subject.scalar = *rc::gen::element(ScalarKind::f32, ScalarKind::f64);
  subject.arithmetic = *rc::gen::element(Arithmetic::row, Arithmetic::matrix);
  subject.policy =
      *rc::gen::element<Policy>(Exact{}, AbsLimit{0}, AbsLimit{1e-5}, AbsLimit{0.1 + 0.2},
                                NoiseLimit{30}, NoiseLimit{1e300}, RelativeLimit{1e-12});
  subject.seed = *wide;
  subject.siblings = *rc::gen::arbitrary<bool>();
  subject.tokens = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(
      rc::gen::element(0, 1, 7, 42, 65535, std::numeric_limits<int>::max())));
  subject.schedule =
      *rc::gen::container<std::vector<int>>(rc::gen::element(1, 2, 3, 1'000'000'000));
  return subject;
}

RC_GTEST_PROP(CaseToken, every_case_is_read_as_it_was_written, ()) {
  const Case subject = any_case();
  RC_ASSERT(parse_token(to_token(subject), "x") == subject);
}

RC_GTEST_PROP(CaseJson, every_case_is_read_as_it_was_written, ()) {
  const Case subject = any_case();
  RC_ASSERT(parse_case_json(to_json(subject), "x") == subject);
}

RC_GTEST_PROP(CaseToken, holds_nothing_that_a_shell_would_touch, ()) {
  const std::string token = to_token(any_case());
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+:/=%,-";
  RC_ASSERT(token.find_first_not_of(kSafe) == std::string::npos);
}

// ---- Messages

std::string token_error(const std::string& from, const std::string& to) {
  const std::string token = replaced(std::string(kToken), {from, to});
  return error_of([&] { (void)parse_token(token, "token"); });
}

struct Wrong {
  const char* from;
  const char* to;
  const char* error;
};

constexpr Wrong kWrongTokens[] = {
    {"kv1:", "kv2:", "token version, expected kv1:, got kv2:"},
    {"kv1:", "", "token version, expected kv1:, got check=schedules,model=gen:"},
    {",engine=builtin", "", "missing field, expected engine, got nothing"},
    {",schedule=2+1", "", "missing field, expected schedule, got nothing"},
    {"check=schedules,", "", "missing field, expected check, got nothing"},
    {"engine=builtin", "engine=builtin,colour=red",
     "unknown field, expected a field of a case, got colour"},
    {"seed=", "seed=1,seed=", "repeated field, expected each once, got seed=18446744073709551615"},
    {"scalar=f64", "scalar", "token, expected KEY=VALUE, got scalar"},
    {"scalar=f64", "", "token, expected KEY=VALUE, got "},
    {"engine=builtin", "engine=exec:sh", "engine, expected builtin, got exec:sh"},
    {"scalar=f64", "scalar=f16", "scalar, expected f32 or f64, got f16"},
    {"arithmetic=row", "arithmetic=col", "arithmetic, expected row or matrix, got col"},
    {"cache=flat", "cache=heap",
     "unknown cache kind, expected flat, growing, ring, paged[:B], padded-left, padded-right, "
     "bf16, "
     "f16 or int8, got \"heap\""},
    {"abs:1e-05", "abs:-1", "limit, expected a finite number that is not negative, got -1"},
    {"abs:1e-05", "ulp", "policy, expected exact, abs:X or noise[:LIMIT], got ulp"},
    {"seed=1", "seed=x1", "seed, expected a whole number, got x18446744073709551615"},
    {"seed=18446744073709551615", "seed=18446744073709551616",
     "seed, expected a whole number, got 18446744073709551616"},
    {"seed=18446744073709551615", "seed=", "seed, expected a whole number, got "},
    {"seed=18446744073709551615", "seed=-1", "seed, expected a whole number, got -1"},
    {"computed=siblings", "computed=both", "computed, expected siblings, got both"},
    {"tokens=0.2.4", "tokens=0..4", "tokens, expected a whole number, got "},
    {"tokens=0.2.4", "tokens=", "tokens, expected a whole number, got "},
    {"tokens=0.2.4", "tokens=0.2.", "tokens, expected a whole number, got "},
    {"tokens=0.2.4", "tokens=0.2x", "tokens, expected a whole number, got 2x"},
    {"tokens=0.2.4", "tokens=99999999999", "tokens, expected a whole number, got 99999999999"},
    {"2+1", "2+0", "schedule, expected feed lengths joined by +, as 2+1, got 2+0"},
    {"plain:7", "plain%2", "percent-encoding, expected two hex digits, got 2"},
    {"plain:7", "plain%2x", "percent-encoding, expected two hex digits, got 2x"},
    {"plain:7", "plain%-1", "percent-encoding, expected two hex digits, got -1"},
    {"2+1", "2+1%", "percent-encoding, expected two hex digits, got "},
};

TEST(CaseToken, every_mistake_has_its_message) {
  for (const Wrong& wrong : kWrongTokens) {
    EXPECT_EQ(token_error(wrong.from, wrong.to), std::string("token: ") + wrong.error)
        << wrong.from << " -> " << wrong.to;
  }
}

TEST(CaseToken, texts_that_are_no_tokens_have_no_version) {
  EXPECT_EQ(error_of([] { (void)parse_token("", "token"); }),
            "token: token version, expected kv1:, got ");
  EXPECT_EQ(error_of([] { (void)parse_token("kv1:", "token"); }),
            "token: missing field, expected check, got nothing");
}

constexpr Wrong kWrongJson[] = {
    {"\"version\": 1,", "", "case version, expected 1, got nothing"},
    {"\"version\": 1,", "\"version\": 2,", "case version, expected 1, got 2"},
    {"\"version\": 1,", "\"version\": \"1\",", "case version, expected 1, got \"1\""},
    {"\"18446744073709551615\"", "18446744073709551615",
     "seed, expected a string, got 18446744073709551615"},
    {"\"0.2.4\"", "[0, 2, 4]", "tokens, expected a string, got [0,2,4]"},
    {"\"cache\"", "\"cash\"", "missing field, expected cache, got nothing"},
    {"\"cache\"", "\"colour\": \"red\", \"cache\"",
     "unknown field, expected a field of a case, got colour"},
    {"\"f64\"", "\"f16\"", "scalar, expected f32 or f64, got f16"},
    {"\"cache\"", "\"seed\": \"1\", \"cache\"", "key \"seed\", expected it once, got it again"},
};

TEST(CaseJson, every_mistake_has_its_message) {
  for (const Wrong& wrong : kWrongJson) {
    const std::string text = replaced(std::string(kJson), {wrong.from, wrong.to});
    EXPECT_EQ(error_of([&] { (void)parse_case_json(text, "case.json"); }),
              std::string("case.json: ") + wrong.error)
        << wrong.from << " -> " << wrong.to;
  }
  EXPECT_EQ(error_of([] { (void)parse_case_json("[]", "case.json"); }),
            "case.json: case, expected an object, got []");
}

TEST(CaseJson, percent_signs_mean_what_they_mean_in_a_token) {
  const auto with = [](const std::string& model) {
    return replaced(std::string(kJson), {"gen:plain:7", model});
  };
  EXPECT_EQ(parse_case_json(with("a%20b"), "x").model, "a b");
  EXPECT_EQ(error_of([&] { (void)parse_case_json(with("50%"), "x"); }),
            "x: percent-encoding, expected two hex digits, got ");
}

}  // namespace
}  // namespace kvcheck
