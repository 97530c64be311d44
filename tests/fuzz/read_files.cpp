// metac_read_files [--seconds S] [--memory GIB] FILE...
// Does with every file what metac does with such a file before any machine code is made: models (.onnx, .json) are read,
// checked, written in the other format, lowered and compiled to kernel text; tensors (.npy, .npz, .pb) are read; data and
// checkpoints of training programs (.idx, .csv, .gz, .bin as CIFAR's, .jpg, .bmp, .safetensors) too. A file may be refused
// with a CompileError or be right. It fails when reading it crashes, ends in status 70 or another exception, takes longer
// than S seconds or more memory than GIB + 4 times its size. One line a failure; the last line is 'N passed, N failed'.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "compiler/api/tensor_files.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "compiler/session/session.h"
#include "compiler/support/diagnostic.h"
#include "compiler/train/adapters/merge_adapters.h"
#include "frontends/json/json.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"
#include "runtime/train/data/open_dataset.h"
#include "runtime/train/record/safetensors.h"

namespace {

using namespace metac;

struct Progress {
  std::atomic<size_t> at, refused;  // the file in work; how many were refused
};

// A network of one product, which adapters of a file may fit.
constexpr const char* one_product =
    R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 4]}],
        "parameters": [{"name": "w", "dtype": "float32", "shape": [4, 2], "data": [1, 2, 3, 4, 5, 6, 7, 8]}],
        "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]})";

// What a training program would read; false: no file of one.
bool read_for_training(const std::string& path) {
  if (path.ends_with(".idx")) return train::read_idx(path), true;
  if (path.ends_with(".gz")) return train::map_file(path), true;
  if (path.ends_with(".bin")) return train::read_cifar({path}, false, "image"), true;
  if (path.ends_with(".safetensors")) {
    uint32_t crc = 0;
    for (const train::NamedTensor& t : train::read_safetensors(path, false).tensors)
      crc = train::crc32(t.data, static_cast<size_t>(t.bytes), crc);
    Model product = read_json_model(one_product, "product.json");
    merge_adapters(product, path);
    return true;
  }
  if (path.ends_with(".csv")) {
    const train::CsvTable table(path);
    std::vector<std::string> classes;
    const std::vector<size_t> columns = table.columns("*", {});
    if (!columns.empty()) table.column(columns, &classes);
    return true;
  }
  if (!path.ends_with(".jpg") && !path.ends_with(".bmp")) return false;
  std::vector<char> bytes;
  metac_runtime::read_whole(path, &bytes);
  const train::Picture picture = train::decode_picture(bytes, 3, path);
  std::vector<double> small(3 * 8 * 8);
  train::resize_picture(picture, 8, 8, small.data());
  return true;
}

void read_one(const std::string& path) {
  if (read_for_training(path)) return;
  if (path.ends_with(".npy") || path.ends_with(".npz") || path.ends_with(".pb")) {
    read_tensor(path, "x");
    return;
  }
  Model model = read_model(path);
  path.ends_with(".json") ? static_cast<void>(to_onnx_bytes(model)) : static_cast<void>(to_json_text(model));
  require_compilable(model);
  std::unique_ptr<Graph> graph = lower_model(model, {});
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v3");
  compile_graph(*graph, options);
}

int64_t peak_bytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

// Reads files from progress.at on, until the end (status 0) or one that took too much memory (status 3).
int read_from(const std::vector<std::string>& files, Progress& progress, unsigned seconds, int64_t memory) {
  for (; progress.at < files.size(); ++progress.at) {
    const std::string& path = files[progress.at];
    alarm(seconds);  // SIGALRM ends the process
    try {
      read_one(path);
    } catch (const CompileError&) {
      ++progress.refused;
    } catch (const train::Fault&) {
      ++progress.refused;
    } catch (const std::bad_alloc&) {
      ++progress.refused;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 70;
    }
    if (peak_bytes() > memory + 4 * static_cast<int64_t>(std::filesystem::file_size(path))) return 3;
  }
  return 0;
}

std::string reason_of(int status, unsigned seconds) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM ? concat("no end after ", seconds, " s") : concat("signal ", WTERMSIG(status));
  return WEXITSTATUS(status) == 3 ? "took too much memory" : concat("status ", WEXITSTATUS(status));
}

}  // namespace

int main(int argc, char** argv) {
  unsigned seconds = 10;
  double gib = 1;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
      seconds = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (std::strcmp(argv[i], "--memory") == 0 && i + 1 < argc)
      gib = std::atof(argv[++i]);
    else
      files.push_back(argv[i]);
  }
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  Progress& progress = *new (shared) Progress{};
  size_t failed = 0;
  while (progress.at < files.size()) {
    std::fflush(nullptr);  // else the child writes it too
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) std::exit(read_from(files, progress, seconds, static_cast<int64_t>(gib * (1 << 30))));
    int status = 0;
    waitpid(child, &status, 0);
    if (status == 0) break;
    // Past the last file it was the end of the process that failed: a leak.
    size_t at = progress.at;
    std::printf("FAIL  %s: %s\n", at < files.size() ? files[at].c_str() : "at exit", reason_of(status, seconds).c_str());
    ++failed, ++progress.at;
  }
  std::printf("%zu files, of which %zu were refused\n%zu passed, %zu failed\n", files.size(), progress.refused.load(),
              files.size() - failed, failed);
  return failed ? 1 : 0;
}
