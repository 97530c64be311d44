// Which algorithm of a library was the fastest for a call, remembered beyond the process: library_algorithms.txt in the
// user's cache directory, a line for each choice. METAC_ALGORITHMS=off: it is neither read nor written.
//
//   cublasLt 130002 NVIDIA_H100_PCIe-9.0-114 product 0 1 64 64 32 a 0 ... workspace 33554432 = 0 3 1f ... #5c1e90a7d4b2f630
//
// library, its version, card (name, compute capability, multiprocessors), all that tells the call from others = eight
// numbers by which the library's user knows the algorithm again #checksum. Nothing in it is trusted: a choice holds only
// where the library itself proposes it now, and no number reaches the library. So a file that is damaged, unreadable or
// somebody else's costs a measurement, no more.
//
// Lines are appended whole by one write(), so processes need no lock; of two lines for a call the last one holds. A line
// that a crash cut fails its checksum. A file that has grown too large is begun again.
#pragma once
#include <fcntl.h>

#include <cinttypes>
#include <initializer_list>

#include "../files/cache_directory.h"
#include "launch.h"

namespace METAC_RUNTIME_NAMESPACE {

// An algorithm as the user of its library knows it again.
struct Algorithm {
  static constexpr int count = 8;
  uint64_t numbers[count];
  bool operator==(const Algorithm& other) const { return std::memcmp(numbers, other.numbers, sizeof numbers) == 0; }
};

// What tells a call from others: words and numbers.
class CallText {
 public:
  CallText& add(const char* word, std::initializer_list<int64_t> numbers) {
    append(" %s", word);
    for (int64_t n : numbers) append(" %" PRId64, n);
    return *this;
  }
  CallText& add(const char* word, double number) {  // its bits: no locale writes them otherwise
    int64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return add(word, {bits});
  }
  // Null: longer than there is room.
  const char* text() const { return whole_ ? text_ : nullptr; }

 private:
  template <typename T>
  void append(const char* format, T value) {
    const int more = snprintf(text_ + length_, sizeof text_ - length_, format, value);
    whole_ = whole_ && more >= 0 && static_cast<size_t>(more) < sizeof text_ - length_;
    if (whole_) length_ += static_cast<size_t>(more);
  }
  char text_[1024] = "";
  size_t length_ = 0;
  bool whole_ = true;
};

class AlgorithmFile {
 public:
  AlgorithmFile(const char* library, uint64_t version) : library_(library), version_(version) {}

  bool find(const CallText& call, Algorithm* found) {
    char key[most_key];
    if (!make_key(call, key)) return false;
    const int file = open_file(O_RDONLY);
    if (file < 0) return false;
    bool any = false;
    if (char* const text = read_all(file); text != nullptr) {
      for (char *line = text, *next; line != nullptr; line = next) {
        next = std::strchr(line, '\n');
        if (next != nullptr) *next++ = 0;
        any = read_line(line, key, found) || any;
      }
      std::free(text);
    }
    close(file);
    return any;
  }

  void keep(const CallText& call, const Algorithm& chosen) {
    char key[most_key], line[most_key + Algorithm::count * 17 + 32];
    if (!make_key(call, key)) return;
    int file = open_file(O_RDWR | O_APPEND | O_CREAT);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && status.st_size > most_bytes - static_cast<off_t>(sizeof line)) {
      close(file);
      if (unlink(path_) != 0) return;
      file = open_file(O_RDWR | O_APPEND | O_CREAT);
    }
    if (file < 0) return;
    // Not behind a line that was cut.
    char last = '\n';
    const off_t end = lseek(file, 0, SEEK_END);
    const bool cut = end > 0 && pread(file, &last, 1, end - 1) == 1 && last != '\n';
    size_t length = static_cast<size_t>(snprintf(line, sizeof line, "%s%s", cut ? "\n" : "", key));
    for (uint64_t n : chosen.numbers)
      length += static_cast<size_t>(snprintf(line + length, sizeof line - length, " %" PRIx64, n));
    const size_t from = cut ? 1 : 0;
    length += static_cast<size_t>(
        snprintf(line + length, sizeof line - length, " #%016" PRIx64 "\n", checksum(line + from, length - from)));
    // What cannot be written is not remembered.
    [[maybe_unused]] const ssize_t written = write(file, line, length);
    close(file);
  }

