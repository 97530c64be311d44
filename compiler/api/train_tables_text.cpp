#include "compiler/api/train_tables_text.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "compiler/codegen/text/fill_template.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/field_sources.h"

namespace metac {
namespace {

std::string number(double value) {
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  METAC_ASSERT(error == std::errc(), "a double of more than 64 characters");
  std::string digits(text, end);
  return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits;
}

std::string list(const std::string& name, const std::vector<double>& values) {
  std::string text = "const double " + name + "[] = {";
  for (double v : values) text += number(v) + ", ";
  return text + "0.0};\n";
}

std::string upper_case(const std::string& text) {
  std::string upper;
  for (char c : text) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

const char* flag(bool value) { return value ? "true" : "false"; }

const char* scalar_type(DType dtype) {
  static const char* const names[] = {"f32", "f64", "f16", "bf16", "i8",  "i16",     "i32",
                                      "i64", "u8",  "u16", "u32",  "u64", "boolean", "string"};
  return names[static_cast<int>(dtype)];
}

const char* role_name(train::StateRole role) {
  static const char* const names[] = {"parameter", "frozen", "optimiser", "average", "statistic", "counter", "kept"};
  return names[static_cast<int>(role)];
}

const char* source_name(train::Source source) {
  static const char* const names[] = {"data", "learning_rate", "step", "call", "seed", "apply", "state", "loss", "metric"};
  return names[static_cast<int>(source)];
}

const char* aggregate_name(train::Aggregate aggregate) {
  static const char* const names[] = {"mean", "root_of_mean", "exp_of_mean"};
  return names[static_cast<int>(aggregate)];
}

// "ScalarType::f32, 2, {3, 4}"
std::string type_text(DType dtype, const std::vector<int64_t>& shape) {
  if (shape.size() > static_cast<size_t>(train::most_dims))
    fail("a tensor of shape ", to_string(shape), " has more than ", train::most_dims,
         " axes, the most a training program takes");
  std::string text = concat("ScalarType::", scalar_type(dtype), ", ", shape.size(), ", {");
  for (size_t k = 0; k < shape.size(); ++k) text += concat(k ? ", " : "", shape[k]);
  return text + "}";
}

class Writer {
 public:
  Writer(const TrainingModel& model, const Recipe& recipe, const TrainingFiles& files) : t_(model), r_(recipe), f_(files) {}

  std::string run() {
    const std::string& name = f_.name;
    const std::string upper = upper_case(name);
    text_ = "// " + name + "_train: what is trained, and how. runtime/train/train_tables.h explains every row.\n";
    std::vector<std::string> parts;
    if (t_.has_evaluation) parts.push_back("evaluate");
    parts.push_back("step");
    for (size_t k = 0; k < t_.further.size(); ++k) parts.push_back(further_name(k));
    text_ += "#include \"../../include/" + name + ".h\"\n";
    for (const std::string& part : parts) text_ += "#include \"../" + part + "/include/" + name + "_" + part + ".h\"\n";
    text_ += "#include \"runtime/train/library_calls.h\"\n\n";
    for (const std::string& part : parts)
      text_ += "METAC_TRAIN_LIBRARY(" + name + "_" + part + ", " + upper + "_" + upper_case(part) + ")\n";
    for (const auto& [part, about] : f_.parts)
      if (about.exchanges) text_ += concat(f_.exchange, "(", name, "_", part, ")\n");
    text_ += "METAC_TRAIN_INFERENCE(" + name + ")\n\n" +
             (f_.memory.empty() ? "" : "extern const metac::train::StateMemory " + f_.memory + ";\n\n") +
             "namespace {\n\nusing namespace metac::train;\n\n";
    write_fields();
    write_states();
    write_metrics();
    write_ports("step_inputs", t_.step.graph.inputs, t_.step_inputs, true);
    write_ports("step_outputs", t_.step.graph.outputs, t_.step_outputs, true, f_.parts.at("step").overwrites);
    for (size_t k = 0; k < t_.further.size(); ++k) {
      write_ports(further_name(k) + "_inputs", t_.further[k].model.graph.inputs, t_.further[k].inputs, true);
      write_ports(further_name(k) + "_outputs", t_.further[k].model.graph.outputs, t_.further[k].outputs, true,
                  f_.parts.at(further_name(k)).overwrites);
    }
    if (t_.has_evaluation) write_ports("evaluate_inputs", t_.evaluate.graph.inputs, t_.evaluate_inputs, false);
    if (t_.has_evaluation) write_ports("evaluate_outputs", t_.evaluate.graph.outputs, t_.evaluate_outputs, false);
    write_data();
    write_parameters();
    write_adapters();
    text_ += list("milestones", r_.schedule.milestones);
    text_ += "const FurtherStep further_steps[] = {\n";
    for (size_t k = 0; k < t_.further.size(); ++k)
      text_ += concat("    {", library(further_name(k), t_.further[k].inputs, t_.further[k].outputs), ", ",
                      t_.further[k].every, "},\n");
    text_ += "    {{}, 1},  // the end\n};\n";
    text_ += "\n}  // namespace\n\n";
    write_tables();
    return std::move(text_);
  }

 private:
  void write_fields() {
    text_ += "const Field fields[] = {\n";
    for (const TrainingField& f : t_.fields)
      text_ += "    {" + c_string(f.name) + ", " + type_text(f.dtype, f.shape) + "},\n";
    text_ += "};\n\n";
  }

  void write_states() {
    text_ += "const State states[] = {\n";
    for (size_t k = 0; k < t_.states.size(); ++k) {
      const TrainingState& s = t_.states[k];
      text_ +=
          concat("    {", c_string(s.name), ", ", type_text(s.initial.dtype, s.initial.shape),
                 ", StateRole::", role_name(s.role), ", ", s.partner, ", ", f_.offsets[k], ", ", f_.onnx_offsets[k], "},\n");
    }
    text_ += "};\n\n";
  }

  void write_metrics() {
    text_ += "const Metric metrics[] = {\n";
    for (const TrainingMetric& m : t_.metrics)
      text_ += concat("    {", c_string(m.name), ", Aggregate::", aggregate_name(m.aggregate), ", ",
                      flag(m.greater_is_better), "},\n");
    if (t_.metrics.empty()) text_ += "    {\"\", Aggregate::mean, false},  // none\n";
    text_ += "};\n\n";
  }

  void write_ports(const std::string& array, const std::vector<Value>& values, const std::vector<TrainingPort>& ports,
                   bool step, const std::vector<bool>& overwrites = {}) {
    text_ += "const Port " + array + "[] = {\n";
    for (size_t k = 0; k < ports.size(); ++k) {
      DType dtype = DType::f32;
      std::vector<int64_t> shape;
      const int index = ports[k].index;
      switch (ports[k].source) {
        case train::Source::data:
          dtype = t_.fields[index].dtype;
          shape = {r_.batch};
          shape.insert(shape.end(), t_.fields[index].shape.begin(), t_.fields[index].shape.end());
          break;
        case train::Source::learning_rate:
          dtype = values[k].type.dtype.value_or(DType::f64);
          break;
        case train::Source::step:
        case train::Source::call:
        case train::Source::seed:
          dtype = DType::i64;
          break;
        case train::Source::apply:
          dtype = DType::boolean;
          break;
        case train::Source::state:
          dtype = t_.states[index].initial.dtype;
          shape = t_.states[index].initial.shape;
          break;
        case train::Source::loss:
        case train::Source::metric:
          if (ports[k].source == train::Source::loss || !t_.further.empty()) dtype = t_.loss_dtype;
          if (!step) shape = {r_.batch};
          break;
      }
      text_ += concat("    {", c_string(values[k].name), ", ", type_text(dtype, shape),
                      ", Source::", source_name(ports[k].source), ", ", index,
                      k < overwrites.size() && overwrites[k] ? ", true" : "", "},\n");
    }
    text_ += "};\n\n";
  }

  void write_data() {
    std::string rows;
    const std::vector<FieldRecipe> sources = field_sources(r_.data, t_.fields);
    for (size_t k = 0; k < sources.size(); ++k) {
      const FieldRecipe& from = sources[k];
      text_ += list(concat("mean_", k), from.mean) + list(concat("deviation_", k), from.deviation);
      rows +=
          concat("    {", c_string(from.from), ", ", number(from.scale), ", mean_", k, ", deviation_", k, ", ",
                 from.mean.size(), ", ", flag(from.channels_last), ", ", flag(from.flip), ", ", from.crop_padding, "},\n");
    }
    text_ += "const FieldSource field_sources[] = {\n" + rows + "};\n\n";
  }

  void write_parameters() {
    text_ += "const ExportParameter parameters[] = {\n";
    for (const TrainingFiles::Export& p : f_.parameters)
      text_ += concat("    {", p.state, ", ", p.offset, ", ", p.bytes, "},\n");
    text_ += "    {-1, 0, 0},\n};\n\n";
  }

  void write_adapters() {
    std::map<std::string, size_t> state_of;
    for (size_t k = 0; k < t_.states.size(); ++k) state_of[t_.states[k].name] = k;
    text_ += "const Adapter adapters[] = {\n";
    for (const TrainedAdapter& a : t_.adapters)
      text_ +=
          concat("    {", c_string(a.layer), ", ", state_of.at(a.a), ", ", state_of.at(a.b), ", ", number(a.alpha), "},\n");
    text_ += "    {\"\", -1, -1, 0},  // the end\n};\n\n";
  }

  std::string library(const std::string& which, const std::vector<TrainingPort>& inputs,
                      const std::vector<TrainingPort>& outputs) const {
    const std::string name = f_.name + "_" + which, calls = name + "_calls::";
    return concat("{\"", name, "\", ", calls, "create, ", calls, "run, ", calls, "destroy, ", calls, "last_error, ", calls,
                  "find_non_finite, ", calls, "profile, ", calls, "profile_row, ", calls, "profile_work, ", which,
                  "_inputs, ", inputs.size(), ", ", which, "_outputs, ", outputs.size(),
                  f_.parts.at(which).exchanges ? concat(", ", calls, "exchange") : "", "}");
  }

  void write_tables() {
    const ScheduleRecipe& s = r_.schedule;
    const std::string& name = f_.name;
    const std::string path = r_.data.train, validation = r_.data.validation;
    static const char* const formats[] = {"npy", "npz", "idx", "cifar10", "cifar100", "csv", "images"};
    static const char* const kinds[] = {"constant", "step", "cosine", "one_cycle"};
    int watched = -1;
    for (size_t k = 0; k < t_.metrics.size(); ++k)
      if (t_.metrics[k].name == r_.watch) watched = static_cast<int>(k);
    text_ += "extern const TrainTables train_tables;\nconst TrainTables train_tables = {\n";
    text_ += concat("    ", c_string(name), ", \"metac \" ", c_string(METAC_VERSION), ", ", c_string(f_.program), ", ",
                    c_string(t_.loss), ", ", c_string(t_.optimiser), ",\n");
    text_ +=
        concat("    fields, ", t_.fields.size(), ", states, ", t_.states.size(), ", metrics, ", t_.metrics.size(), ",\n");
    text_ += "    " + library("step", t_.step_inputs, t_.step_outputs) + ",\n    " +
             (t_.has_evaluation ? library("evaluate", t_.evaluate_inputs, t_.evaluate_outputs) : "{}") + ",\n";
    text_ += concat("    {", r_.epochs, ", ", r_.batch, ", ", r_.accumulate, ", ", r_.seed, ", ", r_.checkpoint_every, ", ",
                    r_.checkpoints_kept, ", ", r_.log_every, ", ", r_.evaluate_every,
                    ", NonFinite::", r_.skip_non_finite ? "skip" : "stop", ", ", r_.patience, ", ", watched, ", ",
                    f_.step_bytes, ", ", f_.memory_budget, ", ", f_.recomputed, ", ", flag(t_.evaluates_batches), "},\n");
    text_ +=
        concat("    {ScheduleKind::", kinds[static_cast<int>(s.kind)], ", ", number(r_.optimiser["learning_rate"]), ", ",
               number(s.final_rate), ", ", number(s.initial_rate), ", ", number(s.warmup), ", ", flag(s.in_epochs), ", ",
               number(s.period), ", ", number(s.gamma), ", milestones, ", s.milestones.size(), "},\n");
    text_ += concat("    {DataFormat::", formats[static_cast<int>(r_.data.format)], ", ", c_string(path), ", ",
                    validation.empty() ? "nullptr" : c_string(validation), ", ", number(r_.data.validation_split), ", ",
                    flag(r_.data.shuffle), ", ", flag(r_.data.drop_last), ", field_sources},\n");
    text_ += concat("    \"../train\", \"initial.bin\", ", f_.initial_bytes, ", ", f_.initial_crc, "u, ",
                    f_.has_template ? c_string(name + ".onnx") : "nullptr", ",\n");
    if (f_.parameters.empty())
      text_ += "    {nullptr, nullptr, nullptr, nullptr, nullptr, parameters, 0},\n";
    else
      text_ += concat("    {", name, "_calls::create, ", name, "_calls::write_weights, ", name, "_calls::destroy, ", name,
                      "_calls::last_error, ", c_string(name + ".weights"), ", parameters, ", f_.parameters.size(), "},\n");
    text_ += f_.memory.empty() ? "    nullptr,\n" : "    &" + f_.memory + ",\n";
    text_ += concat("    further_steps, ", t_.further.size(), ",\n    ", t_.alone.empty() ? "nullptr" : c_string(t_.alone),
                    ", ", flag(t_.exchanges_sums), ", adapters, ", t_.adapters.size(), ",\n};\n");
  }

  const TrainingModel& t_;
  const Recipe& r_;
  const TrainingFiles& f_;
  std::string text_;
};

}  // namespace

std::string further_name(size_t index) { return concat("step", index + 2); }

std::string train_tables_text(const TrainingModel& model, const Recipe& recipe, const TrainingFiles& files) {
  return Writer(model, recipe, files).run();
}

}  // namespace metac
