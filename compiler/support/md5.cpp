#include "compiler/support/md5.h"

#include <openssl/md5.h>

#include "compiler/support/diagnostic.h"
#include "compiler/support/hex.h"

namespace metac {

struct Md5::Context {
  MD5_CTX state;
};

Md5::Md5() : context_(std::make_unique<Context>()) {
  if (MD5_Init(&context_->state) != 1) fail("libcrypto offers no MD5");
}

Md5::~Md5() = default;

void Md5::update(std::string_view bytes) {
  if (MD5_Update(&context_->state, bytes.data(), bytes.size()) != 1) fail("libcrypto failed to hash");
}

std::string Md5::hex() {
  unsigned char digest[MD5_DIGEST_LENGTH];
  if (MD5_Final(digest, &context_->state) != 1) fail("libcrypto failed to hash");
  return hex_of(digest, sizeof digest);
}

}  // namespace metac
