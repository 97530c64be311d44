#include "compiler/codegen/project.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "compiler/codegen/embedded_files.h"
#include "compiler/codegen/fill_template.h"
#include "compiler/codegen/manifest.h"
#include "compiler/codegen/program_text.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"
#include "runtime/weights.h"

namespace metac {
namespace {

// Kernels share a translation unit up to this many bytes of text: few enough units that headers do not cost, enough of
// them that two cores are busy to the end. Fixed, because the sources may not depend on the machine.
constexpr size_t unit_bytes = 40000, most_units = 24;

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> flags_of(const CpuTarget& cpu) {
  std::string march = cpu.name.substr(0, cpu.name.find('+'));
  std::vector<std::string> flags = {"-march=" + march};
  if (cpu.vector_bytes == 64) flags.push_back("-mprefer-vector-width=512");
  if (cpu.has_vnni && cpu.vector_bytes == 64) flags.push_back("-mavx512vnni");
  return flags;
}

// Machine code for each architecture and PTX of the last, which drivers compile for later ones.
std::vector<std::string> flags_of(const CudaTarget& cuda) {
  std::vector<std::string> flags;
  for (int a : cuda.architectures) flags.push_back(concat("-gencode=arch=compute_", a, ",code=sm_", a));
  flags.push_back(concat("-gencode=arch=compute_", cuda.architectures.back(), ",code=compute_", cuda.architectures.back()));
  return flags;
}

// What the CPU must have, as GCC's and clang's __builtin_cpu_supports spell it.
std::string cpu_checks(const CpuTarget& cpu) {
  std::vector<std::string> features;
  if (cpu.vector_bytes >= 32) features = {"avx2", "fma", "bmi2"};
  if (cpu.vector_bytes >= 64) features.insert(features.end(), {"avx512f", "avx512bw", "avx512dq", "avx512vl"});
  if (cpu.has_vnni && cpu.vector_bytes == 64) features.push_back("avx512vnni");
  std::string text;
  for (const std::string& f : features) text += concat(",\n                                                      {__builtin_cpu_supports(\"", f, "\") != 0, \"", f, "\"}");
  return text;
}

class Writer {
 public:
  Writer(const CompiledModel& model, const std::byte* weights, const ProjectOptions& options)
      : m_(model), o_(options), name_(options.name), namespace_(options.name + "_runtime") {
    project_.name = name_;
    project_.weights = weights;
    project_.weight_bytes = static_cast<size_t>(m_.run.weight_bytes);
    project_.embed_weights = o_.embed_weights;
    project_.cpu_flags = flags_of(o_.cpu);
    if (on_gpu()) project_.cuda_flags = flags_of(o_.cuda);
  }

  Project run() {
    check_ports();
    copy_runtime();
    std::vector<std::string> files = write_kernels(m_.run, "kernels", on_gpu());
    write_kernels(m_.prepare, "prepare_kernels", false);
    write_programs();
    weights_header();
    values_["sources"] = "";
    for (const std::string& source : project_.sources) values_["sources"] += "  " + source + "\n";
    values_["sources"].pop_back();
    fill_all();
    project_.files[name_ + ".json"] = manifest_text(m_, o_, files, content_hash_);
    return std::move(project_);
  }

 private:
  bool on_gpu() const { return o_.target == Target::cuda; }

  void check_ports() {
    for (const auto& [what, ports] : {std::pair{"input ", &m_.run.inputs}, std::pair{"output ", &m_.run.outputs}})
      for (const CompiledPort& port : *ports)
        if (!is_numeric(port.dtype)) fail(what, quoted(port.name), " holds strings, which the C interface does not carry");
  }

  void copy_runtime() {
    for (const auto& [path, text] : embedded_files()) {
      if (path.rfind("runtime/", 0) != 0 || path.rfind("runtime/train/", 0) == 0 || path == "runtime/routines_contract.h") continue;
      if (path.rfind("runtime/cuda/", 0) == 0 && !on_gpu()) continue;
      project_.files["src/" + path] = text;
    }
  }

