// The program metac. It is linked twice: in the build folder with all that it calls, and for installing upon libmetac, which
// has the commands inside.
#include <unistd.h>

#include <new>

#include "compiler/driver/command_line.h"

namespace {

// Registries, LLVM's among them, are filled before main, where nobody catches: without memory metac says so there too.
[[noreturn]] void end_without_memory() {
  constexpr char said[] = "metac: out of memory\n";
  if (write(STDERR_FILENO, said, sizeof said - 1) < 0) _exit(1);
  _exit(1);
}
void before_registries() { std::set_new_handler(end_without_memory); }
// Runs before the constructors of shared libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = before_registries;

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(nullptr);
  return metac_command_line(argc, argv);
}
