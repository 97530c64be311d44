#include "compiler/codegen/project.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "compiler/codegen/carried_model.h"
#include "compiler/codegen/compiler_flags.h"
#include "compiler/codegen/embedded_files.h"
#include "compiler/codegen/library_weights.h"
#include "compiler/codegen/manifest.h"
#include "compiler/codegen/package/package_name.h"
#include "compiler/codegen/project_name.h"
#include "compiler/codegen/text/dtype_text.h"
#include "compiler/codegen/text/fill_template.h"
#include "compiler/codegen/text/generation_text.h"
#include "compiler/codegen/text/interface_text.h"
#include "compiler/codegen/text/library_text.h"
#include "compiler/codegen/text/program_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"
#include "compiler/target/target.h"
#include "runtime/files/weights.h"

namespace metac {
namespace {

constexpr size_t most_units = 24;  // of a program's kernels

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_in(const std::string& path, const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& f) { return f.back() == '/' ? path.rfind(f, 0) == 0 : path == f; });
}

class Writer {
 public:
  Writer(const std::vector<LibraryProgram>& programs, const ProjectOptions& options)
      : programs_(programs),
        run_(programs[0].model->run),
        o_(options),
        name_(options.name),
        namespace_(options.name + "_runtime"),
        weights_(plan_library_weights(programs)),
        places_(places_of(programs, namespace_)) {
    if (o_.carried) carried_ = place_carried(*o_.carried, programs, weights_);
    project_.name = name_;
    project_.weights = weights_.file;
    project_.embed_weights = o_.embed_weights;
    project_.programs.push_back({"run", {"src/run.cpp", "src/run_program.cpp"}});
    project_.find_toolkit = o_.parts.find_toolkit;
    project_.kernel_files = o_.parts.kernels;
  }

  Project run() {
    check_ports(run_);
    copy_runtime();
    std::vector<std::vector<std::string>> files;
    for (size_t p = 0; p < programs_.size(); ++p) {
      const ProgramPlace& place = places_[p];
      files.push_back(write_kernels(p, programs_[p].model->run, place.folder + place.stem + "kernels", o_.parts.kernels));
      write_kernels(p, programs_[p].model->prepare, place.folder + place.stem + "prepare_kernels", {});
    }
    for (size_t p = 0; p < programs_.size(); ++p) write_program(p);
    if (o_.carried) write_carried();
    if (programs_.size() > 1) write_library();
    write_libraries();
    project_.sources.push_back("src/api.cpp");
    project_.sources.push_back("src/model_table.cpp");
    project_.sources.push_back("src/queue.cpp");
    project_.sources.push_back("src/guarded_call.cpp");
    if (!o_.tokenizer.empty()) project_.sources.push_back("src/tokenizer.cpp");
    content_hash_ = content_hash(weights_);
    project_.weights_header = weights_header(weights_, layout_hash_, content_hash_);
    values_["sources"] = "";
    for (const std::string& source : project_.sources) values_["sources"] += "  " + source + "\n";
    values_["sources"].pop_back();
    fill_all();
    project_.files[name_ + ".json"] = manifest_text(programs_, o_, files, weights_, content_hash_);
    return std::move(project_);
  }

 private:
  void copy_runtime() {
    project_.files["include/metac_model.h"] = embedded_files().at("runtime/metac_model.h");
    std::vector<std::string> others;
    for (const Target* target : targets())
      for (const std::string& file : target->project_parts({}).runtime) others.push_back(file);
    for (const auto& [path, text] : embedded_files()) {
      if (path.rfind("runtime/", 0) != 0 || path.rfind("runtime/train/", 0) == 0 || path == "runtime/routines_contract.h")
        continue;
      if (is_in(path, others) && !is_in(path, o_.parts.runtime)) continue;
      const bool specialises = path.rfind("runtime/specialise/", 0) == 0, alone = path == "runtime/specialise/none.h";
      if (specialises && alone == (o_.carried != nullptr)) continue;
      if (path.rfind("runtime/generate/", 0) == 0 && !o_.decoder) continue;
      project_.files["src/" + path] = text;
    }
  }

