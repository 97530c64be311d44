// The states of a program (compiler/ops/states.h): which outputs are the memory of an input, and what its tables say of
// each.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/program/program.h"
#include "compiler/tensor/group.h"

namespace metac {

// The state that `output` is the next value of, where it stays in its memory: it grows there, or is handed on as it is.
// Null: it is none, or has memory of its own.
const State* state_in_place(const Graph& graph, const Var* output);

// Does the group copy a part of a state to where it lies?
bool lies_there(const Graph& graph, const Group& group);
// Arguments of a kernel that are one state's memory are marked, so that printers do not promise that they are apart.
void share_with_states(const Graph& graph, Kernel& kernel);

// A row for each of the graph's states; `program`: with all of its steps.
std::vector<rt::StateInfo> state_rows(const Graph& graph, const CompiledProgram& program);

}  // namespace metac
