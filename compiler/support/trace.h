// What this process does when, as a Chrome trace: METAC_TRACE=FILE writes one that Perfetto (https://ui.perfetto.dev) and
// chrome://tracing show. Format: "Trace Event Format", JSON array; times are microseconds of a steady clock.
#pragma once
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace metac::trace {

// Is a trace written? Else nothing of this costs more than this question.
bool on();

// Nanoseconds of the clock of all events.
int64_t now_ns();

using Arguments = std::vector<std::pair<std::string, std::string>>;  // shown with the event

// Something that took from `begin` to `end` on this thread.
void complete(std::string_view category, std::string_view name, int64_t begin_ns, int64_t end_ns,
              const Arguments& arguments = {});
// Something that happened now.
void instant(std::string_view category, std::string_view name, const Arguments& arguments = {});
// What this thread is called.
void name_thread(std::string_view name);

// From here to the end of the scope.
class Span {
 public:
  Span(std::string_view category, std::string name, Arguments arguments = {}) {
    if (!on()) return;
    begin_ = now_ns(), category_ = category, name_ = std::move(name), arguments_ = std::move(arguments);
  }
  ~Span() {
    if (begin_ < 0) return;
    try {
      complete(category_, name_, begin_, now_ns(), arguments_);
    } catch (const std::bad_alloc&) {  // the trace lacks it
    }
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  int64_t begin_ = -1;
  std::string category_, name_;
  Arguments arguments_;
};

}  // namespace metac::trace
