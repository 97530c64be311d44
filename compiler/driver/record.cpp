// metac record: the answers of a model or a compiled folder, as `metac verify --against` takes them.
#include <cstdio>
#include <filesystem>

#include "compiler/api/compiled_folder.h"
#include "compiler/api/npz.h"
#include "compiler/api/tensor_files.h"
#include "compiler/driver/command.h"
#include "compiler/driver/options/model_inputs.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

struct RecordArguments : ModelOptions {
  std::string output;
  std::vector<std::string> inputs;
};

int record_command(const RecordArguments& o) {
  std::map<std::string, Tensor> inputs;
  std::vector<std::pair<std::string, Tensor>> outputs;
  if (std::filesystem::is_directory(o.model)) {
    const CompiledFolder folder(o.model);
    inputs = gather_inputs(folder.ports(), o.inputs, o.shapes, o.dims, false);
    outputs = folder.run(inputs);
  } else {
    Session session(read_model(o.model), o.session());
    inputs = gather_inputs(session.model(), o.inputs, o.shapes, o.dims, false);
    outputs = session.run(inputs);
  }
  const size_t input_count = inputs.size();
  std::map<std::string, Tensor> arrays = std::move(inputs);
  for (auto& [name, tensor] : outputs)
    if (!arrays.emplace(name, std::move(tensor)).second) fail("an input and an output are both called ", quoted(name));
  make_parents(o.output);
  write_file(o.output, npz_bytes(arrays));
  std::printf("%s: %zu inputs and %zu outputs; compare with: metac verify %s --against %s\n", o.output.c_str(), input_count,
              outputs.size(), o.model.c_str(), o.output.c_str());
  return exit_good;
}

}  // namespace

void add_record_command(CLI::App& app, int* status) {
  auto o = std::make_shared<RecordArguments>();
  CLI::App* command = app.add_subcommand("record", "store a model's answers, for `metac verify --against`");
  command->add_option("model", o->model, "a model, or a folder that `metac compile` wrote")
      ->required()
      ->type_name("MODEL|DIR");
  command->add_option("-o,--output", o->output, "the file to write: inputs and outputs by name")
      ->required()
      ->type_name("FILE.npz");
  add_input_option(*command, o->inputs);
  add_shape_options(*command, *o);
  add_ops_option(*command, *o);
  add_threads_option(*command, *o);
  add_compile_options(*command, *o);
  command->callback([=] { *status = record_command(*o); });
}

}  // namespace metac
