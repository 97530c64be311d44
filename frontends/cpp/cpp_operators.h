// Operators that a user writes as C++ functions. The text is read with Clang's front end and its tree is walked; what comes
// out are formulas (compiler/ops/defined), one for every list of dtypes that a function is for. Nothing of it is compiled.
//
//   template <class T>
//   T mish(T x) { return x * std::tanh(std::log1p(std::exp(x))); }
//
// docs/defining_operators.md says what a function may do and what becomes of it.
#pragma once
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// The operators of a file: functions at namespace scope that other files could call, in the order of the file. Throws
// CompileError naming file, line and column where something is no C++ or nothing that an operator may do.
std::vector<ModelFunction> read_cpp_operators(const std::string& path);
// The same of a text; `path` serves messages and what it includes.
std::vector<ModelFunction> read_cpp_operators(const std::string& text, const std::string& path);

}  // namespace metac
