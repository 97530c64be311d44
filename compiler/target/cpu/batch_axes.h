// Which axis of each value and of each kernel follows the batch: row k of it belongs to image k, or rows k*r to k*r + r - 1
// do (tokens of an image, flattened).
#pragma once
#include <map>

#include "compiler/region/fusion/fuse.h"

namespace metac {

// How many of `extent` rows belong to each of `images` (a number or a symbol); empty: not equally many.
Expr rows_of_image(Expr extent, Expr images);

class BatchAxes {
 public:
  BatchAxes(const Graph& graph, const FusedRegion& region, const std::function<bool(const Var*)>& is_constant);

  // Images: a number of more than one, or the symbol of an open dim; 1: there is no batch.
  Expr batch() const { return batch_; }
  // The first input that has the batch; null: none.
  const Var* input() const { return input_; }
  // The axis of each stage's domain; empty: the item does not follow the batch, or not only image by image.
  const std::vector<int>& of_item(size_t item) const { return items_[item]; }
  // The axis of a Var; -1: none.
  int of_var(int id) const { return vars_.count(id) ? vars_.at(id) : -1; }

 private:
  bool follow(const Group& group, std::vector<int>& axes);
  std::optional<int> axis_of(const Definition& d, const std::map<int, int>& vars) const;
  bool follows(const Definition& d, int axis_id, const std::map<int, int>& vars) const;
  const Graph& graph_;
  const std::function<bool(const Var*)>& is_constant_;
  Expr batch_ = 1;
  const Var* input_ = nullptr;
  std::map<int, int> vars_;
  std::vector<std::vector<int>> items_;
};

}  // namespace metac