  // Kernel texts in order, in units of about the same size. Returns the file of each kernel.
  std::vector<std::string> write_kernels(const CompiledProgram& program, const std::string& stem, bool cuda) {
    std::vector<std::string> files;
    size_t total = 0;
    for (const KernelSource& k : program.kernels) total += k.text.size();
    const size_t units = std::min(most_units, std::max<size_t>(1, (total + unit_bytes - 1) / unit_bytes));
    const size_t share = std::max<size_t>(1, (total + units - 1) / units);
    size_t first = 0, unit = 0;
    std::string body;
    auto close = [&](size_t end) {
      if (body.empty()) return;
      std::string path = concat("src/", stem, "_", unit++, cuda ? ".cu" : ".cpp");
      std::string text = concat("// ", name_, ": kernels ", first, " to ", end - 1, " of ", program.kernels.size(),
                                ". What kernel text may use is explained in runtime/", cuda ? "cuda" : "device", "/prelude.h.\n");
      text += "#define METAC_RUNTIME_NAMESPACE " + namespace_ + (cuda ? "\n#include \"runtime/cuda/prelude.h\"\n\n" : "\n#define METAC_PRELUDE_NO_USING\n#include \"runtime/device/prelude.h\"\n\n"
              "// A kernel names every buffer and symbol that it is given, used or not.\n#pragma GCC diagnostic ignored \"-Wunused-variable\"\n\n");
      project_.files[path] = text + "namespace " + namespace_ + " {\n\n" + body + "}  // namespace " + namespace_ + "\n";
      project_.sources.push_back(path);
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

  std::string declarations(const CompiledProgram& program) const {
    std::string text;
    for (const KernelSource& k : program.kernels) text += "void " + k.name + "(void* const* b, const int64_t* s, void* scratch, int64_t begin, int64_t end);\n";
    return text.empty() ? "" : text + "\n";
  }

  void write_programs() {
    std::string run = declarations(m_.run) + program_text(m_.run, "run_program"), prepare = declarations(m_.prepare) + program_text(m_.prepare, "prepare_program");
    std::string sources = "const WeightSource weight_sources[] = {\n";
    for (const WeightSource& w : m_.weights) sources += concat("    {", w.parameter, ", ", w.prepare_output, ", ", w.offset, ", ", w.bytes, "},\n");
    if (m_.weights.empty()) sources += "    {-1, -1, 0, 0},  // none\n";
    sources += concat("};\nconst int32_t weight_source_count = ", m_.weights.size(), ";\n");
    layout_ = Sha256().update_part(run).update_part(sources).hex();

    std::string body = run + "\n" + no_arrays() + ports_text(m_.run, m_.run.inputs, "input_ports", name_) + "\n" +
                       ports_text(m_.run, m_.run.outputs, "output_ports", name_) + "\n" + routine_table() +
                       "\n// Which program a weights block belongs to.\nconst char weights_layout[] = " + c_string(layout_) + ";\n";
    write_unit("program", "the model as tables for runtime/executor.h", routine_includes(), body);
    write_unit("prepare", "from the model's parameters to the weights block: what " + name_ + "_set_weights runs", "",
               prepare + "\n" + sources + "\n" + no_arrays() + ports_text(m_.prepare, m_.prepare.inputs, "parameter_ports", name_));
    project_.sources.push_back("src/api.cpp");
  }

  void write_unit(const std::string& stem, const std::string& what, const std::string& includes, const std::string& body) {
    std::string path = "src/" + stem + ".cpp";
    project_.files[path] = "// " + name_ + ": " + what + ".\n#include \"program.h\"\n" + includes + "\nnamespace " + namespace_ + " {\n\n" + body +
                           "\n}  // namespace " + namespace_ + "\n";
    project_.sources.push_back(path);
  }

  static std::string no_arrays() {
    return "[[maybe_unused]] static const int64_t no_dims[] = {1}, no_strides[] = {1};\n[[maybe_unused]] static const char* const no_dim_names[] = {\"\"};\n\n";
  }

  std::set<std::string> routines() const {
    std::set<std::string> names(m_.run.routines.begin(), m_.run.routines.end());
    names.insert(m_.prepare.routines.begin(), m_.prepare.routines.end());
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

  void weights_header() {
    content_hash_ = sha256_hex({reinterpret_cast<const char*>(project_.weights), project_.weight_bytes});
    rt::WeightsHeader header{};
    std::memcpy(header.magic, "metacwts", 8);
    header.format = 1;
    header.offset = static_cast<uint32_t>(rt::weights_offset);
    header.bytes = m_.run.weight_bytes;
    std::memcpy(header.layout, layout_.data(), sizeof header.layout);
    std::memcpy(header.content, content_hash_.data(), sizeof header.content);
    project_.weights_header.assign(static_cast<size_t>(rt::weights_offset), '\0');
    std::memcpy(project_.weights_header.data(), &header, sizeof header);
  }

  std::string port_comment() const {
    std::string text;
    for (const auto& [what, ports] : {std::pair{"input", &m_.run.inputs}, std::pair{"output", &m_.run.outputs}}) {
      for (size_t i = 0; i < ports->size(); ++i) {
        const CompiledPort& port = (*ports)[i];
        std::string dims;
        for (const std::string& d : port.dims) dims += (dims.empty() ? "" : " x ") + comment_name(d, "?");
        text += concat(" * ", what, " ", i, ": ", comment_name(port.name, "(see its name)"), ", ", metac::name_of(port.dtype), " ", dims.empty() ? "scalar" : dims, "\n");
      }
    }
    if (!text.empty()) text.pop_back();
    return text;
  }

  void fill_all() {
    size_t most_rank = 8;
    for (const CompiledProgram* p : {&m_.run, &m_.prepare})
      for (const rt::Buffer& b : p->buffers) most_rank = std::max(most_rank, static_cast<size_t>(b.rank));
    std::string flags;
    for (const std::string& f : project_.cpu_flags) flags += (flags.empty() ? "" : ";") + f;
    values_["name"] = name_;
    values_["NAME"] = upper(name_);
    values_["namespace"] = namespace_;
    values_["version"] = METAC_VERSION;
    values_["model_hash"] = o_.model_hash;
    values_["input_count"] = std::to_string(m_.run.inputs.size());
    values_["output_count"] = std::to_string(m_.run.outputs.size());
    values_["parameter_count"] = std::to_string(m_.prepare.inputs.size());
    values_["max_rank"] = std::to_string(most_rank);
    values_["port_comment"] = port_comment();
    values_["cpu_features"] = cpu_checks(o_.cpu);
    values_["cpu_flags"] = flags;
    values_["target_header"] = on_gpu() ? "cuda/cuda_target.h" : "host_target.h";
    std::string architectures;
    for (size_t k = 0; k < o_.cuda.architectures.size(); ++k)
      architectures += concat(k ? ";" : "", o_.cuda.architectures[k], k + 1 < o_.cuda.architectures.size() ? "-real" : "");
    values_["find_packages"] = on_gpu() ? "\nfind_package(CUDAToolkit REQUIRED)" : "";
    values_["static_libraries"] = on_gpu() ? ";CUDA::cudart_static" : "";
    values_["cuda_architectures"] = architectures;
    values_["embed_weights"] = o_.embed_weights ? "ON" : "OFF";
    const std::string package = "lib/cmake/" + name_ + "/" + name_;
    for (const auto& [path, from] : std::map<std::string, std::string>{{"CMakeLists.txt", on_gpu() ? "CMakeLists_cuda.txt" : "CMakeLists.txt"},
                                                                        {"include/" + name_ + ".h", "api.h"},
                                                                        {"include/" + name_ + ".hpp", "api.hpp"},
                                                                        {"src/api.cpp", "api.cpp"},
                                                                        {"src/program.h", "program_header.h"},
                                                                        {"src/run.cpp", "run.cpp"},
                                                                        {"src/exports.map", "exports.map"},
                                                                        {package + "-config.cmake", "config.cmake"},
                                                                        {package + "-config-version.cmake", "config_version.cmake"},
                                                                        {"python/" + name_ + "/__init__.py", "python_module.py"}})
      project_.files[path] = fill_template("templates/project/" + from, values_);
  }

  const CompiledModel& m_;
  const ProjectOptions& o_;
  std::string name_, namespace_, layout_, content_hash_;
  std::map<std::string, std::string> values_;
  Project project_;
};

}  // namespace

void check_project_name(const std::string& name) {
  static const std::set<std::string> reserved = {
      "alignas", "alignof", "and", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "class", "compl", "const", "constexpr",
      "continue", "decltype", "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
      "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "nullptr", "operator", "or", "private", "protected",
      "public", "register", "requires", "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try",
      "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "concept", "import",
      "std", "metac", "metac_runtime", "main", "c", "m", "dl", "pthread", "rt", "stdc", "unix", "linux", "i386", "None", "test", "install", "all", "clean", "help"};
  bool good = !name.empty() && name.size() <= 64 && !std::isdigit(static_cast<unsigned char>(name[0])) && name[0] != '_';
  for (char c : name) good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  if (!good || name.find("__") != std::string::npos)
    fail("the name ", quoted(name), " is no identifier: letters, digits and single underscores, a letter first, at most 64 (--name)");
  if (reserved.count(name)) fail("the name ", quoted(name), " is taken by the language or the system; choose another (--name)");
}

std::string project_name_for(const std::string& file_name) {
  std::string stem = file_name.substr(0, file_name.rfind('.')), name;
  for (char c : stem) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '_') name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  name = name.substr(0, 64);
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = name.empty() ? "model" : "model_" + name.substr(0, 50);
  try {
    check_project_name(name);
  } catch (const CompileError&) {
    name += "_model";
  }
  return name;
}

Project write_project(const CompiledModel& model, const std::byte* weights, const ProjectOptions& options) {
  check_project_name(options.name);
  METAC_ASSERT(weights || model.run.weight_bytes == 0, "a project without its weights block");
  return Writer(model, weights, options).run();
}

}  // namespace metac
