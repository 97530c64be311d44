// TfIdfVectorizer on integers: how often each n-gram of a pool occurs in each row, as a sum over starts and skips of
// "all tokens agree".
#include <algorithm>

#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// The n-grams of one length.
struct Grams {
  int64_t length = 0;
  std::vector<int64_t> tokens, places;  // [count, length], and where each is counted in the output
};

// pool_int64s holds the 1-grams, then the 2-grams, ...; ngram_counts says where each begins.
std::vector<Grams> read_grams(const Lowering& n, int64_t tokens, int64_t outputs) {
  std::vector<int64_t> pool = n.integers("pool_int64s"), begins = n.integers("ngram_counts"),
                       places = n.integers("ngram_indexes");
  int64_t least = n.integer("min_gram_length", 1), most = n.integer("max_gram_length", 1);
  if (least < 1 || most < least) fail("min_gram_length ", least, " and max_gram_length ", most, " are no range");
  std::vector<Grams> all;
  size_t next_place = 0;
  for (size_t k = 0; k < begins.size(); ++k) {
    int64_t begin = begins[k], end = k + 1 < begins.size() ? begins[k + 1] : tokens, length = static_cast<int64_t>(k) + 1;
    if (begin < 0 || begin > end || end > tokens)
      fail("ngram_counts ", metac::to_string(begins), " do not rise within the pool of ", tokens, " tokens");
    if ((end - begin) % length != 0)
      fail("the pool's ", end - begin, " tokens of ", length, "-grams are not divisible by ", length);
    Grams grams{length, {pool.begin() + begin, pool.begin() + end}, {}};
    for (int64_t i = 0; i < (end - begin) / length; ++i) {
      if (next_place >= places.size()) fail("ngram_indexes has ", places.size(), " entries, the pool has more n-grams");
      int64_t place = places[next_place++];
      if (place < 0 || place >= outputs) fail("ngram_indexes holds ", place);
      grams.places.push_back(place);
    }
    if (length >= least && length <= most && !grams.places.empty()) all.push_back(std::move(grams));
  }
  return all;
}

// [batch, outputs]: x [batch, row] int64; tokens of an n-gram stand `skip` + 1 apart, for all skips below `skips`.
Var* count_grams(Graph& g, Var* x, const Grams& grams, int64_t skips, int64_t outputs) {
  const int64_t count = static_cast<int64_t>(grams.places.size());
  Var* pool = g.add_constant(make_tensor(DType::i64, {count, grams.length}, grams.tokens));
  Var* places = g.add_constant(make_tensor(DType::i64, {count}, grams.places));
  Dim row = x->shape()[1];
  Expr start = axis(3), step = axis(2) + Expr(1), agrees = start + Expr(grams.length - 1) * step < row;
  for (int64_t k = 0; k < grams.length; ++k) {
    Expr token = load(0, DType::i64, {axis(0), min(start + Expr(k) * step, row - Expr(1))});
    agrees = logical_and(agrees, equal(token, load(1, DType::i64, {axis(1), Expr(k)})));
  }
  Expr one = constant_of(DType::f32, 1), none = constant_of(DType::f32, 0);
  Var* found = g.elementwise({x, pool}, {x->shape()[0], count, grams.length == 1 ? Expr(1) : Expr(skips), row},
                             select(agrees, one, none));
  Var* counts = reduce(g, found, {2, 3}, Reduce::add, false);
  return g.reindex_reduce({counts, places}, {x->shape()[0], outputs}, {axis(0), load(1, DType::i64, {axis(1)})},
                          Reduce::add);
}

void lower_tf_idf(Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  if (x->dtype() != DType::i32 && x->dtype() != DType::i64) fail("X must be int32 or int64, found ", name_of(x->dtype()));
  if (x->rank() > 2) fail("X must have rank 1 or 2, its shape is ", to_string(x->shape()));
  if (n.has("pool_strings")) fail("pool_strings needs an input of strings, X is ", name_of(x->dtype()));
  std::string mode = n.string("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") fail("mode ", quoted(mode), " is not known");
  const std::vector<int64_t> places = n.integers("ngram_indexes");
  int64_t skips = n.integer("max_skip_count", 0), outputs = 0;
  if (skips < 0 || skips > 1'000'000) fail("max_skip_count is ", skips);
  for (int64_t place : places) outputs = std::max(outputs, place + 1);
  if (outputs < 1 || outputs > int64_t{1} << 32) fail("ngram_indexes asks for ", outputs, " outputs");
  std::vector<double> weights = n.reals("weights");
  if (!weights.empty() && weights.size() != places.size())
    fail("weights has ", weights.size(), " entries, ngram_indexes has ", places.size());

  Shape shape = x->rank() == 2 ? Shape{x->shape()[0], outputs} : Shape{outputs};
  Shape rows = x->rank() == 2 ? x->shape() : Shape{1, element_count(x->shape())};
  x = cast(g, reshape(g, x, rows), DType::i64);
  Var* counts = nullptr;
  for (const Grams& grams : read_grams(n, static_cast<int64_t>(n.integers("pool_int64s").size()), outputs)) {
    Var* of_length = count_grams(g, x, grams, skips + 1, outputs);
    counts = counts ? map(g, Fn::add, counts, of_length) : of_length;
  }
  if (!counts) counts = fill(g, {rows[0], outputs}, constant_of(DType::f32, 0));
  if (mode == "IDF")
    counts = elementwise(g, {counts}, [](const std::vector<Expr>& v) { return min(v[0], constant_like(v[0], 1)); });
  if (mode != "TF" && !weights.empty()) {
    // Of the n-grams in the order of the pool, each for the place where it is counted.
    std::vector<float> factors(static_cast<size_t>(outputs), 1);
    for (size_t i = 0; i < weights.size() && i < places.size(); ++i)
      factors[static_cast<size_t>(places[i])] = static_cast<float>(weights[i]);
    counts = map(g, Fn::mul, counts, g.add_constant(make_tensor(DType::f32, {outputs}, factors)));
  }
  n.set_output(0, reshape(g, counts, shape));
}
METAC_OPERATOR("TfIdfVectorizer")
    .since({9})
    .inputs(1)
    .outputs(1)
    .required("mode", Kind::string)
    .required("ngram_indexes", Kind::integers)
    .required("ngram_counts", Kind::integers)
    .required("max_skip_count", Kind::integer)
    .required("min_gram_length", Kind::integer)
    .required("max_gram_length", Kind::integer)
    .attribute("weights", Kind::reals)
    .attribute("pool_int64s", Kind::integers)
    .attribute("pool_strings", Kind::strings)
    .lower(lower_tf_idf);

}  // namespace
}  // namespace metac
