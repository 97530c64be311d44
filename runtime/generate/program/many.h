// --prompts: many texts, up to --together of them in one run, each a line of JSON as it ends.
#pragma once
#include <memory>

#include "figures.h"

namespace METAC_RUNTIME_NAMESPACE {

struct Text {
  int64_t line, number;  // of the file, from 1 on; of the library
  Made made;
  Answer answer;
};

inline int32_t take_token(void* user, int64_t token, const char* piece, int64_t bytes) {
  static_cast<Text*>(user)->answer.take(token, piece, bytes);
  return 0;
}

// The lines of the file that have a prompt; false: one of them is no list of tokens.
inline bool read_prompts(const Arguments& a, std::vector<std::pair<int64_t, std::string>>* lines) {
  std::ifstream file;
  if (a.prompts != "-") file.open(a.prompts, std::ios::binary);
  std::istream& in = a.prompts == "-" ? std::cin : file;
  if (a.prompts != "-" && !file.is_open()) return false;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) lines->push_back({number, line});
  }
  return true;
}

inline bool encode_line(Arguments& a, const std::string& line) {
  a.prompt.clear();
  a.text = line;
  return library.speaks ? encode_prompt(&a) : parse_tokens(line, &a.prompt);
}

inline int generate_many(Arguments& a) {
  std::vector<std::pair<int64_t, std::string>> lines;
  if (!read_prompts(a, &lines)) return fault("--prompts " + a.prompts + ": it cannot be read");
  std::vector<std::unique_ptr<Text>> running;
  a.request.token = take_token;
  const auto at_line = [&](int64_t line) { return a.prompts + ":" + std::to_string(line) + ": "; };
  Made all = Made();
  const double begin = seconds();
  for (size_t next = 0; next < lines.size() || !running.empty();) {
    for (; next < lines.size() && running.size() < static_cast<size_t>(a.together); ++next) {
      if (!encode_line(a, lines[next].second))
        return fault(at_line(lines[next].first) + (library.speaks ? library.last_error() : "expected tokens such as 1,2,3"));
      running.push_back(std::make_unique<Text>());
      Text& text = *running.back();
      text.line = lines[next].first;
      a.request.user = &text;
      if (!library.join(a.prompt.data(), static_cast<int64_t>(a.prompt.size()), a.request, &text.number))
        return fault(at_line(text.line) + library.last_error());
    }
    if (!library.step()) return fault(library.last_error());
    while (const int64_t number = library.ended()) {
      size_t k = 0;
      while (running[k]->number != number) ++k;
      Text& text = *running[k];
      if (!library.leave(number, &text.made)) return fault(library.last_error());
      print_json(text.answer, text.made, text.line);
      all.prompt_tokens += text.made.prompt_tokens, all.tokens += text.made.tokens;
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(k));
      if (std::fflush(stdout) != 0) return fault("the tokens could not be written");
    }
  }
  if (!a.quiet)
    std::fprintf(stderr, "%zu texts: %lld tokens read, %lld made, %.1f a second\n", lines.size(),
                 static_cast<long long>(all.prompt_tokens), static_cast<long long>(all.tokens),
                 rate(all.tokens, seconds() - begin));
  return 0;
}

}  // namespace METAC_RUNTIME_NAMESPACE
