// The command line of the programs that libraries bring along: what is misspelt, misses its value or is no number is told,
// with the nearest of what there is, and nothing runs. Written here and not taken from a library (the compiler has CLI11)
// because generated projects need nothing but the standard library.
#pragma once
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "nearest_name.h"

namespace METAC_RUNTIME_NAMESPACE {

// "; did you mean "image"?", or "" where nothing is near.
inline std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(word, known);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

class ProgramOptions {
 public:
  // `files`: how the program is told of what stands on the line without an option.
  ProgramOptions(int count, char** values, std::vector<std::string> known,
                 const char* files = "files are given with --input")
      : count_(count), values_(values), known_(std::move(known)), files_(files) {}

  // Goes to the next option; false: there is none, or something was wrong with the one before.
  bool next() {
    if (!attached_used_) wrong(option_ + " takes no value");
    if (!error_.empty() || ++at_ >= count_) return false;
    option_ = values_[at_];
    // --threads=3. Of a word that is no option nothing is taken off.
    const size_t equals = option_.compare(0, 2, "--") == 0 ? option_.find('=') : std::string::npos;
    attached_used_ = equals == std::string::npos;
    if (!attached_used_) attached_ = option_.substr(equals + 1), option_.resize(equals);
    return true;
  }
  bool is(const char* name) const { return option_ == name; }

  std::string text() {
    if (!attached_used_) return attached_used_ = true, attached_;
    if (at_ + 1 >= count_) return wrong(option_ + " needs a value"), std::string();
    return values_[++at_];
  }
  int64_t whole(int64_t least, int64_t most = INT64_MAX) {
    const std::string value = text();
    if (!error_.empty()) return least;
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || *end != 0 || errno != 0 || number < least || number > most)
      wrong(option_ + " \"" + value + "\": expected a whole number" +
            (most < INT64_MAX     ? " from " + std::to_string(least) + " to " + std::to_string(most)
             : least == INT64_MIN ? ""
                                  : " of " + std::to_string(least) + " or more"));
    return number;
  }
  double positive() {
    const std::string value = text();
    if (!error_.empty()) return 1;
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != 0 || !std::isfinite(number) || !(number > 0))
      wrong(option_ + " \"" + value + "\": expected a positive number");
    return number;
  }
  // Whether a value follows, for options that may go without: attached, or a word that begins like a number.
  bool number_follows() const {
    if (!attached_used_) return true;
    const char first = at_ + 1 < count_ ? values_[at_ + 1][0] : 0;
    return (first >= '0' && first <= '9') || first == '.';
  }
  void unknown() {
    const bool option = option_.size() > 1 && option_[0] == '-';
    attached_used_ = true;
    wrong((option ? "there is no option \"" : "unexpected argument \"") + option_ + "\"" +
          (option ? did_you_mean(option_, known_) : std::string("; ") + files_));
  }
  // Which of the words the value is.
  size_t choice(const std::vector<std::string>& words) {
    const std::string value = text();
    std::string all;
    for (size_t k = 0; k < words.size(); ++k) {
      if (value == words[k]) return k;
      all += (k > 0 ? " or " : "") + words[k];
    }
    wrong(option_ + " \"" + value + "\": expected " + all + did_you_mean(value, words));
    return 0;
  }
  void wrong(const std::string& message) {
    if (error_.empty()) error_ = message;
  }
  const std::string& error() const { return error_; }

 private:
  int count_, at_ = 0;
  char** values_;
  std::vector<std::string> known_;
  const char* files_;
  std::string option_, attached_, error_;
  bool attached_used_ = true;
};

}  // namespace METAC_RUNTIME_NAMESPACE