  // Kernel texts in order, in units of about the same size. Returns the file of each kernel.
  std::vector<std::string> write_kernels(size_t p, const CompiledProgram& program, const std::string& stem,
                                         const KernelFiles& form) {
    std::vector<std::string> files;
    size_t total = 0;
    for (const KernelSource& k : program.kernels) total += k.text.size();
    const size_t units = std::min(most_units, std::max<size_t>(1, (total + form.unit_bytes - 1) / form.unit_bytes));
    const size_t share = std::max<size_t>(1, (total + units - 1) / units);
    size_t first = 0, unit = 0;
    std::string body;
    auto close = [&](size_t end) {
      if (body.empty()) return;
      std::string path = concat(stem, "_", unit++, form.ending);
      std::string text = concat("// ", name_, ": kernels ", first, " to ", end - 1, " of ", program.kernels.size(),
                                ". What kernel text may use is explained in runtime/", form.prelude, ".\n");
      text += "#define METAC_RUNTIME_NAMESPACE " + places_[p].device + "\n" + form.head;
      project_.files[path] =
          text + "namespace " + places_[p].kernels + " {\n\n" + body + "}  // namespace " + places_[p].kernels + "\n";
      project_.sources.push_back(path);
      if (form.ending == KernelFiles().ending) project_.kernel_cpus[path] = programs_[p].cpu;
      for (size_t k = first; k < end; ++k) files.push_back(path);
      body.clear();
      first = end;
    };
    for (size_t k = 0; k < program.kernels.size(); ++k) {
      body += kernel_text(program.kernels[k]) + "\n";
      if (body.size() >= share) close(k + 1);
    }
    close(program.kernels.size());
    return files;
  }

  // In the library's namespace a kernel is an ordinary function: names of two libraries must not meet.
  static std::string kernel_text(const KernelSource& kernel) {
    std::string text = kernel.text;
    const std::string external = "extern \"C\" ";
    for (size_t at; (at = text.find(external)) != std::string::npos;) text.erase(at, external.size());
    return text;
  }

  static std::string declarations(const CompiledProgram& program) {
    std::string text;
    for (const KernelSource& k : program.kernels)
      text += "void " + k.name + "(void* const* b, const int64_t* s, void* scratch, int64_t begin, int64_t end);\n";
    return text.empty() ? "" : text + "\n";
  }

  void write_program(size_t p) {
    const CompiledModel& model = *programs_[p].model;
    const ProgramPlace& place = places_[p];
    const bool only = programs_.size() == 1;
    const std::string label =
        place.stem.empty()
            ? ""
            : concat(programs_[p].specialisation ? concat("s", programs_[p].specialisation, ".") : std::string(),
                     programs_[p].function, ".");
    std::string run = program_text(only ? model.run : with_weights_moved(model.run, weights_, p), "run_program", label);
    std::string prepare = program_text(model.prepare, "prepare_program", label);
    std::string sources = "const WeightSource weight_sources[] = {\n";
    for (const WeightSource& w : weights_.programs[p].sources)
      sources += concat("    {", w.parameter, ", ", w.prepare_output, ", ", w.offset, ", ", w.bytes, "},\n");
    if (weights_.programs[p].sources.empty()) sources += "    {-1, -1, 0, 0},  // none\n";
    sources += "};\n";
    if (!has_all_parameters(weights_, p)) {
      sources += "const int32_t parameter_numbers[] = {";
      for (int number : weights_.programs[p].parameters) sources += concat(number, ", ");
      sources += "-1};\n";
    }
    layout_.update_part(run).update_part(sources);

    std::string of = programs_[p].function == "run" ? "the model" : name_ + "_" + programs_[p].function;
    if (programs_[p].specialisation > 0) of += concat(", specialisation ", programs_[p].specialisation);
    if (!place.scope.empty()) of += " for " + programs_[p].cpu.name;
    write_unit(p, "program", of + " as tables for runtime/executor/executor.h", only ? library_includes() : "",
               declarations(model.run), run + (only ? "\n" + no_arrays() + library_text() : ""));
    write_unit(p, "prepare", "from the model's parameters to the weights block: what " + name_ + "_set_weights runs", "",
               declarations(model.prepare),
               prepare + "\n" + sources + (only ? "\n" + no_arrays() + parameters_text(programs_, weights_, name_) : ""));
  }

