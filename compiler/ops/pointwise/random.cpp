// Uniform random numbers for JSON programs and training steps, by a seed and a counter that the caller gives.
#include "compiler/ops/meta/meta_binding.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/pointwise/random_bits.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// out[i] = a float32 in [0, 1) of 24 random bits, by (seed, call, stream, i). seed and call are int64 scalars.
METAC_OPERATOR("random", "metac")
    .since({1})
    .inputs(2, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .attribute("stream", Kind::integer)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      std::vector<Var*> operands;
      for (size_t i = 0; i < n.input_count(); ++i) operands.push_back(n.input(i));
      for (size_t i = 0; i < 2; ++i)
        if (operands[i]->dtype() != DType::i64 || operands[i]->rank() != 0)
          fail("the ", i == 0 ? "seed" : "call", " is an int64 scalar, this is ", name_of(operands[i]->dtype()),
               " of shape ", to_string(operands[i]->shape()));
      MetaScope scope(g, operands, n.node().inputs);
      for (const std::string& definition : n.strings("let")) scope.define(definition);
      Shape shape = scope.shape(n.strings("shape"));
      int64_t stream = n.integer("stream", 0);
      if (stream < 0 || stream > 0x7fffffff) fail("stream ", stream, " is not in 0..2^31-1");
      Expr seed = load(0, DType::i64, {}), count = load(1, DType::i64, {});
      Expr element = linear_index(shape, identity_indices(static_cast<int>(shape.size())));
      Expr bits = random_words(seed, count, stream, element).first;  // a step of 10 ms repeats after 500 days
      n.set_output(0, g.elementwise({operands[0], operands[1]}, shape, unit_interval(bits)));
    });

}  // namespace
}  // namespace metac
