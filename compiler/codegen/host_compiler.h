// What compiles, links and archives a project's files for the host: the system's C++ compiler, or zig, which is a compiler
// with its own C and C++ libraries and needs nothing of the system. Python's package index has it (`pip install ziglang`),
// so libraries can be built where there is Python alone.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace metac {

// Each is a program and the words that come first.
struct HostCompiler {
  std::vector<std::string> compile;  // C++; links programs too
  std::vector<std::string> link;     // links what needs no C++ library
  std::vector<std::string> archive;  // goes on with ar's letters
  std::vector<std::string> shrink;   // more words for linking
  bool is_zig = false;               // the first program that it links takes a minute: it makes its C++ library
  const std::string& program() const { return compile[0]; }
};

// `asked`: by the user; empty: the first that there is of c++, g++, clang++, zig. `find`: the path of a program, "" where
// there is none. Throws CompileError, which says what to install.
HostCompiler find_host_compiler(const std::string& asked, const std::function<std::string(const std::string&)>& find);

}  // namespace metac
