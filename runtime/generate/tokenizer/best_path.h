// The unigram model: of all ways to cut a text into pieces the one whose scores have the largest sum (Kudo, "Subword
// regularization", 2018), found from left to right.
#pragma once
#include "../token_list.h"
#include "pieces.h"
#include "text_buffer.h"

namespace METAC_RUNTIME_NAMESPACE {

class BestPath {
 public:
  explicit BestPath(const TokenizerTable& table) : table_(table), pieces_(table) {}

  // Appends the tokens of a piece of UTF-8. False: no memory.
  bool encode(const char* text, int64_t bytes, TokenList& tokens) {
    if (bytes == 0) return true;
    if (!memory_.reserve((bytes + 1) * int64_t{sizeof(Best)})) return false;
    Best* const best = static_cast<Best*>(memory_.data());
    for (int64_t k = 0; k <= bytes; ++k) best[k] = {-1, -1, 0};
    best[0].from = 0;
    const float* const scores = table_.of<float>(table_.scores);
    for (int64_t at = 0; at < bytes;) {
      uint32_t code;
      int64_t character = code_point_at(text + at, text + bytes, &code);
      if (character == 0) character = 1;
      bool whole = false;  // the character is a piece
      const auto offer = [&](int32_t token, int64_t length, float score) {
        Best& end = best[at + length];
        whole |= length == character && token != table_.unknown;
        if (end.from < 0 || score > end.score) end = {static_cast<int32_t>(at), token, score};
      };
      pieces_.each_at(text + at, bytes - at,
                      [&](int32_t token, int64_t length) { offer(token, length, scores[token] + best[at].score); });
      if (!whole) offer(table_.unknown, character, table_.unknown_score + best[at].score);
      at += character;
    }
    return append(best, text, bytes, tokens);
  }

 private:
  struct Best {
    int32_t from, token;  // where the last piece of the best way to here begins, and what it is; -1: there is no way
    float score;
  };

  bool append(Best* best, const char* text, int64_t bytes, TokenList& tokens) const {
    // Turned around: each end tells its begin, and then each begin its end.
    int64_t next = -1;
    for (int64_t at = bytes; at > 0;) {
      const int64_t from = best[at].from;
      const int64_t following = next;
      next = at;
      best[at].from = static_cast<int32_t>(following);
      at = from;
    }
    bool unknown_before = false;
    for (int64_t at = 0, end = next; end >= 0; at = end, end = best[end].from) {
      const int32_t token = best[end].token;
      const bool unknown = token == table_.unknown;
      if (unknown && (table_.flags & TokenizerTable::byte_fallback) != 0) {
        for (int64_t k = at; k < end; ++k)
          if (!tokens.append(table_.byte_tokens[static_cast<unsigned char>(text[k])])) return false;
      } else if (!(unknown && (unknown_before || token < 0) &&
                   (token < 0 || (table_.flags & TokenizerTable::fuse_unknown) != 0))) {
        if (!tokens.append(token)) return false;
      }
      unknown_before = unknown;
    }
    return true;
  }

  const TokenizerTable& table_;
  const Pieces pieces_;
  Block memory_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
