// The generation program of a library: a prompt in, tokens out as they come. For all models the same text, which a project
// of its own compiles (src/generate_program.cpp); the library's functions come by a table.
#pragma once
#include "figures.h"
#include "many.h"

namespace METAC_RUNTIME_NAMESPACE {

inline int print_info(const Arguments& a) {
  const int64_t context = a.context > 0 ? a.context : 2048;
  int64_t states = 0, room = 0, working = 0;
  if (!library.memory(context, &states, &room, &working))
    return fault("a text of " + std::to_string(context) + " tokens: " + library.last_error());
  if (a.json) {
    std::printf("{\"inputs\": [");
    for (int i = 0; const LibraryPort* port = library.input(i); ++i)
      std::printf("%s{\"name\": %s, \"is\": %s}", i > 0 ? ", " : "", json_string(port->name).c_str(),
                  json_string(library.role(i)).c_str());
    std::printf("], \"adapters\": [");
    for (int64_t i = 1; const char* name = library.adapter(i); ++i)
      std::printf("%s%s", i > 1 ? ", " : "", json_string(name).c_str());
    std::printf("], \"context\": %lld, \"state_bytes\": %lld, \"state_bytes_with_room\": %lld, \"working_bytes\": %lld}\n",
                static_cast<long long>(context), static_cast<long long>(states), static_cast<long long>(room),
                static_cast<long long>(working));
    return 0;
  }
  std::printf("%s, model %s\n", library.version(), library.model_hash());
  for (int i = 0; const LibraryPort* port = library.input(i); ++i)
    std::printf("input %s: %s\n", shown(port->name).c_str(), library.role(i));
  for (int64_t i = 1; const char* name = library.adapter(i); ++i)
    std::printf("adapter %lld: %s\n", static_cast<long long>(i), shown(name).c_str());
  std::printf("code for");
  for (int i = 0; const char* cpu = library.cpu(i); ++i) std::printf("%s %s", i > 0 ? "," : "", cpu);
  std::printf(
      "\na text of %lld tokens: states %.2f MiB (%.1f KiB a token), with room for more %.2f MiB; working memory of a token "
      "%.2f MiB\n",
      static_cast<long long>(context), static_cast<double>(states) / 1048576,
      static_cast<double>(states) / 1024 / static_cast<double>(context), static_cast<double>(room) / 1048576,
      static_cast<double>(working) / 1048576);
  return 0;
}

inline int generate(Arguments& a) {
  LibrarySettings settings = LibrarySettings();
  settings.weights = a.weights.empty() ? nullptr : a.weights.c_str();
  settings.cpu = a.cpu.empty() ? nullptr : a.cpu.c_str();
  settings.threads = a.threads;
  settings.pin = a.pin;
  settings.copy_weights = a.copy_weights;
  settings.map_weights = a.map_weights;
  settings.unchecked_weights = a.unchecked_weights;
  if (!library.create(settings)) return fault(library.last_error());
  if (a.info) return print_info(a);
  if (!a.prompts.empty()) return generate_many(a);
  if (a.spoken && !encode_prompt(&a)) return fault(library.last_error());
  static Progress progress(a.json, a.quiet, library.speaks && !a.ids);
  a.request.token = [](void*, int64_t token, const char* text, int64_t bytes) { return progress.token(token, text, bytes); };
  Made made = Made();
  const bool good = library.generate(a.prompt.data(), static_cast<int64_t>(a.prompt.size()), a.request, &made);
  progress.end();
  if (!good) return fault(library.last_error());
  if (a.json) print_json(progress.answer, made, 0);
  if (!a.json && !a.quiet) print_figures(made);
  return std::fflush(stdout) == 0 ? 0 : fault("the tokens could not be written");
}

// Not inline: one source includes this.
int generate_main(const Library& functions, int count, char** values) {
  library = functions;
  Arguments arguments;
  const std::string error = parse(count, values, &arguments);
  if (!error.empty()) return fault(error + "\n" + library.name + "_generate --help lists the options", 2);
  if (arguments.help) return std::printf(usage, library.name), 0;
  if (arguments.version)
    return std::printf("%s_generate, %s, model %s\n", library.name, library.version(), library.model_hash()), 0;
  const int status = generate(arguments);
  library.destroy();
  return status;
}

}  // namespace METAC_RUNTIME_NAMESPACE
