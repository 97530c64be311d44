// `metac convert`: the same model in the other format.
#pragma once
#include <string>

namespace metac {

// Reads `from` and writes `to`, in the format that its ending names. Nothing is lost: operators, attributes, types, local
// functions, subgraphs, metadata and every bit of every tensor. Meta-operators become nodes of the domain "metac" in ONNX.
void convert_model(const std::string& from, const std::string& to);

}  // namespace metac
