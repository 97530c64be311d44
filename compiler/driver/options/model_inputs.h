// Values for a model's inputs, as the command line gives them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// `given` are texts NAME=file.npy|file.pb|file.npz|random, or random for all inputs that are not given, which `invent` says
// as well; otherwise such an input is an error. Random values are seeded by the input's position; an open dim of theirs
// takes its size from --shape, from --dim or from a file that another input of the same dim name came from, and is an error
// where there is none. `shapes` and `dims` are those of --shape and --dim. Throws UsageError, CompileError.
std::map<std::string, Tensor> gather_inputs(const Model& model, const std::vector<std::string>& given,
                                            const std::vector<std::string>& shapes, const std::vector<std::string>& dims,
                                            bool invent);

}  // namespace metac
