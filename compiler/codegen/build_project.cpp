#include "compiler/codegen/build_project.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "compiler/codegen/compiler_flags.h"
#include "compiler/codegen/file_sums.h"
#include "compiler/codegen/host_compiler.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"
#include "compiler/support/host_process.h"
#include "runtime/process/usable_cpus.h"

namespace metac {
namespace {

namespace fs = std::filesystem;

// Is this the output of an earlier compilation? Then it may be replaced.
bool is_our_output(const std::string& folder) {
  if (!fs::is_directory(folder)) return false;
  // Folders without a file in them (build systems make them in advance) have nothing to lose.
  bool files = false;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    files |= !entry.is_directory() || entry.is_symlink();
  if (!files) return true;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json" || !entry.is_regular_file()) continue;
    nlohmann::json manifest = nlohmann::json::parse(read_file(entry.path(), 256 << 20).view(), nullptr, false);
    if (manifest.is_object() && manifest.contains("metac") && manifest.contains("kernels")) return true;
  }
  return false;
}

class Builder {
 public:
  Builder(const Project& project, const std::string& target, const std::string& folder, const BuildTools& tools,
          const BuildOptions& options)
      : p_(project), target_(target), folder_(folder), tools_(tools), o_(options) {}

  void run() {
    find_compiler();
    for (const char* made : {"lib", "bin", "objects"}) fs::create_directories(folder_ + "/" + made);
    std::vector<std::string> objects = compile_all();
    link(objects);
    fs::remove_all(folder_ + "/objects");
  }

 private:
  void find_compiler() {
    host_ = find_host_compiler(o_.compiler, tools_.find);
    std::vector<std::string> ask = host_.compile;
    ask.push_back("--version");
    ToolResult version = tools_.run(ask, folder_, 60);
    check(version, host_.program() + " --version", host_.program());
    for (const std::string& word : host_.compile) identity_ += word + "\n";
    identity_ += version.output;
    clang_version_ = clang_version(version.output);
    if (p_.find_toolkit) find_toolkit();
    if (host_.is_zig && has_programs()) notice_of_zig();
  }

  // Said once for a version of zig, where something is kept between builds.
  void notice_of_zig() {
    const std::string key = Sha256().update_part("said").update_part(identity_).hex();
    if (tools_.cached && !tools_.cached(key).empty()) return;
    notice("zig makes its C++ library before it links its first program, which takes a minute; --no-programs makes none");
    if (tools_.keep) tools_.keep(key, "yes");
  }

  void find_toolkit() {
    if (host_.is_zig) fail("the device's compiler works with a C++ compiler of the system; install g++ or clang");
    toolkit_ = p_.find_toolkit(tools_.find);
    const std::string& compiler = toolkit_->compiler();
    ToolResult version = tools_.run({compiler, "--version"}, folder_, 60);
    check(version, compiler + " --version", compiler);
    identity_ += compiler + "\n" + version.output;
  }

  // ---- compiling ----
  bool is_kernel_file(const std::string& source) const { return source.find("kernels_") != std::string::npos; }

  bool is_device_file(const std::string& source) const { return toolkit_ && source.ends_with(p_.kernel_files.ending); }

  std::vector<std::string> flags(const std::string& source) const {
    if (is_device_file(source)) {
      std::vector<std::string> of_device = toolkit_->compile_flags(host_.program());
      of_device.push_back("-Isrc");
      return of_device;
    }
    std::vector<std::string> argv =
        is_kernel_file(source) ? kernel_flags(p_.kernel_cpus.at(source), clang_version_) : host_flags(clang_version_);
    argv.insert(argv.end(), {"-DNDEBUG", "-Isrc", "-Wall", "-Wextra", "-frandom-seed=" + source});
    if (toolkit_)
      for (std::string& flag : toolkit_->host_flags(source)) argv.push_back(std::move(flag));
    if (source == "src/guarded_call.cpp") argv.push_back("-fexceptions");
    if (source == "src/tokenizer.cpp") argv.push_back("-Wa,-I,.");  // where its table is
    if (source == "src/api.cpp" && p_.embed_weights) {
      std::string define = "-D";
      for (char c : p_.name) define += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      argv.insert(argv.end(), {define + "_EMBED_WEIGHTS", "-Wa,-I,."});
    }
    return argv;
  }

  bool in_process(const std::string& source) const {
    const bool ours = o_.compiler.empty() || host_.is_zig;  // which calls processors otherwise than other compilers do
    return ours && tools_.compile_kernels && is_kernel_file(source) && !is_device_file(source);
  }

  bool has_programs() const { return !o_.archive_only && o_.programs && !p_.programs.empty(); }

