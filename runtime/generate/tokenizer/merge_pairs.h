// Byte pair encoding: of all neighbours that may become one, those of the lowest rank do, the leftmost first, until none may
// (Sennrich et al., "Neural machine translation of rare words with subword units", 2016). n log n for n symbols.
#pragma once
#include <algorithm>

#include "../token_list.h"
#include "pieces.h"
#include "text_buffer.h"

namespace METAC_RUNTIME_NAMESPACE {

class MergePairs {
 public:
  explicit MergePairs(const TokenizerTable& table)
      : table_(table), pieces_(table), merges_(table.of<TableMerge>(table.merges)) {}

  // Appends the tokens of a piece. False: no memory.
  bool encode(const char* text, int64_t bytes, TokenList& tokens) {
    if (bytes == 0) return true;
    if ((table_.flags & TokenizerTable::ignore_merges) != 0)
      if (const int32_t whole = pieces_.find(text, bytes); whole >= 0) return tokens.append(whole);
    // Each symbol is at most one merge, and a merge makes at most two pairs: 3 n pairs in all.
    if (!symbol_memory_.reserve(bytes * int64_t{sizeof(Symbol)}) || !pair_memory_.reserve(3 * bytes * int64_t{sizeof(Pair)}))
      return false;
    symbols_ = static_cast<Symbol*>(symbol_memory_.data());
    pairs_ = static_cast<Pair*>(pair_memory_.data());
    pair_count_ = 0;
    const int32_t count = split(text, bytes);
    for (int32_t k = 0; k + 1 < count; ++k) add_pair(k, k + 1);
    while (pair_count_ > 0) merge_next();
    bool unknown_before = false;
    for (int32_t k = 0; k >= 0; k = symbols_[k].next)
      if (!append(symbols_[k], text, tokens, &unknown_before)) return false;
    return true;
  }

 private:
  struct Symbol {
    int32_t token, previous, next;  // -1: none
    int32_t begin, bytes;           // 0 bytes: it went into another
  };
  struct Pair {
    uint32_t rank, merged;
    int32_t left, right, bytes;  // of both
  };
  static bool is_later(const Pair& a, const Pair& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; }

  // Symbols as they are before any merge: atoms, else bytes or characters.
  int32_t split(const char* text, int64_t bytes) {
    int32_t count = 0;
    for (int64_t at = 0; at < bytes; ++count) {
      uint32_t code = 0;
      int32_t token = -1;
      int64_t length = atom_at(text + at, bytes - at, &token);
      const bool atom = length > 0;
      if (!atom) {
        const bool by_bytes = (table_.flags & TokenizerTable::merges_by_bytes) != 0;
        length = by_bytes ? 1 : code_point_at(text + at, text + bytes, &code);
        if (length == 0) length = 1;  // no UTF-8; callers have looked
        token = by_bytes ? table_.byte_tokens[static_cast<unsigned char>(text[at])] : pieces_.find(text + at, length);
      }
      symbols_[count] = {token, count - 1, count + 1, static_cast<int32_t>(at), static_cast<int32_t>(length)};
      at += length;
    }
    symbols_[count - 1].next = -1;
    return count;
  }

  // The longest of the atoms that the text begins with; 0: none.
  int64_t atom_at(const char* text, int64_t left, int32_t* token) const {
    const TableAdded* const atoms = table_.of<TableAdded>(table_.atoms);
    int64_t longest = 0;
    for (uint64_t k = 0; k < table_.atoms.count; ++k) {
      const TableText& atom = table_.of<TableText>(table_.texts)[atoms[k].text];
      if (atom.bytes <= longest || atom.bytes > left || std::memcmp(table_.text_at(atom), text, atom.bytes) != 0) continue;
      longest = atom.bytes;
      *token = static_cast<int32_t>(atoms[k].token);
    }
    return longest;
  }

  void add_pair(int32_t left, int32_t right) {
    if (left < 0 || right < 0 || symbols_[left].token < 0 || symbols_[right].token < 0) return;
    const uint32_t a = static_cast<uint32_t>(symbols_[left].token), b = static_cast<uint32_t>(symbols_[right].token);
    const TableMerge* const end = merges_ + table_.merges.count;
    const TableMerge* const found = std::lower_bound(
        merges_, end, a, [b](const TableMerge& m, uint32_t key) { return m.left != key ? m.left < key : m.right < b; });
    if (found == end || found->left != a || found->right != b) return;
    pairs_[pair_count_++] = {found->rank, found->merged, left, right, symbols_[left].bytes + symbols_[right].bytes};
    std::push_heap(pairs_, pairs_ + pair_count_, is_later);
  }

  void merge_next() {
    std::pop_heap(pairs_, pairs_ + pair_count_, is_later);
    const Pair pair = pairs_[--pair_count_];
    Symbol &left = symbols_[pair.left], &right = symbols_[pair.right];
    // One of them has become something else meanwhile.
    if (left.bytes == 0 || right.bytes == 0 || left.next != pair.right || left.bytes + right.bytes != pair.bytes) return;
    left.token = static_cast<int32_t>(pair.merged);
    left.bytes = pair.bytes;
    left.next = right.next;
    right.bytes = 0;
    if (left.next >= 0) symbols_[left.next].previous = pair.left;
    add_pair(left.previous, pair.left);
    add_pair(pair.left, left.next);
  }

  bool append(const Symbol& symbol, const char* text, TokenList& tokens, bool* unknown_before) {
    if (symbol.token >= 0) {
      *unknown_before = false;
      return tokens.append(symbol.token);
    }
    if ((table_.flags & TokenizerTable::byte_fallback) != 0) {
      for (int32_t k = 0; k < symbol.bytes; ++k)
        if (!tokens.append(table_.byte_tokens[static_cast<unsigned char>(text[symbol.begin + k])])) return false;
      *unknown_before = false;
      return true;
    }
    const bool fused = *unknown_before && (table_.flags & TokenizerTable::fuse_unknown) != 0;
    *unknown_before = true;
    return fused || table_.unknown < 0 || tokens.append(table_.unknown);
  }

  const TokenizerTable& table_;
  const Pieces pieces_;
  const TableMerge* const merges_;
  Block symbol_memory_, pair_memory_;
  Symbol* symbols_ = nullptr;
  Pair* pairs_ = nullptr;
  int64_t pair_count_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
