// Writes metac/op.hpp: every operator of the registry that has a function, as one of C++ with its attributes as the fields
// of a struct. Run while building.
//
//   metac_write_operators FILE
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include "compiler/ops/registry.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

struct Field {
  std::string name, type, setter;
};

const std::set<std::string> words_of_cpp = {
    "and",    "or",    "not", "xor", "alignof", "auto", "bool", "case",     "default", "do",     "double", "else",  "enum",
    "export", "float", "for", "if",  "int",     "long", "new",  "operator", "short",   "switch", "this",   "union", "while"};

std::string identifier(const std::string& name) { return words_of_cpp.count(name) ? name + "_" : name; }

// How an attribute is given; a plain field stands for "not given" where it is empty, so that all have a default.
Field field_of(const AttributeSpec& spec) {
  const std::string own = identifier(spec.name), quoted_name = "\"" + spec.name + "\"";
  switch (spec.kind) {
    case Kind::integer:
      return {own, "std::optional<int64_t>", "given.integer(" + quoted_name + ", options." + own + ");"};
    case Kind::real:
      return {own, "std::optional<double>", "given.real(" + quoted_name + ", options." + own + ");"};
    case Kind::string:
      return {own, "std::string", "given.string(" + quoted_name + ", options." + own + ");"};
    case Kind::integers:
      return {own, "std::vector<int64_t>", "given.integers(" + quoted_name + ", options." + own + ");"};
    case Kind::reals:
      return {own, "std::vector<double>", "given.reals(" + quoted_name + ", options." + own + ");"};
    case Kind::strings:
      return {own, "std::vector<std::string>", "given.strings(" + quoted_name + ", options." + own + ");"};
    default:
      return {};
  }
}

bool has_function(const OpSchema& schema) {
  if (schema.takes_sequences || schema.name.rfind("Sequence", 0) == 0 || schema.name == "SplitToSequence") return false;
  if (schema.name == "Gradient" || schema.name == "code" || schema.name == "expression") return false;
  for (const AttributeSpec& spec : schema.attributes)
    if ((spec.kind == Kind::graph || spec.kind == Kind::graphs) && spec.required) return false;
  return true;
}

std::string namespace_of(const std::string& domain) {
  std::string name = "op";
  if (domain.empty()) return name;
  std::string own = domain;
  for (char& c : own)
    if (c == '.') c = '_';
  return name + "::" + (own == "metac" ? "meta" : own);
}

void write_function(std::ostream& out, const OpSchema& schema) {
  const int newest = schema.domain.empty() ? newest_opset : schema.since.back();
  std::vector<Field> fields;
  for (const AttributeSpec& spec : schema.attributes)
    if (spec.since <= newest && newest < spec.until)
      if (Field field = field_of(spec); !field.name.empty()) fields.push_back(field);
  const bool several = schema.max_outputs != 1, open = schema.min_outputs != schema.max_outputs;
  const std::string options = schema.name + "Options", result = several ? "std::vector<Var>" : "Var";
  out << "\nstruct " << options << " {\n";
  for (const Field& field : fields) out << "  " << field.type << " " << field.name << " = {};\n";
  if (several && open) out << "  int32_t outputs = " << std::max(schema.min_outputs, 1) << ";  // how many are wanted\n";
  out << "  bool operator==(const " << options << "&) const = default;\n};\n";

  out << "inline " << result << " " << schema.name << "(std::span<const Var> operands, const " << options
      << "& options = {}, Place where = Place::current()) {\n"
      << "  static thread_local detail::LastOperator<" << options << "> last;\n"
      << "  const metac_operator* const applied = last.find(options, [&](detail::GivenAttributes& given) {\n"
      << "    static_cast<void>(given);\n";
  for (const Field& field : fields) out << "    " << field.setter << "\n";
  out << "    return given.find(\"" << schema.domain << "\", \"" << schema.name << "\");\n  });\n";
  const std::string count = !several ? "1" : open ? "options.outputs" : std::to_string(schema.max_outputs);
  out << "  return detail::apply" << (several ? "" : "_one") << "(applied, operands, " << (several ? count + ", " : "")
      << "where);\n}\n";

  // Operands one by one, those that may be left out at the end by fewer of them.
  const int most = schema.max_inputs < 0 ? std::max(schema.min_inputs, 2) : schema.max_inputs;
  for (int n = std::max(schema.min_inputs, schema.max_inputs == 0 ? 0 : 1); n <= std::min(most, 10); ++n) {
    if (n == 0) continue;
    out << "inline " << result << " " << schema.name << "(";
    for (int k = 0; k < n; ++k) out << "const Var& x" << k << ", ";
    out << "const " << options << "& options = {}, Place where = Place::current()) {\n  const Var operands[] = {";
    for (int k = 0; k < n; ++k) out << (k ? ", x" : "x") << k;
    out << "};\n  return " << schema.name << "(std::span<const Var>(operands), options, where);\n}\n";
  }
}

constexpr const char* head =
    R"(// Every operator as a function, written by metac_write_operators out of the registry: do not edit.
//
// Operands are Vars, Var() leaves one out; attributes are fields of a struct, those that are not set have ONNX's defaults at
// the newest opset: metac::op::Conv(x, w, {.pads = {1, 1, 1, 1}}). docs/operators.md of metac lists the operators.
#pragma once
#include <optional>

#include <metac/var.hpp>

