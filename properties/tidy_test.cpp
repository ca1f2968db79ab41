// SPDX-License-Identifier: MIT
// The rules of the source tree that no compiler checks: lengths, include direction, the
// independence of the oracle, headings, dead files. Every check is a pure function over texts and
// is itself shown a text that it must reject.

#include "properties/tidy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvcheck::tidy {
namespace {

using std::string;
using std::string_view;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

constexpr size_t kColumnsMax = 100;

// In pieces, so that this file does not complain about itself.
const string kToDo = string("TO") + "DO";
const string kFixMe = string("FIX") + "ME";
const string kThreeX(3, 'X');
const string kDisabled = string("DISABLED") + "_";
const string kFastMath = string("fast") + "-math";

// Of the oracles' own words none may come from the cache.
constexpr std::array<string_view, 2> kOracles{"engine/uncached", "engine/logged"};
constexpr std::array<string_view, 3> kCacheHeaders{"engine/kv_cache.h", "engine/cached.h",
                                                   "engine/step_plan.h"};

// One complaint for each line that `is_bad`.
template <typename Predicate>
Complaints lines_where(const File& file, string_view what, Predicate is_bad) {
  Complaints complaints;
  const auto lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_bad(lines[i])) complaints.push_back(complaint(file, i + 1, what));
  }
  return complaints;
}

// ---- Lines and words

Complaints long_lines(const File& file) {
  return lines_where(file, "more than 100 columns", [](const string& line) {
    // UTF-8: every byte that does not continue a character is one column.
    const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    return static_cast<size_t>(std::count_if(line.begin(), line.end(), begins)) > kColumnsMax;
  });
}

Complaints unfinished_places(const File& file) {
  return lines_where(file, "unfinished", [](const string& line) {
    return contains_word(line, kToDo) || contains_word(line, kFixMe) ||
           contains_word(line, kThreeX);
  });
}

Complaints disabled_tests(const File& file) {
  return lines_where(file, "a disabled test",
                     [](const string& line) { return line.find(kDisabled) != line.npos; });
}

// A test is compiled without optimisation: what it instantiates of them, the libraries would use
// too.
Complaints kernels_in_tests(const File& file) {
  if (!file.path.ends_with("_test.cpp") && !file.path.ends_with("_properties.cpp")) return {};
  return lines_where(file, "bodies of templates in a test", [](const string& line) {
    return line.starts_with("#include") && line.find("_impl.h\"") != line.npos;
  });
}

Complaints inexact_flags(const File& file) {
  return lines_where(file, "a flag that changes arithmetic", [](const string& line) {
    return line.find(kFastMath) != line.npos || line.find("unsafe-math") != line.npos ||
           contains_word(line, "Ofast");
  });
}

// ---- The beginning of a file

Complaints missing_heading(const File& file) {
  auto lines = lines_of(file.text);
  if (!lines.empty() && lines[0].starts_with("#!")) lines.erase(lines.begin());
  const string mark = is_source(file) ? "//" : "#";
  const string licence = mark + " SPDX-License-Identifier: MIT";
  if (lines.empty() || lines[0] != licence) return {complaint(file, 1, "expected " + licence)};
  const bool has_purpose = lines.size() > 1 && (lines[1].starts_with(mark + " ") ||
                                                (mark == "#" && lines[1].starts_with("\"\"\"")));
  if (!has_purpose) return {complaint(file, 2, "expected a comment that tells the purpose")};
  return {};
}

Complaints missing_pragma_once(const File& file) {
  for (const string& line : lines_of(file.text)) {
    if (line == "#pragma once") return {};
  }
  return {complaint(file, 1, "a header without #pragma once")};
}

// ---- Includes

struct Include {
  size_t line;
  string path;
  bool quoted;
};

std::vector<Include> includes_of(const File& file) {
  std::vector<Include> includes;
  const auto lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with("#include")) continue;
    const size_t begin = lines[i].find_first_of("\"<");
    if (begin == string::npos) continue;
    const size_t end = lines[i].find_first_of("\">", begin + 1);
    if (end == string::npos) continue;
    includes.push_back(
        {i + 1, lines[i].substr(begin + 1, end - begin - 1), lines[i][begin] == '"'});
  }
  return includes;
}

// The folders that a file may not include: arrows point from the engine outwards.
std::set<string> folders_closed_to(const string& path) {
  const string folder = folder_of(path);
  const string stem = stem_of(path);
  if (folder == "engine") return {"verify", "reports", "properties"};
  if (folder == "verify" && !stem.starts_with("cli") && stem != "main") {
    return {"reports", "properties"};
  }
  if (folder == "reports") return {"properties", "fixtures"};
  return {};
}

