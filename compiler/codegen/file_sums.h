// SHA256SUMS: the SHA-256 of every file of a folder, in the form that sha256sum -c reads and that is signed as one file.
#pragma once
#include <string>

namespace metac {

// Writes folder/SHA256SUMS, which lists all files below the folder but itself, sorted by their paths. The same files give
// the same bytes. Throws CompileError where a file cannot be read.
void write_file_sums(const std::string& folder);

}  // namespace metac
