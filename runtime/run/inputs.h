// The options of the program, and the inputs that they name: files, or numbers that are the same every time.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../caller/program_options.h"
#include "../files/tensor_proto.h"
#include "ports.h"

namespace METAC_RUNTIME_NAMESPACE {

struct Arguments {
  std::vector<std::string> inputs, shapes, dims;
  std::string output_dir, weights, cpu;
  int threads = 0;
  bool copy_weights = false, map_weights = false, unchecked_weights = false, pin = false, numbered = false, bench = false,
       profile = false, json = false, info = false, help = false, version = false;
  double seconds = 3;

  bool timed() const { return bench || profile; }
};

// The port that "NAME=VALUE" speaks of (the last '=' counts: names may hold some), and VALUE. -1: no such input.
inline int find_input(const std::string& argument, std::string* value) {
  const size_t equals = argument.rfind('=');
  if (equals == std::string::npos) return -1;
  *value = argument.substr(equals + 1);
  for (int i = 0; library->input(i) != nullptr; ++i)
    if (argument.compare(0, equals, library->input(i)->name) == 0) return i;
  return -1;
}

inline std::string no_such_input(const std::string& argument) {
  std::vector<std::string> names;
  std::string list;
  for (int i = 0; library->input(i) != nullptr; ++i) {
    names.push_back(shown(library->input(i)->name));
    list += (i > 0 ? ", \"" : "\"") + names.back() + "\"";
  }
  const std::string name = argument.substr(0, argument.rfind('='));
  return "the model has no input \"" + name + "\"" + did_you_mean(name, names) +
         (list.empty() ? "" : " (its inputs: " + list + ")");
}

inline bool parse_dims(const std::string& text, std::vector<int64_t>* dims) {
  dims->clear();
  const char* at = text.c_str();
  while (*at != 0 && text != "scalar") {
    char* next = nullptr;
    const long long dim = std::strtoll(at, &next, 10);
    if (next == at || dim < 0) return false;
    dims->push_back(dim);
    at = next;
    if (*at == 'x' && at[1] != 0)
      ++at;
    else if (*at != 0)
      return false;
  }
  return true;
}

// Which file each input comes from: "random" where numbers are to be made, "" where it was not given.
inline std::string files_of_inputs(const Arguments& arguments, std::vector<std::string>* files) {
  files->assign(static_cast<size_t>(library->inputs), "");
  size_t next = 0;
  bool rest = arguments.timed();  // is random
  for (const std::string& argument : arguments.inputs) {
    std::string value;
    int index = find_input(argument, &value);
    std::error_code ignored;
    if (index < 0 && argument == "random") {
      rest = true;
      continue;
    }
    if (index < 0) {
      if (argument.find('=') != std::string::npos && !std::filesystem::exists(argument, ignored))
        return "--input " + argument + ": " + no_such_input(argument);
      if (next >= files->size())
        return "--input " + argument + ": the model has " + std::to_string(files->size()) + " inputs";
      index = static_cast<int>(next++);
      value = argument;
    }
    std::string& file = (*files)[static_cast<size_t>(index)];
    if (!file.empty())
      return "--input " + argument + ": input \"" + shown(library->input(index)->name) + "\" is given twice";
    file = value;
  }
  for (std::string& file : *files)
    if (file.empty() && rest) file = "random";
  return "";
}

// The open dims that --dim gives a size for random numbers, by their names.
struct NamedDim {
  std::string name;
  int64_t size = 0;
  bool used = false;
};

inline std::string named_dims(const Arguments& arguments, std::vector<NamedDim>* dims) {
  std::vector<std::string> open;
  for (int i = 0; i < library->inputs; ++i)
    for (int32_t d = 0; d < library->input(i)->rank; ++d)
      if (library->input(i)->dims[d] < 0) {
        const char* name = library->input(i)->dim_names[d];
        if (std::find(open.begin(), open.end(), name) == open.end()) open.push_back(name);
      }
  for (const std::string& argument : arguments.dims) {
    const size_t equals = argument.rfind('=');
    std::vector<int64_t> size;
    if (equals == std::string::npos || !parse_dims(argument.substr(equals + 1), &size) || size.size() != 1)
      return "--dim " + argument + ": expected NAME=8";
    const std::string name = argument.substr(0, equals);
    if (std::find(open.begin(), open.end(), name) == open.end()) {
      std::string list;
      for (const std::string& each : open) list += (list.empty() ? "\"" : ", \"") + shown(each.c_str()) + "\"";
      return "--dim " + argument + ": the library has no open dim \"" + shown(name.c_str()) + "\"" +
             did_you_mean(name, open) + (list.empty() ? "" : " (its open dims: " + list + ")");
    }
    dims->push_back({name, size[0], false});
  }
  return "";
}

inline std::string make_inputs(const Arguments& arguments, std::vector<FileTensor>* tensors) {
  tensors->assign(static_cast<size_t>(library->inputs), FileTensor());
  std::vector<std::string> files;
  std::vector<std::vector<int64_t>> shapes(static_cast<size_t>(library->inputs));
  std::vector<bool> shaped(static_cast<size_t>(library->inputs));
  const std::string wrong = files_of_inputs(arguments, &files);
  if (!wrong.empty()) return wrong;
  std::vector<NamedDim> named;
  if (const std::string error = named_dims(arguments, &named); !error.empty()) return error;
  for (const std::string& argument : arguments.shapes) {
    std::string value;
    const int index = find_input(argument, &value);
    if (index < 0)
      return "--shape " + argument + ": " +
             (argument.find('=') == std::string::npos ? "expected NAME=1x3x224x224" : no_such_input(argument));
    if (!parse_dims(value, &shapes[static_cast<size_t>(index)]))
      return "--shape " + argument + ": expected dims such as 1x3x224x224";
    if (files[static_cast<size_t>(index)] != "random" && !files[static_cast<size_t>(index)].empty())
      return "--shape " + argument + ": the input comes from a file, which has its own shape";
    shaped[static_cast<size_t>(index)] = true;
  }
  for (int i = 0; i < library->inputs; ++i) {
    const LibraryPort* port = library->input(i);
    FileTensor& tensor = (*tensors)[static_cast<size_t>(i)];
    const std::string& file = files[static_cast<size_t>(i)];
    if (file.empty()) {
      const std::string name = shown(port->name);
      return "input \"" + name + "\" (" + dtype_name(type_of(port)) + " " + dims_text(port) + ") is not given: --input " +
             name + "=FILE, or --input " + name + "=random";
    }
    if (file != "random") {
      const std::string error = read_tensor(file, port->name, &tensor);
      if (!error.empty()) return error;
      const bool same_bits =
          type_of(port) == ScalarType::bf16 && (tensor.dtype == ScalarType::u16 || tensor.dtype == ScalarType::f16);
      if (tensor.dtype != type_of(port) && !same_bits)
        return file + ": input \"" + shown(port->name) + "\" is " + dtype_name(type_of(port)) + ", the file has " +
               dtype_name(tensor.dtype);
      continue;
    }
    tensor.dtype = type_of(port);
    if (shaped[static_cast<size_t>(i)])
      tensor.dims = shapes[static_cast<size_t>(i)];
    else
      tensor.dims.assign(port->dims, port->dims + port->rank);
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      for (NamedDim& each : named)
        if (tensor.dims[d] < 0 && each.name == port->dim_names[d]) {
          tensor.dims[d] = each.size;
          each.used = true;
        }
      if (tensor.dims[d] < 0)
        return "input \"" + shown(port->name) + "\" has open dims (" + dims_text(port) + "): random numbers need --shape " +
               shown(port->name) + "=" + example_of(port) + " or --dim " + shown(port->dim_names[d]) + "=1";
    }
    const int64_t bytes = bytes_of_dims(tensor.dtype, tensor.dims);
    if (bytes < 0 || bytes > most_bytes) return "input \"" + shown(port->name) + "\": dims overflow";
    tensor.bytes.resize(static_cast<size_t>(bytes));
    fill_random(tensor, static_cast<uint64_t>(i));
  }
  for (const NamedDim& each : named)
    if (!each.used) return "--dim " + each.name + ": every input that has it has its own shape, by a file or --shape";
  return "";
}

}  // namespace METAC_RUNTIME_NAMESPACE
