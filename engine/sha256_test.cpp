// SPDX-License-Identifier: MIT
// Digests are those of the standard, however the bytes arrive.
#include "engine/sha256.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace kvcheck {
namespace {

std::string of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

// The examples of FIPS 180-4.
TEST(Sha256, gives_the_digests_of_the_standard) {
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, goes_on_after_a_digest_was_read) {
  Sha256 hash;
  EXPECT_EQ(hash.hex(), of(""));
  hash.add(std::as_bytes(std::span("abc", 3)));
  EXPECT_EQ(hash.hex(), of("abc"));
  EXPECT_EQ(hash.hex(), of("abc"));
  hash.add(std::as_bytes(std::span("d", 1)));
  EXPECT_EQ(hash.hex(), of("abcd"));
}

RC_GTEST_PROP(Sha256, does_not_depend_on_how_the_bytes_are_cut,
              (const std::vector<std::string>& parts)) {
  Sha256 hash;
  std::string whole;
  for (const std::string& part : parts) {
    hash.add(std::as_bytes(std::span(part)));
    whole += part;
  }
  RC_ASSERT(hash.hex() == of(whole));
}

}  // namespace
}  // namespace kvcheck
