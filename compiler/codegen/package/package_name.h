// What packages are called, and their versions: Python's rules and Debian's.
#pragma once
#include <string>

namespace metac {

// Throws CompileError for what is no version as PEP 440 writes it: 1.2.0, 1.2.0rc1, 1.2.0.post1, 1.2.0.dev3, 1.2.0+cpu.
void check_package_version(const std::string& version);
// As Debian orders it: what comes before a release has a tilde, 1.2.0~rc1.
std::string debian_version(const std::string& version);

// "My_Net" of a project -> "my-net", the normal form of PEP 503, which is a package of Debian too.
std::string distribution_name(const std::string& project);
// The same in file names of wheels: "my_net".
std::string wheel_name(const std::string& project);
// What a package is, in a line.
std::string package_summary(const std::string& project);
// Throws CompileError where Debian has no such names: those of one letter.
void check_debian_name(const std::string& project);

}  // namespace metac
