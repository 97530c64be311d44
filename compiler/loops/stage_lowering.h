// One stage of a group on its way to a loop tree: fresh loops for its axes, loads that became elements of arguments and
// locals, the place it stores to. What the lowerings for the CPU (lower_group.cpp) and for GPUs (lower_gpu.cpp) share.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

// Where an internal Var lives: a scalar or an array of the axes that are not shared.
struct InternalVar {
  int local = 0;
  Shape dims;             // extents of the Var's axes that are not shared loops
  std::vector<int> axes;  // those axes of the Var
};

// Rows of the shared loop that are computed together: how many, and which of them the loops are at (over axes). Internal
// arrays have all of them side by side.
struct RowsTogether {
  Expr count, index;  // empty: one at a time
};

// One stage while it is lowered: expressions over kernel axes with addressed loads.
struct Stage {
  std::vector<Loop> kept, reduced;  // innermost last
  Expr body, epilogue, offset;      // offset of the store; empty: scalar local
  int target = 0;
  std::vector<Expr> conditions;

  std::vector<Expr*> expressions() {
    std::vector<Expr*> out = {&body};
    if (epilogue) out.push_back(&epilogue);
    if (offset) out.push_back(&offset);
    for (Expr& c : conditions) out.push_back(&c);
    return out;
  }
};

class StageLowering {
 public:
  StageLowering(const Group& group, const LoweringContext& context) : group_(group), context_(context) {}
  virtual ~StageLowering() = default;

 protected:
  // Decides where an internal value lives.
  virtual void place_local(const Local& local) = 0;

  Layout layout_of(int var) const;
  // Loads of Vars become loads of arguments or locals at element offsets.
  Expr addressed(Expr e, int accumulator_local);
  Bounds stage_bounds(const Stage& s) const;
  void simplify_stage(Stage& s);
  // Fresh kernel axes for the definition's own; the shared ones are the root's loops.
  std::vector<Expr> make_axes(const Definition& d, Stage& s);
  void set_target(const Definition& d, Stage& s, const std::vector<Expr>& renamed);
  // Loops that run once are no loops: their index is 0.
  void drop_unit_loops(Stage& s);
  // A loop for each digit of the kept loops (a result that a Reshape flattened, of an operand whose layout keeps the dims
  // apart), the slowest first, where no division is left then. Returns whether there was one.
  bool split_digits(Stage& s);
  // Kept loops in the order of the output's memory; reduced loops in the order of the first operand's.
  void order_loops(Stage& s);
  // Makes one loop of neighbours that every expression sees as one run.
  void collapse(Stage& s, std::vector<Loop>& loops);

  // The place of an element in an internal array.
  Expr internal_offset(const InternalVar& in, const std::vector<Expr>& own) const;

  const Group& group_;
  const LoweringContext& context_;
  Kernel kernel_;
  std::map<int, InternalVar> internals_;
  RowsTogether rows_together_;
};

}  // namespace metac
