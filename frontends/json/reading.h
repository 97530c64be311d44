// Inside the JSON front end: the parts of a document, each read by one function.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/ops/model.h"
#include "compiler/ops/registry.h"
#include "frontends/json/document.h"

namespace metac {

struct JsonSource {
  const JsonDocument& document;
  std::string folder;  // where files that the document names are looked for
  std::map<std::string, std::string> defined = {};  // operators that the document defines, and their domains
};

ValueType type_of_json(JsonFields& fields);  // takes dtype, shape, container, key_dtype
Value value_of_json(const JsonDocument& document, const JsonValue& value, const std::string& what);
// Takes name, doc, inputs, outputs, values, parameters, nodes and let; the caller finishes the object.
ModelGraph graph_of_json(const JsonSource& source, JsonFields& fields);
Node node_of_json(const JsonSource& source, const JsonValue& value);
// `spec`: what the operator's schema says of the attribute, or null.
Attribute attribute_of_json(const JsonSource& source, const JsonValue& value, const std::string& name,
                            const AttributeSpec* spec);

// A member of "define": "huber(x, delta = 1)": a formula, or {"body": ..., "gradient": {"x": ...}, "fusible": false}.
ModelFunction definition_of_json(const JsonDocument& document, const std::string& signature, const JsonValue& value);

// What the operator's schema says of an attribute; null where it says nothing or different things for different opsets.
const AttributeSpec* attribute_spec(const Node& node, const std::string& name);

// An expression or definition in a string value; mistakes are reported at their place in the document.
void check_expression(const JsonDocument& document, const JsonValue& value, const std::string& what);

// The names of dims of one graph: those its inputs state ("shape": ["N", 3]) and its "let". A node that uses one gets the
// definition and, where it lacks it, the operand whose shape it comes from, so that nodes are self-contained.
class DimNames {
 public:
  DimNames(const JsonDocument& document, const std::vector<Value>& inputs, const std::vector<JsonValue>& lets);
  void complete(Node& node) const;

 private:
  struct Definition {
    std::vector<std::string> names;
    std::string source;             // "N,C = x.shape"; empty: dim `axis` of input `operand`
    std::vector<std::string> uses;  // names and operands in the source
    std::string operand;
    int axis = 0;
  };
  std::vector<Definition> definitions_;  // the later may use the earlier
};

}  // namespace metac
