// The strategies of a GPU: what its passes decide about a group beyond the plain schedules (lower_gpu.h).
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

// A gradient of a convolution as a library computes it (library_gradient.h): operands are Var ids, and the definition is the
// whole one, before it is split by residue.
struct LibraryGradient : Strategy {
  LibraryConvolution convolution;
  Definition definition;

  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  std::string misfit(const Group& group) const override;
};

// Two stages, of which a library may do the second in its call for the first (library_beside.h; chosen by
// target/gpu/join_beside.h).
struct Beside : Strategy {
  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  std::string misfit(const Group& group) const override;
  std::vector<std::string> describe(const Group& group) const override;
};

// Scores, softmax and weighted sum of attention in one kernel (lower_gpu_attention.cpp; chosen by
// region/fusion/fuse_row_blocks.h).
struct Attention : Strategy {
  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  std::string misfit(const Group& group) const override;
};

// A sum without tiles, though it is one of products: few rows, of which nothing is read twice (chosen by
// target/gpu/keep_narrow.h).
struct UntiledSum : Strategy {
  Kernel lower(const Group& group, const LoweringContext& context) const override;
  std::string to_string() const override;
  std::string misfit(const Group& group) const override;
};

}  // namespace metac
