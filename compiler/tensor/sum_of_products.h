// A sum of products, the form of matrix products, of all convolutions, of einsums, of attention's two products and of all
// their gradients:
//
//   out[batch, rows, columns] = sum over steps of first[batch, rows, steps] * second[batch, columns, steps]
//
// It is found in a Definition, and that is the one place where a body is taken apart for it. Nothing here knows an operator,
// an extent (dims may be open), a layout or a target: whoever computes sums of products in some way of its own (tiles of
// vectors, tensor cores, a vendor's library, minimal filtering) or only counts them asks for this form and says what else it
// wants of it.
//
//   body   = product, below conditions outside of which nothing is added and below conversions
//   factor = a value, which may be an element of one Var below conditions outside of which it counts as `outside`, a scale,
//            a zero point and conversions; or anything that is computed
#pragma once
#include <array>
#include <memory>

#include "compiler/tensor/axes.h"
#include "compiler/tensor/definition.h"

namespace metac {

struct Factor {
  Expr value;   // as the body has it
  Expr narrow;  // the value before its outermost conversion made it wider, below the same conditions; empty: it is none

  // What it is made of where that is an element of one Var, read at places that do not depend on data; else `load` is empty.
  Expr load;
  std::vector<IndexForm> indices;  // of the load
  std::vector<DType> conversions;  // of the element, from it outwards
  Expr scale;                      // the same along the sum; empty: there is none
  Expr zero_point;                 // taken off before the scale, the same along the sum; empty: there is none

  std::vector<Expr> conditions;  // outside of which it counts as `outside`
  int64_t outside = 0;           // other than 0 for words of integers alone

  // An element of a Var and nothing else, but for conditions.
  bool is_element() const { return bool(load) && conversions.empty() && !scale && !zero_point; }
};

// An index of a factor that moves with what is kept and with what is summed.
struct WindowOfSum {
  int factor = 0, index = 0;           // of its load
  std::vector<AxisStep> points, taps;  // kept axes and their strides, reduced axes and their dilations
  Expr offset;
};

struct SumOfProducts {
  // The definition's axes, each list ascending. Kept axes that both factors read or none, the first alone, the second alone;
  // reduced axes likewise.
  std::vector<int> batch, rows, columns;
  std::vector<int> steps, row_steps, column_steps;

  Fn product = Fn::mul;            // or of words, the sum of their elements' products (dot_u8s8, ...), along the last axis
  std::array<Factor, 2> factors;   // in the order of the body
  std::vector<Expr> conditions;    // outside of which nothing is added
  std::vector<DType> conversions;  // of a product before it is added, outwards
  std::vector<WindowOfSum> windows;

  bool of_words() const { return product != Fn::mul; }
  // A product as it is, that is added whatever the place.
  bool is_bare() const { return conditions.empty() && conversions.empty(); }
  Expr index_of(const WindowOfSum& w) const {
    return factors[static_cast<size_t>(w.factor)].load->args[static_cast<size_t>(w.index)];
  }
};

// Null where it is none. Of a scatter, axes that decide about the place in the result count as kept. What was found is kept:
// whoever asks again for the same body gets the same answer, so that asking costs little.
std::shared_ptr<const SumOfProducts> sum_of_products(const Definition& d);
// Of a body over `axes` axes, of which the first `kept` are: what would be summed if it were.
std::shared_ptr<const SumOfProducts> sum_of_products(Expr body, int kept, int axes);

// A sum is the sum of its terms, and what is the same along it, a scale or a sign, could stand outside: the terms without
// that which are sums of products.
std::vector<std::shared_ptr<const SumOfProducts>> sums_of_terms(const Definition& d);

// "batch 0, rows 2 3, columns 1, steps 4 5 6, first[2] = 2*i2 + i5 - 1": for messages, dumps and tests.
std::string to_string(const SumOfProducts& s);

// Bodies taken apart so far, by all threads: what tests count.
int64_t recognised_sums_of_products();

}  // namespace metac