  void write_unit(size_t p, const std::string& what, const std::string& remark, const std::string& includes,
                  const std::string& kernels, const std::string& body) {
    const ProgramPlace& place = places_[p];
    const std::string path = place.folder + place.stem + what + ".cpp", name = place.tables;
    std::string text = "// " + name_ + ": " + remark + ".\n#include \"program.h\"\n" + includes + "\n";
    if (place.kernels == name)
      text += "namespace " + name + " {\n\n" + kernels;
    else
      text += (kernels.empty()
                   ? ""
                   : "namespace " + place.kernels + " {\n\n" + kernels + "}  // namespace " + place.kernels + "\n\n") +
              "namespace " + name + " {\n\n" + (kernels.empty() ? "" : "using namespace " + place.kernels + ";\n\n");
    project_.files[path] = text + body + "\n}  // namespace " + name + "\n";
    project_.sources.push_back(path);
  }

  // The vendor libraries that kernels ask, each called from one source.
  void write_libraries() {
    std::set<std::string> names;
    for (const LibraryProgram& p : programs_)
      for (const KernelSource& k : p.model->run.kernels) names.insert(k.libraries.begin(), k.libraries.end());
    project_.libraries.assign(names.begin(), names.end());
    for (const std::string& library : names) {
      const std::string path = concat("src/library_", library, ".cpp");
      project_.files[path] = fill_template(concat("templates/project/cuda/library_", library, ".cpp"),
                                           {{"name", name_}, {"namespace", places_[0].device}});
      project_.sources.push_back(path);
    }
  }

  // What programs share, where there are several.
  void write_library() {
    project_.files["src/library.cpp"] =
        "// " + name_ + ": the programs of this library, and what they share.\n#include \"program.h\"\n" +
        library_includes() + "\nnamespace " + namespace_ + " {\n\n" + no_arrays() + library_text() + "\n" +
        parameters_text(programs_, weights_, name_) + "\n}  // namespace " + namespace_ + "\n";
    project_.sources.push_back("src/library.cpp");
  }

  void write_carried() {
    project_.files["src/model.cpp"] = "// " + name_ +
                                      ": where the model is that sessions of libmetac are opened on, in the weights block.\n"
                                      "#define METAC_RUNTIME_NAMESPACE " +
                                      namespace_ +
                                      "\n#include \"runtime/specialise/carried_model.h\"\n\n"
                                      "namespace " +
                                      namespace_ + " {\n\n" + carried_text(*o_.carried, carried_, programs_, weights_) +
                                      "\n}  // namespace " + namespace_ + "\n";
    project_.sources.push_back("src/model.cpp");
  }

  std::string library_includes() const { return "#include \"runtime/process/cpu_features.h\"\n" + routine_includes(); }

  std::string library_text() {
    if (o_.carried) layout_.update_part(carried_text(*o_.carried, carried_, programs_, weights_));
    for (const std::vector<int64_t>& offsets : {weights_.constant_offsets, weights_.parameter_offsets})
      for (int64_t offset : offsets) layout_.update_part(std::to_string(offset));
    layout_hash_ = layout_.hex();
    return variants_text(programs_, places_, weights_, name_) + "\n" + routine_table() +
           "\n// Which programs a weights block belongs to.\nconst char weights_layout[] = " + c_string(layout_hash_) +
           ";\n";
  }

  static std::string no_arrays() {
    return "[[maybe_unused]] static const int64_t no_dims[] = {1}, no_strides[] = {1};\n[[maybe_unused]] static const char* "
           "const no_dim_names[] = {\"\"};\n\n";
  }

  std::set<std::string> routines() const {
    std::set<std::string> names;
    for (const LibraryProgram& p : programs_)
      for (const CompiledProgram* part : {&p.model->run, &p.model->prepare})
        names.insert(part->routines.begin(), part->routines.end());
    return names;
  }
  std::string routine_includes() const {
    std::string text;
    for (const std::string& r : routines()) {
      if (!embedded_files().count("runtime/routines/" + r + ".h")) fail("the runtime has no routine ", quoted(r));
      text += "#include \"runtime/routines/" + r + ".h\"\n";
    }
    return text;
  }
  std::string routine_table() const {
    std::string text = "const RoutineEntry routines[] = {\n";
    for (const std::string& r : routines()) text += concat("    {\"", r, "\", &", r, "},\n");
    if (routines().empty()) text += "    {\"\", nullptr},  // none\n";
    return text + concat("};\nconst int32_t routine_count = ", routines().size(), ";\n");
  }

