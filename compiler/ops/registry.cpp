#include "compiler/ops/registry.h"

#include <map>
#include <memory>

namespace metac {
namespace {

using Table = std::map<std::pair<std::string, std::string>, std::unique_ptr<OpSchema>>;

// A function's static: operators register while other statics are being made.
Table& table() {
  static Table operators;
  return operators;
}

}  // namespace

OperatorBuilder::OperatorBuilder(const char* name, const char* domain) {
  auto [place, fresh] = table().emplace(std::pair(std::string(domain), std::string(name)), std::make_unique<OpSchema>());
  METAC_ASSERT(fresh, "operator ", name, " is registered twice");
  schema_ = place->second.get();
  schema_->name = name;
  schema_->domain = domain;
  schema_->since = {1};
}

OperatorBuilder& OperatorBuilder::since(std::initializer_list<int> opsets) {
  schema_->since = opsets;
  return *this;
}

OperatorBuilder& OperatorBuilder::inputs(int min, int max) {
  schema_->min_inputs = min;
  schema_->max_inputs = max;
  return *this;
}

OperatorBuilder& OperatorBuilder::outputs(int min, int max) {
  schema_->min_outputs = min;
  schema_->max_outputs = max;
  return *this;
}

OperatorBuilder& OperatorBuilder::attribute(const char* name, Attribute::Kind kind, int since, int until) {
  schema_->attributes.push_back({name, kind, false, since, until});
  return *this;
}

OperatorBuilder& OperatorBuilder::required(const char* name, Attribute::Kind kind, int since, int until) {
  schema_->attributes.push_back({name, kind, true, since, until});
  return *this;
}

OperatorBuilder& OperatorBuilder::takes_sequences() {
  schema_->takes_sequences = true;
  return *this;
}

OperatorBuilder& OperatorBuilder::cancels(double atol) {
  schema_->atol = atol;
  return *this;
}

OperatorBuilder& OperatorBuilder::lower(LowerFunction function) {
  schema_->lower = std::move(function);
  return *this;
}

const OpSchema* find_operator(const std::string& domain, const std::string& name) {
  auto found = table().find({domain, name});
  return found == table().end() ? nullptr : found->second.get();
}

std::vector<const OpSchema*> all_operators() {
  std::vector<const OpSchema*> out;
  for (const auto& [key, schema] : table()) out.push_back(schema.get());
  return out;
}

}  // namespace metac
