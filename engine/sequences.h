// SPDX-License-Identifier: MIT
// Token sequences: how many there are, and as text, one a line, ids or words separated by blanks. A
// byte order mark before the first line, as some editors write it, is skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvcheck {

// Blank lines and lines that begin with "# " are skipped. `words` is [vocabulary_size], or empty
// where the model has none. An unknown word, an id that is not one of 0..vocabulary_size - 1, and a
// text without any sequence are Errors that name `where` and the line; so is a sequence of more
// than `length_max` tokens.
[[nodiscard]] std::vector<std::vector<int>> parse_sequences(
    std::string_view text, std::string_view where, std::span<const std::string> words,
    int vocabulary_size, std::size_t length_max = std::numeric_limits<std::size_t>::max());

// One word a line, exactly `vocabulary_size` different ones without blanks. Whole numbers and "#"
// are no words: a sequence could not tell them from an id and from a comment.
[[nodiscard]] std::vector<std::string> parse_words(std::string_view text, std::string_view where,
                                                   int vocabulary_size);

// The tokens of another program's vocabulary as words: those that parse_words() would refuse, and
// those that were there before, become "<#ID>".
[[nodiscard]] std::vector<std::string> plain_words(std::span<const std::string_view> tokens);

// Number of sequences of length 1 .. context over the vocabulary; saturates at the largest 64-bit
// number.
[[nodiscard]] std::int64_t count_all_prefixes(int vocabulary, int context);

// "0 2 4"
[[nodiscard]] std::string join_tokens(std::span<const int> tokens);

}  // namespace kvcheck
