// What the trainer does not decode itself: deflated data (.gz, compressed .npz) and pictures (JPEG, PNG, BMP), by Sean
// Barrett's stb_image (public domain or MIT, the text stands at its end). metac embeds Debian's libstb-dev at its build; a
// metac that was built without it makes trainers that say so.
#pragma once
#include <climits>
#include <memory>
#include <vector>

#include "../fault.h"
#include "../record/crc32.h"

#if __has_include("../third_party/stb_image.h")
#define METAC_STB_IMAGE "../third_party/stb_image.h"
#elif __has_include(<stb/stb_image.h>)
#define METAC_STB_IMAGE <stb/stb_image.h>
#endif

#ifdef METAC_STB_IMAGE
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_PSD
#define STBI_NO_PIC
#define STBI_NO_TGA
#define STBI_NO_GIF
#define STBI_NO_PNM
#define STBI_MAX_DIMENSIONS 32768
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#include METAC_STB_IMAGE
#pragma GCC diagnostic pop
#endif

namespace metac::train {

// The inflated bytes of a deflate stream whose inflated size is known. The decoder wants to see bytes behind the stream's
// last code: at least 4 must follow (in archives and .gz files checksums do). `what` is for messages.
inline std::vector<char> inflate(const char* data, size_t size, size_t whole_size, const std::string& what) {
#ifdef METAC_STB_IMAGE
  if (size > INT_MAX - 4 || whole_size > INT_MAX) fail(what, ": more than 2 GiB compressed; store it uncompressed");
  std::vector<char> whole(whole_size + 1);
  const int got =
      stbi_zlib_decode_noheader_buffer(whole.data(), static_cast<int>(whole_size), data, static_cast<int>(size) + 4);
  if (got < 0 || static_cast<size_t>(got) != whole_size) fail(what, ": the compressed data are damaged");
  whole.resize(whole_size);
  return whole;
#else
  (void)data, (void)size, (void)whole_size;
  fail(what,
       " is compressed, and this program was made by a metac built without a decoder (libstb-dev); uncompress it first");
#endif
}

// A file that gzip wrote.
inline std::vector<char> gunzip(const char* data, size_t size, const std::string& what) {
  const unsigned char* u = reinterpret_cast<const unsigned char*>(data);
  auto four = [&](size_t at) { return u[at] | u[at + 1] << 8 | u[at + 2] << 16 | static_cast<uint32_t>(u[at + 3]) << 24; };
  if (size < 18 || u[0] != 0x1f || u[1] != 0x8b || u[2] != 8) fail(what, ": no gzip file");
  size_t at = 10;
  const unsigned flags = u[3];
  if ((flags & 4) != 0) at += 2 + static_cast<size_t>(u[at] | u[at + 1] << 8);
  for (const unsigned text : {8u, 16u}) {  // name, comment
    if ((flags & text) == 0) continue;
    while (at < size && u[at] != 0) ++at;
    ++at;
  }
  if ((flags & 2) != 0) at += 2;
  if (at + 8 > size) fail(what, ": the gzip file is cut short");
  const uint32_t whole_size = four(size - 4);
  if (whole_size / 1032 > size) fail(what, ": the gzip file is damaged");  // deflate's greatest ratio
  std::vector<char> whole = inflate(data + at, size - 8 - at, whole_size, what);
  if (crc32(whole.data(), whole.size()) != four(size - 8)) fail(what, ": the gzip file is damaged (checksum)");
  return whole;
}

struct Picture {
  int64_t width = 0, height = 0, channels = 0;
  std::vector<unsigned char> pixels;  // [height, width, channels]
};

// The versions of stb_image before 2.28 write beyond their tables where a JPEG file has a Huffman table of more than 256
// codes. Every place that a decoder could take for one is looked at.
inline void check_huffman_tables(const std::vector<char>& file, const std::string& path) {
  const unsigned char* u = reinterpret_cast<const unsigned char*>(file.data());
  const size_t size = file.size();
  if (size < 3 || u[0] != 0xff || u[1] != 0xd8) return;
  for (size_t marker = 2; marker + 4 <= size; ++marker) {
    if (u[marker] != 0xff || u[marker + 1] != 0xc4) continue;
    int64_t left = (u[marker + 2] << 8 | u[marker + 3]) - 2;
    for (size_t at = marker + 4; left > 0 && at < size;) {
      int64_t codes = 0;
      for (size_t k = 1; k <= 16 && at + k < size; ++k) codes += u[at + k];  // behind the end a decoder sees zeros
      if (codes > 256) fail(path, ": the JPEG file is damaged (a Huffman table of ", codes, " codes)");
      at += static_cast<size_t>(17 + codes);
      left -= 17 + codes;
    }
  }
}

// `channels`: 1 grey, 3 colours, 4 with opacity; a picture with others is converted.
inline Picture decode_picture(const std::vector<char>& file, int channels, const std::string& path) {
#ifdef METAC_STB_IMAGE
  if (file.empty() || file.size() > INT_MAX) fail(path, ": no picture");
  check_huffman_tables(file, path);
  int width = 0, height = 0, in_file = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> pixels(
      stbi_load_from_memory(reinterpret_cast<const unsigned char*>(file.data()), static_cast<int>(file.size()), &width,
                            &height, &in_file, channels),
      stbi_image_free);
  if (pixels == nullptr) fail(path, ": not a picture that can be read (", stbi_failure_reason(), ")");
  Picture picture;
  picture.width = width;
  picture.height = height;
  picture.channels = channels;
  picture.pixels.assign(
      pixels.get(), pixels.get() + static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels));
  return picture;
#else
  (void)file, (void)channels;
  fail(path, ": this program was made by a metac built without a picture decoder (libstb-dev)");
#endif
}

}  // namespace metac::train
