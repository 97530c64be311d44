// What a run is for: the trained network as an ONNX file, as the weights file of the inference library, and as safetensors,
// its adapters as a file of their own.
#pragma once
#include "checkpoint.h"
#include "export_adapters.h"

namespace metac::train {

// The bytes of state `s` in the final network.
inline const void* final_value(const StateSet& states, int32_t s) { return states.value(states.final_of(s)); }

// The template with the trained values in the places that the tables name. Everything else stays byte for byte.
inline void export_onnx(const TrainTables& tables, const StateSet& states, const std::string& folder,
                        const std::string& path) {
  const auto model = map_file(below(folder, tables.onnx_template));
  std::vector<int32_t> order;  // as they stand in the file
  for (int32_t s = 0; s < states.count(); ++s)
    if (states.about(s).onnx_offset >= 0) order.push_back(s);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return states.about(a).onnx_offset < states.about(b).onnx_offset; });
  WholeFile file(path);
  int64_t at = 0;
  const auto copy_until = [&](int64_t end) {
    file.write(model->data + at, static_cast<size_t>(end - at));
    at = end;
  };
  for (int32_t s : order) {
    const State& about = states.about(s);
    if (about.onnx_offset < at || about.onnx_offset + byte_count(about) > static_cast<int64_t>(model->size))
      fail(model->path, " belongs to another program: ", model->size, " bytes, ", quoted(about.name), " stands at ",
           about.onnx_offset);
    copy_until(about.onnx_offset);
    file.write(final_value(states, s), static_cast<size_t>(byte_count(about)));
    at += byte_count(about);
  }
  copy_until(static_cast<int64_t>(model->size));
  file.commit();
}

// Parameters and statistics alone, without a checksum tensor: what other programs expect.
inline void export_safetensors(const TrainTables& tables, const StateSet& states, const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (int32_t s = 0; s < states.count(); ++s) {
    const State& about = states.about(s);
    if (about.role != StateRole::parameter && about.role != StateRole::frozen && about.role != StateRole::statistic)
      continue;
    tensors.push_back(
        {about.name, about.dtype, {about.dims, about.dims + about.rank}, final_value(states, s), byte_count(about)});
  }
  write_safetensors(path, tensors, {{"format", "pt"}, {"written by", tables.version}}, false);
}

inline void export_inference_weights(const TrainTables& tables, const StateSet& states, const std::string& folder,
                                     const std::string& path) {
  const auto initial = StateSet::initial_file(tables, folder);
  const Inference& inference = tables.inference;
  std::vector<const void*> parameters;
  for (int32_t k = 0; k < inference.parameter_count; ++k) {
    const ExportParameter& p = inference.parameters[k];
    parameters.push_back(p.state >= 0 ? final_value(states, p.state) : initial->data + p.offset);
  }
  void* context = nullptr;
  int32_t status = inference.create(&context);
  if (status == 0) status = inference.write_weights(context, parameters.data(), inference.parameter_count, path.c_str());
  const std::string reason = status == 0 ? "" : context == nullptr ? "no memory" : inference.last_error(context);
  if (context != nullptr) inference.destroy(context);
  if (status != 0) fail("cannot write the weights of the inference library: ", reason);
}

// All of them into `out`; the paths that were written. `folder`: of initial.bin and the template.
inline std::vector<std::string> export_all(const TrainTables& tables, const StateSet& states, const std::string& folder,
                                           const std::string& out) {
  std::vector<std::string> written = {below(out, std::string(tables.name) + ".safetensors")};
  export_safetensors(tables, states, written.back());
  if (tables.adapter_count > 0) {
    written.push_back(below(out, "adapters.safetensors"));
    export_adapters(tables, states, written.back());
  }
  if (tables.onnx_template != nullptr) {
    written.push_back(below(out, std::string(tables.name) + ".onnx"));
    export_onnx(tables, states, folder, written.back());
  }
  if (tables.inference.create != nullptr) {
    written.push_back(below(out, tables.inference.weights_file));
    export_inference_weights(tables, states, folder, written.back());
  }
  return written;
}

}  // namespace metac::train
