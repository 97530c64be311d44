// NumPy's functions and indices of Vars by name, and how Vars print, for Python to compare.
//
//   functions FOLDER    (inputs.safetensors -> functions.safetensors; prints.safetensors -> printed)
#include <iostream>
#include <sstream>

#include "weights_by_name.hpp"

namespace nn = metac::nn;
using metac::at;
using metac::ellipsis;
using metac::NamedVars;
using metac::newaxis;
using metac::Slice;
using metac::Var;

namespace {

NamedVars functions(const NamedVars& in) {
  const Var x = named(in, "x"), y = named(in, "y"), whole = named(in, "whole"), mask = named(in, "mask");
  const Var positive = metac::abs(x) + 0.5;
  return {
      {"sum", metac::sum(x)},
      {"sum of an axis", sum(x, 1)},
      {"sum of axes", sum(x, {0, -1}, true)},
      {"sum of all, kept", sum(x, {}, true)},
      {"sum of none", sum(x, std::vector<int64_t>())},
      {"sum of truths", sum(mask)},
      {"mean", mean(x, 2)},
      {"mean of integers", mean(whole)},
      {"max", max(x, {1, 2})},
      {"min", min(x)},
      {"prod", prod(whole, 0)},
      {"var", var(x, 1)},
      {"var, corrected", var(x, {0, 2}, true, 1)},
      {"argmax", argmax(x)},
      {"argmax of an axis", argmax(x, -1)},
      {"argmin", argmin(x, 0, true)},
      {"softmax", softmax(x)},
      {"softmax of an axis", softmax(x, 1)},
      {"log_softmax", log_softmax(x)},
      {"exp", exp(x)},
      {"log", log(positive)},
      {"sqrt", sqrt(positive)},
      {"tanh", tanh(x)},
      {"sigmoid", sigmoid(x)},
      {"relu", relu(x)},
      {"sin", sin(x)},
      {"cos", cos(x)},
      {"abs", abs(x)},
      {"floor", floor(x * 3)},
      {"ceil", ceil(x * 3)},
      {"round", round(x * 3)},
      {"sign", sign(x)},
      {"erf", erf(x)},
      {"softplus", softplus(x)},
      {"clip", clip(x, -0.5, 0.5)},
      {"clip above", clip(x, {}, 1)},
      {"clip of integers", clip(whole, 1)},
      {"reshape", reshape(x, {4, -1})},
      {"reshape to none", reshape(sum(x), {})},
      {"flatten", flatten(x, 1)},
      {"flatten all", flatten(x)},
      {"transpose", transpose(x)},
      {"transpose by axes", transpose(x, {0, -1, 1})},
      {"unsqueeze", unsqueeze(x, 1)},
      {"squeeze", squeeze(unsqueeze(x, 1))},
      {"squeeze an axis", squeeze(unsqueeze(x, 1), 1)},
      {"broadcast_to", broadcast_to(y, {2, 3, 4})},
      {"astype", astype(whole, METAC_FLOAT64)},
      {"concatenate", metac::concatenate({x, x * 2}, -1)},
      {"where", where(mask, x, x * 2)},
      {"where with a number", where(mask, 0, x)},
      {"where else a number", where(mask, x, -1.5)},
      {"reindex", reindex(whole, {3, 2}, {"i1", "i0"})},
      {"reindex_reduce", reindex_reduce(whole, {2}, {"i0"}, "max")},
      {"not", ~mask},
      {"complement", ~whole},
      {"and", mask & (x > 0)},
      {"or", mask | (x > 0)},
      {"xor", mask ^ (x > 0)},
      {"modulo", whole % 2},
      {"floor_divide", floor_divide(whole, 2)},
      {"floor_divide by a Var", floor_divide(whole, whole + 7)},
      {"pow", pow(positive, x)},
      {"pow of a number", pow(2, x)},
      {"stop_grad", stop_grad(x)},
      {"vjp", metac::vjp(tanh(x), {x}, x * 2)[0]},
      {"jvp", metac::jvp(sin(x) * y, {x, y}, {x, y * 2})},
  };
}

NamedVars indexed(const Var& x, const std::string& of) {
  const NamedVars all = {
      {"[1]", at(x, 1)},
      {"[-1, 2]", at(x, {-1, 2})},
      {"[:, 1:]", at(x, {Slice{}, Slice{1, {}}})},
      {"[:, ::-1]", at(x, {Slice{}, Slice{.step = -1}})},
      {"[..., -3:-1]", at(x, {ellipsis, Slice{-3, -1}})},
      {"[0, ..., 1:9:2]", at(x, {0, ellipsis, Slice{1, 9, 2}})},
      {"[..., 3:0:-2]", at(x, {ellipsis, Slice{3, 0, -2}})},
      {"[:, None, 1]", at(x, {Slice{}, newaxis, 1})},
      {"[None, ..., None]", at(x, {newaxis, ellipsis, newaxis})},
      {"[1:1]", at(x, Slice{1, 1})},
      {"[5:-9:-3]", at(x, Slice{5, -9, -3})},
      {"[:, [2, 0]]", at(x, {Slice{}, std::vector<int64_t>{2, 0}})},
      {"[1, [2, 0, 2], 1:3]", at(x, {1, std::vector<int64_t>{2, 0, 2}, Slice{1, 3}})},
      {"[np.array([[1, 0]])]", at(x, metac::array<int64_t>({1, 0}, {1, 2}))},
      {"[::7]", at(x, Slice{.step = INT64_MAX})},
      {"[::-7]", at(x, Slice{.step = INT64_MIN})},
      {"[...]", at(x, ellipsis)},
  };
  NamedVars named;
  for (const auto& [key, var] : all) named.emplace_back(of + key, var);
  return named;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::string folder = std::string(arguments[1]) + "/";
  const NamedVars in = nn::load_weights(folder + "inputs.safetensors");
  const Var x = named(in, "x");
  NamedVars made = functions(in);
  for (const NamedVars& more : {indexed(x, "there"), indexed(x + 0, "yet to come")})
    made.insert(made.end(), more.begin(), more.end());
  nn::save_weights(folder + "functions.safetensors", made);

  std::ofstream printed(folder + "printed");
  for (const auto& [name, var] : nn::load_weights(folder + "prints.safetensors")) printed << var << '\0';
  std::ostringstream none;
  none << Var();
  expect(none.str() == "metac::Var()", none.str());
  return 0;
}