  std::vector<std::string> compile_all() {
    std::vector<std::string> sources = p_.sources, objects;
    for (const ProjectProgram& program : p_.programs)
      if (has_programs()) sources.insert(sources.end(), program.sources.begin(), program.sources.end());
    for (size_t k = 0; k < sources.size(); ++k) objects.push_back(concat("objects/", k, ".o"));
    // The longest first: the last one to end is then a short one.
    std::vector<size_t> order(sources.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return weight(sources[a]) > weight(sources[b]); });
    std::atomic<size_t> next{0}, done{0};
    std::mutex mutex;
    std::exception_ptr error;
    auto work = [&] {
      for (size_t n; (n = next++) < order.size();) {
        try {
          compile(sources[order[n]], objects[order[n]]);
        } catch (...) {
          std::lock_guard<std::mutex> lock(mutex);
          if (!error) error = std::current_exception();
          next = order.size();
          return;
        }
        std::lock_guard<std::mutex> lock(mutex);
        if (o_.progress) o_.progress(static_cast<int>(++done), static_cast<int>(order.size()));
      }
    };
    int jobs = o_.jobs > 0 ? o_.jobs : metac_runtime::usable_cpus();
    std::vector<std::thread> threads;
    for (int k = 1; k < std::min<int>(jobs, static_cast<int>(order.size())); ++k) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    if (error) std::rethrow_exception(error);
    return objects;
  }

  size_t weight(const std::string& source) const {
    size_t size = p_.files.at(source).size();
    return is_kernel_file(source) ? 10 * size : source == "src/api.cpp" || source.ends_with("_program.cpp") ? 100000 : size;
  }

  static bool is_header(const std::string& path) { return path.size() > 2 && path.compare(path.size() - 2, 2, ".h") == 0; }

  bool may_include(const std::string& source, const std::string& header) const {
    auto in = [&](const char* folder) { return header.rfind(folder, 0) == 0; };
    if (is_kernel_file(source)) return in("src/runtime/device/") || in(device_headers_.c_str());
    // What reads no header of the model's is the same object for many models.
    const std::string& text = p_.files.at(source);
    const bool of_model = text.find("#include \"../include/") != std::string::npos ||
                          text.find("#include \"program.h\"") != std::string::npos ||
                          text.find("#include \"context.h\"") != std::string::npos;
    return of_model || in("src/runtime/");
  }

  // All that decides an object file: the compiler, its flags, the source and what it may include.
  std::string key_of(const std::string& source, const std::vector<std::string>& argv) const {
    Sha256 hash;
    if (in_process(source))
      return hash.update_part("in process")
          .update_part(tools_.kernel_compiler(p_.kernel_cpus.at(source)))
          .update_part(p_.files.at(source))
          .hex();
    hash.update_part(identity_);
    for (const std::string& a : argv) hash.update_part(a);
    for (const auto& [path, text] : p_.files) {
      if (path == source || (is_header(path) && may_include(source, path))) hash.update_part(path).update_part(text);
    }
    return hash.hex();
  }

  void compile(const std::string& source, const std::string& object) {
    std::vector<std::string> argv = is_device_file(source) ? std::vector{toolkit_->compiler()} : host_.compile;
    for (std::string& f : flags(source)) argv.push_back(std::move(f));
    argv.insert(argv.end(), {"-c", source, "-o", object});
    const bool cacheable =
        tools_.cached && tools_.keep && !(source == "src/api.cpp" && p_.embed_weights) && source != "src/tokenizer.cpp";
    std::string key = cacheable ? key_of(source, flags(source)) : "";
    if (cacheable) {
      std::string found = tools_.cached(key);
      if (!found.empty()) return write_file(folder_ + "/" + object, found);
    }
    if (in_process(source)) {
      write_file(folder_ + "/" + object, tools_.compile_kernels(p_.files.at(source), p_.kernel_cpus.at(source)));
    } else {
      check(tools_.run(argv, folder_, o_.seconds), source, argv[0]);
      check_made(argv[0], source, object);
    }
    if (cacheable) tools_.keep(key, std::string(read_file(folder_ + "/" + object).view()));
  }

