// metac verify: known answers. Cases run in forked workers, so that a crash is that case's failure and nothing else.
#include "compiler/api/verify/verify.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "compiler/driver/command.h"
#include "compiler/driver/compare/junit.h"
#include "compiler/driver/compare/worker_pool.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/jit/precompiled_prelude.h"
#include "compiler/support/file_system.h"
#include "compiler/target/target.h"
#include "runtime/process/usable_cpus.h"

namespace metac {
namespace {

struct VerifyArguments : ModelOptions {
  std::string against, target, compiler, known = "values", junit;
  bool recursive = false, atol_given = false, json = false, aot = false, quiet = false, gradient = false;
  int order = 1;
  Tolerance tolerance;
  int jobs = 0;
  double timeout = 300;
};

nlohmann::ordered_json row_of(const OutputResult& output);

nlohmann::ordered_json row_of(const CaseResult& r) {
  nlohmann::ordered_json row = {{"path", r.path},    {"status", name_of(r.status)}, {"operator", r.op},
                                {"dtype", r.dtype},  {"max_ulp", r.max_ulp},        {"max_rel", r.max_rel},
                                {"detail", r.detail}};
  for (const OutputResult& output : r.outputs) row["outputs"].push_back(row_of(output));
  if (!r.notes.empty()) row["notes"] = r.notes;
  return row;
}

std::string short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

CaseResult result_of(const nlohmann::json& row) {
  CaseResult r;
  r.path = row.at("path");
  std::string status = row.at("status");
  r.status = status == "passed" ? CaseStatus::passed : status == "skipped" ? CaseStatus::skipped : CaseStatus::failed;
  r.op = row.at("operator");
  r.dtype = row.at("dtype");
  r.max_ulp = row.at("max_ulp");
  r.max_rel = row.at("max_rel").is_number() ? row.at("max_rel").get<double>() : 0;
  r.detail = row.at("detail");
  return r;
}

std::string dump(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<CaseResult> run_cases(const std::vector<std::string>& cases, const VerifyArguments& o,
                                  const VerifyOptions& options) {
  std::vector<CaseResult> results(cases.size());
  auto work = [&](size_t i) { return dump(row_of(verify_case(cases[i], options))); };
  auto done = [&](size_t i, const WorkerAnswer& answer) {
    CaseResult& r = results[i];
    r.path = cases[i];
    if (answer.problem.empty()) {
      r = result_of(nlohmann::json::parse(answer.text));
    } else {
      r.status = CaseStatus::failed;
      r.detail = answer.problem;
    }
    if (!o.json && (r.status != CaseStatus::passed || !o.quiet))
      std::printf("%-7s %s%s%s\n", std::string(name_of(r.status)).c_str(), r.path.c_str(), r.detail.empty() ? "" : ": ",
                  r.detail.c_str());
  };
  if (!o.aot && cases.size() > 1) precompiled_prelude(options.session.compile.cpu);  // once, not in every worker
  WorkersJob job;
  job.count = cases.size(), job.jobs = o.jobs ? o.jobs : metac_runtime::usable_cpus(), job.seconds = o.timeout;
  job.work = work, job.done = done;
  // Behind what went wrong on a device it may be of no more use to the same process.
  if (options.session.compile.target->opens_a_device()) job.in_a_row = 16;
  job.may_go_on = [](const std::string& text) {
    return result_of(nlohmann::json::parse(text)).status != CaseStatus::failed;
  };
  run_in_workers(job);
  return results;
}

// Passed, failed and skipped by operator and by type, with the largest differences of what passed.
void print_table(const std::vector<CaseResult>& results) {
  struct Row {
    int64_t count[3] = {};
    int64_t max_ulp = 0;
    double max_rel = 0;
  };
  for (const bool by_operator : {true, false}) {
    std::map<std::string, Row> rows;
    for (const CaseResult& r : results) {
      Row& row = rows[by_operator ? r.op : r.dtype];
      ++row.count[static_cast<int>(r.status)];
      if (r.status != CaseStatus::passed) continue;
      row.max_ulp = std::max(row.max_ulp, r.max_ulp);
      row.max_rel = std::max(row.max_rel, r.max_rel);
    }
    std::printf("\n%-32s %8s %8s %8s %12s %10s\n", by_operator ? "operator" : "type", "passed", "failed", "skipped",
                "max ULP", "max rel.");
    for (const auto& [name, row] : rows)
      std::printf("%-32s %8lld %8lld %8lld %12lld %10.2g\n", name.empty() ? "?" : name.c_str(),
                  static_cast<long long>(row.count[0]), static_cast<long long>(row.count[1]),
                  static_cast<long long>(row.count[2]), static_cast<long long>(row.max_ulp), row.max_rel);
  }
  std::printf("\n");
}

int report_cases(const std::vector<CaseResult>& results, const VerifyArguments& o) {
  int64_t count[3] = {};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CaseResult& r : results) {
    ++count[static_cast<int>(r.status)];
    rows.push_back(row_of(r));
  }
  if (!o.json && o.recursive) print_table(results);
  if (!o.junit.empty()) {
    make_parents(o.junit);
    write_file(o.junit, junit_text(results));
  }
  if (o.json)
    std::cout << dump({{"cases", rows}, {"passed", count[0]}, {"failed", count[1]}, {"skipped", count[2]}}, 1) << "\n";
  std::fprintf(o.json ? stderr : stdout, "%lld passed, %lld failed, %lld skipped\n", static_cast<long long>(count[0]),
               static_cast<long long>(count[1]), static_cast<long long>(count[2]));
  return count[1] ? exit_difference : exit_good;
}

// Two digits, rounded up: what is printed as passing passes.
std::string at_least(double x) {
  if (!(x > 0)) return "0";
  const double digit = std::pow(10, std::floor(std::log10(x)) - 1);
  return short_number(std::ceil(x / digit * (1 + 1e-9)) * digit);
}

std::string line_of(const OutputResult& o) {
  const Comparison& c = o.comparison;
  std::string text = concat("  output ", quoted(o.name), " (", o.type, "): ");
  if (c.furthest < 0)
    text += c.good ? "no difference" : c.detail;
  else
    text +=
        concat("largest error ", short_number(c.max_abs), " at element ", c.furthest, ", ",
               c.largest > 0 ? concat(short_number(c.max_abs / c.largest), " of the largest value ", short_number(c.largest))
                             : std::string("all expected are 0"),
               "; ", short_number(c.max_rel), " relative to its own element, ", c.max_ulp, " ULP");
  const char* const hopeless = "\n    no tolerance would pass: NaN or infinity stands where a number should";
  if (c.furthest < 0) return std::isinf(c.passing_atol) ? text + hopeless : text;
  text += concat("\n    allowed: rtol ", short_number(o.tolerance.rtol), ", atol ", short_number(o.tolerance.atol));
  if (o.part > 0) text += concat(" (", short_number(o.part), " of the largest value)");
  if (o.tolerance.max_ulp >= 0) text += concat(", ", o.tolerance.max_ulp, " ULP");
  if (c.good) return text;
  text += "\n    " + c.detail;
  if (std::isinf(c.passing_atol)) return text + hopeless;
  text += "\n    it would pass with --atol " + at_least(c.passing_atol);
  if (!std::isinf(c.passing_rtol)) text += " or with --rtol " + at_least(c.passing_rtol);
  return text;
}

nlohmann::ordered_json row_of(const OutputResult& o) {
  const Comparison& c = o.comparison;
  const auto finite = [](double x) {
    return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
  };
  return {{"name", o.name},
          {"type", o.type},
          {"passed", c.good},
          {"max_abs", c.max_abs},
          {"max_rel", c.max_rel},
          {"max_ulp", c.max_ulp},
          {"largest", c.largest},
          {"rtol", o.tolerance.rtol},
          {"atol", o.tolerance.atol},
          {"passing_atol", finite(c.passing_atol)},
          {"passing_rtol", finite(c.passing_rtol)}};
}

// A model or a compiled folder against answers in a file.
int verify_stored(const VerifyArguments& o, const VerifyOptions& options) {
  const CaseResult result = verify_against(o.model, o.against, options);
  if (o.json) return report_cases({result}, o);
  std::printf("%s %s\n", std::string(name_of(result.status)).c_str(), result.path.c_str());
  for (const OutputResult& output : result.outputs) std::printf("%s\n", line_of(output).c_str());
  for (const std::string& note : result.notes) std::printf("  %s\n", note.c_str());
  return report_cases({result}, o);
}

int verify_command(const VerifyArguments& o) {
  VerifyOptions options;
  options.session = o.session();
  options.session.threads = o.threads ? o.threads : 1;  // the cores are busy with other cases
  options.tolerance = o.tolerance;
  options.scale_atol = !o.atol_given;
  options.aot = o.aot;
  if (o.known != "values") options.session.most_known = o.known == "shapes" ? Known::shapes : Known::lengths;
  if (o.known == "ranks") options.session.least_known = Known::ranks;
  options.session.compile.target = &target_named(o.target);
  if (!o.compiler.empty() && !o.aot) throw UsageError("--cxx wants --aot: the in-process compiler is another one");
  options.compiler = o.compiler;
  options.seconds = o.timeout;
  options.gradient_order = o.gradient ? o.order : 0;
  if (!o.against.empty()) return verify_stored(o, options);
  if (std::filesystem::is_directory(o.model)) {
    std::vector<std::string> cases;
    if (o.recursive)
      cases = find_cases(o.model);
    else if (is_case(o.model))
      cases = {o.model};
    if (cases.empty())
      fail(quoted(o.model), " holds no case (a folder with model.onnx and test_data_set_*)",
           o.recursive ? "" : "; --recursive looks below it");
    return report_cases(run_cases(cases, o, options), o);
  }
  if (o.gradient) return report_cases(run_cases({o.model}, o, options), o);
  throw UsageError(
      "verify wants a case folder, or a model or compiled folder with --against FILE.npz, or a model with --grad");
}

}  // namespace

void add_verify_command(CLI::App& app, int* status) {
  auto o = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand(
      "verify", "compare with known answers: ONNX test-case folders, or a model or compiled folder and a .npz file");
  command
      ->add_option(
          "path", o->model,
          "a case folder (model.onnx, test_data_set_*), a folder of them, a model, or a folder that `metac compile` wrote")
      ->required()
      ->type_name("CASE_DIR|MODEL|DIR");
  command->add_flag("--recursive", o->recursive, "all cases below the folder");
  command->add_option("--against", o->against, "inputs and expected outputs of a model or a compiled folder, by name")
      ->type_name("FILE.npz");
  command->add_flag("--aot", o->aot, "on compiled libraries instead of the in-process compiler");
  command
      ->add_option("--known", o->known,
                   "what code may rely on: ranks alone (and the lengths of integer vectors), shapes, as libraries do, or "
                   "values of small inputs too where it must")
      ->check(CLI::IsMember({"ranks", "shapes", "values"}))
      ->capture_default_str();
  add_target_option(*command, o->target, "cpu, or cuda: on the first GPU");
  command->add_option("--cxx", o->compiler, "with --aot: the C++ compiler of everything; default as in metac compile")
      ->type_name("PROGRAM");
  command->add_option("--rtol", o->tolerance.rtol, "relative tolerance")->capture_default_str();
  command
      ->add_option("--atol", o->tolerance.atol,
                   "absolute tolerance; operators whose sums cancel (DFT, STFT) have 1e-6 at least; default with --against: "
                   "1e-6 (float16: 1e-3, bfloat16: 1e-2) of the output's largest value")
      ->capture_default_str();
  command->add_option("--max-ulp", o->tolerance.max_ulp, "floats may be at most this many units in the last place apart");
  command->add_option("--jobs", o->jobs, "cases at once; 0: one per CPU")->check(CLI::Range(0, 256))->capture_default_str();
  command->add_option("--timeout", o->timeout, "seconds for one case")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--quiet", o->quiet, "do not list what passed");
  command->add_flag("--json", o->json, "the results as JSON");
  command->add_option("--junit", o->junit, "write the results as JUnit's XML too")->type_name("FILE.xml");
  add_ops_option(*command, *o);
  add_threads_option(*command, *o);
  add_compile_options(*command, *o);
  add_precision_options(*command, *o);
  command->add_flag("--grad", o->gradient,
                    "derivatives against central differences in float64, at the case's inputs or random ones");
  command->add_option("--order", o->order, "with --grad: up to which order")->check(CLI::Range(1, 4))->capture_default_str();
  command->callback([=] {
    o->atol_given = command->get_option("--atol")->count() > 0;
    *status = verify_command(*o);
  });
}

}  // namespace metac
