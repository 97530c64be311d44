// Which of a model's initialisers are trained, and how: the recipe's patterns against their names.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

// How a parameter trains, if it does.
struct ParameterTerms {
  double weight_decay = 0, rate_scale = 1;
  bool trains = true;
};
// The recipe's groups of a parameter of this name, over the optimiser's own decay; the later group wins. `trains`: whether
// it does where no group says.
ParameterTerms terms_of(const Recipe& recipe, const std::string& name, bool trains = true);
// Throws CompileError at a pattern that matches none of the names, which are those of `owner`.
void expect_matches(const std::vector<Pattern>& patterns, const std::vector<std::string>& names, const std::string& owner);

struct TrainedParameter {
  int initializer = 0;
  double weight_decay = 0, rate_scale = 1;
};

struct ParameterChoice {
  std::vector<TrainedParameter> trained;
  std::vector<int> frozen;  // float initialisers that the network reads and that stay as they are
  std::vector<std::string> notes;
};

// All that a node reads, bodies of its subgraphs included (their own names too: they are none of the graph's).
void names_read(const Node& node, std::set<std::string>& names, int depth = 0);

// Operands that say how and not what: shapes and scales that the compiler must know, nothing that learns.
bool is_structure(const Node& node, size_t input);

// Values of the graph that `outputs` depend on, initialisers and inputs included.
std::set<std::string> values_behind(const ModelGraph& graph, const std::vector<std::string>& outputs);

// `read`: what the losses depend on. `statistics`: initialisers that are running statistics, which nothing trains by
// gradient. `scales`: initialisers that train though they are structure, without weight decay. Throws CompileError at the
// recipe's place where a pattern matches no parameter, and where nothing is left to train.
ParameterChoice choose_parameters(const Model& model, const Recipe& recipe, const std::set<std::string>& read,
                                  const std::set<int>& statistics, const std::set<std::string>& scales = {});

}  // namespace metac
