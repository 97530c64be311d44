// A tokenizer as one block of memory, which metac writes from tokenizer.json or a SentencePiece model (frontends/tokenizer)
// and the library carries: this head, then sections of plain numbers and bytes, each aligned to 8.
#pragma once
#include <cstdint>
#include <cstring>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

struct TableSection {
  uint64_t offset, count;  // from the head; of elements
};

// A text among the bytes of the table.
struct TableText {
  uint32_t offset, bytes;
};

// Two neighbours that may become one, the lower rank first.
struct TableMerge {
  uint32_t left, right, rank, merged;
};

// What is done with a text before the model sees it, in order. Those of texts come before those of pieces.
enum class TokenStep : uint32_t {
  prepend,       // text a in front of a text that is not empty
  replace,       // text a by text b
  compose,       // Unicode's NFC; a: 1 for NFKC
  map,           // by the double array of a SentencePiece model, longest match first
  squeeze,       // no spaces at the ends, one between words
  strip,         // white space, of the left where a, of the right where b
  split,         // pieces by program a; b: SplitAs; c: 1 where what does not match is what is found
  prefix_space,  // a space in front of a piece that does not begin with one
  mark_spaces,   // spaces of a piece become text a, which goes in front of it as well; b: 0 always, 1 at the text's begin, 2
                // never; c: 1 where pieces are cut in front of it
};
enum class SplitAs : uint32_t { removed, isolated, with_previous, with_next, contiguous };
struct TableStep {
  TokenStep kind;
  uint32_t a, b, c;
};

// A regular expression as a program: recursion goes no deeper than it is long.
enum class RegexCode : uint32_t {
  one,     // a code point of class a
  repeat,  // at least b and at most c of class a, as many as there are and fewer where the rest does not match
  hold,    // as repeat, and as many as there are
  either,  // goes on at a, else at b
  jump,    // to a
  ahead,   // the next instructions, up to a match at whose end it goes on at a, match here and take nothing; b: 1 where they
           // must not
  at_end,  // of the text
  match,
};
struct TableRegexCode {
  RegexCode code;
  uint32_t a, b, c;
};
struct TableRange {
  uint32_t first, last;  // code points
};
struct TableClass {
  uint32_t first, count;  // of the ranges, ascending
  uint32_t ascii[4];      // the same of code points below 128, a bit each
};

struct TableAdded {
  uint32_t text, token;  // a text of the table
  uint32_t flags;        // takes_left, takes_right
};

// Unicode's composition: what a code point is made of, one or two; b: 0 where it is one.
struct TableDecomposition {
  uint32_t code, a, b;
};
struct TableComposition {
  uint32_t a, b, code;
};
struct TableCombining {
  uint32_t code, order;  // canonical combining class, not 0
};

struct TokenizerTable {
  static constexpr char magic_text[9] = "metactok";
  static constexpr uint32_t version_now = 1;
  static constexpr uint32_t unigram = 1, ignore_merges = 2, byte_fallback = 4, fuse_unknown = 8, drop_first_space = 16,
                            merges_by_bytes = 32;
  static constexpr uint32_t takes_left = 1, takes_right = 2;

  char magic[8];
  uint32_t version, tokens, flags;
  int32_t unknown;  // token, -1: none
  int32_t byte_tokens[256];
  float unknown_score;
  uint32_t longest_piece;
  TableSection bytes;                                        // of all texts
  TableSection texts;                                        // TableText, for steps and added tokens
  TableSection pieces;                                       // TableText by token, as the model has them
  TableSection spoken;                                       // TableText by token, what it is in a text
  TableSection sorted;                                       // uint32: tokens that the model makes, by their pieces
  TableSection merges;                                       // TableMerge, by left and right
  TableSection scores;                                       // float by token
  TableSection steps, codes, classes, ranges, added, atoms;  // atoms: added tokens that are found behind the steps of texts
  TableSection begin, end;                                   // int32: tokens in front of a text and behind it
  TableSection decompositions, compositions, combining;
  TableSection map_units, map_texts;  // uint32 of the double array; texts that end with 0

  template <class T>
  const T* of(const TableSection& section) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(this) + section.offset);
  }
  const char* text_at(const TableText& text) const { return of<char>(bytes) + text.offset; }
};

}  // namespace METAC_RUNTIME_NAMESPACE
