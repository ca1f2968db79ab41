// SPDX-License-Identifier: MIT
// The source tree as texts, for the tests that check rules of the tree itself.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvcheck::tidy {

inline constexpr std::array<std::string_view, 5> kFolders{"engine", "verify", "properties",
                                                          "fixtures", "reports"};

// A file of the tree; the path starts at the root of the repository.
struct File {
  std::string path;
  std::string text;
};
using Files = std::vector<File>;

// Each begins with "path:line: ".
using Complaints = std::vector<std::string>;

inline std::string complaint(const File& file, size_t line, std::string_view what) {
  return file.path + ":" + std::to_string(line) + ": " + std::string(what);
}

inline bool is_cpp(const File& file) { return file.path.ends_with(".cpp"); }
inline bool is_header(const File& file) { return file.path.ends_with(".h"); }
inline bool is_source(const File& file) { return is_cpp(file) || is_header(file); }

// "engine" of "engine/ops.h", "ops" of "engine/ops.h".
inline std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }
inline std::string stem_of(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

inline bool contains_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool starts = at == 0 || !is_word_character(text[at - 1]);
    if (starts && (end == text.size() || !is_word_character(text[end]))) return true;
  }
  return false;
}

// The sources of all folders and the build files at the top.
inline const Files& tree() {
  static const Files kTree = [] {
    const std::filesystem::path root = KVCHECK_SOURCE_DIR;
    const std::set<std::string> extensions{".h", ".cpp", ".py", ".sh"};
    std::vector<std::filesystem::path> paths{"CMakeLists.txt", "CMakePresets.json", "Makefile",
                                             ".ci/run", ".ci/setup"};
    for (const std::string_view folder : kFolders) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
        if (extensions.count(entry.path().extension().string()) != 0) {
          paths.push_back(std::filesystem::relative(entry.path(), root));
        }
      }
    }
    Files files;
    for (const std::filesystem::path& path : paths) {
      std::ostringstream text;
      text << std::ifstream(root / path).rdbuf();
      files.push_back({path.generic_string(), text.str()});
    }
    return files;
  }();
  return kTree;
}

// All complaints of a check about those files of the tree that it is meant for.
template <typename Check, typename Filter>
Complaints complaints_of(Check check, Filter is_meant) {
  Complaints all;
  size_t count = 0;
  for (const File& file : tree()) {
    if (!is_meant(file)) continue;
    ++count;
    for (std::string& text : check(file)) all.push_back(std::move(text));
  }
  EXPECT_GT(count, 0U) << "nothing was looked at";
  return all;
}

}  // namespace kvcheck::tidy
