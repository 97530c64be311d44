#include "compiler/support/trace.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "compiler/support/diagnostic.h"
#include "compiler/support/host_process.h"
#include "runtime/files/json_text.h"

namespace metac::trace {
namespace {

// The array is closed when the process ends; readers of the format take one that is not.
class File {
 public:
  File() {
    const char* path = std::getenv("METAC_TRACE");
    if (!path || !*path) return;
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file >= 0) out_ = fdopen(file, "w");
    if (!out_) {
      if (!is_guest())
        std::fprintf(stderr, "metac: METAC_TRACE: cannot write to %s: %s\n", quoted(std::string_view(path)).c_str(),
                     std::strerror(errno));
      return;
    }
    process_ = getpid();
    std::fputs("[", out_);
    on_exit([](int, void*) { of_process().close(); },
            nullptr);  // libmetac's atexit does nothing (no_static_destructors.cpp)
  }

  static File& of_process() {
    static File& file = *new File;  // background threads may still write while statics are destroyed
    return file;
  }

  // In a forked child nobody writes: both would write into one file.
  bool open_here() const { return out_ && getpid() == process_; }

  void write(const std::string& event) {
    std::lock_guard lock(mutex_);
    if (!out_) return;
    std::fputs(first_ ? "\n" : ",\n", out_);
    std::fputs(event.c_str(), out_);
    first_ = false;
  }

 private:
  void close() {
    if (!open_here()) return;
    std::lock_guard lock(mutex_);
    std::fputs("\n]\n", out_);
    std::fclose(out_);
    out_ = nullptr;
  }

  std::mutex mutex_;
  FILE* out_ = nullptr;
  pid_t process_ = 0;
  bool first_ = true;
};

std::string text_of(std::string_view text) { return metac_runtime::json_string(std::string(text)); }

std::string head(std::string_view phase, std::string_view category, std::string_view name, int64_t ns) {
  char numbers[120];
  std::snprintf(numbers, sizeof numbers, ",\"ts\":%lld.%03d,\"pid\":%d,\"tid\":%ld", static_cast<long long>(ns / 1000),
                static_cast<int>(ns % 1000), static_cast<int>(getpid()), syscall(SYS_gettid));
  return concat("{\"ph\":\"", phase, "\",\"cat\":", text_of(category), ",\"name\":", text_of(name), numbers);
}

std::string tail(const Arguments& arguments) {
  if (arguments.empty()) return "}";
  std::string text = ",\"args\":{";
  for (size_t i = 0; i < arguments.size(); ++i)
    text += (i ? "," : "") + text_of(arguments[i].first) + ":" + text_of(arguments[i].second);
  return text + "}}";
}

}  // namespace

bool on() {
  static const bool wanted = [] {
    const char* path = std::getenv("METAC_TRACE");
    return path && *path;
  }();
  return wanted && File::of_process().open_here();
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void complete(std::string_view category, std::string_view name, int64_t begin_ns, int64_t end_ns,
              const Arguments& arguments) {
  if (!on()) return;
  char duration[60];
  std::snprintf(duration, sizeof duration, ",\"dur\":%lld.%03d", static_cast<long long>((end_ns - begin_ns) / 1000),
                static_cast<int>((end_ns - begin_ns) % 1000));
  File::of_process().write(head("X", category, name, begin_ns) + duration + tail(arguments));
}

void instant(std::string_view category, std::string_view name, const Arguments& arguments) {
  if (!on()) return;
  File::of_process().write(head("i", category, name, now_ns()) + ",\"s\":\"t\"" + tail(arguments));
}

void name_thread(std::string_view name) {
  if (!on()) return;
  File::of_process().write(head("M", "", "thread_name", now_ns()) + tail({{"name", std::string(name)}}));
}

}  // namespace metac::trace
