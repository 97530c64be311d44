// What the generation program of a library (program.h) calls, whatever the library's own functions are named. The table is
// in the project's src/generate.cpp.
#pragma once
#include "../../run/library.h"
#include "../sampling.h"

namespace generate_program {

using run_program::LibraryPort;
using run_program::LibrarySettings;
using Bias = METAC_RUNTIME_NAMESPACE::TokenBias;

// As NAME_generation and NAME_generated of the library's header.
struct Request {
  int64_t most_tokens;
  double repetition_penalty, presence_penalty, frequency_penalty;
  const Bias* biases;
  int64_t bias_count;
  double temperature;
  int64_t top_k;
  double top_p, min_p;
  uint64_t seed;
  const int64_t* stop_tokens;
  int64_t stop_token_count;
  const char* const* stop_texts;
  int64_t stop_text_count;
  int32_t (*token)(void* user, int64_t token, const char* text, int64_t text_bytes);
  void* user;
  int64_t chunk, drafts, adapter;
};
struct Made {
  int64_t prompt_tokens, tokens;
  int32_t stopped_by;
  int64_t stop;
  double prompt_seconds, token_seconds;
  int64_t runs, drafted, accepted;
};

// One context at a time. What returns bool failed where it is false, and last_error() says why.
struct Library {
  const char* name;
  const char* (*version)(), *(*model_hash)(), *(*cpu)(int32_t);
  const LibraryPort* (*input)(int32_t);  // nullptr beyond the last
  const char* (*role)(int32_t input);
  const char* (*adapter)(int64_t index);  // its name; nullptr beyond the last
  bool (*create)(const LibrarySettings& settings);
  void (*destroy)();
  bool speaks;  // it has a tokenizer
  bool (*encode)(const char* text, int64_t bytes, bool plain, int64_t* tokens, int64_t room, int64_t* count);
  bool (*generate)(const int64_t* prompt, int64_t count, const Request& request, Made* made);
  // Several texts: their numbers are from 1 on; 0: none has ended.
  bool (*join)(const int64_t* prompt, int64_t count, const Request& request, int64_t* number);
  bool (*step)();
  int64_t (*ended)();
  bool (*leave)(int64_t number, Made* made);
  bool (*memory)(int64_t tokens, int64_t* states, int64_t* with_room, int64_t* working);
  const char* (*last_error)(), *(*cpu_of_context)();
};

// Of generate_program.cpp. The exit status.
int generate_main(const Library& functions, int count, char** values);

}  // namespace generate_program