 private:
  static constexpr size_t most_key = 1536;
  static constexpr off_t most_bytes = off_t{1} << 20;

  static uint64_t checksum(const char* text, size_t length) {  // FNV-1a
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t k = 0; k < length; ++k) sum = (sum ^ static_cast<unsigned char>(text[k])) * 0x100000001b3u;
    return sum;
  }

  bool make_key(const CallText& call, char (&key)[most_key]) {
    if (!tried_) usable_ = find_place();
    tried_ = true;
    if (!usable_ || call.text() == nullptr) return false;
    const int length = snprintf(key, sizeof key, "%s %" PRIu64 " %s%s =", library_, version_, card_, call.text());
    return length > 0 && static_cast<size_t>(length) < sizeof key;
  }

  bool find_place() {
    const char* const wanted = secure_getenv("METAC_ALGORITHMS");
    if (wanted != nullptr && std::strcmp(wanted, "off") == 0) return false;
    char folder[PATH_MAX];
    Failure why;
    int device = 0;
    cudaDeviceProp card{};
    if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&card, device) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    card.name[sizeof card.name - 1] = 0;
    for (char* c = card.name; *c != 0; ++c)
      if (!((*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') || *c == '.')) *c = '_';
    snprintf(card_, sizeof card_, "%s-%d.%d-%d", card.name, card.major, card.minor, card.multiProcessorCount);
    return find_cache_directory(folder, why) &&
           snprintf(path_, sizeof path_, "%s/library_algorithms.txt", folder) < static_cast<int>(sizeof path_);
  }

  // A regular file of this user's; -1: it is none.
  int open_file(int flags) const {
    const int file = ::open(path_, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat status;
    if (file < 0 || (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid())) return file;
    close(file);
    return -1;
  }

  // As text; null: it cannot be read, or is larger than we ever write.
  static char* read_all(int file) {
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size > most_bytes) return nullptr;
    const size_t size = static_cast<size_t>(status.st_size);
    char* const text = static_cast<char*>(std::malloc(size + 1));
    size_t length = 0;
    while (text != nullptr && length < size) {
      const ssize_t more = read(file, text + length, size - length);
      if (more <= 0) break;
      length += static_cast<size_t>(more);
    }
    if (text == nullptr) return nullptr;
    for (size_t k = 0; k < length; ++k)
      if (text[k] == 0) text[k] = '\n';  // damage: no end
    text[length] = 0;
    return text;
  }

  static bool read_line(const char* line, const char* key, Algorithm* found) {
    const size_t key_length = std::strlen(key), length = std::strlen(line);
    if (std::strncmp(line, key, key_length) != 0) return false;
    const char* const mark = std::strrchr(line, '#');
    uint64_t sum = 0;
    if (mark == nullptr || mark == line || mark + 17 != line + length || !read_number(mark + 1, &sum) ||
        sum != checksum(line, static_cast<size_t>(mark - 1 - line)))
      return false;
    Algorithm read{};
    const char* at = line + key_length;
    for (uint64_t& n : read.numbers)
      if (*at != ' ' || (at = read_number(at + 1, &n)) == nullptr) return false;
    if (*at != ' ' || at + 1 != mark) return false;
    *found = read;
    return true;
  }

  // Hexadecimal; where it ends, null: it is none.
  static const char* read_number(const char* at, uint64_t* number) {
    const char* const begin = at;
    uint64_t n = 0;
    for (; (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); ++at)
      n = n * 16 + static_cast<uint64_t>(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    *number = n;
    return at == begin || at > begin + 16 ? nullptr : at;
  }

  const char* const library_;
  const uint64_t version_;
  bool tried_ = false, usable_ = false;
  char card_[320] = "", path_[PATH_MAX + 32] = "";
};

}  // namespace METAC_RUNTIME_NAMESPACE
