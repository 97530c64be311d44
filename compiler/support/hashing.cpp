#include "compiler/support/hashing.h"

#include <openssl/evp.h>

#include "compiler/support/diagnostic.h"

namespace metac {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (!context_->evp || EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) != 1) fail("libcrypto offers no SHA-256");
}

Sha256::~Sha256() = default;

Sha256& Sha256::update(std::string_view bytes) {
  if (EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) != 1) fail("libcrypto failed to hash");
  return *this;
}

Sha256& Sha256::update_part(std::string_view part) {
  update(std::to_string(part.size()));
  update(":");
  return update(part);
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context_->evp, digest, &size) != 1) fail("libcrypto failed to hash");
  std::string out;
  for (unsigned i = 0; i < size; ++i) {
    out += "0123456789abcdef"[digest[i] >> 4];
    out += "0123456789abcdef"[digest[i] & 15];
  }
  return out;
}

std::string sha256_hex(std::string_view bytes) { return Sha256().update(bytes).hex(); }

}  // namespace metac
