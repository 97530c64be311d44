// What the inputs of decoders are for, by names, dtypes and shapes; what is not clear is refused.
#include "compiler/ops/decoder_ports.h"

#include <gmock/gmock.h>

#include "compiler/ops/model.h"
#include "compiler/support/diagnostic.h"

namespace metac::decoder_ports_test {
namespace {

using Role = metac_runtime::InputRole;

Value value(const std::string& name, DType dtype, std::vector<ModelDim> dims) {
  Value v;
  v.name = name;
  v.type.dtype = dtype;
  v.type.shape = std::move(dims);
  return v;
}
const ModelDim batch{-1, "batch"}, fresh{-1, "sequence"}, all{-1, "total"};

Model decoder(std::vector<Value> inputs) {
  Model model;
  model.graph.inputs = std::move(inputs);
  model.graph.inputs.push_back(value("past.0.key", DType::f32, {batch, {2}, {-1, "past"}, {4}}));
  model.graph.outputs = {value("logits", DType::f32, {batch, fresh, {10}}),
                         value("present.0.key", DType::f32, {batch, {2}, all, {4}})};
  return model;
}

std::vector<Role> roles(const Model& model) {
  std::vector<Role> found;
  for (const DecoderPort& port : decoder_ports(model, known_states(model)).inputs) found.push_back(port.role);
  return found;
}
std::string refusal(const Model& model) {
  try {
    decoder_ports(model, known_states(model));
    return "";
  } catch (const CompileError& error) {
    return error.diagnostic.message;
  }
}

TEST(DecoderPorts, AreFoundByNames) {
  const Model model =
      decoder({value("input_ids", DType::i64, {batch, fresh}), value("attention_mask", DType::i64, {batch, all}),
               value("position_ids", DType::i64, {batch, fresh}), value("use_cache_branch", DType::boolean, {{1}}),
               value("seqlens_k", DType::i32, {batch}), value("total_sequence_length", DType::i32, {}),
               value("num_logits_to_keep", DType::i64, {})});
  EXPECT_THAT(roles(model), testing::ElementsAre(Role::tokens, Role::mask_of_all, Role::positions, Role::has_past,
                                                 Role::last_position, Role::total_length, Role::logits_to_keep));
  EXPECT_EQ(decoder_ports(model, known_states(model)).logits, "logits");
}

TEST(DecoderPorts, AMaskAsLongAsTheTokensIsOfThemAlone) {
  EXPECT_THAT(
      roles(decoder({value("attention_mask", DType::i64, {batch, fresh}), value("input_ids", DType::i64, {batch, fresh})})),
      testing::ElementsAre(Role::mask_of_new, Role::tokens));
}

TEST(DecoderPorts, TheOnlyWholeNumbersAreTheTokens) {
  EXPECT_THAT(roles(decoder({value("x", DType::i32, {batch, fresh})})), testing::ElementsAre(Role::tokens));
}

TEST(DecoderPorts, WhatIsNotClearIsRefused) {
  const Value ids = value("input_ids", DType::i64, {batch, fresh});
  EXPECT_THAT(refusal(decoder({ids, value("encoder_hidden_states", DType::f32, {batch, all, {8}})})),
              testing::HasSubstr("\"encoder_hidden_states\" (float32 [batch, total, 8])"));
  EXPECT_THAT(refusal(decoder({})), testing::HasSubstr("no input of the model is known to be the tokens"));
  EXPECT_THAT(refusal(decoder({ids, value("tokens", DType::i64, {batch, fresh})})),
              testing::HasSubstr("two inputs have names of tokens"));
  EXPECT_THAT(refusal(decoder({value("input_ids", DType::f32, {batch, fresh})})),
              testing::HasSubstr("has the name of tokens"));
  EXPECT_THAT(refusal(decoder({value("input_ids", DType::i64, {batch, {16}})})),
              testing::HasSubstr("takes 16 tokens a run"));
  EXPECT_THAT(refusal(decoder({ids, value("attention_mask", DType::f32, {batch, {1}, fresh, all})})),
              testing::HasSubstr("expected as [batch, tokens]"));
  Model several = decoder({ids});
  several.graph.outputs[0].name = "scores";
  several.graph.outputs.push_back(value("hidden", DType::f32, {batch, fresh, {8}}));
  EXPECT_THAT(refusal(several), testing::HasSubstr("no output is called \"logits\""));
  several.graph.outputs.pop_back();
  EXPECT_EQ(decoder_ports(several, known_states(several)).logits, "scores");
}

}  // namespace
}  // namespace metac::decoder_ports_test
