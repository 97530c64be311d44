// Operands that say something about shapes: axes, extents, starts, repeats. What the compiler knows of them becomes Exprs
// over symbols; what only data knows becomes symbols bound while the program runs.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/registry.h"

namespace metac {

// An integer expression of any integer dtype as index arithmetic over int64 (shape arithmetic in int32 becomes ordinary
// dims; such arithmetic is assumed not to overflow). Empty where it is none.
Expr as_index(Expr e);

// Element `index` of an integer Var, between `min` and `max` where it is bound at run time.
Expr index_element(Graph& g, Var* x, int64_t index, std::string_view what, int64_t min = INT64_MIN, int64_t max = INT64_MAX);
// All elements of an integer Var of rank 0 or 1, whose number must be known.
std::vector<Expr> index_elements(Graph& g, Var* x, std::string_view what, int64_t min = INT64_MIN, int64_t max = INT64_MAX);
// Extents: as above, at least 0.
std::vector<Expr> dim_elements(Graph& g, Var* x, std::string_view what);
// The one element of a Var of rank 0 or of one element.
Expr index_scalar(Graph& g, Var* x, std::string_view what, int64_t min = INT64_MIN, int64_t max = INT64_MAX);

// The values of a Var that are needed at compile time (axes decide a rank): fails naming `what` where they are not known.
std::vector<int64_t> known_integers(Graph& g, Var* x, std::string_view what);
// The numbers of a Var of any numeric dtype if all are known.
std::optional<std::vector<double>> known_numbers(const Var* x);

// A scalar of any numeric dtype as index arithmetic where it is a whole number: an integer, a known float without fraction,
// or an integer converted to float (exporters compute grid sizes so). Empty where it is not known to be one.
Expr whole_number(Graph& g, Var* x);

// Negative axes normalised; fails on what is out of range or named twice.
std::vector<int> check_axes(const std::vector<int64_t>& axes, int rank, std::string_view what = "axis");
// 0, 1, ..., rank - 1.
std::vector<int> all_axes(int rank);

// A scalar int64 Var with the value of an Expr over symbols.
Var* scalar_of(Graph& g, Expr value, DType dtype = DType::i64);
// `x` as a Var of rank 0; it must have one element.
Var* to_scalar(Graph& g, Var* x, std::string_view what);

// An int64 index Expr read from data, with negative values counting from the end and what is out of range moved to the
// nearest element: no read outside the tensor, whatever the data says.
Expr safe_index(Expr index, Dim extent);
// Fails unless they are int32 or int64.
void require_index_dtype(const Var* indices);
// Fails where an element of `indices` that is known is not in [-extent, extent), of an open extent when the model runs; not in
// regions, where an index must be a safe one. Of tuples of `parts` indices, only the
// index `part` of each is looked at.
void check_index_range(Graph& g, const Var* indices, Dim extent, std::string_view what, int64_t part = 0, int64_t parts = 1);

// With the ranges of the graph's symbols.
Expr simplified(const Graph& g, Expr e);

}  // namespace metac
