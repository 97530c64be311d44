#include "compiler/train/sequence_loss.h"

#include "compiler/support/diagnostic.h"
#include "compiler/train/class_scores.h"

namespace metac {
namespace {

std::string lengths_field(const LossContext& c, const LossRecipe& loss, const std::string& name) {
  if (name.empty()) return "";
  TypedShape type = c.field(name, {DType::i64, {c.batch}}, loss.place);
  if (!is_integer(type.dtype) || type.shape.size() != 1)
    refuse_loss(loss.place, concat("the lengths ", quoted(name), " are ", name_of(type.dtype), " ", to_string(type.shape),
                                   "; one integer a sample is wanted"));
  return name;
}

}  // namespace

LossValues write_ctc(const LossContext& c, const LossRecipe& loss) {
  std::string scores = output_of(c, loss);
  const TypedShape type = c.value(scores, loss.output_place);
  if (!is_float(type.dtype))
    refuse_loss(loss.output_place, concat("the output ", quoted(scores), " is ", name_of(type.dtype), ", not a float"));
  const size_t batch_axis = loss.time_first ? 1 : 0;
  if (type.shape.size() != 3 || type.shape[batch_axis] != c.batch)
    refuse_loss(loss.output_place,
                concat("the output ", quoted(scores), " is ", to_string(type.shape), "; CTC wants ",
                       loss.time_first ? "[steps, batch, classes]" : "[batch, steps, classes] (or \"time_first\": true)",
                       " with a batch of ", c.batch));
  if (loss.blank >= type.shape[2])
    refuse_loss(loss.place, concat("\"blank\" is ", loss.blank, ", there are ", type.shape[2], " classes"));
  TypedShape labels = c.field(loss.target, {DType::i64, {c.batch, loss.longest}}, loss.place);
  if (!is_integer(labels.dtype) || labels.shape.size() != 2)
    refuse_loss(loss.place, concat("the target ", quoted(loss.target), " is ", name_of(labels.dtype), " ",
                                   to_string(labels.shape), "; CTC wants integers [batch, labels]"));
  if (labels.shape[1] == 0)
    refuse_loss(loss.place, concat("how many labels has a sample at most? \"longest\": 20, or the field: \"fields\": {",
                                   quoted(loss.target), ": {\"dtype\": \"int64\", \"shape\": [20]}}"));
  std::vector<std::string> inputs = {log_probabilities(c, loss, scores, 2), loss.target,
                                     lengths_field(c, loss, loss.target_lengths),
                                     lengths_field(c, loss, loss.input_lengths)};
  if (loss.time_first) {
    std::string turned = c.write.fresh("train/ctc/scores");
    c.write.add("metac", "transpose", {inputs[0]}, {turned}).attributes["dims"] = integers_attribute({1, 0, 2});
    inputs[0] = turned;
  }
  std::string value = c.write.fresh("train/ctc");
  Node& node = c.write.add("metac", "ctc_loss", inputs, {value});
  node.attributes["blank"] = integer_attribute(loss.blank);
  node.attributes["zero_infinity"] = integer_attribute(loss.zero_infinity);
  if (loss.reduction != Reduction::mean) return {value, "", 1};
  // The mean is over labels first: a sample's loss is divided by its number of labels.
  std::string lengths = inputs[2];
  if (lengths.empty())
    lengths = c.write.reduce("sum", c.write.elementwise({loss.target}, "@0 < 0 ? 0 : 1", "train/ctc/labels", "int64"), {1},
                             false, "train/ctc/labels");
  const std::string dtype(name_of(type.dtype));
  return {c.write.elementwise({value, lengths}, "@0/" + dtype + "(max(@1, 1))", "train/ctc"), "", 1};
}

}  // namespace metac
