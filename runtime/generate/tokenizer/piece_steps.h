// How a text is cut into the pieces that the model sees one by one. Pieces are texts of their own, as steps may change them.
#pragma once
#include "regex_match.h"
#include "text_steps.h"

namespace METAC_RUNTIME_NAMESPACE {

// Texts behind one another.
class TextPieces {
 public:
  int64_t count() const { return ends_.size() / int64_t{sizeof(int64_t)}; }
  const char* begin(int64_t k) const { return bytes_.data() + (k > 0 ? end(k - 1) : 0); }
  int64_t size(int64_t k) const { return end(k) - (k > 0 ? end(k - 1) : 0); }
  void clear() { bytes_.clear(), ends_.clear(); }
  bool append(const char* text, int64_t bytes) { return bytes_.append(text, bytes) && close(); }
  bool extend(const char* text, int64_t bytes) { return bytes_.append(text, bytes); }  // the piece that close() ends
  bool close() {
    const int64_t end = bytes_.size();
    return ends_.append(reinterpret_cast<const char*>(&end), sizeof end);
  }
  void swap(TextPieces& other) { bytes_.swap(other.bytes_), ends_.swap(other.ends_); }

 private:
  int64_t end(int64_t k) const { return element_at<int64_t>(ends_.data(), k); }
  TextBuffer bytes_, ends_;
};

class PieceSteps {
 public:
  explicit PieceSteps(const TokenizerTable& table) : table_(table) {}

  // `first`: the text is the begin of the whole. False: no memory.
  bool run(const char* text, int64_t bytes, bool first, TextPieces& pieces) {
    pieces.clear();
    if (bytes > 0 && !pieces.append(text, bytes)) return false;
    const TableStep* const steps = table_.of<TableStep>(table_.steps);
    for (uint64_t k = 0; k < table_.steps.count; ++k) {
      if (steps[k].kind < TokenStep::split) continue;
      other_.clear();
      for (int64_t piece = 0; piece < pieces.count(); ++piece)
        if (!apply(steps[k], pieces.begin(piece), pieces.size(piece), first && piece == 0)) return false;
      pieces.swap(other_);
    }
    return true;
  }

 private:
  bool apply(const TableStep& step, const char* text, int64_t bytes, bool first) {
    if (step.kind == TokenStep::split) return split(step, text, bytes);
    if (step.kind == TokenStep::mark_spaces) return mark_spaces(step, text, bytes, first);
    return (text[0] == ' ' || other_.extend(" ", 1)) && other_.append(text, bytes);
  }

  // What is found and what lies between it, from left to right.
  bool split(const TableStep& step, const char* text, int64_t bytes) {
    const char* const end = text + bytes;
    const RegexMatch regex(table_, end);
    const SplitAs as = static_cast<SplitAs>(step.b);
    held_ = nullptr;
    last_found_ = false;
    const char* rest = text;
    for (const char* at = text; at < end;) {
      const char* const stop = regex.match(step.a, at);
      if (stop == nullptr || stop == at) {
        ++at;
        while (at < end && (static_cast<unsigned char>(*at) & 0xc0) == 0x80) ++at;
        continue;
      }
      if (at > rest && !part(as, rest, at, step.c != 0)) return false;
      if (!part(as, at, stop, step.c == 0)) return false;
      rest = at = stop;
    }
    return (end == rest || part(as, rest, end, step.c != 0)) && flush();
  }
  // Parts that belong together are held back until it is known where they end.
  bool part(SplitAs as, const char* from, const char* to, bool found) {
    const bool joins = held_ != nullptr && ((as == SplitAs::with_previous && found && !last_found_) ||
                                            (as == SplitAs::with_next && !found && last_found_) ||
                                            (as == SplitAs::contiguous && found == last_found_));
    if (!joins && !flush()) return false;
    if (as == SplitAs::removed && found) return true;
    if (held_ == nullptr) held_ = from;
    held_end_ = to;
    last_found_ = found;
    return true;
  }
  bool flush() {
    const char* const held = held_;
    held_ = nullptr;
    return held == nullptr || other_.append(held, held_end_ - held);
  }

  bool mark_spaces(const TableStep& step, const char* text, int64_t bytes, bool first) {
    const TableText& mark = table_.of<TableText>(table_.texts)[step.a];
    const char* const bytes_of_mark = table_.text_at(mark);
    const bool marked =
        bytes > 0 && (text[0] == ' ' || (bytes >= mark.bytes && std::memcmp(text, bytes_of_mark, mark.bytes) == 0));
    const bool prefix = !marked && (step.b == 0 || (step.b == 1 && first));
    bool any = prefix;
    if (prefix && !other_.extend(bytes_of_mark, mark.bytes)) return false;
    for (const char *at = text, *end = text + bytes; at < end;) {
      const bool space = *at == ' ',
                 is_mark = space || (end - at >= mark.bytes && std::memcmp(at, bytes_of_mark, mark.bytes) == 0);
      if (is_mark && step.c != 0 && any && !other_.close()) return false;
      any = true;
      if (is_mark ? !other_.extend(bytes_of_mark, mark.bytes) : !other_.extend(at, 1)) return false;
      at += is_mark && !space ? mark.bytes : 1;
    }
    return other_.close();
  }

  const TokenizerTable& table_;
  TextPieces other_;
  const char *held_ = nullptr, *held_end_ = nullptr;
  bool last_found_ = false;
};

}  // namespace METAC_RUNTIME_NAMESPACE
