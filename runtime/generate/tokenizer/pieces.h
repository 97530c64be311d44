// Looks pieces of the vocabulary up.
#pragma once
#include "table.h"

namespace METAC_RUNTIME_NAMESPACE {

class Pieces {
 public:
  explicit Pieces(const TokenizerTable& table)
      : table_(table),
        pieces_(table.of<TableText>(table.pieces)),
        sorted_(table.of<uint32_t>(table.sorted)),
        count_(table.sorted.count) {}

  // The token of this piece; -1: there is none.
  int32_t find(const char* piece, int64_t bytes) const {
    uint64_t low = 0, high = count_;
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      const int order = compare(sorted_[middle], piece, bytes);
      if (order == 0) return static_cast<int32_t>(sorted_[middle]);
      if (order < 0)
        low = middle + 1;
      else
        high = middle;
    }
    return -1;
  }

  // Calls what(token, bytes) for each piece that the text begins with, the shortest first.
  template <class What>
  void each_at(const char* text, int64_t left, What what) const {
    uint64_t low = 0, high = count_;
    for (int64_t bytes = 1; bytes <= left && bytes <= table_.longest_piece && low < high; ++bytes) {
      const unsigned char next = static_cast<unsigned char>(text[bytes - 1]);
      low = first_from(low, high, bytes - 1, next);
      high = first_from(low, high, bytes - 1, next + 1);
      if (low < high && pieces_[sorted_[low]].bytes == bytes) what(static_cast<int32_t>(sorted_[low]), bytes);
    }
  }

 private:
  int compare(uint32_t token, const char* piece, int64_t bytes) const {
    const TableText& text = pieces_[token];
    const int64_t shorter = text.bytes < bytes ? text.bytes : bytes;
    const int order = std::memcmp(table_.text_at(text), piece, static_cast<size_t>(shorter));
    return order != 0 ? order : text.bytes < bytes ? -1 : text.bytes > bytes;
  }
  // The first of [low, high), which begin alike, whose byte `at` is not below `byte`; pieces that end there come before.
  uint64_t first_from(uint64_t low, uint64_t high, int64_t at, int byte) const {
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      const TableText& text = pieces_[sorted_[middle]];
      const int there = text.bytes > at ? static_cast<unsigned char>(table_.text_at(text)[at]) : -1;
      if (there < byte)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  const TokenizerTable& table_;
  const TableText* const pieces_;
  const uint32_t* const sorted_;
  const uint64_t count_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
