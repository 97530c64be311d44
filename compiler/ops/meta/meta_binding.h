// What the names of a meta-operator's expressions mean, and the Exprs that result.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/meta/meta_typing.h"

namespace metac {

// The scope of one node: its operands by position ("@1") and by name, its definitions ("N,C = x.shape").
class MetaScope {
 public:
  // `names` are the model's names of the operands; those that are identifiers can be used in expressions.
  MetaScope(Graph& graph, std::vector<Var*> operands, std::vector<std::string> names);
  void define(const std::string& source);  // a MetaDefinition

  // A shape: each entry an expression over dims, or a whole shape such as "x.shape", which is spliced in.
  Shape shape(const std::vector<std::string>& sources);

  // Index expressions over the axes of `domain`: int64; '/' and '//' are floor division, '%' floor modulo. What an index
  // operand is loaded at is clamped into its bounds; `conditions` receives when it was inside anyway.
  Expr index(const std::string& source, const Shape& domain, std::vector<Expr>& conditions);
  Expr condition(const std::string& source, const Shape& domain, std::vector<Expr>& conditions);

  // An element-wise body over `domain`: a bare operand is its element at the same place, broadcast where need be; a literal
  // takes the dtype of what it meets. `dtype` converts the result.
  Expr body(const std::string& source, const Shape& domain, std::optional<DType> dtype = {});
  // The operands that stand bare in a body: their shapes broadcast are the natural domain.
  std::vector<Var*> bare_operands(const std::string& source) const;

  // Operand slots of the Op that is being made, by first use. A reindex reserves slot 0 for what it reindexes.
  int slot_of(Var* var);
  const std::vector<Var*>& used() const { return used_; }

 private:
  struct Context;
  int find_operand(std::string_view text, bool with_letters) const;  // -1: none of that name
  Var* operand_of(const MetaExpression& e, const Context& context) const;
  Expr bind_index(const MetaExpression& e, Context& context);
  MetaValue bind(const MetaExpression& e, Context& context);
  MetaValue bind_name(const MetaExpression& e, Context& context);
  MetaValue bind_load(const MetaExpression& e, Context& context);

  Graph& graph_;
  std::vector<Var*> operands_;
  std::vector<std::string> names_;
  std::map<std::string, Expr> definitions_;
  std::vector<Var*> used_;
};

}  // namespace metac
