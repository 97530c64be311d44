// SHA-256 of model files, weights and cache keys (through libcrypto).
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace metac {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256& update(std::string_view bytes);
  // Prefixes the bytes with their length, so that ("ab", "c") and ("a", "bc") differ: for keys made of several parts.
  Sha256& update_part(std::string_view part);
  std::string hex();  // 64 lower-case digits; ends the computation

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace metac
