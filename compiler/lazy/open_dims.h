// Open dims of a traced function. Code sees numbers where a model has names: `x.reshape(x.shape[0], -1)` hands the extent on
// as a constant. So the function is called several times, with arguments of other sizes, and what differs between the calls
// tells what depends on sizes: every number that does is looked for among the dims of the values that were there when it was
// written, their products, and simple formulas of them. A number that is none of these, and calls that do other things, are
// errors that name the line.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/lazy/lazy_model.h"

namespace metac::lazy {

// Axis `axis` of argument `input` is open and called `name`: one size everywhere.
struct OpenDim {
  size_t input = 0;
  int axis = 0;
  std::string name;
};

// The sizes of the dims (of each name, in the order in which the names come) in call number `call`; the last two calls stand
// for one another: where the function refuses the sizes of the first, which are odd, those of the second are multiples of
// `given`, what the user's own arguments have. Empty beyond the last.
std::vector<int64_t> sizes_to_try(const std::vector<int64_t>& given, size_t call);

// One call: `cut` gives its results, arguments first among its inputs.
struct TracedCall {
  Cut cut;
  std::vector<Value*> arguments;
};

// What of the first call depends on open dims, as `names` says it for model_of(); the cut loses inputs that nothing reads
// then. Throws CompileError.
void open_dims(std::vector<TracedCall>& calls, const std::vector<OpenDim>& dims, ModelNames& names);

}  // namespace metac::lazy
