#include "compiler/loops/index_set_splitting.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/support/checked.h"

namespace metac {
namespace {

constexpr size_t most_pieces = 12;  // while they are cut; a loop that needs more is a table and not a border

// A range of the index and what a node is there; empty: it is not the same, or not linear, everywhere in the range.
struct Zone {
  Expr begin, end;
  Expr value;
};

struct Piece {
  Expr begin, end;
  std::vector<Expr> expressions;
  std::set<const ExprNode*> open;  // nodes that cannot be decided in it
};

class Splitting {
 public:
  Splitting(const Loop& loop, const std::vector<Loop>& inner, const Bounds& bounds)
      : loop_(loop), inner_(inner), bounds_(bounds) {}

  // All nodes decided or known to be open, in every piece; empty: too many pieces.
  std::vector<Piece> run(const std::vector<Expr>& expressions) const {
    std::vector<Piece> done, waiting = {{0, loop_.extent, expressions, {}}};
    while (!waiting.empty()) {
      Piece piece = std::move(waiting.back());
      waiting.pop_back();
      const Expr node = next_node(piece);
      if (!node) {
        done.push_back(std::move(piece));
        continue;
      }
      std::vector<Zone> zones = zones_of(node, piece);
      if (done.size() + waiting.size() + zones.size() > most_pieces) return {};
      for (size_t k = zones.size(); k-- > 0;) {
        Piece part{zones[k].begin, zones[k].end, piece.expressions, piece.open};
        if (!zones[k].value) part.open.insert(node.node());
        for (Expr& e : part.expressions)
          if (bool(e) && bool(zones[k].value)) e = rewrite(e, [&](Expr n) { return n == node ? zones[k].value : Expr(); });
        waiting.push_back(std::move(part));
      }
    }
    return done;
  }

 private:
  static bool is_changing(Expr e) {
    if (e->kind != ExprKind::call || e->has_load || e->args.size() != 2 || e->args[0]->dtype != DType::i64) return false;
    if (e->fn == Fn::floor_mod) return e->args[1].if_int() && e->args[1].as_int() > 0;
    return e->fn == Fn::lt || e->fn == Fn::le || e->fn == Fn::eq || e->fn == Fn::ne || e->fn == Fn::min || e->fn == Fn::max;
  }

  // Arguments come before what is made of them.
  Expr next_node(const Piece& piece) const {
    Expr found;
    for (Expr e : piece.expressions) {
      if (!e) continue;
      visit(e, [&](Expr n) {
        if (!found && is_changing(n) && uses_axis(n, loop_.axis) && !piece.open.count(n.node())) found = n;
      });
    }
    return found;
  }

  // coefficient * index + rest; empty: not linear in the index.
  struct LinearInIndex {
    int64_t coefficient = 0;
    Expr rest;
  };
  std::optional<LinearInIndex> linear_in_index(Expr e) const {
    LinearInIndex out;
    for (const auto& [atom, coefficient] : linear_form(e).terms) {
      if (atom == axis(loop_.axis))
        out.coefficient = coefficient;
      else if (uses_axis(atom, loop_.axis))
        return std::nullopt;
    }
    out.rest = e - axis(loop_.axis) * Expr(out.coefficient);
    return out;
  }

  std::vector<Zone> zones_of(Expr node, const Piece& piece) const {
    const std::vector<Zone> open = {{piece.begin, piece.end, {}}};
    const Expr a = node->args[0], b = node->args[1];
    const auto difference = linear_in_index(node->fn == Fn::floor_mod ? a : b - a - Expr(node->fn == Fn::lt ? 1 : 0));
    if (!difference) return open;
    if (node->fn == Fn::floor_mod) return periods(*difference, b.as_int(), node, piece).value_or(open);
    if (difference->coefficient == 0) return open;  // its uses of the index cancel
    if (node->fn == Fn::eq || node->fn == Fn::ne) return around_one_index(*difference, node, piece).value_or(open);
    const Expr yes = node->fn == Fn::min   ? a
                     : node->fn == Fn::max ? b
                                           : bool_constant(true),
               no = node->fn == Fn::min   ? b
                    : node->fn == Fn::max ? a
                                          : bool_constant(false);
    return sides(*difference, yes, no, piece).value_or(open);
  }

