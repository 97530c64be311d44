#include "compiler/ops/decoder_ports.h"

#include <algorithm>
#include <set>

#include "compiler/ir/dtype.h"
#include "compiler/ops/model.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

using Role = metac_runtime::InputRole;

struct KnownInput {
  const char* name;
  Role role;
};
// Of Optimum, ONNX Runtime GenAI, transformers.js and ONNX Runtime's own converters.
constexpr KnownInput known_inputs[] = {{"input_ids", Role::tokens},
                                       {"decoder_input_ids", Role::tokens},
                                       {"ids", Role::tokens},
                                       {"tokens", Role::tokens},
                                       {"attention_mask", Role::mask_of_all},
                                       {"decoder_attention_mask", Role::mask_of_all},
                                       {"position_ids", Role::positions},
                                       {"positions", Role::positions},
                                       {"cache_position", Role::positions},
                                       {"seqlens_k", Role::last_position},
                                       {"total_sequence_length", Role::total_length},
                                       {"total_seq_len", Role::total_length},
                                       {"nonpad_kv_seqlen", Role::total_length},
                                       {"past_sequence_length", Role::past_length},
                                       {"past_length", Role::past_length},
                                       {"use_cache_branch", Role::has_past},
                                       {"num_logits_to_keep", Role::logits_to_keep},
                                       {"logits_to_keep", Role::logits_to_keep},
                                       {"token_type_ids", Role::zeros},
                                       {"adapter", Role::adapter}};

bool is_one_number(Role role) {
  return role == Role::last_position || role == Role::total_length || role == Role::past_length || role == Role::has_past ||
         role == Role::logits_to_keep || role == Role::adapter;
}

std::string text_of(const Value& value) {
  std::string text = concat(quoted(value.name), " (", value.type.dtype ? name_of(*value.type.dtype) : "of an unknown dtype");
  if (value.type.shape) {
    text += " [";
    for (size_t k = 0; k < value.type.shape->size(); ++k) {
      const ModelDim& dim = (*value.type.shape)[k];
      text += concat(k ? ", " : "", dim.value >= 0       ? std::to_string(dim.value)
                                    : dim.symbol.empty() ? "?"
                                                         : shown(dim.symbol));
    }
    text += "]";
  }
  return text + ")";
}

class PortFinder {
 public:
  PortFinder(const Model& model, const std::vector<StateNames>& states) : model_(model) {
    for (const Initializer& p : model.graph.initializers) others_.insert(p.name);
    for (const StateNames& s : states) others_.insert(s.input), state_outputs_.insert(s.output);
  }

  DecoderPorts run() {
    std::vector<const Value*> inputs, unknown;
    for (const Value& input : model_.graph.inputs)
      if (!others_.count(input.name)) inputs.push_back(&input);
    for (const Value* input : inputs) {
      const auto known = std::find_if(std::begin(known_inputs), std::end(known_inputs),
                                      [&](const KnownInput& s) { return input->name == s.name; });
      if (known == std::end(known_inputs)) unknown.push_back(input);
      ports_.inputs.push_back({input->name, known == std::end(known_inputs) ? Role::zeros : known->role});
    }
    name_tokens(inputs, unknown);
    for (size_t k = 0; k < inputs.size(); ++k) check(*inputs[k], &ports_.inputs[k].role);
    find_logits();
    return std::move(ports_);
  }

 private:
  // The only input of whole numbers whose name says nothing is the tokens, where no other is.
  void name_tokens(const std::vector<const Value*>& inputs, const std::vector<const Value*>& unknown) {
    const auto are_tokens = [](const DecoderPort& p) { return p.role == Role::tokens; };
    const bool named = std::any_of(ports_.inputs.begin(), ports_.inputs.end(), are_tokens);
    const bool one = !named && unknown.size() == 1 && is_whole(*unknown[0]);
    if (!unknown.empty() && !one)
      fail("--generate: it is not known what the input ", text_of(*unknown[0]), " is for; known names are ", known_names(),
           "; what is a state is said with --state");
    if (!named && !one)
      fail("--generate: no input of the model is known to be the tokens; known names are input_ids, ids, tokens");
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (one && inputs[k] == unknown[0]) ports_.inputs[k].role = Role::tokens;
      if (ports_.inputs[k].role == Role::tokens) tokens_ = inputs[k];
    }
    if (std::count_if(ports_.inputs.begin(), ports_.inputs.end(), are_tokens) > 1)
      fail("--generate: two inputs have names of tokens, one of them ", text_of(*tokens_));
  }

  static std::string known_names() {
    std::string names;
    for (const KnownInput& s : known_inputs) names += concat(names.empty() ? "" : ", ", s.name);
    return names;
  }
  static bool is_whole(const Value& value) { return value.type.dtype == DType::i64 || value.type.dtype == DType::i32; }

  void check(const Value& input, Role* role) const {
    const std::optional<DType> dtype = input.type.dtype;
    const size_t rank = input.type.shape ? input.type.shape->size() : 0;
    const bool mask = *role == Role::mask_of_all, flag = *role == Role::has_past;
    const bool right = is_whole(input) || (mask && dtype && (*dtype == DType::f32 || *dtype == DType::boolean)) ||
                       (flag && dtype == DType::boolean);
    const auto refuse = [&](const std::string& expected) {
      fail("--generate: the input ", text_of(input), " has the name of ", metac_runtime::name_of(*role),
           ", which are expected as ", expected);
    };
    if (input.type.containers != std::vector<std::string>{"tensor"} || !right || !input.type.shape)
      refuse(flag ? "bool" : "int64 or int32 with a known rank");
    if (is_one_number(*role) ? rank > 2 : rank < 1 || rank > (*role == Role::positions ? 3u : 2u))
      refuse(is_one_number(*role) ? "one number" : "[batch, tokens]");
    const int64_t last = rank > 0 ? input.type.shape->back().value : -1;
    if (*role == Role::tokens && last > 1)
      fail("--generate: the input ", text_of(input), " takes ", last,
           " tokens a run; leave its last dim open, or make it 1");
    if (mask && last < 0 && !input.type.shape->back().symbol.empty() && tokens_->type.shape &&
        input.type.shape->back().symbol == tokens_->type.shape->back().symbol)
      *role = Role::mask_of_new;
  }

  void find_logits() {
    std::vector<const Value*> left;
    for (const Value& output : model_.graph.outputs) {
      if (state_outputs_.count(output.name)) continue;
      if (output.name == "logits") left = {&output};
      if (output.name == "logits") break;
      left.push_back(&output);
    }
    if (left.size() != 1)
      fail("--generate: the logits are not known: no output is called \"logits\", and ", left.size(), " are no state");
    const std::optional<DType> dtype = left[0]->type.dtype;
    if (dtype && *dtype != DType::f32 && *dtype != DType::f16 && *dtype != DType::bf16 && *dtype != DType::f64)
      fail("--generate: the output ", text_of(*left[0]), " holds no logits");
    ports_.logits = left[0]->name;
  }

  const Model& model_;
  std::set<std::string> others_, state_outputs_;
  DecoderPorts ports_;
  const Value* tokens_ = nullptr;
};

}  // namespace

DecoderPorts decoder_ports(const Model& model, const std::vector<StateNames>& states) {
  return PortFinder(model, states).run();
}

}  // namespace metac
