// The device headers as Clang's syntax tree, read once instead of by every module: reading them as text is most of what
// Clang's front end does for a kernel (docs/decisions/kernel_cache.md).
#pragma once
#include <string>

#include "compiler/machine/cpu_target.h"

namespace metac {

// A text that begins so may have the tree instead of this line: nothing before it decides what the headers mean.
inline constexpr const char* prelude_line = "#include \"device/prelude.h\"\n";

// The bytes of the precompiled header for a CPU, for `-include-pch`: of this process, else from the user's kernel cache,
// else made (and kept in both). Thread-safe. Whoever will fork workers that compile asks for it before. Throws
// KernelCompileError.
const std::string& precompiled_prelude(const CpuTarget& cpu);

}  // namespace metac
