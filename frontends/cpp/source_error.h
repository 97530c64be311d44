// Mistakes in a user's C++, at their place.
#pragma once
#include <clang/Basic/SourceManager.h>

#include "compiler/support/diagnostic.h"

namespace metac {

// "my_ops.cpp:3:7" of where the user wrote what is at `location`.
inline std::string place_of(const clang::SourceManager& sources, clang::SourceLocation location) {
  const clang::PresumedLoc at = sources.getPresumedLoc(sources.getFileLoc(location));
  return at.isValid() ? concat(at.getFilename(), ":", at.getLine(), ":", at.getColumn()) : std::string();
}

template <typename... Parts>
[[noreturn]] void refuse_at(const clang::SourceManager& sources, clang::SourceLocation location, const Parts&... parts) {
  throw CompileError(Diagnostic{place_of(sources, location), "", concat(parts...)});
}

}  // namespace metac
