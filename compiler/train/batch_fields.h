// The fields of a sample: the model's inputs with the batch fixed, and what the losses ask for besides. And the types of
// values in between, found by lowering.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/lower_model.h"
#include "compiler/train/losses.h"
#include "compiler/train/node_writer.h"
#include "compiler/train/training_model.h"

namespace metac {

class BatchFields {
 public:
  // Throws where an input has no batch axis or an open dim that nothing fixes.
  BatchFields(const Model& model, const Recipe& recipe, const LowerOptions& lower);

  // The model with all its inputs of static shape.
  Model with_fixed_inputs() const { return fixed_; }
  // The type of a value of `model` (which starts as with_fixed_inputs() and may have grown).
  TypedShape type_of(const Model& model, const std::string& name, const Place& place);
  // The field `name`, made an input of `model` where it is not one yet.
  TypedShape field(NodeWriter& write, Model& model, const std::string& name, const TypedShape& type, const Place& place);
  const std::vector<TrainingField>& fields() const { return fields_; }
  // What the inputs of `model`, all fields, are.
  std::vector<TrainingPort> ports(const Model& model) const;
  // A name that nothing in the model has, and that is not given twice.
  std::string unused(const std::string& hint);

 private:
  int find(const std::string& name) const;

  const Recipe& r_;
  Model fixed_;
  bool allow_code_ = false;
  std::vector<TrainingField> fields_;
  std::map<std::string, TypedShape> known_;
  std::set<std::string> names_;
};

}  // namespace metac
