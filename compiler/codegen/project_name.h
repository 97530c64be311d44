// What a project may be called: its name is a namespace, a CMake target, a file and a prefix of C functions.
#pragma once
#include <string>

namespace metac {

// Throws CompileError where `name` is no usable identifier (empty, odd characters, a C++ keyword, a name that would
// collide with the runtime's).
void check_project_name(const std::string& name);
// "Model v2.onnx" -> "model_v2": a usable name out of a file's name.
std::string project_name_for(const std::string& file_name);

}  // namespace metac
