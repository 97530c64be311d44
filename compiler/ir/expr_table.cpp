#include "compiler/ir/expr_table.h"

#include <atomic>
#include <cstring>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 32);
}

uint64_t bits_of(double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}

bool same(const ExprNode& a, const ExprNode& b) {
  return a.hash == b.hash && a.kind == b.kind && a.fn == b.fn && a.dtype == b.dtype && a.id == b.id &&
         a.int_value == b.int_value && bits_of(a.float_value) == bits_of(b.float_value) && a.args == b.args;
}

uint32_t next_id() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

thread_local std::shared_ptr<ExprTable> shared;
thread_local ExprTable* innermost = nullptr;  // the same, without the test whether it has been constructed

}  // namespace

ExprTable::ExprTable() : id_(next_id()) {}

ExprTable& ExprTable::current() {
  if (innermost) return *innermost;
  static ExprTable* outside = new ExprTable;  // never destroyed: Exprs may live in statics
  return *outside;
}

std::shared_ptr<ExprTable> ExprTable::share_current() { return shared; }

const ExprNode* ExprTable::intern(ExprNode&& node) {
  uint64_t h =
      mix(static_cast<uint64_t>(node.kind) * 131 + static_cast<uint64_t>(node.fn), static_cast<uint64_t>(node.dtype));
  h = mix(mix(mix(h, static_cast<uint64_t>(node.int_value)), bits_of(node.float_value)), static_cast<uint64_t>(node.id));
  node.has_load = node.kind == ExprKind::load;
  for (Expr a : node.args) {
    METAC_ASSERT(bool(a), "an empty argument");
    METAC_ASSERT(a->table == id_, "an expression of another compilation: ", to_string(a));
    h = mix(h, a->hash);
    node.has_load |= a->has_load;
  }
  node.hash = h;
  const std::lock_guard lock(mutex_);
  size_t at = place_of(node.hash, [&](const ExprNode* n) { return same(*n, node); });
  if (slots_[at].node) return slots_[at].node;
  if ((nodes_.size() + 1) * 2 > slots_.size()) {
    grow();
    at = place_of(node.hash, [](const ExprNode*) { return false; });
  }
  node.serial = nodes_.size();
  node.table = id_;
  nodes_.push_back(std::move(node));
  slots_[at] = {nodes_.back().hash, &nodes_.back()};
  return slots_[at].node;
}

// The slot of the node that `found` accepts, or the free one where it belongs.
template <class Found>
size_t ExprTable::place_of(uint64_t hash, const Found& found) const {
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at].node && !(slots_[at].hash == hash && found(slots_[at].node))) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void ExprTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& s : old)
    if (s.node) slots_[place_of(s.hash, [](const ExprNode*) { return false; })] = s;
}

ExprScope::ExprScope(std::shared_ptr<ExprTable> table) : outer_(shared) {
  if (!table) return;
  shared = std::move(table);
  innermost = shared.get();
}

ExprScope::~ExprScope() {
  shared = std::move(outer_);
  innermost = shared.get();
}

}  // namespace metac
