// What `--precision` names: the type that sums of products may round what they read to, where the processor multiplies that
// faster than float32.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/printing/kernel_source.h"

namespace metac {

struct CompileOptions;

// "float32" (nothing is rounded), "bfloat16", "int8", and "auto", which is bfloat16.
const std::vector<std::string>& precision_names();
// CompileOptions::precision; empty: no such name.
std::optional<DType> precision_named(std::string_view name);

// int8: as MatMulNBits's accuracy_level allows it (Origin::int8_data), for all products but those that CompileOptions::keep
// names.
void allow_int8_data(Graph& graph, const CompileOptions& options);

// What a kernel's schedule says where runs of its sum are products of bytes (target/cpu/layouts/byte_runs.h).
constexpr const char* multiplied_as_bytes = "runs of steps multiplied as bytes";
// Does the kernel multiply what was rounded to this type?
bool multiplies(const KernelSource& kernel, DType precision);

}  // namespace metac