  // How cmake compiles kernels: those of each CPU for it.
  std::string kernel_options(size_t per_cpu) const {
    auto options = [](const std::string& files, const CpuTarget& cpu) {
      std::string flags;
      for (const std::string& f : compiler_flags(cpu)) flags += ";" + f;
      return "if(" + files + ")\n  set_source_files_properties(${" + files + "} PROPERTIES COMPILE_OPTIONS \"-O3" + flags +
             "\")\nendif()";
    };
    if (per_cpu == programs_.size()) return options("kernels", programs_[0].cpu);
    std::string text;
    for (size_t p = 0; p < programs_.size(); p += per_cpu) {
      const std::string files = "kernels_" + programs_[p].cpu.tag();
      text += concat(p ? "\n" : "", "set(", files, " ${kernels})\nlist(FILTER ", files, " INCLUDE REGEX \"^",
                     places_[p].folder, "\")\n", options(files, programs_[p].cpu));
    }
    return text;
  }

  // What --grad adds to the interface: a piece for each function, in the pieces that all share.
  void fill_derivatives(size_t per_cpu) {
    static const std::map<std::string, std::string> tables = {
        {"vjp", "inputs, a cotangent for every floating-point output  ->  outputs, the gradient for every value"},
        {"jvp", "inputs, a tangent for every value  ->  outputs, the tangent of every floating-point output"},
        {"hvp",
         "inputs, cotangents, tangents  ->  the Hessian of <cotangents, outputs> times the tangents, for every value"}};
    struct Kind {
      const char *value, *shared, *piece;
      std::string pieces;
    };
    Kind kinds[] = {{"derivative_declarations", "grad/api.h", "grad/derivative.h", ""},
                    {"derivative_members", "grad/api.hpp", "grad/derivative.hpp", ""},
                    {"derivative_functions", "", "grad/derivative.cpp", ""},
                    {"derivative_rows", "grad/model_table.cpp", "grad/model_table_row.cpp", ""},
                    {"derivative_methods", "grad/python.py", "", ""}};
    std::string names, table, functions;
    TemplateValues values = values_;
    for (size_t p = 1; p < per_cpu && programs_[p].specialisation == 0; ++p) {
      const CompiledProgram& run = programs_[p].model->run;
      const std::string& function = programs_[p].function;
      names += concat(p > 1 ? ", " : "", '"', function, '"');
      functions += ", " + function + "_function";
      table += concat(" *   ", name_, "_", function, "  ", tables.at(function), "\n");
      values["function"] = function;
      values["FUNCTION"] = upper(function);
      values["derivative_input_count"] = std::to_string(run.inputs.size());
      values["derivative_output_count"] = std::to_string(run.outputs.size());
      for (Kind& kind : kinds)
        kind.pieces += fill_template(
            concat("templates/project/", *kind.piece ? kind.piece : concat("grad/python_", function, ".py")), values);
    }
    values_["further_functions"] = functions;
    values["value_kinds"] = o_.value_kinds;
    values_["derivative_names"] = values["derivative_names"] = "[" + names + "]";
    values["derivative_table"] = table;
    values_["derivative_members_of_table"] = names.empty() ? "" : "  table.derivative = derivative;\n";
    for (Kind& kind : kinds) {
      values["derivatives"] = kind.pieces;
      values_[kind.value] = names.empty()  ? ""
                            : *kind.shared ? fill_template(concat("templates/project/", kind.shared), values)
                                           : kind.pieces;
    }
  }

  // What the library of a training step adds, whose processes may be several.
  void fill_exchange() {
    const size_t count = programs_[0].model->run.exchanges.size();
    values_["exchange_count"] = std::to_string(count);
    values_["exchange_members"] = count == 0 ? "" : fill_template("templates/project/exchange/members.cpp", values_);
    for (const char* value : {"exchange_declarations", "exchange_functions"}) values_[value] = count == 0 ? "" : part(value);
  }

