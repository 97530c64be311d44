// Which build of metac this is: what one build leaves in files another one must not take for its own.
#pragma once
#include <string>

namespace metac {

// What the linker made of the whole code of the program or library that this function lies in, in hexadecimal; "" where it
// left no such note.
const std::string& build_id();

}  // namespace metac
