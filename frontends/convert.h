// `metac convert`: the same model in the other format.
#pragma once
#include <functional>
#include <string>

#include "compiler/ops/model.h"

namespace metac {

// Reads `from` and writes `to`, in the format that its ending names. Kept are operators, attributes, types, local
// functions, subgraphs, metadata and every bit of every tensor. Meta-operators become nodes of the domain "metac" in ONNX.
// Not held by the Model AST and therefore dropped: ONNX's training info, quantisation annotations, device configurations
// and documentation of single values and attributes; sparse tensors become dense.
// `change`: what is done to the model between, if anything.
void convert_model(const std::string& from, const std::string& to, const std::function<void(Model&)>& change = nullptr);

}  // namespace metac
