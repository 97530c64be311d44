#include "compiler/lazy/operation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>

#include "compiler/lazy/structure_hash.h"
#include "compiler/ops/attributes.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"

namespace metac::lazy {
namespace {

using Kind = Attribute::Kind;

const std::set<std::string> drawing = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
                                       "Bernoulli",    "Multinomial",      "Dropout"};

std::string display_name(const std::string& domain, const std::string& name) {
  return domain.empty() ? name : domain + "." + name;
}

const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::integer:
      return "an integer";
    case Kind::real:
      return "a number";
    case Kind::string:
      return "a text";
    case Kind::tensor:
      return "a tensor";
    case Kind::integers:
      return "integers";
    case Kind::reals:
      return "numbers";
    case Kind::strings:
      return "texts";
    default:
      return "of a kind that functions do not take";
  }
}

bool is_there(const AttributeSpec& spec, int opset) { return spec.since <= opset && opset < spec.until; }

// The attribute as the schema wants it: a number may be given as an integer, a list of one as its element.
Attribute as_wanted(const AttributeSpec& spec, Attribute given) {
  if (given.kind == spec.kind) return given;
  if (spec.kind == Kind::real && given.kind == Kind::integer) {
    given.kind = Kind::real, given.real = static_cast<double>(given.integer);
    return given;
  }
  if (spec.kind == Kind::reals && given.kind == Kind::integers) {
    given.kind = Kind::reals, given.reals.assign(given.integers.begin(), given.integers.end());
    return given;
  }
  const bool none = (given.kind == Kind::integers && given.integers.empty()) ||
                    (given.kind == Kind::reals && given.reals.empty()) ||
                    (given.kind == Kind::strings && given.strings.empty());
  if (none && (spec.kind == Kind::integers || spec.kind == Kind::reals || spec.kind == Kind::strings)) {
    given.kind = spec.kind;
    return given;
  }
  fail("attribute ", spec.name, " is ", kind_text(given.kind), "; it must be ", kind_text(spec.kind));
}

void check_attributes(const OpSchema& schema, std::map<std::string, Attribute>& attributes) {
  const int opset = opset_of(schema.domain);
  std::vector<std::string> known;
  for (const AttributeSpec& spec : schema.attributes)
    if (is_there(spec, opset)) known.push_back(spec.name);
  for (auto& [name, value] : attributes) {
    const AttributeSpec* wanted = nullptr;
    for (const AttributeSpec& spec : schema.attributes)
      if (spec.name == name && is_there(spec, opset)) wanted = &spec;
    if (!wanted) {
      std::string all;
      for (const std::string& other : known) all += (all.empty() ? "" : ", ") + other;
      fail("there is no attribute ", quoted(name), "; ", all.empty() ? "it has none" : "it has " + all);
    }
    value = as_wanted(*wanted, std::move(value));
  }
  for (const AttributeSpec& spec : schema.attributes)
    if (spec.required && is_there(spec, opset) && !attributes.count(spec.name)) fail("attribute ", spec.name, " is missing");
}

void mix(StructureHash& hash, const Attribute& attribute) {
  hash.mix(static_cast<uint64_t>(attribute.kind));
  hash.mix(static_cast<uint64_t>(attribute.integer));
  uint64_t bits = 0;
  const auto mix_real = [&](double real) {
    std::memcpy(&bits, &real, sizeof bits);
    hash.mix(bits);
  };
  mix_real(attribute.real);
  hash.mix_bytes(attribute.string);
  hash.mix(attribute.integers.size());
  for (const int64_t value : attribute.integers) hash.mix(static_cast<uint64_t>(value));
  hash.mix(attribute.reals.size());
  for (const double value : attribute.reals) mix_real(value);
  hash.mix(attribute.strings.size());
  for (const std::string& value : attribute.strings) hash.mix_bytes(value);
  for (const Tensor& tensor : attribute.tensors) {
    hash.mix(static_cast<uint64_t>(tensor.dtype));
    for (const int64_t dim : tensor.shape) hash.mix(static_cast<uint64_t>(dim));
    hash.mix_bytes({reinterpret_cast<const char*>(tensor.bytes.get()), tensor.byte_count()});
  }
}

using Table = std::unordered_map<StructureHash, std::unique_ptr<const Operation>>;
Table& table() {  // never destroyed, as types are not
  static Table& operations = *new Table();
  return operations;
}

}  // namespace

int opset_of(const std::string& domain) {
  if (domain.empty()) return newest_opset;
  static auto& newest = *new std::map<std::string, int>();
  if (newest.empty())
    for (const OpSchema* schema : all_operators())
      newest[schema->domain] = std::max(newest[schema->domain], schema->since.back());
  const auto found = newest.find(domain);
  return found == newest.end() ? 1 : found->second;
}

