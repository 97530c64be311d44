// MD5, where a format asks for it (sums of files in Debian packages); against damage, not against anybody.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace metac {

class Md5 {
 public:
  Md5();
  ~Md5();
  void update(std::string_view bytes);
  std::string hex();  // 32 lower-case digits; ends the computation

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace metac
