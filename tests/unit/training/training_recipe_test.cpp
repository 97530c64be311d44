// What recipes are refused for, and where: each with line and column.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/training.h"

namespace metac::training_recipe_test {
namespace {

using ::testing::HasSubstr;

struct WrongRecipe {
  const char* name;
  const char* text;  // with '@' where the message points
  const char* message;
};
void PrintTo(const WrongRecipe& c, std::ostream* out) { *out << c.name; }

const WrongRecipe wrong_recipes[] = {
    {"no_json", "{\"loss\": @}", "syntax error"},
    {"no_object", "@[]", "the recipe must be an object"},
    {"no_loss", "@{\"optimizer\": \"sgd\"}", "the recipe needs a \"loss\""},
    {"no_optimizer", "@{\"loss\": \"mse\"}", "the recipe needs a \"optimizer\""},
    {"unknown_field", "{\"loss\": \"mse\", \"optimizer\": \"sgd\",\n \"epoch\": @3}",
     "no field \"epoch\"; did you mean \"epochs\"?"},
    {"steps_and_loss",
     "{\"loss\": @\"mse\", \"steps\": [{\"name\": \"s\", \"nodes\": [{\"op\": \"model\", \"domain\": \"network\", "
     "\"inputs\": [\"x\"], \"outputs\": [\"y\"]}], \"loss\": \"y\", \"trains\": \"model\", \"optimizer\": \"sgd\"}]}",
     "the recipe has no field \"loss\""},
    {"no_steps", "{\"steps\": @[]}", "there is no step in the list"},
    {"unknown_network",
     "{\"networks\": {\"D\": \"d.json\"}, \"steps\": [@{\"name\": \"s\", \"nodes\": [{\"op\": \"E\", \"domain\": "
     "\"network\", \"inputs\": [\"x\"], \"outputs\": [\"y\"]}], \"loss\": \"y\", \"trains\": \"E\", \"optimizer\": "
     "\"sgd\"}]}",
     "step \"s\" calls the network \"E\" (line 1); there are \"model\", \"D\""},
    {"network_called_model", "{\"networks\": {\"model\": @\"d.json\"}, \"steps\": []}",
     "\"model\" is the model that is compiled"},
    {"trains_nothing", "{\"steps\": [@{\"name\": \"s\", \"nodes\": [], \"loss\": \"y\", \"optimizer\": \"sgd\"}]}",
     "step \"s\" does not say which networks it \"trains\""},
    {"trains_what_it_does_not_call",
     "{\"steps\": [{\"name\": \"s\", \"nodes\": [], \"loss\": \"y\", \"trains\": @\"model\", \"optimizer\": \"sgd\"}]}",
     "step \"s\" trains \"model\" and does not call it"},
    {"keeps_in_no_state",
     "{\"steps\": [{\"name\": \"s\", \"nodes\": [{\"op\": \"model\", \"domain\": \"network\", \"inputs\": [\"x\"], "
     "\"outputs\": [\"y\"]}], \"loss\": \"y\", \"trains\": \"model\", \"optimizer\": \"sgd\", \"keep\": {\"k\": @\"y\"}}]}",
     "there is no state \"k\" to keep a value in"},
    {"first_step_seldom",
     "{\"steps\": @[{\"name\": \"s\", \"nodes\": [{\"op\": \"model\", \"domain\": \"network\", \"inputs\": [\"x\"], "
     "\"outputs\": [\"y\"]}], \"loss\": \"y\", \"trains\": \"model\", \"optimizer\": \"sgd\", \"every\": 2}]}",
     "the first step runs in every update"},
    {"unknown_field_of_quantization", "{\"loss\": \"mse\", \"optimizer\": \"sgd\", \"quantization\": {\"weight_bit\": @4}}",
     "\"quantization\" has no field \"weight_bit\"; did you mean \"weight_bits\"?"},
    {"weights_of_1_bit", "{\"loss\": \"mse\", \"optimizer\": \"sgd\", \"quantization\": {\"weight_bits\": @1}}",
     "\"weight_bits\" must be in 2..8, this is 1"},
    {"quantised_halves", "{\"loss\": \"mse\", \"optimizer\": \"sgd\", \"storage\": \"bfloat16\", \"quantization\": @{}}",
     "does not go with a \"storage\" of half types"},
    {"quantised_steps",
     "{\"steps\": [{\"name\": \"s\", \"nodes\": [{\"op\": \"model\", \"domain\": \"network\", "
     "\"inputs\": [\"x\"], \"outputs\": [\"y\"]}], \"loss\": \"y\", \"trains\": \"model\", \"optimizer\": \"sgd\"}], "
     "\"quantization\": @{}}",
     "the recipe has no field \"quantization\""},
    {"unknown_loss", "{\"loss\": @\"cross_entrpy\", \"optimizer\": \"sgd\"}", "did you mean \"cross_entropy\"?"},
    {"unknown_optimizer", "{\"loss\": \"mse\", \"optimizer\": {\"kind\": @\"adamax\"}}",
     "known are sgd, adam, adamw, adagrad, rmsprop, lion"},
    {"option_of_another", "{\"loss\": \"mse\", \"optimizer\": {\"kind\": \"sgd\", \"beta1\": @0.9}}",
     "the optimizer has no field \"beta1\""},
    {"near_option", "{\"loss\": \"mse\", \"optimizer\": {\"kind\": \"sgd\", \"momentun\": @0.9}}",
     "did you mean \"momentum\"?"},
    {"beta_of_1", "{\"loss\": \"mse\", \"optimizer\": {\"kind\": \"adam\", \"beta1\": @1}}",
     "\"beta1\" must be in [0, 1), this is 1"},
    {"negative_rate", "{\"loss\": \"mse\", \"optimizer\": {\"kind\": \"sgd\",\n\n  \"learning_rate\": @-1}}",
     "\"learning_rate\" must be at least 0, this is -1"},
    {"nesterov_alone", "{\"loss\": \"mse\", \"optimizer\": @{\"kind\": \"sgd\", \"nesterov\": true}}",
     "needs a momentum above 0"},
    {"batch_of_0", "{\"batch\": @0, \"loss\": \"mse\", \"optimizer\": \"sgd\"}", "\"batch\" must be in 1.."},
    {"batch_is_text", "{\"batch\": @\"many\", \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "must be a number, this is a string"},
    {"smoothing_too_far", "{\"loss\": {\"kind\": \"cross_entropy\", \"label_smoothing\": @1.5}, \"optimizer\": \"sgd\"}",
     "must be in [0, 1]"},
    {"expression_without_body", "{\"loss\": @{\"kind\": \"expression\"}, \"optimizer\": \"sgd\"}", "either a \"body\""},
    {"wrong_body",
     "{\"loss\": {\"kind\": \"expression\", \"body\": \"y -@* t\", \"operands\": [\"y\", \"t\"]}, \"optimizer\": \"sgd\"}",
     "expected a value, found \"*\""},
    {"two_clips", "{\"clip\": @{\"norm\": 1, \"value\": 2}, \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "one of them is enough"},
    {"average_from_below_0", R"({"average": {"from": @-1}, "loss": "mse", "optimizer": "sgd"})", "must be"},
    {"average_of_1", "{\"average\": @1, \"loss\": \"mse\", \"optimizer\": \"sgd\"}", "must be in [0, 1)"},
    {"unknown_schedule", "{\"schedule\": {\"kind\": @\"cosin\"}, \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "did you mean \"cosine\"?"},
    {"step_without_length", "{\"schedule\": @{\"kind\": \"step\"}, \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "either \"every\" or \"milestones\""},
    {"unsorted_milestones",
     "{\"schedule\": {\"kind\": \"step\", \"milestones\": @[5, 3]}, \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "must ascend"},
    {"unknown_metric", "{\"metrics\": [@\"acuracy\"], \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "did you mean \"accuracy\"?"},
    {"unknown_watch", "{\"watch\": @\"f1\", \"loss\": \"mse\", \"optimizer\": \"sgd\"}", "known are loss"},
    {"unknown_format", "{\"data\": {\"format\": @\"tfrecord\"}, \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "known are npy, npz, idx"},
    {"two_validations",
     "{\"data\": {\"format\": \"npz\", \"validation\": \"v\", \"validation_split\": @0.1}, \"loss\": \"mse\", "
     "\"optimizer\": \"sgd\"}",
     "already"},
    {"deviation_of_0",
     "{\"data\": {\"format\": \"npz\", \"fields\": {\"x\": {\"deviation\": @[0]}}}, \"loss\": \"mse\", \"optimizer\": "
     "\"sgd\"}",
     "a deviation of 0"},
    {"unknown_dtype", "{\"fields\": {\"w\": {\"dtype\": @\"float31\"}}, \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "\"float31\" is not known"},
    // What only the model shows.
    {"unknown_output", "{\"loss\": {\"kind\": \"mse\", \"output\": @\"z\"}, \"optimizer\": \"sgd\"}",
     "no value \"z\"; its outputs are: \"y\""},
    {"wrong_class_weights", "{\"loss\": @{\"kind\": \"cross_entropy\", \"class_weights\": [1, 2]}, \"optimizer\": \"sgd\"}",
     "2 values, there are 3 classes"},
    {"wrong_axis", "{\"loss\": {\"kind\": \"cross_entropy\", \"axis\": @2}, \"optimizer\": \"sgd\"}",
     "axis 2 is no axis of classes: the output is 32x3"},
    {"target_is_computed", "{\"loss\": @{\"kind\": \"mse\", \"target\": \"h\"}, \"optimizer\": \"sgd\"}",
     "the model computes a value \"h\" itself"},
    {"no_such_parameter", "{\"freeze\": [@\"w3\"], \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "no parameter matches \"w3\""},
    {"no_such_group",
     "{\"groups\": [{\"match\": @\"bias*\", \"weight_decay\": 0}], \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "no parameter matches \"bias*\"; there are 3 in \"small.json\""},
    {"node_without_outputs",
     "{\"loss\": @{\"kind\": \"expression\", \"nodes\": [{\"op\": \"Abs\", \"inputs\": [\"y\"]}], \"value\": \"y\"}, "
     "\"optimizer\": \"sgd\"}",
     "(Abs) has no outputs"},
    {"node_writes_the_models",
     "{\"loss\": @{\"kind\": \"expression\", \"nodes\": [{\"op\": \"Abs\", \"inputs\": [\"y\"], \"outputs\": [\"h\"]}], "
     "\"value\": \"h\"}, \"optimizer\": \"sgd\"}",
     "writes \"h\", which the model has already"},
    {"value_of_no_batch",
     "{\"loss\": @{\"kind\": \"expression\", \"nodes\": [{\"op\": \"sum\", \"inputs\": [\"y\"], \"outputs\": [\"s\"]}], "
     "\"value\": \"s\"}, \"optimizer\": \"sgd\"}",
     "one value or more per sample"},
    {"accuracy_of_mse", "{\"metrics\": [@\"accuracy\"], \"loss\": \"mse\", \"optimizer\": \"sgd\"}",
     "accuracy goes with a cross-entropy loss"},
};

class WrongRecipes : public ::testing::TestWithParam<WrongRecipe> {};

TEST_P(WrongRecipes, AreRefusedAtTheirPlace) {
  std::string text = GetParam().text;
  const size_t at = text.find('@');
  text.erase(at, 1);
  const long line = std::count(text.begin(), text.begin() + static_cast<long>(at), '\n') + 1;
  const size_t column =
      at - (text.rfind('\n', at == 0 ? 0 : at - 1) == std::string::npos ? 0 : text.rfind('\n', at - 1) + 1) + 1;
  try {
    build_training_model(small_network("float32"), read_recipe(text, "recipe.json"), {});
    FAIL() << "was taken";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostic.file, "recipe.json:" + std::to_string(line) + ":" + std::to_string(column)) << error.what();
    EXPECT_THAT(error.diagnostic.message, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(All, WrongRecipes, ::testing::ValuesIn(wrong_recipes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Recipe, NothingLeftToTrainIsSaid) {
  try {
    build_training_model(small_network(),
                         read_recipe(R"({"freeze": "*", "loss": "mse", "optimizer": "sgd"})", "recipe.json"), {});
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_THAT(error.diagnostic.text(), HasSubstr("nothing is left to train: of 3 float initialisers"));
  }
}

TEST(Recipe, PatternsAreGlobs) {
  EXPECT_TRUE(matches("*.bias", "layer.1.bias"));
  EXPECT_TRUE(matches("layer.?.*", "layer.1.bias"));
  EXPECT_FALSE(matches("layer.?", "layer.10"));
  EXPECT_TRUE(matches("*a*b*c*", "xxaxxbxxc"));
  EXPECT_FALSE(matches("*a*b*c", "xxaxxbxxcx"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "x"));
  EXPECT_TRUE(matches("a*", "a*"));
  std::string many(5000, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*b", many));
}

}  // namespace
}  // namespace metac::training_recipe_test
