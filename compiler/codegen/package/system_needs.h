// What a compiled library or program asks of the system that is to run it, as its ELF file says.
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>

namespace metac {

using SymbolVersion = std::pair<int, int>;  // 2.34 of GLIBC_2.34; the last two numbers of GLIBCXX_3.4.30

struct SystemNeeds {
  std::set<std::string> libraries;                  // "libc.so.6"
  std::map<std::string, std::set<std::string>> of;  // library -> versions of its symbols: "GLIBC_2.34"
  void add(const SystemNeeds& more);
};

// Throws CompileError for what is no ELF file of x86-64.
SystemNeeds system_needs(const std::string& path);

// Is the library a part of glibc?
bool is_of_glibc(const std::string& library);
// The oldest glibc that has all: {2, 34}.
SymbolVersion glibc_of(const SystemNeeds& needs);
// Debian's packages that have the libraries, as Depends lists them: "libc6 (>= 2.34), libstdc++6 (>= 12)".
std::string debian_depends(const SystemNeeds& needs);

}  // namespace metac
