// SPDX-License-Identifier: MIT
// SHA-256 by OpenSSL.
#include "engine/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "engine/error.h"

namespace kvcheck {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Context Sha256::new_context() {
  Context context(EVP_MD_CTX_new());
  require(context != nullptr, "OpenSSL gives no digest context");
  return context;
}

Sha256::Sha256() : context_(new_context()) {
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
          "OpenSSL refuses to begin a SHA-256");
}

void Sha256::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
          "OpenSSL refuses to go on with a SHA-256");
}

std::string Sha256::hex() const {
  // Finishing spoils a context, so a copy is finished.
  const Context copy = new_context();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  require(EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1 &&
              EVP_DigestFinal_ex(copy.get(), digest.data(), &size) == 1 && size == 32,
          "OpenSSL refuses to finish a SHA-256");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

}  // namespace kvcheck
