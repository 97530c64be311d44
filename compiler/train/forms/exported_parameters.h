// The parameters of a network as it was written, found again in the file that PyTorch's exporters made of it. They keep
// equal parameters once, a transposed or folded one beside the original, and drop which initialisers are parameters at all;
// training needs it as it was.
#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

// Gives parameters that are kept once behind Identity initialisers of their own, and makes copies of one parameter that one
// again, as the recipe's "merged" says. Returns notes for people.
std::vector<std::string> restore_parameters(Model& model, Merged merged);

// What the dynamo exporter says of the initialisers, by name: true for a parameter, false for a buffer or a constant. Empty
// where it says nothing.
std::map<std::string, bool> exported_roles(const ModelGraph& graph);

// Initialisers by name, and by the other names that Identity gives them.
class InitializerNames {
 public:
  explicit InitializerNames(const ModelGraph& graph);
  int behind(std::string name) const;  // -1: no initialiser

 private:
  std::unordered_map<std::string, int> initializers_;
  std::unordered_map<std::string, std::string> others_;
};

// Initialisers that are running means and variances of BatchNormalization nodes; Identity is looked through. Throws
// CompileError where one is read as something else too: then equal values were merged, and which of them it stands for is
// not known.
std::set<int> running_statistics(const Model& model);

// Throws CompileError, with the node, where one of the `trained` initialisers is not what it was in PyTorch, and which could
// not train alike: equal parameters kept once, a BatchNormalization folded into a convolution, a constant that may or may
// not come from a parameter.
void require_known_parameters(const Model& model, const Recipe& recipe, const std::set<int>& trained);

}  // namespace metac
