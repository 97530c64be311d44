// C++ to machine code inside this process: Clang's front end and LLVM's back end, without the driver, without a
// subprocess and without a header of the machine.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/kernel/target.h"

namespace metac {

// Generated code that does not compile: our bug, never the user's. Carries Clang's first diagnostics.
class KernelCompileError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// The options that decide what code comes out of a text, without the text: the arguments of `clang -cc1`. Part of the
// cache key.
std::vector<std::string> compile_arguments(const CpuTarget& cpu);

// "clang version 19.1.7 ...": part of the cache key.
std::string compiler_version();

// Compiles one translation unit to a position-independent ELF object. Includes find the device headers and nothing
// else. Safe to call from several threads at once. Throws KernelCompileError.
std::string compile_object(const std::string& source, const CpuTarget& cpu);

}  // namespace metac