Complaints wrong_includes(const File& file) {
  Complaints complaints;
  const auto closed = folders_closed_to(file.path);
  for (const Include& include : includes_of(file)) {
    const string folder = folder_of(include.path);
    const bool ours = std::find(kFolders.begin(), kFolders.end(), folder) != kFolders.end();
    if (include.quoted && !ours) {
      complaints.push_back(complaint(file, include.line, "not a path from the root"));
    }
    if (closed.count(folder) != 0) {
      complaints.push_back(complaint(file, include.line, "includes " + include.path));
    }
  }
  return complaints;
}

// Everything that the oracles include, directly or through other headers of the project.
Complaints oracle_using_cache(const Files& files) {
  std::map<string, const File*> by_path;
  for (const File& file : files) by_path[file.path] = &file;
  std::vector<string> open;
  Complaints complaints;
  for (const string_view oracle : kOracles) {
    const string source = string(oracle) + ".cpp";
    if (by_path.count(source) == 0) complaints.push_back(source + ":1: there is no oracle");
    open.insert(open.end(), {source, string(oracle) + ".h"});
  }
  std::set<string> seen(open.begin(), open.end());
  while (!open.empty()) {
    const auto file = by_path.find(open.back());
    open.pop_back();
    if (file == by_path.end()) continue;
    for (const Include& include : includes_of(*file->second)) {
      const auto& headers = kCacheHeaders;
      if (std::find(headers.begin(), headers.end(), include.path) != headers.end()) {
        complaints.push_back(
            complaint(*file->second, include.line, "brings " + include.path + " into the oracle"));
      }
      if (seen.insert(include.path).second) open.push_back(include.path);
    }
  }
  return complaints;
}

// ---- Dead files

Complaints headers_nobody_includes(const Files& files) {
  std::set<string> included;
  for (const File& file : files) {
    for (const Include& include : includes_of(file)) {
      if (include.path != file.path) included.insert(include.path);
    }
  }
  Complaints complaints;
  for (const File& file : files) {
    if (is_header(file) && included.count(file.path) == 0) {
      complaints.push_back(complaint(file, 1, "nobody includes it"));
    }
  }
  return complaints;
}

Complaints sources_not_built(const Files& files, const std::set<string>& built) {
  Complaints complaints;
  for (const File& file : files) {
    if (is_cpp(file) && built.count(file.path) == 0) {
      complaints.push_back(complaint(file, 1, "no target of CMakeLists.txt compiles it"));
    }
  }
  return complaints;
}

// A test stands beside the code it tests, or a part of it: x_test.cpp and x_topic_test.cpp beside
// x.h or x.cpp. Properties and fixtures speak about other folders.
Complaints tests_of_nothing(const Files& files) {
  std::set<string> paths;
  for (const File& file : files) paths.insert(file.path);
  Complaints complaints;
  for (const File& file : files) {
    const string folder = folder_of(file.path);
    if (!file.path.ends_with("_test.cpp") || folder == "properties" || folder == "fixtures") {
      continue;
    }
    string tested = file.path;
    bool found = false;
    while (!found && tested.find('_') != string::npos) {
      tested = tested.substr(0, tested.rfind('_'));
      found = paths.count(tested + ".h") > 0 || paths.count(tested + ".cpp") > 0;
    }
    if (!found) {
      complaints.push_back(complaint(file, 1, "neither its .h nor its .cpp stands beside it"));
    }
  }
  return complaints;
}

// The type that a line begins to define outside of all others; empty if none. What stands in <>
// is a case of a template.
string type_defined_in(const string& line) {
  static const std::regex kType(
      "^(?:struct|class|enum|enum class|enum struct) (?:\\[\\[.*\\]\\] |alignas\\(.*\\) "
      ")?(\\w+)(?: final)?(?: :[^;]*)?(?: \\{.*)?$");
  std::smatch found;
  return std::regex_match(line, found, kType) ? found[1].str() : "";
}

// Two types of one name in headers make what templates do with one of them be done with the other:
// no compiler and no linker tells.
Complaints types_of_one_name(const Files& files) {
  std::map<string, string> first;
  Complaints complaints;
  for (const File& file : files) {
    if (!is_header(file)) continue;
    const auto lines = lines_of(file.text);
    for (size_t i = 0; i < lines.size(); ++i) {
      const string type = type_defined_in(lines[i]);
      if (type.empty()) continue;
      const auto [known, is_new] = first.emplace(type, file.path);
      if (!is_new) complaints.push_back(complaint(file, i + 1, type + " is in " + known->second));
    }
  }
  return complaints;
}

bool is_any(const File&) { return true; }
bool is_data(const File& file) { return file.path.ends_with(".json"); }
bool is_build_file(const File& file) {
  return !is_source(file) && !file.path.ends_with(".py") && !file.path.ends_with(".sh");
}

