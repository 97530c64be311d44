// The graph that the Jittor paper partitions (section 4.1): vertices are operators, edges are variables on their way from
// the operator that makes them to one that reads them. Here a vertex is a Definition or a host step.
#pragma once
#include <functional>
#include <vector>

#include "compiler/region/fusion/fuse.h"

namespace metac {

struct FusionVertex {
  Definition d;                // a meta-operator, or
  const Op* host = nullptr;    // a host step
  bool reindexes = false;      // a Reindex
  bool inverted = false;       // a scatter in gather form (compiler/tensor/invert_scatter.h)
  bool constant_only = false;  // depends on parameters alone: `prepare` computes it
  bool kept = false;           // its result is needed in memory whoever reads it
  int nodes_in_body = 0;       // distinct nodes of its expressions
  // In the operator's own axes (a ReindexReduce's are those of what it reads): the extents, and where the axes are in `d`,
  // which puts kept axes first.
  Shape domain;
  std::vector<Expr> point;
  std::vector<int> in, out;  // edges, by number
};

struct FusionEdge {
  int from = 0, to = 0;
  int var = -1;  // Var id; -1: an order only (the reader uses a symbol that `from` binds)
  int64_t bytes = 0;
  bool fusable = false;  // may the ends be in one group, cycles aside?
};

struct FusionGraph {
  std::vector<FusionVertex> vertices;  // in execution order
  std::vector<FusionEdge> edges;       // ordered by reader, then by maker
};

// ---- the paper's rules for one edge ----
// Rule 1: a Reindex is not fused with what comes before it. Ops whose expressions read a Var elsewhere than at their own
// point reindex it in this sense. `reads_at_point`: every load of the Var is at the reader's own point.
bool rule_1_allows(const FusionVertex& reader, bool reads_at_point);
// Rule 2: a ReindexReduce is not fused with what comes after it.
bool rule_2_allows(const FusionVertex& maker);
// (Rule 3, no cycles between groups, is not about one edge: compiler/region/fusion/fuse_paper.cpp.)

// A Reindex that makes more elements than it reads (a broadcast, the windows of a convolution) and has several readers is
// part of each reader that may be fused with it: what is made of it is never worth memory. The paper does not say so;
// Jittor does it.
FusionGraph build_fusion_graph(const std::vector<Op*>& ops, const Needed& needed,
                               const std::function<bool(const Var*)>& is_constant, const std::vector<Symbol>& symbols);

}  // namespace metac
