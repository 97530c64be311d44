// Values for a model's inputs, as the command line gives them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// `given` are texts NAME=file.npy|file.pb|file.npz|random, `shapes` and `dims` those of --shape and --dim. Inputs that are
// not given are random (seeded by their position). An open dim takes its size from --shape, from --dim, from a file that
// another input of the same dim name came from, else 1. Throws UsageError, CompileError.
std::map<std::string, Tensor> gather_inputs(const Model& model, const std::vector<std::string>& given,
                                            const std::vector<std::string>& shapes, const std::vector<std::string>& dims);

}  // namespace metac
