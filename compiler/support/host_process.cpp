#include "compiler/support/host_process.h"

#include <atomic>
#include <cstdio>

#include "compiler/support/trace.h"

namespace metac {
namespace {
std::atomic<bool> guest{false};
}

void become_guest() { guest = true; }
void become_host() { guest = false; }
bool is_guest() { return guest; }

void notice(const std::string& text) {
  if (is_guest())
    trace::instant("notice", text);
  else
    std::fprintf(stderr, "metac: %s\n", text.c_str());
}

}  // namespace metac
