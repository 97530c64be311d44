// The check behind `metac verify --grad`: derivatives that autodiff makes against central differences, in float64 on
// the reference evaluator.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct GradientCheckOptions {
  int order = 1;       // derivatives of order 1 .. order are checked
  int directions = 2;  // random points and directions
  double rtol = 1e-3, atol = 1e-5;
  uint32_t seed = 1;
};

struct GradientCheck {
  bool passed = true;
  int64_t checked = 0;   // derivatives compared; 0 where nothing is differentiable, and then detail says why
  double max_error = 0;  // the largest |exact - difference| / (atol / rtol + |difference|)
  std::string detail;    // the first difference found, or why nothing was checked
};

// L = sum over the float outputs of <fixed weights, output>; the derivative of order k along a random direction in all float
// inputs and parameters is compared with the central difference of that of order k - 1, and for order 1 reverse with
// forward mode. Where two step sizes disagree there is a kink between the points: another point is taken.
// Takes `inputs` where given (unless they are beyond 1e8, where a step changes nothing); missing ones are random (floats in
// -1..1, integers 0, open dims their hint or the least that is allowed, at least 2). The graph is used up: its floats become
// float64. Throws CompileError where something has no derivative.
GradientCheck verify_gradient(Graph& graph, const std::map<std::string, Tensor>& inputs,
                              const GradientCheckOptions& options);

// Every float of the graph becomes float64: values, constants, expressions, accumulators.
void widen_floats(Graph& graph);

}  // namespace metac