namespace metac {
namespace detail {

// Attributes for metac_operator_find().
class GivenAttributes {
 public:
  void integer(const char* name, const std::optional<int64_t>& value) {
    if (value) add(name, METAC_INTEGER).integer = *value;
  }
  void real(const char* name, const std::optional<double>& value) {
    if (value) add(name, METAC_REAL).real = *value;
  }
  void string(const char* name, const std::string& value) {
    if (!value.empty()) add(name, METAC_STRING).string = value.c_str();
  }
  void integers(const char* name, const std::vector<int64_t>& values) {
    if (values.empty()) return;
    metac_attribute& own = add(name, METAC_INTEGERS);
    own.integers = values.data(), own.count = static_cast<int32_t>(values.size());
  }
  void reals(const char* name, const std::vector<double>& values) {
    if (values.empty()) return;
    metac_attribute& own = add(name, METAC_REALS);
    own.reals = values.data(), own.count = static_cast<int32_t>(values.size());
  }
  void strings(const char* name, const std::vector<std::string>& values) {
    if (values.empty()) return;
    std::vector<const char*>& words = words_.emplace_back();
    for (const std::string& value : values) words.push_back(value.c_str());
    metac_attribute& own = add(name, METAC_STRINGS);
    own.strings = words.data(), own.count = static_cast<int32_t>(words.size());
  }
  const metac_operator* find(const char* domain, const char* name) const {
    const metac_operator* found = nullptr;
    check(metac_operator_find(domain, name, given_.data(), static_cast<int32_t>(given_.size()), &found));
    return found;
  }

 private:
  metac_attribute& add(const char* name, int32_t kind) {
    metac_attribute& own = given_.emplace_back();
    own.name = name, own.kind = kind;
    return own;
  }
  std::vector<metac_attribute> given_;
  std::vector<std::vector<const char*>> words_;  // moved with its elements' memory
};

// A call with the options of the last one, of this thread and function, looks nothing up.
template <class Options>
class LastOperator {
 public:
  template <class Find>
  const metac_operator* find(const Options& options, Find&& find) {
    if (operator_ && options_ == options) return operator_;
    GivenAttributes given;
    operator_ = find(given);
    options_ = options;
    return operator_;
  }

 private:
  Options options_;
  const metac_operator* operator_ = nullptr;
};

inline void apply_into(const metac_operator* applied, std::span<const Var> operands, metac_var** made, int32_t count,
                       const Place& where) {
  metac_var* few[8];
  std::vector<metac_var*> many(operands.size() > 8 ? operands.size() : 0);
  metac_var** const inputs = many.empty() ? few : many.data();
  for (size_t k = 0; k < operands.size(); ++k) inputs[k] = operands[k].handle();
  const metac_site site = site_of(where);
  check(metac_var_apply(applied, inputs, static_cast<int32_t>(operands.size()), made, count, &site));
}
inline Var apply_one(const metac_operator* applied, std::span<const Var> operands, const Place& where) {
  metac_var* made = nullptr;
  apply_into(applied, operands, &made, 1, where);
  return Var(made);
}
inline std::vector<Var> apply(const metac_operator* applied, std::span<const Var> operands, int32_t count,
                              const Place& where) {
  std::vector<metac_var*> made(static_cast<size_t>(count));
  apply_into(applied, operands, made.data(), count, where);
  std::vector<Var> outputs;
  for (metac_var* each : made) outputs.emplace_back(each);
  return outputs;
}

}  // namespace detail

// What metac::define() or metac::define_file() made, as a function: metac::defined("mish", {x}, {{"k", 2}}).
inline Var defined(const char* name, const std::vector<Var>& operands,
                   const std::vector<std::pair<const char*, double>>& numbers = {}, const char* domain = "user",
                   Place where = Place::current()) {
  detail::GivenAttributes given;
  for (const auto& [key, number] : numbers) given.real(key, number);
  return detail::apply_one(given.find(domain, name), operands, where);
}
)";

constexpr const char* tail = R"(
// The words that a loss is mostly made of: over all elements.
inline Var sum(const Var& x, Place where = Place::current()) { return op::ReduceSum(x, {.keepdims = 0}, where); }
inline Var mean(const Var& x, Place where = Place::current()) { return op::ReduceMean(x, {.keepdims = 0}, where); }
inline Var stop_grad(const Var& x, Place where = Place::current()) { return op::meta::stop_gradient(x, {}, where); }
// The same value, across which nothing is fused: it lies in memory.
inline Var stop_fuse(const Var& x, Place where = Place::current()) { return op::meta::stop_fuse(x, {}, where); }

// function(inputs), a Var or a vector of Vars, whose inner values derivatives compute again instead of keeping them: less
// memory for more time. Random operators and recurrent layers are kept: they run once.
template <class Function>
auto checkpoint(Function&& function, const std::vector<Var>& inputs, Place where = Place::current()) {
  auto results = function(inputs);
  constexpr bool one = std::convertible_to<decltype(results), Var>;
  std::vector<Var> operands;
  if constexpr (one)
    operands.push_back(results);
  else
    operands = results;
  const int32_t count = static_cast<int32_t>(operands.size());
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  std::vector<Var> same = op::meta::checkpoint(operands, {.results = count, .outputs = count}, where);
  if constexpr (one)
    return same[0];
  else
    return same;
}

}  // namespace metac
)";

std::string header() {
  std::ostringstream out;
  out << head;
  std::string open = "-";
  for (const OpSchema* schema : all_operators()) {
    if (!has_function(*schema)) continue;
    const std::string own = namespace_of(schema->domain);
    if (own != open) {
      if (open != "-") out << "\n}  // namespace " << open << "\n";
      out << "\nnamespace " << own << " {\n";
      open = own;
    }
    write_function(out, *schema);
  }
  out << "\n}  // namespace " << open << "\n" << tail;
  return out.str();
}

}  // namespace
}  // namespace metac

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: metac_write_operators FILE\n");
    return 2;
  }
  std::ofstream file(arguments[1], std::ios::binary);
  file << metac::header();
  file.close();
  return file ? 0 : 1;
}