  // What --jit adds to the interface.
  void fill_jit() {
    fill_pieces(values_, o_.carried,
                {"jit_declarations=jit/api.h", "jit_begin=jit/begin.cpp", "jit_functions=jit/api.cpp",
                 "jit_members=jit/api.hpp", "jit_members_of_table=jit/model_table.cpp", "jit_methods=jit/python.py"});
    values_["jit_check"] = o_.carried ? "" : fill_template("templates/project/jit/none.cpp", values_);
    const auto with = [&](const char* text, const char* otherwise = "") { return o_.carried ? text : otherwise; };
    values_["python_jit_argument"] = with(", metac=None");
    values_["python_jit_setting"] = with("        options.metac = os.fsencode(metac) if metac is not None else None\n");
    values_["specialised"] = with("specialised", "none");
  }

  // What the target adds to the interface: calls that do not wait, memory of a device or tensors with strides.
  void fill_device() {
    // Where the target has no calls of its own, runs that are not waited for are a thread's.
    static const std::map<std::string, std::vector<std::string>> by_threads = {
        {"device_include", {"async/include.h", "strided/include.h"}},
        {"device_context_members", {"async/members.h", "strided/members.h"}},
        {"device_declarations", {"async/api.h", "strided/api.h"}},
        {"device_members", {"async/api.hpp", "strided/api.hpp"}},
        {"device_functions", {"async/api.cpp", "strided/api.cpp"}},
        {"device_members_of_table", {"async/model_table.cpp", "strided/model_table.cpp"}},
        {"device_class", {"async/python.py"}},
        {"device_signatures", {"async/python_signatures.py"}}};
    const bool has_own = o_.parts.templates.count("device_functions") > 0;
    for (const auto& [value, files] : by_threads) {
      std::string text = has_own ? part(value.c_str()) : "";
      for (const std::string& file : files)
        if (!has_own) text += fill_template("templates/project/" + file, values_);
      values_[value] = text;
    }
  }

  // What the target's template of this value gives.
  std::string part(const char* value) const {
    const auto found = o_.parts.templates.find(value);
    return found == o_.parts.templates.end() ? "" : fill_template("templates/project/" + found->second, values_);
  }

