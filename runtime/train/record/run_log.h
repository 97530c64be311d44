// log.jsonl: one JSON object a line. Checkpoints remember how long the log was, so a resumed run cuts off what came after
// and the file reads as if nothing had happened.
#pragma once
#include "../../files/json_text.h"
#include "safetensors.h"

namespace metac::train {

using METAC_RUNTIME_NAMESPACE::json_number;

class LogLine {
 public:
  explicit LogLine(const std::string& event) : text_("{\"event\": " + json_string(event)) {}
  LogLine& add(const std::string& name, double value) { return raw(name, json_number(value)); }
  LogLine& add(const std::string& name, int64_t value) { return raw(name, std::to_string(value)); }
  LogLine& add(const std::string& name, const std::string& value) { return raw(name, json_string(value)); }
  std::string text() const { return text_ + "}\n"; }

 private:
  LogLine& raw(const std::string& name, const std::string& value) {
    text_ += ", " + json_string(name) + ": " + value;
    return *this;
  }
  std::string text_;
};

class RunLog {
 public:
  // writes false: another process keeps it.
  explicit RunLog(std::string path, bool writes = true) : path_(std::move(path)), writes_(writes) {}
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  ~RunLog() {
    if (file_ >= 0) ::close(file_);
  }

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }

  // Goes on behind the first `bytes` bytes; what is missing of them (a log that somebody removed) is left missing.
  void open(int64_t bytes) {
    if (!writes_) return;
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) fail("cannot write ", path_, ": ", system_reason());
    const int64_t there = ::lseek(file_, 0, SEEK_END);
    bytes_ = std::min(bytes, there);
    if (::ftruncate(file_, bytes_) != 0 || ::lseek(file_, bytes_, SEEK_SET) < 0)
      fail("cannot write ", path_, ": ", system_reason());
  }

  // Throws where it cannot be written: a run without its log is not worth its time.
  void write(const LogLine& line) {
    if (!writes_) return;
    const std::string text = line.text();
    for (size_t at = 0; at < text.size();) {
      const ssize_t done = ::write(file_, text.data() + at, text.size() - at);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail("cannot write ", path_, ": ", system_reason());
      at += static_cast<size_t>(done);
    }
    bytes_ += static_cast<int64_t>(text.size());
  }

  // Before a checkpoint that speaks of it.
  void synchronise() {
    if (writes_) ::fsync(file_);
  }

 private:
  std::string path_;
  bool writes_;
  int file_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace metac::train
