// Guesses of what comes next, by what came next before: the longest of the last few tokens that stands earlier in the text
// as well, and what followed it there (prompt lookup decoding, Saxena, 2023). Right where a text repeats itself or its
// prompt; wrong guesses cost a longer run and change no token.
#pragma once
#include "token_list.h"

namespace METAC_RUNTIME_NAMESPACE {

// Appends at most `most` tokens to `drafts` and says how many; the latest earlier place is taken, of the longest match of 3
// or 2.
inline int64_t look_up(const int64_t* tokens, int64_t count, int64_t most, TokenList* drafts) {
  constexpr int64_t far = 4096;  // tokens back that are looked at
  for (int64_t length = 3; length >= 2 && most > 0; --length) {
    const int64_t* const end = tokens + count - length;  // the last tokens begin here
    const int64_t first = count - length > far ? count - length - far : 0;
    for (int64_t at = count - length - 1; at >= first; --at) {
      bool same = true;
      for (int64_t k = 0; same && k < length; ++k) same = tokens[at + k] == end[k];
      if (!same) continue;
      const int64_t follow = count - (at + length);
      const int64_t take = follow < most ? follow : most;
      return drafts->append(tokens + at + length, take) ? take : 0;
    }
  }
  return 0;
}

}  // namespace METAC_RUNTIME_NAMESPACE
