#include "compiler/driver/command_line.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>

#include "compiler/driver/command.h"
#include "compiler/driver/interrupts.h"
#include "compiler/driver/wrong_usage.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/host_process.h"

namespace metac {
namespace {

constexpr const char* description =
    "metac compiles neural networks ahead of time: ONNX in, a small native library out.\n"
    "It runs them at once as well, in any shape, through its in-process compiler.\n";

constexpr const char* footer =
    "\n`metac COMMAND --help` lists the options of a command.\n\nexamples:\n"
    "  metac check net.onnx                                 can it be compiled? if not, why\n"
    "  metac compile net.onnx -o out --shape input=1x3x224x224\n"
    "  metac run net.onnx --input input=photo.npy --output-dir answers\n"
    "  metac bench out\n"
    "  metac verify cases --recursive\n"
    "\nexit status: 0 good, 1 the model, the input or the machine is at fault, 2 wrong usage, 3 a difference was found,\n"
    "70 a bug in metac.\n";

int run_program(int argc, char** argv) {
  CLI::App app(description, "metac");
  app.footer(footer);
  const std::string version = "metac " METAC_VERSION ", kernels by " + compiler_version();
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  int status = exit_good;
  add_compile_command(app, &status);
  add_run_command(app, &status);
  add_bench_command(app, &status);
  add_verify_command(app, &status);
  add_record_command(app, &status);
  add_check_command(app, &status);
  add_inspect_command(app, &status);
  add_diff_command(app, &status);
  add_convert_command(app, &status);
  add_quantize_command(app, &status);
  add_operators_command(app, &status);
  add_targets_command(app, &status);
  add_cache_command(app, &status);
  add_completion_command(app, &status);
  add_reference_command(app, &status);
  for (CLI::App* command : app.get_subcommands({}))
    command->set_version_flag("--version", version)->group("");  // not listed
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return exit_usage;
  }
  if (words[0] == "help") {  // metac help compile
    words.erase(words.begin());
    const std::vector<CLI::App*> all = app.get_subcommands({});
    const auto is_command = [&](const CLI::App* command) { return command->get_name() == words[0]; };
    if (words.empty() || std::any_of(all.begin(), all.end(), is_command)) words.emplace_back("--help");
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::vector<CLI::App*> given = app.get_subcommands();
    std::fprintf(stderr, "%s\n`metac %s--help` lists what there is.\n", wrong_usage(app, error).c_str(),
                 given.empty() ? "" : (given.back()->get_name() + " ").c_str());
    return exit_usage;
  }
  return status;
}

// The depth that a model may have must not hang on `ulimit -s`: 16 MiB for this thread (where the hard limit allows it) and
// for all to come.
void ensure_stack() {
  constexpr size_t wanted = 16 << 20;
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    setrlimit(RLIMIT_STACK, &limit);
  }
  pthread_attr_t attributes;
  size_t size = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < wanted &&
      pthread_attr_setstacksize(&attributes, wanted) == 0)
    pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace metac

int metac_command_line(int argc, char** argv) {
  using namespace metac;
  become_host();
  mallopt(M_MXFAST,
          0);  // a graph is millions of small blocks: glibc's fast bins would be merged and filled again at every large one
  ensure_stack();
  try {
    watch_for_interrupts();
    return run_program(argc, argv);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "metac: %s\n", error.what());
    return exit_usage;
  } catch (const CompileError& error) {
    std::fprintf(stderr, "metac: %s\n", error.what());
    return exit_fault;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "metac: out of memory\n");
    return exit_fault;
  } catch (const std::system_error& error) {  // a folder that cannot be listed, a thread that cannot be started
    std::fprintf(stderr, "metac: %s\n", error.what());
    return exit_fault;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "metac: internal error: %s\nThis is a bug in metac; please report it with the model.\n",
                 error.what());
    return exit_our_bug;
  }
}
