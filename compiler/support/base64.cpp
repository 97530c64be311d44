#include "compiler/support/base64.h"

#include <openssl/evp.h>

namespace metac {

// libcrypto counts in int: blocks of a size that both alphabets divide keep large tensors below that.
constexpr size_t bytes_per_block = 3 << 20, letters_per_block = 4 << 20;

std::string to_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends what it writes with a NUL
  size_t written = 0;
  for (size_t i = 0; i < bytes.size(); i += bytes_per_block) {
    std::string_view block = bytes.substr(i, bytes_per_block);
    written += EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data() + written),
                               reinterpret_cast<const unsigned char*>(block.data()), static_cast<int>(block.size()));
  }
  out.resize(written);
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  // EVP_DecodeBlock skips blanks and takes '=' anywhere; neither belongs here.
  if (text.find_first_of(" \t\r\n\v\f=") < text.size() - padding) return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  size_t written = 0;
  for (size_t i = 0; i < text.size(); i += letters_per_block) {
    std::string_view block = text.substr(i, letters_per_block);
    int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data() + written),
                            reinterpret_cast<const unsigned char*>(block.data()), static_cast<int>(block.size()));
    if (n < 0) return std::nullopt;
    written += n;
  }
  out.resize(written - padding);
  return out;
}

}  // namespace metac