  // ---- linking ----
  void link(std::vector<std::string> objects) {
    const std::string plain = "lib" + p_.name + ".so", soname = plain + ".1";  // the number of METAC_MODEL_INTERFACE
    const std::string shared = "lib/" + soname, archive = "lib/lib" + p_.name + ".a";
    if (o_.archive_only) return make_archive(archive, objects);
    const std::vector<std::string> of_programs(objects.begin() + static_cast<std::ptrdiff_t>(p_.sources.size()),
                                               objects.end());
    objects.resize(p_.sources.size());
    std::vector<std::string> argv = host_.link;
    argv.insert(argv.end(), {"-shared", "-o", shared, "-Wl,-soname," + soname, "-Wl,--version-script=src/exports.map",
                             "-Wl,--no-undefined", "-Wl,--as-needed", "-Wl,--build-id=none", "-s"});
    argv.insert(argv.end(), host_.shrink.begin(), host_.shrink.end());
    argv.insert(argv.end(), objects.begin(), objects.end());
    std::vector<std::string> libraries = {"-pthread", "-ldl", "-lm"};
    if (toolkit_) {
      const std::vector<std::string> of_device = toolkit_->link_flags(p_.libraries);
      libraries.insert(libraries.begin(), of_device.begin(), of_device.end());
    }
    argv.insert(argv.end(), libraries.begin(), libraries.end());
    check(tools_.run(argv, folder_, o_.seconds), shared, host_.program());
    check_made(host_.program(), shared, shared);
    fs::create_symlink(soname, folder_ + "/lib/" + plain);
    make_archive(archive, objects);
    if (!has_programs()) return;
    auto next = of_programs.begin();
    for (const ProjectProgram& program : p_.programs) {
      const std::string file = "bin/" + p_.name + "_" + program.name;
      const auto end = next + static_cast<std::ptrdiff_t>(program.sources.size());
      argv = host_.compile;
      argv.insert(argv.end(), {"-o", file});
      argv.insert(argv.end(), next, end);
      argv.insert(argv.end(), {archive, "-Wl,--build-id=none"});
      argv.insert(argv.end(), host_.shrink.begin(), host_.shrink.end());
      argv.insert(argv.end(), libraries.begin(), libraries.end());
      check(tools_.run(argv, folder_, o_.seconds), file, host_.program());
      next = end;
    }
  }

  void make_archive(const std::string& archive, const std::vector<std::string>& objects) {
    std::vector<std::string> argv = host_.archive;
    argv.insert(argv.end(), {"qcD", archive});  // q: quick append; D: no dates, no owners
    argv.insert(argv.end(), objects.begin(), objects.end());
    check(tools_.run(argv, folder_, o_.seconds), archive, argv[0]);
  }

  // A compiler that ends well and wrote nothing, or something else, is believed no further.
  void check_made(const std::string& tool, const std::string& what, const std::string& file) const {
    std::ifstream in(folder_ + "/" + file, std::ios::binary);
    char head[4] = {};
    if (!in.read(head, sizeof head) || std::memcmp(head, "\177ELF", sizeof head) != 0)
      fail(tool, " ended well on ", what, " but wrote no object file");
  }

  void check(const ToolResult& result, const std::string& what, const std::string& tool) const {
    if (result.status == 0 && result.signal == 0 && !result.timed_out) return;
    std::string how = result.timed_out     ? concat("was stopped after ", static_cast<int>(o_.seconds), " s")
                      : result.signal == 9 ? std::string("failed (signal 9, probably out of memory)")
                      : result.signal != 0 ? concat("failed (signal ", result.signal, ")")
                                           : concat("failed (status ", result.status, ")");
    std::string log = target_ + ".build.log", where;
    try {
      write_file(log, result.output);
      where = "; log: " + log;
    } catch (const CompileError&) {  // the folder may be full or not ours: the message carries the beginning itself
    }
    fail(tool, " ", how, " on ", what, where, "\n", result.output.substr(0, 2000));
  }

  const Project& p_;
  std::string target_, folder_, identity_;
  HostCompiler host_;
  int clang_version_ = 0;                         // 0: another compiler
  std::shared_ptr<const DeviceToolkit> toolkit_;  // null: there is no device
  const std::string device_headers_ = "src/runtime/" + fs::path(p_.kernel_files.prelude).parent_path().string() + "/";
  const BuildTools& tools_;
  const BuildOptions& o_;
};

}  // namespace

void build_project(const Project& project, const std::string& target, const BuildTools& tools, const BuildOptions& options) {
  StagedFolder folder(target, is_our_output);
  for (const auto& [path, text] : project.files) folder.write(path, text);
  std::vector<std::string_view> weights = {project.weights_header};
  weights.insert(weights.end(), project.weights.begin(), project.weights.end());
  write_file(folder.path() + "/" + project.name + ".weights", weights);
  if (options.build) Builder(project, target, folder.path(), tools, options).run();
  if (options.finish) options.finish(folder.path());
  if (!options.archive_only) write_file_sums(folder.path());  // a part of another folder is in its sums
  folder.commit();
}

}  // namespace metac
