// C++ to machine code inside this process: Clang's front end and LLVM's back end, without the driver, without a
// subprocess and without a header of the machine.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/machine/cpu_target.h"

namespace metac {

// Generated code that does not compile: our bug, never the user's. Carries Clang's first diagnostics.
class KernelCompileError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// The options that decide what code comes out of a text, without the text: the arguments of `clang -cc1`.
std::vector<std::string> compile_arguments(const CpuTarget& cpu);

// "LLVM 19.1.7": what compiles kernels.
std::string compiler_version();

// All that decides what code comes out of a text: versions, arguments, device headers. Part of the cache key.
std::string compiler_identity(const CpuTarget& cpu);

// Before anything of LLVM: what it can make code for, and what it does where it has no memory or meets a defect.
void initialise_llvm();

// The device headers as a precompiled header. Throws KernelCompileError.
std::string compile_prelude(const CpuTarget& cpu);

// Compiles one translation unit to a position-independent ELF object, to be linked in memory or into a library. Includes
// find the device headers, as device/NAME (kernels of the JIT) and runtime/device/NAME (those of a project), and nothing
// else. The same text gives the same bytes. A text that begins with the prelude has it as precompiled_prelude.h keeps it.
// Safe to call from several threads at once. Throws KernelCompileError, and CompileError where the text holds C++ of the
// user (printing/cpp_code.cpp).
std::string compile_object(const std::string& source, const CpuTarget& cpu);

}  // namespace metac
