// Text of a model where a program of a library says it.
#pragma once
#include <string>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

// Model text on a terminal: control characters do not get there.
inline std::string shown(const char* name) {
  std::string text;
  for (const char* c = name; *c != 0 && text.size() < 120; ++c)
    text += static_cast<unsigned char>(*c) < 32 || *c == 127 ? '?' : *c;
  return text;
}

}  // namespace METAC_RUNTIME_NAMESPACE