  void fill_all() {
    auto of_first_cpu = [&](const LibraryProgram& p) { return p.cpu.name == programs_[0].cpu.name; };
    const size_t per_cpu = std::count_if(programs_.begin(), programs_.end(), of_first_cpu);
    const size_t functions = std::count_if(programs_.begin(), programs_.end(), [&](const LibraryProgram& p) {
      return of_first_cpu(p) && p.specialisation == 0;
    });
    values_["name"] = name_;
    values_["NAME"] = upper(name_);
    values_["lower_name"] = lower(name_);  // which find_package looks for
    values_["namespace"] = namespace_;
    values_["version"] = METAC_VERSION;
    values_["package_version"] = o_.package_version;
    values_["distribution"] = distribution_name(name_);
    values_["wheel_name"] = wheel_name(name_);
    values_["include"] = "include";
    values_["model_hash"] = o_.model_hash;
    values_["input_count"] = std::to_string(run_.given_inputs().size());
    values_["output_count"] = std::to_string(run_.given_outputs().size());
    values_["parameter_count"] = std::to_string(weights_.parameters.size());
    values_["constant_count"] = std::to_string(weights_.constants.size());
    values_["dtype_constants"] = dtype_constants(upper(name_));
    values_["numpy_dtypes"] = numpy_dtypes();
    values_["bfloat_dtype"] = std::to_string(static_cast<int>(DType::bf16));
    values_["port_comment"] = port_comment(run_);
    values_["function_count"] = std::to_string(functions);
    values_["program_count"] = std::to_string(per_cpu);
    values_["variant_count"] = std::to_string(programs_.size() / per_cpu);
    values_["weights_bytes"] = std::to_string(weights_.bytes);
    values_["shared_weights_bytes"] = std::to_string(weights_.shared_bytes);
    values_["file_is_prepared"] = weights_.is_prepared ? "true" : "false";
    values_["file_bytes"] = std::to_string(weights_.file_bytes);
    values_["programs"] = program_declarations(programs_, places_, weights_);
    values_["kernel_options"] = kernel_options(per_cpu);
    values_["target_header"] = o_.parts.target_header;
    values_["find_packages"] = o_.parts.find_packages;
    values_["static_libraries"] = o_.parts.static_libraries;
    values_["vendor_libraries"] = "";
    for (const std::string& library : project_.libraries) {
      const VendorLibrary& vendor = o_.parts.vendors.at(library);
      values_["static_libraries"] += vendor.exported;
      values_["vendor_libraries"] += vendor.linked;
      values_["find_packages"] += vendor.find;
    }
    values_["device_architectures"] = o_.parts.cmake_architectures;
    values_["embed_weights"] = o_.embed_weights ? "ON" : "OFF";
    fill_derivatives(per_cpu);
    fill_exchange();
    fill_jit();
    fill_states(o_, run_, values_);
    fill_generation(o_, run_, values_, project_);
    fill_device();
    fill_queue(run_, values_);
    const std::string package = "lib/cmake/" + name_ + "/" + lower(name_);
    for (const auto& [path, from] :
         std::map<std::string, std::string>{{"CMakeLists.txt", o_.parts.build_file},
                                            {"include/" + name_ + ".h", "library/api.h"},
                                            {"include/" + name_ + ".hpp", "library/api.hpp"},
                                            {"src/api.cpp", "library/api.cpp"},
                                            {"src/context.h", "library/context.h"},
                                            {"src/context_weights.h", "library/context_weights.h"},
                                            {"src/creation_log.h", "library/creation_log.h"},
                                            {"src/guarded_call.cpp", "library/guarded_call.cpp"},
                                            {"src/model_table.cpp", "library/model_table.cpp"},
                                            {"src/queue.cpp", "queue/queue.cpp"},
                                            {"src/program.h", "library/program_header.h"},
                                            {"src/run.cpp", "programs/run.cpp"},
                                            {"src/run_program.cpp", "programs/run_program.cpp"},
                                            {"src/exports.map", "cmake/exports.map"},
                                            {package + "-config.cmake", "cmake/config.cmake"},
                                            {"lib/pkgconfig/" + name_ + ".pc", "cmake/pkgconfig.pc"},
                                            {package + "-config-version.cmake", "cmake/config_version.cmake"},
                                            {"python/pyproject.toml", "python/pyproject.toml"},
                                            {"python/" + name_ + "_wheel.py", "python/wheel.py"},
                                            {"python/" + name_ + "/__init__.py", "python/module.py"}})
      project_.files[path] = fill_template("templates/project/" + from, values_);
    values_["include"] += "/" + name_;
    for (const auto& [path, from] : {std::pair(package + "-config.cmake", "cmake/config.cmake"),
                                     std::pair("lib/pkgconfig/" + name_ + ".pc", "cmake/pkgconfig.pc")})
      project_.shared_prefix[path] = fill_template("templates/project/" + std::string(from), values_);
  }

  const std::vector<LibraryProgram>& programs_;
  const CompiledProgram& run_;  // every variant's inputs and outputs are the same
  const ProjectOptions& o_;
  std::string name_, namespace_, layout_hash_, content_hash_;
  LibraryWeights weights_;
  CarriedPlaces carried_;
  std::vector<ProgramPlace> places_;
  Sha256 layout_;
  TemplateValues values_;
  Project project_;
};

}  // namespace

Project write_project(const std::vector<LibraryProgram>& programs, const ProjectOptions& options) {
  check_project_name(options.name);
  METAC_ASSERT(!programs.empty(), "a library without a program");
  const bool prepared = programs.back().cpu.name == programs[0].cpu.name;
  for (const LibraryProgram& p : programs)
    METAC_ASSERT(p.weights || p.model->run.weight_bytes == 0 || !prepared, "a project without its weights block");
  return Writer(programs, options).run();
}

Project write_project(const CompiledModel& model, const std::byte* weights, const ProjectOptions& options) {
  return write_project({{&model, weights, options.cpu, "run"}}, options);
}

}  // namespace metac
