#include "compiler/quantize/measure/calibration_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "compiler/api/npz.h"
#include "compiler/api/tensor_files.h"
#include "compiler/session/given_inputs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

bool is_data(const std::string& path) { return path.ends_with(".npz") || path.ends_with(".npy") || path.ends_with(".pb"); }

// float32 from floats of other sizes and from integers, as images come; integers from integers that they hold.
Tensor converted(const Tensor& array, DType to) {
  std::byte* data = nullptr;
  Tensor result = make_tensor(to, array.shape, &data);
  const int64_t count = array.element_count();
  for (int64_t i = 0; i < count; ++i) {
    if (to == DType::f32) {
      reinterpret_cast<float*>(data)[i] = static_cast<float>(number_at(array, i));
      continue;
    }
    const int64_t value = integer_at(array, i);
    if (value < min_value(to) || value > max_value(to))
      fail("holds ", value, " at position ", i, ", which no ", name_of(to), " is");
    std::memcpy(data + static_cast<size_t>(i) * size_of(to), &value, size_of(to));  // little-endian
  }
  return result;
}

Tensor rows(const Tensor& tensor, int64_t from, int64_t count) {
  Tensor part = tensor;
  const size_t row = tensor.byte_count() / static_cast<size_t>(std::max<int64_t>(1, tensor.shape[0]));
  part.shape[0] = count;
  part.bytes = std::shared_ptr<const std::byte>(tensor.bytes, tensor.bytes.get() + static_cast<size_t>(from) * row);
  return part;
}

}  // namespace

CalibrationData::CalibrationData(const Model& model, const std::vector<std::string>& paths, Options options)
    : model_(model.path), inputs_(free_inputs(model)), options_(options) {
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      if (!is_data(path)) throw CompileError({path, "", "expected a folder, or a file that ends with .npz, .npy or .pb"});
      files_.push_back(path);
      continue;
    }
    const size_t before = files_.size();
    for (const std::string& name : RealFiles().list(path))
      if (is_data(name)) files_.push_back(path + "/" + name);
    if (files_.size() == before) throw CompileError({path, "", "there is no .npz, .npy or .pb file in this folder"});
  }
  if (files_.empty()) throw CompileError({model.path, "", "there is no data to run the model on"});
}

CalibrationData::CalibrationData(const Model& model, const NamedTensors& samples, const std::string& origin, Options options)
    : model_(model.path), inputs_(free_inputs(model)), files_({origin}), given_(samples), options_(options) {}

Tensor CalibrationData::checked(const std::string& path, const Value& input, const Tensor& array) const {
  const auto refuse = [&](const auto&... what) -> CompileError {
    return CompileError({path, "input " + quoted(input.name), concat(what...)});
  };
  Tensor tensor = array;
  if (input.type.dtype && *input.type.dtype != array.dtype) {
    const DType to = *input.type.dtype;
    const bool can = is_numeric(array.dtype) && (to == DType::f32 || (is_integer(to) && is_integer(array.dtype)));
    if (!can) throw refuse("the model takes ", name_of(to), ", the array is ", name_of(array.dtype));
    try {
      tensor = converted(array, to);
    } catch (const CompileError& error) {
      throw refuse(error.diagnostic.message);
    }
  }
  if (is_float(tensor.dtype))
    for (int64_t i = 0, count = tensor.element_count(); i < count; ++i)
      if (const double value = number_at(tensor, i); !std::isfinite(value))
        throw refuse("the element at position ", i, " is ", value, ": data must be finite");
  if (!input.type.shape) return tensor;
  const std::vector<ModelDim>& declared = *input.type.shape;
  bool fits = declared.size() == tensor.shape.size();
  for (size_t k = 1; fits && k < declared.size(); ++k) fits = declared[k].value < 0 || declared[k].value == tensor.shape[k];
  if (!fits)
    throw refuse("the model takes ", describe_type(input.type), ", the array has the shape ", to_string(tensor.shape));
  return tensor;
}

