// SPDX-License-Identifier: MIT
// SHA-256, by which a report names the exact weights that it is about.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX, kept out of every file that includes this one

namespace kvcheck {

class Sha256 {
 public:
  Sha256();

  void add(std::span<const std::byte> bytes);
  // 64 lower-case hex digits over everything added so far; adding may go on afterwards.
  [[nodiscard]] std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_md_ctx_st, Free>;

  static Context new_context();

  Context context_;
};

[[nodiscard]] std::string sha256(std::span<const std::byte> bytes);

}  // namespace kvcheck