std::set<string> built_sources() {
  std::ifstream stream(KVCHECK_BINARY_DIR "/compile_commands.json");
  std::set<string> sources;
  for (const auto& command : nlohmann::json::parse(stream)) {
    const fs::path file = command.at("file").get<string>();
    sources.insert(fs::relative(file, KVCHECK_SOURCE_DIR).generic_string());
  }
  return sources;
}

TEST(Tidy, lines_fit) { EXPECT_THAT(complaints_of(long_lines, is_any), IsEmpty()); }
TEST(Tidy, includes_point_one_way) {
  EXPECT_THAT(complaints_of(wrong_includes, is_source), IsEmpty());
}
TEST(Tidy, oracle_knows_no_cache) { EXPECT_THAT(oracle_using_cache(tree()), IsEmpty()); }
TEST(Tidy, files_have_licence_and_purpose) {
  EXPECT_THAT(complaints_of(missing_heading, [](const File& file) { return !is_data(file); }),
              IsEmpty());
}
TEST(Tidy, nothing_is_unfinished) {
  EXPECT_THAT(complaints_of(unfinished_places, is_any), IsEmpty());
}
TEST(Tidy, arithmetic_is_exact) {
  EXPECT_THAT(complaints_of(inexact_flags, is_build_file), IsEmpty());
}
TEST(Tidy, no_test_is_disabled) { EXPECT_THAT(complaints_of(disabled_tests, is_cpp), IsEmpty()); }
TEST(Tidy, tests_leave_kernels_to_the_libraries) {
  EXPECT_THAT(complaints_of(kernels_in_tests, is_cpp), IsEmpty());
}
TEST(Tidy, headers_are_guarded) {
  EXPECT_THAT(complaints_of(missing_pragma_once, is_header), IsEmpty());
}
TEST(Tidy, tests_stand_beside_their_code) { EXPECT_THAT(tests_of_nothing(tree()), IsEmpty()); }
TEST(Tidy, headers_are_included) { EXPECT_THAT(headers_nobody_includes(tree()), IsEmpty()); }
TEST(Tidy, types_have_names_of_their_own) { EXPECT_THAT(types_of_one_name(tree()), IsEmpty()); }
TEST(Tidy, sources_are_built) {
  EXPECT_THAT(sources_not_built(tree(), built_sources()), IsEmpty());
}

// ---- The checks themselves: each finds what was planted

const string kHeading = "// SPDX-License-Identifier: MIT\n// Purpose.\n";

TEST(TidyChecks, long_line) {
  const string spaces(98, ' ');
  EXPECT_THAT(long_lines({"a.h", spaces + "ab\n" + spaces + "ää"}), IsEmpty());
  EXPECT_THAT(long_lines({"a.h", "\n" + spaces + "abc"}),
              ElementsAre("a.h:2: more than 100 columns"));
}

TEST(TidyChecks, wrong_include) {
  const auto complaints_about = [](const string& path, const string& include) {
    return wrong_includes({path, "#pragma once\n#include " + include + "\n"});
  };
  EXPECT_THAT(complaints_about("engine/a.h", "\"verify/b.h\""),
              ElementsAre("engine/a.h:2: includes verify/b.h"));
  EXPECT_THAT(complaints_about("engine/a.h", "<reports/b.h>"), Not(IsEmpty()));
  EXPECT_THAT(complaints_about("engine/a.h", "\"b.h\""), Not(IsEmpty()));
  EXPECT_THAT(complaints_about("verify/a.cpp", "\"reports/b.h\""), Not(IsEmpty()));
  EXPECT_THAT(complaints_about("verify/a.cpp", "\"properties/b.h\""), Not(IsEmpty()));
  EXPECT_THAT(complaints_about("reports/a.cpp", "\"properties/b.h\""), Not(IsEmpty()));
  EXPECT_THAT(complaints_about("reports/a.cpp", "\"verify/b.h\""), IsEmpty());
  EXPECT_THAT(complaints_about("verify/cli_run.cpp", "\"reports/b.h\""), IsEmpty());
  EXPECT_THAT(complaints_about("verify/main.cpp", "\"reports/b.h\""), IsEmpty());
}

