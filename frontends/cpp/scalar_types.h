// The dtypes of C++'s scalar types.
#pragma once
#include <clang/AST/Type.h>

#include <optional>

#include "compiler/ir/dtype.h"

namespace metac {

// Of a value or what a reference is of; nothing for classes, enumerations, long double and others that no dtype is.
std::optional<DType> dtype_of_scalar(clang::QualType type);

// Of what a pointer to `type` points to in a kernel, which writes each dtype as one type: int64_t is long, and int8_t signed
// char; long long and char are others.
std::optional<DType> dtype_of_element(clang::QualType type);

}  // namespace metac
