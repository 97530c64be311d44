// "define": operators that the document defines by formulas. They become functions of the model.
#include "compiler/ops/defined/operator_definition.h"
#include "compiler/ops/meta/meta_expression.h"
#include "frontends/json/reading.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;

// The value of the document that an error's text is.
const JsonValue* value_at_fault(const MetaExpressionError& error, const std::vector<const JsonValue*>& texts) {
  for (const JsonValue* text : texts)
    if (error.diagnostic.message.starts_with("expression " + quoted(text->text) + ", column ")) return text;
  return nullptr;
}

}  // namespace

ModelFunction definition_of_json(const JsonDocument& document, const std::string& signature, const JsonValue& value) {
  OperatorDefinition definition;
  definition.signature = signature;
  std::vector<const JsonValue*> texts = {&value};
  if (value.is(Json::string)) {
    definition.body = value.text;
  } else {
    JsonFields fields(document, value, "a definition");
    const JsonValue& body = fields.required("body");
    definition.body = expect_string(document, body, "\"body\"");
    texts = {&body};
    if (const JsonValue* gradient = fields.find("gradient")) {
      expect(document, *gradient, Json::object, "\"gradient\"");
      for (const auto& [name, text] : gradient->members) {
        definition.gradient[name] = expect_string(document, text, "a gradient");
        texts.push_back(&text);
      }
    }
    definition.fusible = fields.flag("fusible", true);
    fields.finish();
  }
  try {
    return function_of_definition(definition);
  } catch (const MetaExpressionError& error) {
    const JsonValue* at = value_at_fault(error, texts);
    if (!at) document.refuse(value.offset, error.diagnostic.message);
    document.refuse(at->offset + (document.is_verbatim(*at) ? 1 + error.column : 0), error.diagnostic.message);
  } catch (const CompileError& error) {
    document.refuse(value.offset, error.diagnostic.message);
  }
}

}  // namespace metac
