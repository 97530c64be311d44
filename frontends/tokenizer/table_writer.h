// Inside the tokenizer front end: what both kinds of files are read into, and how it becomes a table.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/generate/tokenizer/table.h"

namespace metac {

namespace tok = metac_runtime;

class TokenizerWriter {
 public:
  TokenizerWriter();

  // What is not listed below: flags, unknown, byte_tokens, unknown_score.
  tok::TokenizerTable head;
  std::vector<std::string> pieces, spoken;  // by token; spoken: what it is in a text
  std::set<uint32_t> unmade;                // tokens that the model does not make: added ones, control ones, bytes
  std::vector<tok::TableMerge> merges;
  std::vector<float> scores;
  std::vector<tok::TableStep> steps;
  std::vector<tok::TableAdded> added, atoms;
  std::vector<int32_t> begin, end;
  std::string map_units, map_texts;

  uint32_t text(std::string_view text);
  // The program of a regular expression (regex_program.cpp).
  uint32_t regex(const std::string& pattern);
  // The normal form that this table's step has; one table has one.
  void use_normal_form(bool compatible);

  std::string table() const;

  uint32_t character_class(const std::vector<tok::TableRange>& sorted_ranges);
  std::vector<tok::TableRegexCode> codes;

 private:
  std::string bytes_;
  std::vector<tok::TableText> texts_;
  std::map<std::string, uint32_t, std::less<>> known_texts_;
  std::vector<tok::TableClass> classes_;
  std::vector<tok::TableRange> ranges_;
  std::map<std::vector<uint32_t>, uint32_t> known_classes_;
  std::vector<tok::TableDecomposition> decompositions_;
  std::vector<tok::TableComposition> compositions_;
  std::vector<tok::TableCombining> combining_;
};

// Of a piece as GPT-2's tokenizers write bytes (a printable character for each): the bytes; false: it is none such.
bool bytes_of_letters(std::string_view piece, std::string* bytes);
// "<0x0A>" of byte fallback: 10; -1: it is no such piece.
int byte_of_piece(std::string_view piece);

}  // namespace metac
