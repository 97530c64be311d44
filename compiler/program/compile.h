// The middle of the compiler as one call: simplify, recognise contractions, choose layouts, fuse, schedule, plan memory
// and print the kernels of a Graph. The ahead-of-time compiler and the JIT call it.
#pragma once
#include "compiler/ir/graph.h"
#include "compiler/program/program.h"
#include "compiler/target/compile_options.h"

namespace metac {

// Consumes the graph (passes rewrite it in place). Throws CompileError.
CompiledModel compile_graph(Graph& graph, const CompileOptions& options);

}  // namespace metac
