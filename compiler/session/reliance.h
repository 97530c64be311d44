// What a compilation relies on beside the inputs' dtypes and ranks: dims and values of the inputs at hand. Inputs of which
// the same is relied on are answered by the same program.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/lower_model.h"
#include "compiler/ops/model.h"

namespace metac {

// How much of the inputs is relied on; each includes what stands before it.
enum class Known {
  ranks,           // nothing: every dim is open
  lengths,         // how many elements integer vectors have: axes, pads and shapes come so, and decide ranks
  shapes,          // all shapes: what a library for static shapes knows
  small_integers,  // the values of small inputs of integers too
  small_inputs,    // and of floats
};

struct Reliance {
  static constexpr int64_t open = -1;          // a dim of at least 1
  static constexpr int64_t open_or_none = -2;  // one that may be 0
  struct Input {
    std::string name;
    std::vector<int64_t> dims;  // fixed ones, `open` and `open_or_none`
    std::optional<Tensor> value;
  };
  std::vector<Input> inputs;

  // Equal for what may be answered by the same program.
  std::string key() const;
  // "image 1x3x?x?, axes 2 = {...}": for people.
  std::string text() const;
  bool is_open() const;  // any dim
};

// Which inputs' shapes and values are relied on.
struct RelianceLevel {
  Known known = Known::shapes;
  // The dims of inputs whose shape is not known by `known`: as the model declares them, or all open. With this one, inputs'
  // shapes are open at every level but where their values are known.
  bool open_shapes = false;
  // Of the inputs whose values `known` lets through, those of these names; empty: of all.
  std::set<std::string> values;
};

using NamedTensors = std::map<std::string, Tensor>;

bool has_known_value(const std::string& name, const Tensor& tensor, const RelianceLevel& level);
bool has_known_shape(const std::string& name, const Tensor& tensor, const RelianceLevel& level);

// The reliance on `inputs` at that level. The model's open dims must have names (name_open_dims).
Reliance reliance_on(const Model& model, const NamedTensors& inputs, const RelianceLevel& level);

// Does a program with the reliance `made` answer what `wanted` is for? One whose dims may be 0 answers others too.
bool covers(const Reliance& made, const Reliance& wanted);

// Opens the dims of these names, but where an input's values are relied on.
void open_dims(const Model& model, const std::set<std::string>& names, Reliance& reliance);

// `base` for a program that relies on this.
LowerOptions relying_on(LowerOptions base, const Model& model, const Reliance& reliance);

// Every dim of the inputs becomes a symbol of its own; of all other values only ranks stay declared.
void open_all_dims(Model& model);
// Open dims of inputs without a name get one.
void name_open_dims(Model& model);

}  // namespace metac
