// The element types in the interfaces of a generated library, from the table of them (runtime/dtypes.h).
#pragma once
#include <string>

namespace metac {

// "  NET_FLOAT32 = 0, NET_FLOAT64 = 1, ...", in lines of at most 125 columns: the constants of the C header. `prefix` is
// "NET". Strings have none: no tensor of the interface holds them.
std::string dtype_constants(const std::string& prefix);
// "\"float32\", \"float64\", \"float16\", \"uint16\", ...": NumPy's names, at the place of their number.
std::string numpy_dtypes();

}  // namespace metac
