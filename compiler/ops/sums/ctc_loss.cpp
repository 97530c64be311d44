// Connectionist temporal classification (Graves and others, 2006): minus the logarithm of the probability of all ways in
// which a sequence of scores can be read as the labels, where a reading drops repetitions and then blanks.
//
// The labels with blanks around each are 2 S + 1 positions. alpha[n, s] is the logarithm of the probability of having come
// to position s; a Loop over the steps carries it. Derivatives of any order come from the Loop's rule: no backward recursion
// is written down. "No way" is -1e30 and not -inf: differences of it are no NaN, and no sum of real logarithms comes near
// it.
#include <limits>

#include "compiler/ops/control/carried_loop.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

constexpr double no_way = -1e30;

class Ctc {
 public:
  explicit Ctc(Lowering& n) : n_(n), g_(n.graph()) {
    x_ = n.input(0);
    labels_ = n.input(1);
    require_float(x_, "the scores");
    require_rank(x_, 3, "the scores");
    require_integer(labels_, "the labels");
    require_rank(labels_, 2, "the labels");
    const Shape& shape = x_->shape();
    batch_ = shape[0], steps_ = shape[1], classes_ = shape[2], most_ = labels_->shape()[1];
    require_equal(g_, labels_->shape()[0], batch_, "the batch of the labels against the scores");
    blank_ = n.integer("blank", 0);
    g_.require(logical_and(Expr(0) <= Expr(blank_), Expr(blank_) < classes_),
               concat("blank is ", blank_, ", there are ", to_string(classes_), " classes"));
    label_lengths_ = lengths(2, "the lengths of the labels");
    step_lengths_ = lengths(3, "the lengths of the sequences");
    positions_ = most_ * Expr(2) + Expr(1);
  }

  void run() {
    DType own = x_->dtype();
    x_ = widen(g_, x_);
    labels_ = cast(g_, labels_, DType::i64);
    if (!label_lengths_) label_lengths_ = count_labels();
    Var* alpha = walk(emissions(), skips());
    n_.set_output(0, cast(g_, loss_of(alpha), own));
  }

 private:
  Var* lengths(size_t input, const char* what) {
    Var* given = n_.optional_input(input);
    if (!given) return nullptr;
    require_integer(given, what);
    require_rank(given, 1, what);
    require_equal(g_, given->shape()[0], batch_, what);
    return cast(g_, given, DType::i64);
  }

  // Without lengths the labels end where the negative ones begin.
  Var* count_labels() {
    Var* counted =
        elementwise(g_, {labels_}, [](const std::vector<Expr>& v) { return select(Expr(0) <= v[0], Expr(1), Expr(0)); });
    return reduce(g_, counted, {1}, Reduce::add, false);
  }

  Expr in_range(Expr index, Dim extent) const { return min(max(index, Expr(0)), extent - Expr(1)); }

  // log p of the class of every position, [T, N, 2 S + 1].
  Var* emissions() {
    Expr position = axis(1),
         label = load(0, DType::i64, {axis(0), in_range(floor_div(position, Expr(2)), max(most_, Expr(1)))});
    Var* classes =
        most_.is_int(0)
            ? fill(g_, {batch_, positions_}, Expr(blank_))
            : g_.elementwise({labels_}, {batch_, positions_},
                             select(equal(floor_mod(position, Expr(2)), Expr(1)), in_range(label, classes_), Expr(blank_)));
    return g_.reindex({x_, classes}, {steps_, batch_, positions_},
                      {axis(1), axis(0), load(1, DType::i64, {axis(1), axis(2)})});
  }

  // 1 where a label may follow the one before it without a blank between: they differ. [N, 2 S + 1]
  Var* skips() {
    if (most_.is_int(0)) return fill(g_, {batch_, positions_}, constant_of(x_->dtype(), 0));
    Expr at = floor_div(axis(1), Expr(2));
    Expr own = load(0, DType::i64, {axis(0), in_range(at, most_)}),
         before = load(0, DType::i64, {axis(0), in_range(at - Expr(1), most_)});
    Expr may =
        logical_and(logical_and(equal(floor_mod(axis(1), Expr(2)), Expr(1)), Expr(3) <= axis(1)), not_equal(own, before));
    return g_.elementwise({labels_}, {batch_, positions_}, cast(may, x_->dtype()));
  }

  Var* shifted(Var* alpha, int by) {
    return g_.reindex({alpha}, alpha->shape(), {axis(0), axis(1) - Expr(by)}, {Expr(by) <= axis(1)},
                      constant_of(x_->dtype(), no_way));
  }

