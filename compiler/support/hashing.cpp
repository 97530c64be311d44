#include "compiler/support/hashing.h"

// Its functions need no memory; the newer EVP_* set libcrypto up, and where there is no memory for that they crash.
#include <openssl/sha.h>

#include "compiler/support/diagnostic.h"
#include "compiler/support/hex.h"

namespace metac {

struct Sha256::Context {
  SHA256_CTX state;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (SHA256_Init(&context_->state) != 1) fail("libcrypto offers no SHA-256");
}

Sha256::~Sha256() = default;

Sha256& Sha256::update(std::string_view bytes) {
  if (SHA256_Update(&context_->state, bytes.data(), bytes.size()) != 1) fail("libcrypto failed to hash");
  return *this;
}

Sha256& Sha256::update_part(std::string_view part) {
  update(std::to_string(part.size()));
  update(":");
  return update(part);
}

std::string Sha256::hex() {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  if (SHA256_Final(digest, &context_->state) != 1) fail("libcrypto failed to hash");
  return hex_of(digest, sizeof digest);
}

std::string sha256_hex(std::string_view bytes) { return Sha256().update(bytes).hex(); }

}  // namespace metac
