// The generation program of a library: a prompt in, tokens out as they come. For all models the same text, which a project
// of its own compiles (src/generate_program.cpp); the library's functions come by a table.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "../../files/json_text.h"
#include "options.h"

namespace METAC_RUNTIME_NAMESPACE {

inline int fault(const std::string& message, int status = 1) {
  std::fprintf(stderr, "%s_generate: %s\n", library.name, message.c_str());
  return status;
}

// Model text on a terminal: control characters do not get there.
inline std::string shown(const char* name) {
  std::string text;
  for (const char* c = name; *c != 0 && text.size() < 120; ++c)
    text += static_cast<unsigned char>(*c) < 32 || *c == 127 ? '?' : *c;
  return text;
}

// What is told of a generation while it runs and afterwards.
class Progress {
 public:
  Progress(bool json, bool quiet, bool speaks)
      : json_(json), speaks_(speaks), terminal_(!quiet && !json && isatty(1) == 0 && isatty(2) != 0), begin_(now()) {}

  // `piece`: the text that has become certain. Token -1: what was held back at the end.
  int32_t token(int64_t token, const char* piece, int64_t bytes) {
    text.append(piece, static_cast<size_t>(bytes));
    if (token >= 0) tokens.push_back(token);
    if (!json_ && speaks_) std::fwrite(piece, 1, static_cast<size_t>(bytes), stdout);
    if (!json_ && !speaks_ && token >= 0) std::printf("%s%lld", tokens.size() > 1 ? " " : "", static_cast<long long>(token));
    if (!json_) std::fflush(stdout);
    const double at = now();
    if (terminal_ && at - told_ > 0.5) {
      told_ = at;
      std::fprintf(stderr, "\r%zu tokens in %.1f s", tokens.size(), at - begin_);
    }
    return std::ferror(stdout) != 0;  // nobody reads them any more
  }
  void end() const {
    if (!json_ && !tokens.empty()) std::printf("\n");
    if (told_ > 0) std::fprintf(stderr, "\r%*s\r", 40, "");
  }

  std::vector<int64_t> tokens;
  std::string text;

 private:
  static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
  const bool json_, speaks_, terminal_;
  const double begin_;
  double told_ = 0;
};

inline double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

inline const char* const reasons[] = {"limit", "stop token", "stop text", "caller"};

inline void print_json(const Progress& progress, const Made& made) {
  std::printf("{\"tokens\": [");
  for (size_t i = 0; i < progress.tokens.size(); ++i)
    std::printf("%s%lld", i > 0 ? ", " : "", static_cast<long long>(progress.tokens[i]));
  std::printf("]");
  if (library.speaks) std::printf(", \"text\": %s", json_string(progress.text).c_str());
  std::printf(", \"stopped_by\": \"%s\"", reasons[made.stopped_by & 3]);
  if (made.stop >= 0) std::printf(", \"stop\": %lld", static_cast<long long>(made.stop));
  std::printf(
      ", \"prompt_tokens\": %lld, \"prompt_seconds\": %s, \"token_seconds\": %s, \"tokens_per_second\": %s, \"runs\": %lld, "
      "\"drafted\": %lld, \"accepted\": %lld, \"cpu\": %s}\n",
      static_cast<long long>(made.prompt_tokens), json_number(made.prompt_seconds).c_str(),
      json_number(made.token_seconds).c_str(),
      json_number(rate(made.runs > 0 ? made.tokens : 0, made.token_seconds)).c_str(), static_cast<long long>(made.runs),
      static_cast<long long>(made.drafted), static_cast<long long>(made.accepted),
      json_string(library.cpu_of_context()).c_str());
}

inline void print_figures(const Made& made) {
  std::fprintf(stderr, "prompt: %lld tokens in %.3f s, %.1f a second; made: %lld tokens in %.3f s, %.1f a second",
               static_cast<long long>(made.prompt_tokens), made.prompt_seconds,
               rate(made.prompt_tokens, made.prompt_seconds), static_cast<long long>(made.tokens), made.token_seconds,
               rate(made.tokens, made.token_seconds));
  if (made.drafted > 0)
    std::fprintf(stderr, " (%lld of %lld guesses right, %lld runs)", static_cast<long long>(made.accepted),
                 static_cast<long long>(made.drafted), static_cast<long long>(made.runs));
  std::fprintf(stderr, "; ended by %s\n", reasons[made.stopped_by & 3]);
}

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
    std::printf("], \"context\": %lld, \"state_bytes\": %lld, \"state_bytes_with_room\": %lld, \"working_bytes\": %lld}\n",
                static_cast<long long>(context), static_cast<long long>(states), static_cast<long long>(room),
                static_cast<long long>(working));
    return 0;
  }
  std::printf("%s, model %s\n", library.version(), library.model_hash());
  for (int i = 0; const LibraryPort* port = library.input(i); ++i)
    std::printf("input %s: %s\n", shown(port->name).c_str(), library.role(i));
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

inline bool encode_prompt(Arguments* a) {
  int64_t count = 0;
  const int64_t bytes = static_cast<int64_t>(a->text.size());
  if (!library.encode(a->text.data(), bytes, a->plain, nullptr, 0, &count)) return false;
  a->prompt.resize(static_cast<size_t>(count));
  return library.encode(a->text.data(), bytes, a->plain, a->prompt.data(), count, &count);
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
  if (a.spoken && !encode_prompt(&a)) return fault(library.last_error());
  static Progress progress(a.json, a.quiet, library.speaks && !a.ids);
  a.request.token = [](void*, int64_t token, const char* text, int64_t bytes) { return progress.token(token, text, bytes); };
  Made made = Made();
  const bool good = library.generate(a.prompt.data(), static_cast<int64_t>(a.prompt.size()), a.request, &made);
  progress.end();
  if (!good) return fault(library.last_error());
  if (a.json) print_json(progress, made);
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
