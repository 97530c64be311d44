// evaluate_cases [--known ranks|shapes|values | --grad ORDER] [--verbose] [--timeout S] DIR...
// Runs ONNX-style case folders (model.onnx, test_data_set_*/input_k.pb, output_k.pb) on the reference evaluator: what the
// operators' lowerings mean, before any kernel is made. Each case runs in a process of its own, so a crash or a hang is
// that case's failure. --known says what a lowering may rely on: the values of small inputs where shapes do not do (the
// default), shapes, or ranks alone (every dim open but the lengths of integer vectors). --grad checks derivatives up to
// ORDER at the case's inputs instead of its outputs. A DIR without model.onnx stands for its subfolders. Ends with 'N
// passed, N failed, N skipped'; a case is skipped when check_model names what is missing. Exit status 3 on a failure. The
// tolerances are those of ONNX's own runner: rtol 1e-3, atol 1e-7 or what data.json says; integers exact.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/session/session.h"
#include "compiler/api/verify/compare.h"
#include "compiler/api/verify/verify_gradient.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"

namespace fs = std::filesystem;
using namespace metac;

namespace {

struct Outcome {
  char status = 'F';  // P passed, F failed, S skipped
  std::string operators, detail;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Tensor> read_series(const fs::path& folder, const std::string& prefix) {
  std::vector<Tensor> out;
  for (int k = 0;; ++k) {
    const fs::path path = folder / (prefix + std::to_string(k) + ".pb");
    if (!fs::exists(path)) return out;
    out.push_back(read_tensor_proto(bytes_of(path), path.string()));
  }
}

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

Tolerance tolerance_of(const fs::path& folder) {
  Tolerance tolerance;
  if (fs::exists(folder / "data.json")) {
    const auto json = nlohmann::json::parse(bytes_of(folder / "data.json"));
    tolerance.relative = json.value("rtol", tolerance.relative);
    tolerance.absolute = json.value("atol", tolerance.absolute);
  }
  return tolerance;
}

// Empty: they agree.
std::string difference(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  if (got.dtype != expected.dtype) return concat("is ", name_of(got.dtype), ", expected ", name_of(expected.dtype));
  if (got.shape != expected.shape)
    return concat("has shape ", to_string(got.shape), ", expected ", to_string(expected.shape));
  const double rtol = got.dtype == DType::bf16 ? std::max(0.0157, tolerance.relative) : tolerance.relative;
  for (int64_t i = 0; i < got.element_count(); ++i) {
    if (got.dtype == DType::string) {
      if (got.strings[i] != expected.strings[i])
        return concat("element ", i, " is ", quoted(got.strings[i]), ", expected ", quoted(expected.strings[i]));
      continue;
    }
    const double a = number_at(got, i), b = number_at(expected, i);
    const bool same = is_float(got.dtype) ? a == b || (std::isnan(a) && std::isnan(b)) ||
                                                std::fabs(a - b) <= tolerance.absolute + rtol * std::fabs(b)
                                          : integer_at(got, i) == integer_at(expected, i);
    if (!same) return concat("element ", i, " of ", to_string(got.shape), " is ", a, ", expected ", b);
  }
  return "";
}

bool draws(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op* op) { return op->routine == "draw_number"; });
}

