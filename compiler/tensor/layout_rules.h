// The layouts that values are given (choose_layouts.h), and when.
#pragma once
#include <optional>

#include "compiler/tensor/contraction.h"
#include "compiler/tensor/definition.h"
#include "compiler/tensor/group.h"
#include "compiler/tensor/layout.h"

namespace metac {

// Axis `the_axis` last, the others in their order, with a gap after rows of a multiple of 4 KiB: they would all fall into
// the same sets of the first-level cache.
Layout last(const Shape& shape, int the_axis);
// Computed along rows and stored across them (a normalisation whose transpose was fused into it): storage follows the loops.
std::optional<Layout> order_of_loops(const Definition& d);
// A row kernel along the channels (statistics, and what follows from them) stores as it reads, point for point; axes of
// extent 1 may come or go.
std::optional<Layout> stored_as_read(const Definition& d, const Layouts& layouts);
// What reads channels, alone or in windows, keeps them where they are.
std::optional<Layout> stored_along_windows(const Definition& d, const Layouts& layouts);
// Does an index run along a reduced axis, alone or in blocks by a group's index? Not a window, which slides along another
// axis. Axes from `kept` on are reduced.
bool runs_along_sum(Expr index, int kept);

// Is a load, at `address`, the same in all lanes along an axis, or one vector of neighbours, in order or shuffled?
bool lanes_are_near(const Definition& d, int lanes_axis, int lanes, Expr load, Expr address,
                    const std::vector<Symbol>& symbols);

struct Halo {
  std::vector<int64_t> before, after;  // per axis of the data
};

// How many elements must follow each row of what `words` loads, a value of type `source`, whose neighbours along its index
// `inner` are the elements of words.
int64_t room_for_words(const Definition& d, Expr words, int inner, const Type& source, const std::vector<Symbol>& symbols);

// And where words of several groups are loaded as one vector of as many bytes as it has lanes.
int64_t room_for_groups(const Var& source, int inner, int lanes);

// The zeros around data of `shape` that make the conditions of an operand that reads it needless; empty where they say
// something else, or reach too far for the typical size of the data. `domain`: of the definition.
std::optional<Halo> halo_that_serves(const Operand& operand, const Shape& shape, const std::vector<Expr>& domain,
                                     const std::vector<Symbol>& symbols);

// Has what reads Var `whole` read Var `own` at the same indices: in words where it did.
void read_instead(Definition& reader, int whole, int own);

}  // namespace metac
