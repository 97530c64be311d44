// A model's graph turned into the graph of one of its derivatives: what --grad compiles beside the model.
//
//   vjp  inputs of the model, a cotangent for every output     ->  the outputs, the gradient for every value of `wrt`
//   jvp  inputs of the model, a tangent for every value of wrt ->  the outputs, the tangent of every output
//   hvp  inputs, cotangents of outputs, tangents of wrt  ->  H t, H the Hessian of <cotangents, outputs>, for each wrt
//
// A cotangent, a gradient or a tangent has the shape and dtype of its value. Outputs and values that are no floating-point
// tensors have none. Reverse mode once, forward mode once, and for hvp forward over reverse, so that it costs one of each.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

enum class Derivative { vjp, jvp, hvp };
enum class Wrt { inputs, parameters, all };

const char* name_of(Derivative derivative);

// Rewrites `graph`. New inputs and outputs follow the model's and are called "cotangent of NAME", "tangent of NAME",
// "gradient of NAME", "product of NAME". Values of wrt: floating-point inputs in order, then the floating-point parameters
// that an output depends on, in the model's order. Throws CompileError where nothing is to be differentiated, something has
// no derivative, or the shape of an output that needs a cotangent is known only after a run.
void differentiate(Graph& graph, Derivative derivative, Wrt wrt);

}  // namespace metac
