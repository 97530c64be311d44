#include "compiler/codegen/host_compiler.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

// Without a target zig compiles for the processor that it runs on. The version is the oldest glibc that the library then
// runs with, as of most systems since 2018. Unless it is told otherwise it checks for undefined behaviour, writes debug
// information and keeps what nobody calls of its run-time routines.
HostCompiler zig_at(const std::string& zig) {
  const std::vector<std::string> target = {"-target", "x86_64-linux-gnu.2.28", "-fno-sanitize=undefined", "-g0"};
  HostCompiler found;
  found.compile = {zig, "c++"};
  found.link = {zig, "cc"};
  for (std::vector<std::string>* words : {&found.compile, &found.link})
    words->insert(words->end(), target.begin(), target.end());
  found.archive = {zig, "ar"};
  found.shrink = {"-Wl,--gc-sections", "-s"};
  found.is_zig = true;
  return found;
}

}  // namespace

HostCompiler find_host_compiler(const std::string& asked, const std::function<std::string(const std::string&)>& find) {
  const std::vector<std::string> tried =
      asked.empty() ? std::vector<std::string>{"c++", "g++", "clang++"} : std::vector<std::string>{asked};
  std::string compiler;
  for (const std::string& name : tried)
    if (compiler.empty()) compiler = find(name);
  if (compiler.empty() && asked.empty())
    if (const std::string zig = find("zig"); !zig.empty()) return zig_at(zig);
  if (!compiler.empty() && file_name(asked) == "zig") return zig_at(compiler);
  if (compiler.empty()) {
    std::string names;
    for (const std::string& name : tried) names += (names.empty() ? "" : ", ") + name;
    fail("no C++ compiler found (looked for ", names,
         " on PATH); install g++ or clang, or `pip install ziglang`, or write the sources alone with --no-build");
  }
  const std::string archiver = find("ar");
  if (archiver.empty())
    fail("the archiver 'ar' was not found on PATH; install binutils, or write the sources alone with --no-build");
  HostCompiler found;
  found.compile = {compiler};
  found.link = {compiler};
  found.archive = {archiver};
  return found;
}

}  // namespace metac
