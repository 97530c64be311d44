// Tensors from and to files that people have: .npy, .npz, ONNX's .pb.
#pragma once
#include <map>
#include <string>

#include "compiler/ir/tensor.h"
#include "compiler/ops/model.h"

namespace metac {

// By the name's ending. A .npz must hold exactly one array or one called `name`. Throws CompileError.
Tensor read_tensor(const std::string& path, const std::string& name);

// A tensor of that type and shape filled from a generator seeded by `seed`: normal floats, integers from 0 to 99, bools.
// The same on every machine.
Tensor random_tensor(DType dtype, const std::vector<int64_t>& shape, uint64_t seed);

// "logits.npy" for the output "logits". Model text never names a file: only letters, digits, '_', '-', '.' and ':' are
// taken over (and no leading '.'), other characters become '_'; `index` tells apart what then falls together.
std::string output_file_name(const std::string& output, size_t index, std::map<std::string, int>& taken);

}  // namespace metac
