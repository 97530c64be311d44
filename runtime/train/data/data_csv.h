// CSV (RFC 4180): fields in quotes may hold commas, line breaks and doubled quotes. A first line in which some field is no
// number is the header. Columns are named by the header or by number (the first is 0). Written here because the training
// program needs nothing but the standard library.
#pragma once
#include <algorithm>
#include <cmath>
#include <set>

#include "data_files.h"
#include "dataset.h"

namespace metac::train {

// Numbers are read the same in every locale. False: no number.
inline bool parse_number(const std::string& text, double* value) {
  size_t begin = 0, end = text.size();
  while (begin < end && (text[begin] == ' ' || text[begin] == '\t')) ++begin;
  while (end > begin && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
  if (begin == end) return false;
  const std::string word = text.substr(begin, end - begin);
  if (word == "nan" || word == "NaN") return *value = std::nan(""), true;
  std::istringstream in(word);
  in.imbue(std::locale::classic());
  return (in >> *value) && in.peek() == std::char_traits<char>::eof();
}

class CsvTable {
 public:
  explicit CsvTable(const std::string& path) : path_(path) {
    const auto file = map_file(path);
    const char *at = file->data, *end = file->data + file->size;
    if (file->size >= 3 && std::memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
    for (int64_t line = 1; at < end;) {
      const int64_t first_line = line;
      std::vector<std::string> row = read_row(&at, end, &line);
      if (row.size() == 1 && row[0].empty()) continue;  // an empty line
      if (rows_.empty() && header_.empty()) {
        double number = 0;
        if (!std::all_of(row.begin(), row.end(), [&](const std::string& f) { return parse_number(f, &number); })) {
          header_ = std::move(row);
          continue;
        }
      }
      const size_t expected = header_.empty() ? (rows_.empty() ? row.size() : rows_[0].size()) : header_.size();
      if (row.size() != expected)
        fail(path_, ", line ", first_line, ": ", row.size(), " fields, the first line has ", expected);
      rows_.push_back(std::move(row));
      lines_.push_back(first_line);
    }
    if (rows_.empty()) fail(path_, ": no samples");
  }

  size_t width() const { return rows_[0].size(); }

  // "label", "3", "1-64", "a,b", "*" (all that are not in `others`).
  std::vector<size_t> columns(const std::string& from, const std::set<size_t>& others) const {
    std::vector<size_t> picked;
    if (from == "*") {
      for (size_t k = 0; k < width(); ++k)
        if (others.count(k) == 0) picked.push_back(k);
      return picked;
    }
    if (const size_t whole = position(from); whole != std::string::npos) return {whole};  // names may hold commas
    std::istringstream parts(from);
    for (std::string part; std::getline(parts, part, ',');) {
      const size_t dash = part.find('-', 1);
      size_t first = position(part), last = first;
      if (first == std::string::npos && dash != std::string::npos)
        first = position(part.substr(0, dash)), last = position(part.substr(dash + 1));
      if (first == std::string::npos || last == std::string::npos || last < first) no_column(part);
      for (size_t k = first; k <= last; ++k) picked.push_back(k);
    }
    return picked;
  }

  // The picked columns as one array of float64. Words in a single column are numbered in alphabetical order; `classes` then
  // has them.
  Column column(const std::vector<size_t>& picked, std::vector<std::string>* classes) const {
    std::vector<double> values;
    values.reserve(rows_.size() * picked.size());
    double number = 0;
    const bool words = picked.size() == 1 && std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
                         return !parse_number(row[picked[0]], &number);
                       });
    std::set<std::string> names;
    if (words)
      for (const auto& row : rows_) names.insert(row[picked[0]]);
    if (words) classes->assign(names.begin(), names.end());
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (const size_t k : picked) {
        const std::string& text = rows_[r][k];
        if (words)
          number = static_cast<double>(std::distance(names.begin(), names.find(text)));
        else if (!parse_number(text, &number))
          fail(path_, ", line ", lines_[r], ": ", quoted(text), " in column ", name(k), " is no number");
        values.push_back(number);
      }
    }
    std::vector<char> bytes(values.size() * sizeof(double));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const std::vector<int64_t> dims =
        picked.size() == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(picked.size())};
    return owned_column(ScalarType::f64, dims, static_cast<int64_t>(rows_.size()), std::move(bytes),
                        path_ + ", column " + name(picked.front()) + (picked.size() > 1 ? " ..." : ""));
  }

 private:
  std::vector<std::string> read_row(const char** at, const char* end, int64_t* line) const {
    std::vector<std::string> row(1);
    bool quotes = false;
    for (; *at < end; ++*at) {
      const char c = **at;
      if (c == '\n') ++*line;
      if (quotes && c == '"' && *at + 1 < end && (*at)[1] == '"')
        row.back() += *++*at;
      else if (c == '"' && (quotes || row.back().empty()))
        quotes = !quotes;
      else if (quotes)
        row.back() += c;
      else if (c == ',')
        row.emplace_back();
      else if (c == '\n')
        return ++*at, row;
      else if (c != '\r')
        row.back() += c;
    }
    if (quotes) fail(path_, ": a quote at the end of the file is not closed");
    return row;
  }
  size_t position(const std::string& word) const {
    const auto found = std::find(header_.begin(), header_.end(), word);
    if (found != header_.end()) return static_cast<size_t>(found - header_.begin());
    if (word.empty() || word.size() > 6 || word.find_first_not_of("0123456789") != std::string::npos)
      return std::string::npos;
    const size_t k = std::stoul(word);
    return k < width() ? k : std::string::npos;
  }
  std::string name(size_t k) const { return header_.empty() ? std::to_string(k) : quoted(header_[k]); }
  [[noreturn]] void no_column(const std::string& word) const {
    std::string names;
    for (size_t k = 0; k < header_.size() && k < 20; ++k) names += (k > 0 ? ", " : "") + quoted(header_[k]);
    fail(path_, " has no column ", quoted(word), "; it has ", width(), " columns",
         names.empty() ? ", 0 to " + std::to_string(width() - 1) : ": " + names);
  }

  std::string path_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<int64_t> lines_;
};

}  // namespace metac::train
