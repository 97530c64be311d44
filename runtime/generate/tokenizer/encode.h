// From text to tokens: added tokens are found first, what lies between them goes through the steps and the model.
#pragma once
#include "../../status.h"
#include "best_path.h"
#include "merge_pairs.h"
#include "piece_steps.h"

namespace METAC_RUNTIME_NAMESPACE {

class Encoder {
 public:
  explicit Encoder(const TokenizerTable& table)
      : table_(table), text_steps_(table), piece_steps_(table), merges_(table), path_(table) {}

  // plain: without the tokens that the tokenizer puts in front of texts and behind them.
  bool encode(const char* text, int64_t bytes, bool plain, TokenList& tokens, Failure& failure) {
    if (const int64_t bad = first_bad_byte(text, bytes); bad >= 0)
      return failure.set(Status::invalid_argument, "the text is no UTF-8 from byte %lld on", static_cast<long long>(bad));
    if (bytes > most_text)
      return failure.set(Status::invalid_argument, "a text of %lld bytes, %lld are the most", static_cast<long long>(bytes),
                         static_cast<long long>(most_text));
    const bool good =
        (plain || put(table_.begin, tokens)) && between_added(text, bytes, tokens) && (plain || put(table_.end, tokens));
    return good || failure.set(Status::out_of_memory, "no memory for the tokens of a text");
  }

 private:
  static constexpr int64_t most_text = int64_t{1} << 28;

  bool put(const TableSection& section, TokenList& tokens) {
    for (uint64_t k = 0; k < section.count; ++k)
      if (!tokens.append(table_.of<int32_t>(section)[k])) return false;
    return true;
  }

  bool between_added(const char* text, int64_t bytes, TokenList& tokens) {
    const char *const end = text + bytes, *rest = text;
    for (const char* at = text; at < end;) {
      const TableAdded* const added = added_at(at, end);
      if (added == nullptr) {
        ++at;
        continue;
      }
      const char *from = at, *to = at + text_of(added->text).bytes;
      if ((added->flags & TokenizerTable::takes_left) != 0)
        while (from > rest && is_space_before(rest, &from)) {
        }
      uint32_t code;
      if ((added->flags & TokenizerTable::takes_right) != 0)
        for (int length; (length = code_point_at(to, end, &code)) > 0 && TextSteps::is_space(code);) to += length;
      if (!segment(rest, from - rest, rest == text, tokens) || !tokens.append(added->token)) return false;
      rest = at = to;
    }
    return segment(rest, end - rest, rest == text, tokens);
  }

  const TableText& text_of(uint32_t number) const { return table_.of<TableText>(table_.texts)[number]; }
  // The longest added token that the text begins with.
  const TableAdded* added_at(const char* at, const char* end) const {
    const TableAdded* longest = nullptr;
    for (uint64_t k = 0; k < table_.added.count; ++k) {
      const TableAdded& added = table_.of<TableAdded>(table_.added)[k];
      const TableText& text = text_of(added.text);
      if (*table_.text_at(text) != *at || (longest != nullptr && text.bytes <= text_of(longest->text).bytes)) continue;
      if (text.bytes <= end - at && std::memcmp(table_.text_at(text), at, text.bytes) == 0) longest = &added;
    }
    return longest;
  }
  static bool is_space_before(const char* begin, const char** at) {
    const char* last = *at - 1;
    while (last > begin && (static_cast<unsigned char>(*last) & 0xc0) == 0x80) --last;
    uint32_t code;
    if (code_point_at(last, *at, &code) == 0 || !TextSteps::is_space(code)) return false;
    return *at = last, true;
  }

  bool segment(const char* text, int64_t bytes, bool first, TokenList& tokens) {
    if (bytes == 0) return true;
    if (!text_steps_.run(text, bytes, changed_) || !piece_steps_.run(changed_.data(), changed_.size(), first, pieces_))
      return false;
    const bool unigram = (table_.flags & TokenizerTable::unigram) != 0;
    for (int64_t k = 0; k < pieces_.count(); ++k) {
      const char* const piece = pieces_.begin(k);
      if (!(unigram ? path_.encode(piece, pieces_.size(k), tokens) : merges_.encode(piece, pieces_.size(k), tokens)))
        return false;
    }
    return true;
  }

  const TokenizerTable& table_;
  TextSteps text_steps_;
  PieceSteps piece_steps_;
  MergePairs merges_;
  BestPath path_;
  TextBuffer changed_;
  TextPieces pieces_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
