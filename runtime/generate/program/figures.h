// What the generation program says.
#pragma once
#include <unistd.h>

#include <cstdio>

#include "../../caller/shown_text.h"
#include "../../files/json_text.h"
#include "../seconds.h"
#include "options.h"

namespace METAC_RUNTIME_NAMESPACE {

inline int fault(const std::string& message, int status = 1) {
  std::fprintf(stderr, "%s_generate: %s\n", library.name, message.c_str());
  return status;
}

// What a generation has made.
struct Answer {
  std::vector<int64_t> tokens;
  std::string text;

  // `piece`: the text that has become certain. Token -1: what was held back at the end.
  void take(int64_t token, const char* piece, int64_t bytes) {
    text.append(piece, static_cast<size_t>(bytes));
    if (token >= 0) tokens.push_back(token);
  }
};

// What is told of a generation while it runs and afterwards.
class Progress {
 public:
  Progress(bool json, bool quiet, bool speaks)
      : json_(json), speaks_(speaks), terminal_(!quiet && !json && isatty(1) == 0 && isatty(2) != 0), begin_(seconds()) {}

  int32_t token(int64_t token, const char* piece, int64_t bytes) {
    answer.take(token, piece, bytes);
    if (!json_ && speaks_) std::fwrite(piece, 1, static_cast<size_t>(bytes), stdout);
    if (!json_ && !speaks_ && token >= 0)
      std::printf("%s%lld", answer.tokens.size() > 1 ? " " : "", static_cast<long long>(token));
    if (!json_) std::fflush(stdout);
    const double at = seconds();
    if (terminal_ && at - told_ > 0.5) {
      told_ = at;
      std::fprintf(stderr, "\r%zu tokens in %.1f s", answer.tokens.size(), at - begin_);
    }
    return std::ferror(stdout) != 0;  // nobody reads them any more
  }
  void end() const {
    if (!json_ && !answer.tokens.empty()) std::printf("\n");
    if (told_ > 0) std::fprintf(stderr, "\r%*s\r", 40, "");
  }

  Answer answer;

 private:
  const bool json_, speaks_, terminal_;
  const double begin_;
  double told_ = 0;
};

inline double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

inline const char* const reasons[] = {"limit", "stop token", "stop text", "caller"};

// line: of the prompt in its file; 0: it is in none.
inline void print_json(const Answer& answer, const Made& made, int64_t line) {
  std::printf("{");
  if (line > 0) std::printf("\"line\": %lld, ", static_cast<long long>(line));
  std::printf("\"tokens\": [");
  for (size_t i = 0; i < answer.tokens.size(); ++i)
    std::printf("%s%lld", i > 0 ? ", " : "", static_cast<long long>(answer.tokens[i]));
  std::printf("]");
  if (library.speaks) std::printf(", \"text\": %s", json_string(answer.text).c_str());
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

inline bool encode_prompt(Arguments* a) {
  int64_t count = 0;
  const int64_t bytes = static_cast<int64_t>(a->text.size());
  if (!library.encode(a->text.data(), bytes, a->plain, nullptr, 0, &count)) return false;
  a->prompt.resize(static_cast<size_t>(count));
  return library.encode(a->text.data(), bytes, a->plain, a->prompt.data(), count, &count);
}

}  // namespace METAC_RUNTIME_NAMESPACE
