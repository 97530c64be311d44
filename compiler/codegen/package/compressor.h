// Deflate (RFC 1951), bare as zip archives have it or as a .gz.
#pragma once
#include <functional>
#include <memory>
#include <string_view>

namespace metac {

class Compressor {
 public:
  enum class Form { bare, gzip };
  // What is compressed goes to `sink`, piece by piece.
  Compressor(Form form, std::function<void(std::string_view)> sink);
  ~Compressor();
  void write(std::string_view bytes);
  void finish();

 private:
  void deflate(int flush);

  struct Stream;
  std::unique_ptr<Stream> stream_;
  std::function<void(std::string_view)> sink_;
};

}  // namespace metac
