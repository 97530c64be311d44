// NumPy's .npy files (format versions 1 to 3), read without trusting them. Written here: cnpy, the library there is, trusts
// the header of a file and is not in Debian.
#pragma once
#include <string>
#include <string_view>

#include "compiler/ir/tensor.h"
#include "compiler/support/file_system.h"

namespace metac {

// Throws with the message alone; the caller names the file. Takes little-endian, C-order arrays of the dtypes metac knows
// that NumPy has; Fortran order is transposed.
Tensor tensor_of_npy(const FileBytes& bytes);
Tensor read_npy(const std::string& path);
std::string to_npy_bytes(const Tensor& tensor);  // bfloat16 has no NumPy name: written as uint16

}  // namespace metac
