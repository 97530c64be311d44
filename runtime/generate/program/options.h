// The options of the generation program.
#pragma once
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "../../caller/program_options.h"
#include "library.h"

namespace METAC_RUNTIME_NAMESPACE {

inline Library library;  // whose program it is; set before anything else

struct Arguments {
  std::vector<int64_t> prompt, stop_tokens;
  std::vector<std::string> stops;
  std::vector<Bias> biases;
  std::vector<const char*> stop_texts;
  std::string weights, cpu, text, prompts;  // text: the prompt's; prompts: a file of many
  Request request = Request();
  int64_t context = 0, together = 0;
  int threads = 0;
  bool prompted = false, spoken = false, plain = false, ids = false, pin = false, copy_weights = false, map_weights = false,
       unchecked_weights = false, json = false, quiet = false, info = false, help = false, version = false;
};

inline const char usage[] =
    "usage: %s_generate --prompt TEXT|--prompt-file FILE|--tokens 1,2,3|--prompts FILE [--most N] [options]\n"
    "\n"
    "  --prompt TEXT          what is to be continued, where the library has a tokenizer\n"
    "  --prompt-file FILE     the same from a file; - for standard input\n"
    "  --tokens 1,2,3         the same as tokens, separated by commas or blanks; - for those of standard input\n"
    "  --prompts FILE         many prompts, a line each (lists of tokens, where the library has no tokenizer); a line of "
    "JSON\n"
    "                         for each as it ends. --together N: so many texts at once (8)\n"
    "  --plain                the prompt without the tokens that the tokenizer puts in front of texts and behind them\n"
    "  --ids                  tokens are printed, not text\n"
    "  --most N               tokens to make (128); 0: until something else ends it\n"
    "  --temperature T        0: the most likely token, always (0)\n"
    "  --top-k K              of the K largest logits (0: all)\n"
    "  --top-p P              of the likeliest tokens that have this much of the probability (1: all)\n"
    "  --min-p P              of tokens that are at least P times as likely as the likeliest (0: all)\n"
    "  --seed N               of the stream of random numbers, the same for any number of threads (0)\n"
    "  --repetition-penalty R divides the logits of tokens in the text (1: none)\n"
    "  --presence-penalty P   is taken off the logits of tokens that were made (0)\n"
    "  --frequency-penalty P  the same, times how often they were (0)\n"
    "  --bias TOKEN=B         is added to the token's logit; -inf forbids it; several are possible\n"
    "  --stop-token N         ends the generation; several are possible\n"
    "  --stop TEXT            the same of a text\n"
    "  --adapter NAME         of those that --info lists: the low-rank adapters to use; by number too, 0 is the model "
    "alone\n"
    "  --drafts N             guesses N tokens by looking into the text, and checks them in one run (0)\n"
    "  --chunk N              tokens of the prompt that one run reads at most (512)\n"
    "  --threads N            threads of a run; 0: one per CPU (0)\n"
    "  --pin                  threads stay on their CPU\n"
    "  --cpu NAME             the code for this instruction set of those that --info lists; otherwise the best one\n"
    "  --weights FILE         instead of those beside the library; --map-weights maps the file, --copy-weights "
    "reads all of\n"
    "                         it at once, --unchecked-weights does not look for damage\n"
    "  --json                 one line of JSON instead of tokens as they come\n"
    "  --quiet                no line of figures on standard error\n"
    "  --info                 what the inputs are for, instruction sets, the memory that a text takes (--context N: of N\n"
    "                         tokens, 2048 otherwise)\n"
    "  --version, --help\n"
    "\n"
    "Exit status: 0 good, 1 files or numbers are at fault, 2 wrong usage.\n";

// Whole numbers, separated by commas or white space.
inline bool parse_tokens(const std::string& text, std::vector<int64_t>* tokens) {
  const char* at = text.c_str();
  const auto skip = [&] {
    while (*at == ',' || *at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') ++at;
  };
  for (skip(); *at != 0; skip()) {
    if (*at < '0' || *at > '9') return false;
    char* next = nullptr;
    errno = 0;
    tokens->push_back(std::strtoll(at, &next, 10));
    if (errno != 0) return false;
    at = next;
  }
  return true;
}

inline double number(ProgramOptions& line, double least, double most) {
  const std::string value = line.text();
  char* end = nullptr;
  const double given = std::strtod(value.c_str(), &end);
  if (line.error().empty() && (value.empty() || *end != 0 || !(given >= least && given <= most)))
    line.wrong("\"" + value + "\": expected a number from " + std::to_string(least) + " to " + std::to_string(most));
  return given;
}

inline void take_bias(ProgramOptions& line, Arguments* a) {
  const std::string value = line.text();
  const size_t equals = value.find('=');
  std::vector<int64_t> token;
  char* end = nullptr;
  const float bias = equals == std::string::npos ? 0 : std::strtof(value.c_str() + equals + 1, &end);
  const bool good =
      end != nullptr && *end == 0 && end[-1] != '=' && !(bias != bias) && parse_tokens(value.substr(0, equals), &token);
  if (line.error().empty() && (!good || token.size() != 1)) line.wrong("--bias " + value + ": expected TOKEN=NUMBER");
  if (token.size() == 1) a->biases.push_back({token[0], bias});
}

inline void take_adapter(ProgramOptions& line, Arguments* a) {
  const std::string value = line.text();
  std::string names;
  int64_t found = -1, by_number = -1;
  for (int64_t i = 0; const char* name = library.adapter(i); ++i) {
    if (value == std::to_string(i)) by_number = i;
    if (i > 0 && value == name) found = i;
    if (i > 0) names += (i > 1 ? ", " : "") + std::string(name);
  }
  a->request.adapter = found < 0 ? by_number : found;
  if (line.error().empty() && a->request.adapter < 0)
    line.wrong("--adapter \"" + value + "\": the library has " + (names.empty() ? "none" : names));
}

inline void take_prompt(ProgramOptions& line, Arguments* a) {
  std::string text = line.text();
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  if (line.error().empty() && !parse_tokens(text, &a->prompt))
    line.wrong("--tokens " + text.substr(0, 40) + ": expected whole numbers such as 1,2,3");
  a->prompted = true;
}

inline void take_text(ProgramOptions& line, Arguments* a) {
  const bool file = line.is("--prompt-file");
  a->text = line.text();
  a->prompted = a->spoken = true;
  if (!file || !line.error().empty()) return;
  std::ifstream opened;
  const std::string path = a->text;
  if (path != "-") opened.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : opened;
  a->text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  if (path != "-" && !opened.is_open()) line.wrong("--prompt-file " + path + ": it cannot be read");
}

inline std::string parse(int count, char** values, Arguments* a) {
  ProgramOptions line(count, values,
                      {"--prompt",
                       "--prompt-file",
                       "--tokens",
                       "--prompts",
                       "--together",
                       "--plain",
                       "--ids",
                       "--stop",
                       "--most",
                       "--temperature",
                       "--top-k",
                       "--top-p",
                       "--min-p",
                       "--seed",
                       "--repetition-penalty",
                       "--presence-penalty",
                       "--frequency-penalty",
                       "--bias",
                       "--stop-token",
                       "--adapter",
                       "--drafts",
                       "--chunk",
                       "--threads",
                       "--pin",
                       "--cpu",
                       "--weights",
                       "--copy-weights",
                       "--map-weights",
                       "--unchecked-weights",
                       "--json",
                       "--quiet",
                       "--info",
                       "--context",
                       "--version",
                       "--help"});
  Request& r = a->request;
  constexpr int64_t most = int64_t{1} << 40;
  r.most_tokens = 128;
  while (line.next()) {
    if (line.is("--tokens"))
      take_prompt(line, a);
    else if (line.is("--prompt") || line.is("--prompt-file"))
      take_text(line, a);
    else if (line.is("--prompts"))
      a->prompts = line.text(), a->prompted = true;
    else if (line.is("--together"))
      a->together = line.whole(1, 4096);
    else if (line.is("--plain"))
      a->plain = true;
    else if (line.is("--ids"))
      a->ids = true;
    else if (line.is("--stop"))
      a->stops.push_back(line.text());
    else if (line.is("--most"))
      r.most_tokens = line.whole(0, most);
    else if (line.is("--temperature"))
      r.temperature = number(line, 0, 1e6);
    else if (line.is("--top-k"))
      r.top_k = line.whole(0, most);
    else if (line.is("--top-p"))
      r.top_p = number(line, 0, 1);
    else if (line.is("--min-p"))
      r.min_p = number(line, 0, 1);
    else if (line.is("--seed"))
      r.seed = static_cast<uint64_t>(line.whole(0, INT64_MAX));
    else if (line.is("--repetition-penalty"))
      r.repetition_penalty = number(line, 0, 1e6);
    else if (line.is("--presence-penalty"))
      r.presence_penalty = number(line, -1e6, 1e6);
    else if (line.is("--frequency-penalty"))
      r.frequency_penalty = number(line, -1e6, 1e6);
    else if (line.is("--bias"))
      take_bias(line, a);
    else if (line.is("--stop-token"))
      a->stop_tokens.push_back(line.whole(0, most));
    else if (line.is("--adapter"))
      take_adapter(line, a);
    else if (line.is("--drafts"))
      r.drafts = line.whole(0, 1000);
    else if (line.is("--chunk"))
      r.chunk = line.whole(1, most);
    else if (line.is("--context"))
      a->context = line.whole(1, most);
    else if (line.is("--weights"))
      a->weights = line.text();
    else if (line.is("--cpu"))
      a->cpu = line.text();
    else if (line.is("--threads"))
      a->threads = static_cast<int>(line.whole(0, 4096));
    else if (line.is("--pin"))
      a->pin = true;
    else if (line.is("--copy-weights"))
      a->copy_weights = true;
    else if (line.is("--map-weights"))
      a->map_weights = true;
    else if (line.is("--unchecked-weights"))
      a->unchecked_weights = true;
    else if (line.is("--json"))
      a->json = true;
    else if (line.is("--quiet"))
      a->quiet = true;
    else if (line.is("--info"))
      a->info = true;
    else if (line.is("--version"))
      a->version = true;
    else if (line.is("--help") || line.is("-h"))
      a->help = true;
    else
      line.unknown();
  }
  if (a->context > 0 && !a->info) line.wrong("--context is for --info");
  if (!a->prompted && !a->info && !a->help && !a->version) line.wrong("no prompt: --tokens 1,2,3, or --prompt TEXT");
  const bool many = !a->prompts.empty();
  if (many && (a->spoken || !a->prompt.empty())) line.wrong("--prompts has all of them: no --prompt, --tokens");
  if (many && r.drafts > 0) line.wrong("--drafts is for one text");
  if (a->together > 0 && !many) line.wrong("--together is for --prompts");
  if (a->together == 0) a->together = 8;
  if (a->spoken && !a->prompt.empty()) line.wrong("a prompt is text or tokens: --prompt and --tokens do not go together");
  if ((a->spoken || !a->stops.empty()) && !library.speaks)
    line.wrong(
        "the library has no tokenizer (metac compile --generate TOKENIZER): give the prompt as --tokens, stops as "
        "--stop-token");
  for (const std::string& stop : a->stops) a->stop_texts.push_back(stop.c_str());
  r.stop_texts = a->stop_texts.data();
  r.stop_text_count = static_cast<int64_t>(a->stop_texts.size());
  r.biases = a->biases.data();
  r.bias_count = static_cast<int64_t>(a->biases.size());
  r.stop_tokens = a->stop_tokens.data();
  r.stop_token_count = static_cast<int64_t>(a->stop_tokens.size());
  return line.error();
}

}  // namespace METAC_RUNTIME_NAMESPACE
