// Tensors of callers: checked, and seen as the compiler's without a copy.
#pragma once
#include <map>
#include <string>

#include "compiler/ir/tensor.h"
#include "metac/metac.h"

namespace metac::library {

// The `count` tensors by name, each a view of the caller's memory; small ones are copied, for a session may keep their
// values (compiler/session/reliance.h). What a message calls them: "input", "weight". Refuses null pointers, names that come
// twice, dtypes, ranks and dims out of range, and bytes that are not what dims need.
std::map<std::string, Tensor> views_of(const metac_tensor* tensors, int32_t count, const char* what);

// The same with memory of its own.
Tensor copy_of(const Tensor& tensor);

}  // namespace metac::library
