// Samples of a model's inputs from files, a batch at a time.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

using NamedTensors = std::map<std::string, Tensor>;

// A folder of .npz, .npy and .pb files, or such files. Arrays of .npz files are inputs by name, others belong to nobody; a
// .npy or .pb file is the only input. Of one file the first axis is the batch, and it is cut into as many samples as the
// model takes; several files are a batch each, and cut only where the model's first dim is smaller.
class CalibrationData {
 public:
  struct Options {
    int64_t batch = 8;    // samples of one run, where the model leaves the dim open
    int64_t samples = 0;  // at most so many in all; 0: all
  };
  // Lists the files. Throws CompileError where there are none.
  CalibrationData(const Model& model, const std::vector<std::string>& paths, Options options);
  // Samples that are there already, the batch first; `origin` for messages.
  CalibrationData(const Model& model, const NamedTensors& samples, const std::string& origin, Options options);

  // Reads the files one after the other and calls f with each batch; returns how many samples there were. Throws
  // CompileError naming the file and the input: of another shape, of a dtype that is not the input's and cannot become it,
  // with NaN or infinities, missing.
  int64_t for_each(const std::function<void(const NamedTensors&)>& f) const;

  NamedTensors first() const;  // the first batch

 private:
  NamedTensors read(const std::string& path) const;  // errors name the file
  NamedTensors read_inputs(const std::string& path) const;
  NamedTensors checked(const std::string& path, const NamedTensors& arrays) const;
  Tensor checked(const std::string& path, const Value& input, const Tensor& array) const;

  std::string model_;
  std::vector<Value> inputs_;
  std::vector<std::string> files_;
  NamedTensors given_;  // instead of what the one file has
  Options options_;
};

}  // namespace metac
