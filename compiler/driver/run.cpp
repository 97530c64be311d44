// metac run: a model at once, in any shape, through the in-process compiler.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/api/tensor_files.h"
#include "compiler/driver/command.h"
#include "compiler/driver/options/model_inputs.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/support/file_system.h"
#include "compiler/target/target.h"
#include "frontends/json/npy.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

struct RunArguments : ModelOptions {
  std::vector<std::string> inputs;
  std::string output_dir, target;
  bool json = false, times = false;
};

nlohmann::ordered_json summary_of(const Tensor& tensor) {
  nlohmann::ordered_json row = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}};
  int64_t count = tensor.dtype == DType::string ? 0 : tensor.element_count();
  if (count == 0) return row;
  // Least and greatest of the numbers among them, as positions: integers are told to the last bit.
  int64_t low = -1, high = -1, nan = 0;
  double sum = 0;
  const bool whole = !is_float(tensor.dtype) && tensor.dtype != DType::u64;
  const auto less = [&](int64_t a, int64_t b) {
    return whole ? integer_at(tensor, a) < integer_at(tensor, b) : number_at(tensor, a) < number_at(tensor, b);
  };
  for (int64_t i = 0; i < count; ++i) {
    const double value = number_at(tensor, i);
    sum += value;
    if (std::isnan(value)) {
      ++nan;
      continue;
    }
    if (low < 0 || less(i, low)) low = i;
    if (high < 0 || less(high, i)) high = i;
  }
  const auto told = [&](int64_t at) {
    return at < 0  ? nlohmann::ordered_json(nullptr)
           : whole ? nlohmann::ordered_json(integer_at(tensor, at))
                   : nlohmann::ordered_json(number_at(tensor, at));
  };
  row["min"] = told(low), row["max"] = told(high), row["mean"] = sum / static_cast<double>(count);
  if (nan > 0) row["nan"] = nan;
  return row;
}

void print_summary(const std::string& name, const Tensor& tensor, const std::string& file) {
  nlohmann::ordered_json row = summary_of(tensor);
  std::printf("%s: %s %s", quoted(name).c_str(), row["dtype"].get<std::string>().c_str(), to_string(tensor.shape).c_str());
  const auto told = [&](const char* key) {
    char text[32] = "-";
    if (!row[key].is_null()) std::snprintf(text, sizeof text, "%.6g", row[key].get<double>());
    return row[key].is_number_integer() ? std::to_string(row[key].get<int64_t>()) : std::string(text);
  };
  if (row.contains("min"))
    std::printf(", min %s, max %s, mean %.6g", told("min").c_str(), told("max").c_str(), row["mean"].get<double>());
  if (row.contains("nan")) std::printf(", %lld NaN", row["nan"].get<long long>());
  if (tensor.dtype != DType::string && tensor.element_count() <= 8) {
    std::printf(" [");
    for (int64_t i = 0; i < tensor.element_count(); ++i) std::printf("%s%.7g", i ? ", " : "", number_at(tensor, i));
    std::printf("]");
  }
  std::printf("%s%s\n", file.empty() ? "" : " -> ", file.c_str());
}

int run_command(const RunArguments& o) {
  SessionOptions options = o.session();
  options.compile.target = &target_named(o.target);
  Session session(read_model(o.model), options);
  o.note_kept(session.model());
  std::map<std::string, Tensor> inputs = gather_inputs(session.model(), o.inputs, o.shapes, o.dims, false);
  auto outputs = session.run(inputs);

  if (!o.output_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(o.output_dir, error);
    if (error) fail("cannot make the folder ", quoted(o.output_dir), ": ", error.message());
  }
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  std::map<std::string, int> taken;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, tensor] = outputs[i];
    std::string file;
    if (!o.output_dir.empty()) {
      file = o.output_dir + "/" + output_file_name(name, i, taken);
      write_file(file, to_npy_bytes(tensor));
    }
    if (o.json) {
      nlohmann::ordered_json row = summary_of(tensor);
      row["name"] = name;
      if (!file.empty()) row["file"] = file;
      report.push_back(std::move(row));
    } else {
      print_summary(name, tensor, file);
    }
  }
  if (o.json)
    std::cout << nlohmann::ordered_json{{"outputs", report}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  if (o.times) {
    const SpecialisationTimes& t = session.times();
    std::fprintf(
        stderr,
        "lowered in %s, compiled in %s, parameters prepared in %s, kernels made in %s (cache: %lld hits, %lld misses)\n",
        show_seconds(t.lower).c_str(), show_seconds(t.compile).c_str(), show_seconds(t.prepare).c_str(),
        show_seconds(t.kernels).c_str(), static_cast<long long>(ObjectCache::of_user().statistics().hits),
        static_cast<long long>(ObjectCache::of_user().statistics().misses));
  }
  return exit_good;
}

}  // namespace

void add_run_command(CLI::App& app, int* status) {
  auto o = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "run a model now, in any shape: the in-process compiler makes its kernels");
  add_model_argument(*command, *o);
  add_input_option(*command, o->inputs);
  command->add_option("--output-dir", o->output_dir, "write each output to DIR/<name>.npy")->type_name("DIR");
  add_target_option(*command, o->target, "cpu, or cuda: kernels by NVIDIA's run-time compiler, on the first GPU");
  add_shape_options(*command, *o);
  add_ops_option(*command, *o);
  add_threads_option(*command, *o);
  add_compile_options(*command, *o);
  add_precision_options(*command, *o);
  command->add_flag("--time-passes", o->times, "say how long compiling took");
  command->add_flag("--json", o->json, "the summary of the outputs as JSON");
  command->callback([=] { *status = run_command(*o); });
}

}  // namespace metac