std::string why_no_function(const OpSchema& schema) {
  if (schema.takes_sequences || schema.name.rfind("Sequence", 0) == 0 || schema.name == "SplitToSequence")
    return "it takes or gives sequences of tensors: use lists";
  for (const AttributeSpec& spec : schema.attributes)
    if ((spec.kind == Kind::graph || spec.kind == Kind::graphs) && spec.required)
      return "it has subgraphs: write the loop or branch as code";
  if (schema.domain == "ai.onnx.preview.training" && schema.name == "Gradient") return "it names values: use grad";
  if (schema.domain == "metac" && schema.name == "code") return "it compiles text as code";
  if (schema.domain == "metac" && schema.name == "expression") return "it is what definitions of operators become";
  return "";
}

const Operation* operation(const std::string& domain, const std::string& name, std::map<std::string, Attribute> attributes) {
  StructureHash hash;
  hash.mix_bytes(domain);
  hash.mix_bytes(name);
  for (const auto& [key, value] : attributes) {
    hash.mix_bytes(key);
    mix(hash, value);
  }
  const auto found = table().find(hash);
  if (found != table().end()) return found->second.get();
  const OpSchema* schema = find_operator(domain, name);
  if (!schema) {
    std::vector<std::string> known;
    for (const OpSchema* each : all_operators())
      if (each->domain == domain) known.push_back(each->name);
    fail("there is no operator ", quoted(display_name(domain, name)), suggestion(name, known));
  }
  if (const std::string why = why_no_function(*schema); !why.empty())
    fail("operator ", display_name(domain, name), " has no function: ", why);
  try {
    check_attributes(*schema, attributes);
  } catch (const CompileError& error) {
    fail(display_name(domain, name), ": ", error.diagnostic.message);
  }
  const bool draws = drawing.count(name) > 0 && domain.empty();
  const bool stops = domain == "metac" && name == "stop_gradient";
  auto made = std::make_unique<const Operation>(
      Operation{domain, name, std::move(attributes), schema, table().size() + 1, draws, stops});
  return table().emplace(hash, std::move(made)).first->second.get();
}

const Operation* defined_operation(const ModelFunction& definition, std::map<std::string, Attribute> attributes) {
  const std::string shown_name = display_name(definition.domain, definition.name);
  if (definition.nodes.size() != 1 || definition.nodes[0].op_type != "expression" || definition.nodes[0].domain != "metac")
    fail("operator ", shown_name, " has no function: it is not defined by a formula");
  for (auto& [name, value] : attributes) {
    const auto found = definition.attribute_defaults.find(name);
    if (found == definition.attribute_defaults.end()) {
      std::string all;
      for (const auto& [known, unused] : definition.attribute_defaults) all += (all.empty() ? "it has " : ", ") + known;
      fail(shown_name, ": there is no attribute ", quoted(name), "; ", all.empty() ? "it has none" : all);
    }
    const bool whole = value.kind == Kind::real && value.real == std::trunc(value.real) && std::abs(value.real) < 1e15;
    if (found->second.kind == Kind::real && value.kind == Kind::integer)
      value = real_attribute(static_cast<double>(value.integer));
    else if (found->second.kind == Kind::integer && whole)
      value = integer_attribute(static_cast<int64_t>(value.real));
    if (value.kind != found->second.kind)
      fail(shown_name, ": attribute ", name, " is ", kind_text(value.kind), "; it must be ", kind_text(found->second.kind));
  }
  StructureHash hash;
  for (const std::string& text : {definition.domain, definition.name}) hash.mix_bytes(text);
  const auto mix_all = [&](const auto& list) {
    hash.mix(list.size());
    for (const auto& [key, value] : list) hash.mix_bytes(key), mix(hash, value);
  };
  mix_all(definition.attribute_defaults), mix_all(definition.nodes[0].attributes), mix_all(attributes);
  const auto found = table().find(hash);
  if (found != table().end()) return found->second.get();
  auto made = std::make_unique<Operation>(
      Operation{definition.domain, definition.name, std::move(attributes), nullptr, table().size() + 1});
  made->definition = std::make_shared<const ModelFunction>(definition);
  return table().emplace(hash, std::move(made)).first->second.get();
}

const Operation* gradient_operation() {
  static const Operation* const only = new Operation{"ai.onnx.preview.training", "Gradient", {}, nullptr, 0};
  return only;
}

}  // namespace metac::lazy
