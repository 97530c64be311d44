// metac convert: ONNX to the JSON IR and back, without loss; adapters merged into their weights on the way.
#include "frontends/convert.h"

#include <cstdio>
#include <memory>

#include "compiler/driver/command.h"
#include "compiler/driver/options/model_options.h"
#include "compiler/session/session.h"
#include "compiler/support/file_system.h"
#include "compiler/train/adapters/merge_adapters.h"

namespace metac {

void add_convert_command(CLI::App& app, int* status) {
  struct Options : ModelOptions {
    std::string from, to;
    std::vector<std::string> adapters;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("convert", "the same model in another format: ONNX (.onnx) or JSON IR (.json)");
  command->add_option("from", o->from, "the model to read")->required()->type_name("A");
  command->add_option("to", o->to, "the file to write; its ending names the format")->required()->type_name("B");
  add_ops_option(*command, *o);  // the model then holds them
  command
      ->add_option("--merge-adapters", o->adapters,
                   "add low-rank adapters, safetensors files in PEFT's names, to the float weights that they belong to "
                   "(docs/adapters.md)")
      ->delimiter(',')
      ->type_name("FILE,...");
  command->callback([=] {
    make_parents(o->to);
    convert_model(o->from, o->to, [&](Model& model) {
      if (!o->adapters.empty()) require_compilable(model);  // merging relies on its structure
      for (const std::string& path : o->adapters) merge_adapters(model, path);
    });
    std::printf("%s\n", o->to.c_str());
    *status = exit_good;
  });
}

}  // namespace metac
