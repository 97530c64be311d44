// Fusion as the Jittor paper has it (section 4.1): a partition of the graph of operators into groups that lowers the cost
// of equation 9 (compiler/region/fusion/fusion_cost.h) under rules 1 to 3, by the paper's greedy or by its labelling
// algorithm.
//
// greedy      The heaviest edge that the rules allow is fused, again and again, until there is none. Whether fusing two
//             groups would make a cycle (rule 3) is found by a search between their places in an order of the groups.
// labelling   One walk from the results to the inputs: the label of an op is the greatest number of edges that must not be
//             fused on a path from it to a result. Fused are the edges whose ends have the same label. Labels never grow
//             along an edge, and along an edge between two groups they fall, so rule 3 holds without any search. Linear in
//             the size of the graph; it misses fusions between ops whose labels differ though no path forbids them.
//             (The paper names this algorithm without giving it; this is how Jittor's fuser does it.)
//
// A group must also be one that our kernels can express (compiler/region/fusion/fusion_groups.h). Where labelling meets one
// that they cannot, the op begins a group of its own one label higher.
#pragma once
#include "compiler/region/fusion/fuse.h"

namespace metac {

// `fusion`: greedy, or paper (labelling). What prepare can compute is a group too and stays in the region.
FusedRegion fuse_paper(const std::vector<Op*>& ops, const Needed& needed, const std::function<bool(const Var*)>& is_constant,
                       const std::vector<Symbol>& symbols, Fusion fusion);

}  // namespace metac