  // Where the difference is at least 0 and where it is less.
  std::optional<std::vector<Zone>> sides(const LinearInIndex& d, Expr yes, Expr no, const Piece& piece) const {
    const bool inside = std::any_of(inner_.begin(), inner_.end(), [&](const Loop& l) { return uses_axis(d.rest, l.axis); });
    const bool open = !loop_.extent.if_int();
    if (!inside && (open || !d.rest.if_int())) {
      // The border moves with the loops outside, or with what a run decides.
      const bool whole = piece.begin.is_int(0) && piece.end == loop_.extent;
      if ((d.coefficient != 1 && d.coefficient != -1) || !(open || whole)) return std::nullopt;
      const Expr border =
          simplify(max(min(d.coefficient > 0 ? -d.rest : d.rest + Expr(1), piece.end), piece.begin), bounds_);
      return std::vector<Zone>{{piece.begin, border, d.coefficient > 0 ? no : yes},
                               {border, piece.end, d.coefficient > 0 ? yes : no}};
    }
    const Interval rest = bounds_.interval(d.rest);
    const End step = magnitude(End(d.coefficient));
    // Behind the first border of two it may be on either side.
    const End first = floor_div(d.coefficient > 0 ? -1 - rest.high : rest.low, step) + 1;
    const End second = floor_div(d.coefficient > 0 ? -rest.low - 1 : rest.high, step) + 1;
    return cut(piece, {first, second}, {d.coefficient > 0 ? no : yes, Expr(), d.coefficient > 0 ? yes : no});
  }

  std::optional<std::vector<Zone>> around_one_index(const LinearInIndex& d, Expr node, const Piece& piece) const {
    const Interval rest = bounds_.interval(d.rest);
    const End step = magnitude(End(d.coefficient)), low = d.coefficient > 0 ? -rest.high : rest.low,
              high = d.coefficient > 0 ? -rest.low : rest.high;
    const Expr apart = bool_constant(node->fn == Fn::ne);
    return cut(piece, {floor_div(low + step - 1, step), floor_div(high, step) + 1}, {apart, Expr(), apart});
  }

  // Inside of one period a remainder is a difference.
  std::optional<std::vector<Zone>> periods(const LinearInIndex& d, int64_t period, Expr node, const Piece& piece) const {
    if (d.coefficient != 1 || !d.rest.if_int() || !piece.begin.if_int() || !piece.end.if_int()) return std::nullopt;
    const int64_t rest = d.rest.as_int(), begin = piece.begin.as_int(), end = piece.end.as_int();
    if ((end - begin) / period > static_cast<int64_t>(most_pieces)) return std::nullopt;
    std::vector<Zone> out;
    for (int64_t at = begin; at < end;) {
      const int64_t past = floor_div(at + rest, period) * period, next = std::min(end, past + period - rest);
      out.push_back({at, next, node->args[0] - Expr(past)});
      at = next;
    }
    return out;
  }

  // The piece cut at these borders, which do not descend; a value for each part.
  std::optional<std::vector<Zone>> cut(const Piece& piece, const std::vector<End>& borders,
                                       const std::vector<Expr>& values) const {
    if (!piece.begin.if_int() || !piece.end.if_int()) return std::nullopt;
    std::vector<Zone> out;
    int64_t at = piece.begin.as_int();
    const int64_t end = piece.end.as_int();
    for (size_t k = 0; k < values.size(); ++k) {
      const int64_t next = k < borders.size() ? std::clamp(borders[k], End(at), End(end)).clamped() : end;
      if (next > at) out.push_back({at, next, values[k]});
      at = next;
    }
    return out;
  }

  const Loop& loop_;
  const std::vector<Loop>& inner_;
  const Bounds& bounds_;
};

}  // namespace

std::vector<IndexPiece> split_index_set(const Loop& loop, const std::vector<Expr>& expressions,
                                        const std::vector<Loop>& inner, const Bounds& bounds, int64_t least) {
  const bool open = !loop.extent.if_int();
  std::vector<IndexPiece> out;
  int64_t in_decided = 0;
  bool grows = false;  // a decided piece, with what a run decides
  for (Piece& piece : Splitting(loop, inner, bounds).run(expressions)) {
    const Expr extent = piece.end - piece.begin;
    const bool decided = piece.open.empty() && (!extent.if_int() || extent.as_int() >= least);
    if (decided && !open) in_decided += extent.if_int() ? extent.as_int() : loop.extent.as_int();
    grows |= decided && !extent.if_int();
    if (!decided && !out.empty() && !out.back().decided)
      out.back().extent = out.back().extent + extent;
    else
      out.push_back({piece.begin, extent, decided ? std::move(piece.expressions) : expressions, decided});
  }
  if (out.size() < 2 || (open ? !grows : 2 * in_decided < loop.extent.as_int())) return {};
  return out;
}

}  // namespace metac