  Var* walk(Var* emissions, Var* skips) {
    const Shape shape = {batch_, positions_};
    CarriedLoop loop;
    loop.trip_count = scalar_of(g_, steps_);
    loop.trips = steps_;
    // Before the first step the way stands at a blank before everything.
    loop.initial = {
        fill(g_, shape, select(equal(axis(1), Expr(0)), constant_of(x_->dtype(), 0), constant_of(x_->dtype(), no_way)))};
    Op* op = loop.build(g_, [&](Expr step, const std::vector<Var*>& carried) -> std::vector<Var*> {
      Var* alpha = carried[0];
      Var* emitted = g_.reindex({emissions}, shape, {step, axis(0), axis(1)});
      Var* skipped = elementwise(g_, {shifted(alpha, 2), skips}, [&](const std::vector<Expr>& v) {
        return select(not_equal(v[1], constant_like(v[1], 0)), v[0], constant_like(v[0], no_way));
      });
      Var* stepped = shifted(alpha, 1);
      Var* greatest =
          elementwise(g_, {alpha, stepped, skipped}, [](const std::vector<Expr>& v) { return max(max(v[0], v[1]), v[2]); });
      greatest->stop_grad = true;  // it cancels
      Var* next = elementwise(g_, {alpha, stepped, skipped, greatest, emitted}, [](const std::vector<Expr>& v) {
        auto part = [&](int k) { return call(Fn::exp, {v[k] - v[3]}); };
        return v[3] + call(Fn::log, {part(0) + part(1) + part(2)}) + max(v[4], constant_like(v[4], no_way));
      });
      if (step_lengths_) {
        Expr goes_on = step < load(2, DType::i64, {axis(0)});
        next = g_.elementwise(
            {next, alpha, step_lengths_}, shape,
            select(goes_on, load(0, next->dtype(), identity_indices(2)), load(1, next->dtype(), identity_indices(2))));
      }
      return {nullptr, next};
    });
    return op->outputs[0];
  }

  // The last label or the blank behind it, whichever way.
  Var* loss_of(Var* alpha) {
    const DType dtype = x_->dtype();
    Expr end = load(1, DType::i64, {axis(0)}) * Expr(2),
         last = logical_or(equal(axis(1), end), equal(axis(1), end - Expr(1)));
    Var* ends = g_.elementwise({alpha, label_lengths_}, alpha->shape(),
                               select(last, load(0, dtype, identity_indices(2)), constant_of(dtype, no_way)));
    Var* top = reduce(g_, ends, {1}, Reduce::max, true);
    top->stop_grad = true;
    Var* shares = elementwise(g_, {ends, top}, [](const std::vector<Expr>& v) { return call(Fn::exp, {v[0] - v[1]}); });
    // Where there is no way, all positions share alike in it.
    Var* sum = reduce(g_, shares, {1}, Reduce::add, false);
    std::vector<Var*> operands = {sum, reshape(g_, top, {batch_}), label_lengths_, wrong_labels()};
    const bool zero = n_.integer("zero_infinity", 0) != 0;
    const double infinity = std::numeric_limits<double>::infinity();
    Var* loss = elementwise(g_, operands, [&](const std::vector<Expr>& v) {
      Expr none = constant_like(v[0], zero ? 0 : infinity);
      Expr value = select(v[1] < constant_like(v[1], no_way / 2), none, -(v[1] + call(Fn::log, {v[0]})));
      Expr valid = logical_and(logical_and(Expr(0) <= v[2], v[2] <= most_), equal(v[3], Expr(0)));
      return select(valid, value, constant_like(value, std::numeric_limits<double>::quiet_NaN()));
    });
    return step_lengths_ ? elementwise(g_, {loss, step_lengths_},
                                       [&](const std::vector<Expr>& v) {
                                         return select(logical_and(Expr(0) <= v[1], v[1] <= steps_), v[0],
                                                       constant_like(v[0], std::numeric_limits<double>::quiet_NaN()));
                                       })
                         : loss;
  }

  // How many labels that count are none: out of range, or the blank.
  Var* wrong_labels() {
    if (most_.is_int(0)) return fill(g_, {batch_}, Expr(0));
    Expr label = load(0, DType::i64, identity_indices(2)),
         good = logical_and(logical_and(Expr(0) <= label, label < classes_), not_equal(label, Expr(blank_)));
    Expr counts = axis(1) < load(1, DType::i64, {axis(0)});
    return reduce(g_,
                  g_.elementwise({labels_, label_lengths_}, labels_->shape(),
                                 select(logical_and(counts, logical_not(good)), Expr(1), Expr(0))),
                  {1}, Reduce::add, false);
  }

  Lowering& n_;
  Graph& g_;
  Var *x_ = nullptr, *labels_ = nullptr, *label_lengths_ = nullptr, *step_lengths_ = nullptr;
  Dim batch_, steps_, classes_, most_, positions_;
  int64_t blank_ = 0;
};

// log p [N, T, C], labels [N, S], optional lengths of labels [N] and sequences [N] -> minus log of the probability of the
// labels [N]. No way to read them is infinite, or 0 with derivative 0 (`zero_infinity`); labels or lengths that cannot be
// are NaN.
METAC_OPERATOR("ctc_loss", "metac")
    .since({1})
    .inputs(2, 4)
    .outputs(1)
    .attribute("blank", Attribute::Kind::integer)
    .attribute("zero_infinity", Attribute::Kind::integer)
    .lower([](Lowering& n) { Ctc(n).run(); });

}  // namespace
}  // namespace metac