Outcome run_case(const fs::path& folder, Known known, int order) {
  Outcome outcome;
  try {
    Model model = read_onnx((folder / "model.onnx").string());
    if (known < Known::shapes) open_all_dims(model);
    std::vector<std::string> names;
    for (const Node& n : model.graph.nodes)
      if (std::find(names.begin(), names.end(), n.op_type) == names.end()) names.push_back(n.op_type);
    outcome.operators = names.size() > 3 ? "(network)" : "";
    if (outcome.operators.empty())
      for (const std::string& n : names) outcome.operators += (outcome.operators.empty() ? "" : "+") + n;
    const std::vector<Finding> missing = check_model(model);
    if (!missing.empty()) return {'S', outcome.operators, missing[0].message};
    std::vector<fs::path> sets;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_"))
        sets.push_back(entry.path());
    std::sort(sets.begin(), sets.end());
    const Tolerance tolerance = tolerance_of(folder);
    std::vector<std::string> input_names;
    for (const Value& v : model.graph.inputs) {
      const auto& list = model.graph.initializers;
      if (std::none_of(list.begin(), list.end(), [&](const Initializer& i) { return i.name == v.name; }))
        input_names.push_back(v.name);
    }
    for (const fs::path& set : sets) {
      const std::vector<Tensor> inputs = read_series(set, "input_"), expected = read_series(set, "output_");
      std::map<std::string, Tensor> given;
      for (size_t k = 0; k < inputs.size() && k < input_names.size(); ++k) given[input_names[k]] = inputs[k];
      const auto relying = [&](Known on) { return relying_on({}, model, reliance_on(model, given, {on, false, {}})); };
      LowerOptions options = relying(std::min(known, Known::shapes));
      std::vector<Tensor> got;
      bool drawn = false;
      if (order > 0) {
        for (const auto& [name, tensor] : given)  // floats are what is varied
          if (!is_float(tensor.dtype)) options.input_values[name] = tensor;
        const GradientCheck check = verify_gradient(*lower_model(model, options), given, {.order = order});
        if (check.checked == 0) return {'S', outcome.operators, check.detail};
        if (!check.passed) return {'F', outcome.operators, check.detail};
        continue;
      }
      try {
        const std::unique_ptr<Graph> graph = lower_model(model, options);
        drawn = draws(*graph);
        got = evaluate(*graph, given);
      } catch (const CompileError&) {
        if (known == Known::shapes) throw;
        const Known more = known == Known::ranks ? Known::lengths : Known::small_inputs;
        got = evaluate(*lower_model(model, relying(more)), given);
      }
      if (got.size() != expected.size())
        return {'F', outcome.operators, concat(got.size(), " outputs, expected ", expected.size())};
      for (size_t k = 0; k < got.size(); ++k)
        if (std::string text =
                drawn ? compare_distributions(got[k], expected[k]).detail : difference(got[k], expected[k], tolerance);
            !text.empty())
          return {'F', outcome.operators, concat("output ", k, " ", text)};
    }
    outcome.status = 'P';
  } catch (const CompileError& error) {
    outcome.detail = error.diagnostic.message;
    // A dtype or container that is refused by name is a skip like an unknown operator.
    for (const char* words : {"which this build does not know", "only numeric tensors are supported"})
      if (outcome.detail.find(words) != std::string::npos) outcome.status = 'S';
  } catch (const std::exception& error) {
    outcome.detail = error.what();
  }
  return outcome;
}

// In a process of its own; its answer comes through a pipe as "status operators\ndetail".
Outcome run_apart(const fs::path& folder, Known known, int order, int timeout) {
  int ends[2];
  if (pipe(ends) != 0) return {'F', "", "no pipe"};
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(timeout);
    const Outcome outcome = run_case(folder, known, order);
    const std::string text = std::string(1, outcome.status) + outcome.operators + "\n" + outcome.detail;
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0) break;
      at += n;
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (text.empty()) {
    std::string why =
        WIFSIGNALED(status) ? concat("ended by signal ", WTERMSIG(status)) : concat("exit status ", WEXITSTATUS(status));
    return {'F', "", why};
  }
  const size_t line = text.find('\n');
  return {text[0], text.substr(1, line - 1), text.substr(line + 1)};
}

}  // namespace

int main(int argc, char** argv) {
  bool verbose = false;
  Known known = Known::small_inputs;
  const std::map<std::string, Known> levels = {
      {"ranks", Known::ranks}, {"shapes", Known::shapes}, {"values", Known::small_inputs}};
  int timeout = 60, order = 0;
  std::vector<fs::path> cases;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--known" && k + 1 < argc && levels.count(argv[k + 1]))
      known = levels.at(argv[++k]);
    else if (word == "--verbose")
      verbose = true;
    else if (word == "--grad" && k + 1 < argc)
      order = std::atoi(argv[++k]);
    else if (word == "--timeout" && k + 1 < argc)
      timeout = std::atoi(argv[++k]);
    else if (fs::exists(fs::path(word) / "model.onnx"))
      cases.push_back(word);
    else if (fs::is_directory(word))
      for (const auto& entry : fs::recursive_directory_iterator(word)) {
        if (entry.path().filename() == "model.onnx") cases.push_back(entry.path().parent_path());
      }
    else {
      std::cerr << "not a folder: " << word << "\n";
      return 2;
    }
  }
  std::sort(cases.begin(), cases.end());
  std::map<std::string, std::array<int, 3>> by_operator;
  std::array<int, 3> total{};
  std::map<std::string, int> reasons;
  for (const fs::path& folder : cases) {
    const Outcome outcome = run_apart(folder, known, order, timeout);
    const int column = outcome.status == 'P' ? 0 : outcome.status == 'F' ? 1 : 2;
    ++total[column];
    ++by_operator[outcome.operators][column];
    if (column == 2) ++reasons[outcome.detail];
    if (column == 1 || (verbose && column == 2))
      std::cout << (column == 1 ? "FAIL " : "SKIP ") << folder.filename().string() << ": " << outcome.detail << "\n";
  }
  std::cout << "\noperators, passed, failed, skipped\n";
  for (const auto& [name, counts] : by_operator)
    if (counts[0] || counts[1])
      std::cout << "  " << name << "  " << counts[0] << "  " << counts[1] << "  " << counts[2] << "\n";
  std::cout << "\nskipped because\n";
  for (const auto& [reason, count] : reasons) std::cout << "  " << count << "  " << reason << "\n";
  std::cout << total[0] << " passed, " << total[1] << " failed, " << total[2] << " skipped\n";
  return total[1] ? 3 : 0;
}
