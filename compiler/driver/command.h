// The commands of metac. Each file named after a command, here or in the folder of the command, adds it to the command line
// and runs it.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace metac {

// What a command's run ends with.
enum ExitStatus { exit_good = 0, exit_fault = 1, exit_usage = 2, exit_difference = 3, exit_our_bug = 70 };

// Wrong usage that only shows once the arguments are looked at together: status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Adds the subcommand to `app`; when it was given, *status receives the exit status.
void add_compile_command(CLI::App& app, int* status);
void add_run_command(CLI::App& app, int* status);
void add_bench_command(CLI::App& app, int* status);
void add_verify_command(CLI::App& app, int* status);
void add_record_command(CLI::App& app, int* status);
void add_check_command(CLI::App& app, int* status);
void add_inspect_command(CLI::App& app, int* status);
void add_diff_command(CLI::App& app, int* status);
void add_convert_command(CLI::App& app, int* status);
void add_quantize_command(CLI::App& app, int* status);
void add_operators_command(CLI::App& app, int* status);
void add_targets_command(CLI::App& app, int* status);
void add_cache_command(CLI::App& app, int* status);
void add_completion_command(CLI::App& app, int* status);
void add_reference_command(CLI::App& app, int* status);

// Registers an option of the design that this build cannot do yet; giving it is wrong usage, with `why`. No help lists it.
void add_unavailable_option(CLI::App& command, const std::string& name, const std::string& why);
void add_unavailable_flag(CLI::App& command, const std::string& name, const std::string& why);

}  // namespace metac