TEST(TidyChecks, cache_in_the_oracle) {
  const File plain{"engine/uncached.cpp", "#include \"engine/ops.h\"\n"};
  const File logged{"engine/logged.cpp", "#include \"engine/logged.h\"\n"};
  const File ops{"engine/ops.h", "#include <vector>\n"};
  EXPECT_THAT(oracle_using_cache({plain, logged, ops}), IsEmpty());
  EXPECT_THAT(
      oracle_using_cache({plain, logged, {"engine/ops.h", "#include \"engine/cached.h\"\n"}}),
      ElementsAre("engine/ops.h:1: brings engine/cached.h into the oracle"));
  const File header{"engine/logged.h", "#include \"engine/step_plan.h\"\n"};
  EXPECT_THAT(oracle_using_cache({plain, logged, ops, header}),
              ElementsAre("engine/logged.h:1: brings engine/step_plan.h into the oracle"));
  EXPECT_THAT(oracle_using_cache({plain, ops}),
              ElementsAre("engine/logged.cpp:1: there is no oracle"));
  EXPECT_THAT(oracle_using_cache({logged, ops}),
              ElementsAre("engine/uncached.cpp:1: there is no oracle"));
}

TEST(TidyChecks, missing_heading) {
  EXPECT_THAT(missing_heading({"a.h", kHeading}), IsEmpty());
  EXPECT_THAT(missing_heading({"a.py",
                               "#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\n"
                               "\"\"\"Purpose.\"\"\"\n"}),
              IsEmpty());
  EXPECT_THAT(missing_heading({"a.h", ""}), Not(IsEmpty()));
  EXPECT_THAT(missing_heading({"a.h", "#pragma once\n"}), Not(IsEmpty()));
  EXPECT_THAT(missing_heading({"a.h", "// SPDX-License-Identifier: MIT\n\n#pragma once\n"}),
              ElementsAre("a.h:2: expected a comment that tells the purpose"));
}

TEST(TidyChecks, unwanted_words) {
  for (const string& word : {kToDo, kFixMe, kThreeX}) {
    EXPECT_THAT(unfinished_places({"a.h", "mktemp XXXXXX\n// " + word + ": more\n"}),
                ElementsAre("a.h:2: unfinished"));
  }
  EXPECT_THAT(disabled_tests({"a.cpp", "TEST(Suite, " + kDisabled + "name) {}\n"}), Not(IsEmpty()));
  EXPECT_THAT(kernels_in_tests({"engine/a_test.cpp", "#include \"engine/ops_impl.h\"\n"}),
              Not(IsEmpty()));
  EXPECT_THAT(inexact_flags({"CMakeLists.txt", "add_compile_options(-f" + kFastMath + ")\n"}),
              Not(IsEmpty()));
  EXPECT_THAT(missing_pragma_once({"a.h", kHeading}), Not(IsEmpty()));
}

TEST(TidyChecks, types_of_one_name) {
  const File one{"engine/a.h", "struct Shape {\n  struct Inner {};\n};\nclass Other;\n"};
  for (const char* text : {"struct Shape {};\n", "class Shape final : public Other {\n",
                           "enum class Shape : std::uint8_t { a, b };\n", "struct Shape\n",
                           "struct alignas(64) Shape {\n", "class [[nodiscard]] Shape {\n"}) {
    EXPECT_THAT(types_of_one_name({one, {"verify/b.h", text}}),
                ElementsAre("verify/b.h:1: Shape is in engine/a.h"))
        << text;
  }
  for (const char* text : {"class Shape;\n", "struct Shape<float> {\n", "  struct Shape {\n",
                           "struct Inner {\n", "class Other {\n"}) {
    EXPECT_THAT(types_of_one_name({one, {"verify/b.h", text}}), IsEmpty()) << text;
  }
  EXPECT_THAT(types_of_one_name({one, {"verify/b.cpp", "struct Shape {};\n"}}), IsEmpty());
}

TEST(TidyChecks, dead_files) {
  const File header{"engine/a.h", "#include \"engine/a.h\"\n"};
  EXPECT_THAT(headers_nobody_includes({header}), ElementsAre("engine/a.h:1: nobody includes it"));
  EXPECT_THAT(headers_nobody_includes({header, {"engine/a.cpp", "#include \"engine/a.h\"\n"}}),
              IsEmpty());
  EXPECT_THAT(sources_not_built({{"engine/a.cpp", ""}, {"engine/b.cpp", ""}}, {"engine/a.cpp"}),
              ElementsAre(HasSubstr("engine/b.cpp:1:")));
  EXPECT_THAT(tests_of_nothing({{"engine/a_test.cpp", ""}}), Not(IsEmpty()));
  EXPECT_THAT(tests_of_nothing({{"engine/a_test.cpp", ""}, header}), IsEmpty());
  EXPECT_THAT(tests_of_nothing({{"engine/a_topic_test.cpp", ""}, header}), IsEmpty());
  EXPECT_THAT(tests_of_nothing({{"engine/topic_a_test.cpp", ""}, header}), Not(IsEmpty()));
}

}  // namespace
}  // namespace kvcheck::tidy