NamedTensors CalibrationData::read(const std::string& path) const {
  try {
    return read_inputs(path);
  } catch (const CompileError& error) {
    if (!error.diagnostic.file.empty()) throw;
    throw CompileError({path, error.diagnostic.node, error.diagnostic.message});
  }
}

NamedTensors CalibrationData::checked(const std::string& path, const NamedTensors& arrays) const {
  NamedTensors given;
  for (const Value& input : inputs_) {
    auto found = arrays.find(input.name);
    if (found == arrays.end() && arrays.size() == 1 && inputs_.size() == 1) found = arrays.begin();
    if (found == arrays.end()) {
      std::string names;
      for (const auto& [name, tensor] : arrays) names += (names.empty() ? "" : ", ") + quoted(name);
      throw CompileError({path, "input " + quoted(input.name), concat("there is no such array; there are ", names)});
    }
    given[input.name] = checked(path, input, found->second);
  }
  return given;
}

NamedTensors CalibrationData::read_inputs(const std::string& path) const {
  if (!given_.empty()) return checked(path, given_);
  NamedTensors given;
  if (path.ends_with(".npz")) {
    return checked(path, read_npz(read_file(path).view(), path));
  } else if (inputs_.size() == 1) {
    given[inputs_[0].name] = checked(path, inputs_[0], read_tensor(path, inputs_[0].name));
  } else {
    throw CompileError({path, "", concat("the model has ", inputs_.size(), " inputs: give .npz files with an array each")});
  }
  return given;
}

NamedTensors CalibrationData::first() const {
  NamedTensors batch;
  for_each([&](const NamedTensors& inputs) {
    if (batch.empty()) batch = inputs;
  });
  return batch;
}

int64_t CalibrationData::for_each(const std::function<void(const NamedTensors&)>& f) const {
  int64_t done = 0;
  for (const std::string& path : files_) {
    if (options_.samples > 0 && done >= options_.samples) break;
    const NamedTensors given = read(path);
    // What of each input goes into a run; none: all of it.
    std::map<std::string, int64_t> part;
    int64_t total = 1, each = 1;
    for (const Value& input : inputs_) {
      const Tensor& tensor = given.at(input.name);
      const bool known = input.type.shape && !input.type.shape->empty();
      if (tensor.shape.empty() || !known) continue;
      const int64_t declared = (*input.type.shape)[0].value, found = tensor.shape[0];
      if (declared == found || (declared < 0 && files_.size() > 1)) continue;
      const int64_t rows_of = declared < 0 ? std::min(options_.batch, found) : declared;
      if (rows_of < 1 || found < 1 || (declared >= 0 && found < declared))
        throw CompileError(
            {path, "input " + quoted(input.name),
             concat("the model takes ", describe_type(input.type), ", the array has the shape ", to_string(tensor.shape))});
      if (!part.empty() && (total != found || each != rows_of))
        throw CompileError(
            {path, "input " + quoted(input.name), concat("has ", found, " samples where another input has ", total)});
      part[input.name] = rows_of, total = found, each = rows_of;
    }
    if (part.empty()) {
      const Value* first = inputs_.empty() ? nullptr : &inputs_[0];
      const bool batched = first && !given.at(first->name).shape.empty();
      f(given);
      done += batched ? given.at(first->name).shape[0] : 1;
      continue;
    }
    const bool open = (*std::find_if(inputs_.begin(), inputs_.end(), [&](const Value& v) { return part.count(v.name); }))
                          .type.shape->at(0)
                          .value < 0;
    if (options_.samples > 0) total = std::min(total, std::max(open ? 1 : each, options_.samples - done));
    for (int64_t from = 0; from < total; from += each) {
      const int64_t count = std::min(each, total - from);
      if (count < each && !open) break;  // a rest that fills no run
      NamedTensors batch = given;
      for (const auto& [name, unused] : part) batch[name] = rows(given.at(name), from, count);
      f(batch);
      done += count;
    }
  }
  if (done == 0) throw CompileError({files_[0], "", "there is no sample in the data"});
  return done;
}

}  // namespace metac
