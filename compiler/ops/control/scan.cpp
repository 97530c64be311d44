// Scan: a Loop over the positions of the scan inputs' axes. States are carried, each scan input is read at the iteration
// symbol, each scan output is stacked by the loop and then turned to the axis and direction asked for.
#include "compiler/ops/control/carried_loop.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// x at `position` along `along`, without that axis.
Var* at_position(Graph& g, Var* x, int along, Expr position) {
  Shape shape = x->shape();
  shape.erase(shape.begin() + along);
  std::vector<Expr> indices = identity_indices(x->rank() - 1);
  indices.insert(indices.begin() + along, position);
  return g.reindex({x}, shape, indices);
}

Var* reversed(Graph& g, Var* x, int along) {
  std::vector<Expr> indices = identity_indices(x->rank());
  indices[along] = x->shape()[along] - Expr(1) - axis(along);
  return g.reindex({x}, x->shape(), indices);
}

Var* first_axis_to(Graph& g, Var* x, int to) {
  if (to == 0) return x;
  std::vector<int> perm;
  for (int k = 1; k < x->rank(); ++k) perm.push_back(k);
  perm.insert(perm.begin() + to, 0);
  return transpose(g, x, perm);
}

struct ScanAxes {
  std::vector<int> inputs;       // along which each scan input is read
  std::vector<int64_t> outputs;  // to which each scan output is stacked (may be negative)
  std::vector<bool> inputs_backward, outputs_backward;
};

std::vector<bool> directions(const Lowering& n, const char* name, size_t count) {
  std::vector<int64_t> given = n.integers(name, std::vector<int64_t>(count, 0));
  if (given.size() != count) fail(name, " has ", given.size(), " entries, expected ", count);
  std::vector<bool> out;
  for (int64_t d : given) {
    if (d != 0 && d != 1) fail(name, " holds ", d, ", it must be 0 or 1");
    out.push_back(d == 1);
  }
  return out;
}

std::vector<Var*> lower_scan(Lowering& n, const ModelGraph& body, const std::vector<Var*>& states,
                             const std::vector<Var*>& sequences, const ScanAxes& axes) {
  Graph& g = n.graph();
  Dim length = sequences[0]->shape()[axes.inputs[0]];
  for (size_t k = 1; k < sequences.size(); ++k) {
    Dim other = sequences[k]->shape()[axes.inputs[k]];
    g.require(equal(length, other),
              concat("scan input ", k, " has ", to_string(other), " positions, scan input 0 has ", to_string(length)));
  }
  CarriedLoop loop;
  loop.trip_count = scalar_of(g, length);
  loop.trips = length;
  loop.initial = states;
  Op* op = loop.build(g, [&](Expr iteration, const std::vector<Var*>& carried) {
    std::vector<Var*> arguments = carried;
    for (size_t k = 0; k < sequences.size(); ++k)
      arguments.push_back(
          at_position(g, sequences[k], axes.inputs[k], axes.inputs_backward[k] ? length - Expr(1) - iteration : iteration));
    std::vector<Var*> results = n.inline_subgraph(body, arguments);
    results.insert(results.begin(), nullptr);
    return results;
  });
  std::vector<Var*> out(op->outputs.begin(), op->outputs.begin() + static_cast<int64_t>(states.size()));
  for (size_t k = states.size(); k < op->outputs.size(); ++k) {
    Var* stacked = op->outputs[k];
    size_t i = k - states.size();
    int to = check_axis(axes.outputs[i], stacked->rank(), "an entry of scan_output_axes");
    if (axes.outputs_backward[i]) stacked = reversed(g, stacked, 0);
    out.push_back(first_axis_to(g, stacked, to));
  }
  return out;
}

void check_counts(const Lowering& n, const ModelGraph& body, size_t given, int64_t scans) {
  if (scans < 1 || scans > static_cast<int64_t>(given))
    fail("num_scan_inputs is ", scans, ", the node has ", given, " states and scan inputs");
  size_t states = given - static_cast<size_t>(scans);
  if (body.inputs.size() != given) fail("the body takes ", body.inputs.size(), " inputs, the node gives ", given);
  if (body.outputs.size() < states) fail("the body gives ", body.outputs.size(), " outputs, there are ", states, " states");
  if (n.output_count() != body.outputs.size())
    fail("the body gives ", body.outputs.size(), " outputs, the node has ", n.output_count());
}

// Opset 8: a leading input for sequence lengths, and a batch axis in front of everything: a loop over the batch.
void lower_batched_scan(Lowering& n) {
  Graph& g = n.graph();
  const ModelGraph& body = *n.subgraph("body");
  if (n.optional_input(0)) fail("sequence_lens is not supported; give all sequences the same length");
  size_t given = n.input_count() - 1;
  int64_t scans = n.integer("num_scan_inputs", 0);
  check_counts(n, body, given, scans);
  size_t states = given - static_cast<size_t>(scans), scan_outputs = body.outputs.size() - states;
  for (size_t k = 0; k < given; ++k)
    if (n.input(k + 1)->rank() < (k < states ? 1 : 2))
      fail("input ", k + 1, " of shape ", to_string(n.input(k + 1)->shape()), " has no batch and sequence axis");
  Dim batch = n.input(1)->shape()[0];
  for (size_t k = 1; k < given; ++k)
    g.require(equal(batch, n.input(k + 1)->shape()[0]),
              concat("input ", k + 1, " of shape ", to_string(n.input(k + 1)->shape()), " differs from the batch of ",
                     to_string(batch)));
  ScanAxes axes{std::vector<int>(scans, 0), std::vector<int64_t>(scan_outputs, 0),
                directions(n, "directions", static_cast<size_t>(scans)), std::vector<bool>(scan_outputs, false)};
  CarriedLoop loop;
  loop.trip_count = scalar_of(g, batch);
  loop.trips = batch;
  Op* op = loop.build(g, [&](Expr iteration, const std::vector<Var*>&) {
    std::vector<Var*> own_states, sequences;
    for (size_t k = 0; k < given; ++k)
      (k < states ? own_states : sequences).push_back(at_position(g, n.input(k + 1), 0, iteration));
    std::vector<Var*> results = lower_scan(n, body, own_states, sequences, axes);
    results.insert(results.begin(), nullptr);
    return results;
  });
  for (size_t k = 0; k < op->outputs.size(); ++k) n.set_output(k, op->outputs[k]);
}

void lower_plain_scan(Lowering& n) {
  const ModelGraph& body = *n.subgraph("body");
  int64_t scans = n.integer("num_scan_inputs", 0);
  check_counts(n, body, n.input_count(), scans);
  size_t count = static_cast<size_t>(scans), first = n.input_count() - count, scan_outputs = body.outputs.size() - first;
  std::vector<Var*> states, sequences;
  for (size_t k = 0; k < n.input_count(); ++k) (k < first ? states : sequences).push_back(n.input(k));
  std::vector<int64_t> along = n.integers("scan_input_axes", std::vector<int64_t>(count, 0)),
                       to = n.integers("scan_output_axes", std::vector<int64_t>(scan_outputs, 0));
  if (along.size() != count) fail("scan_input_axes has ", along.size(), " entries, there are ", count, " scan inputs");
  if (to.size() != scan_outputs)
    fail("scan_output_axes has ", to.size(), " entries, there are ", scan_outputs, " scan outputs");
  ScanAxes axes{
      {}, to, directions(n, "scan_input_directions", count), directions(n, "scan_output_directions", scan_outputs)};
  for (size_t k = 0; k < count; ++k)
    axes.inputs.push_back(check_axis(along[k], sequences[k]->rank(), "an entry of scan_input_axes"));
  std::vector<Var*> out = lower_scan(n, body, states, sequences, axes);
  for (size_t k = 0; k < out.size(); ++k) n.set_output(k, out[k]);
}

METAC_OPERATOR("Scan")
    .since({8, 9, 11, 16, 19, 21, 23, 24, 25})
    .inputs(1, -1)
    .outputs(1, -1)
    .required("num_scan_inputs", Kind::integer)
    .required("body", Kind::graph)
    .attribute("directions", Kind::integers, 8, 9)
    .attribute("scan_input_axes", Kind::integers, 9)
    .attribute("scan_output_axes", Kind::integers, 9)
    .attribute("scan_input_directions", Kind::integers, 9)
    .attribute("scan_output_directions", Kind::integers, 9)
    .lower([](Lowering& n) { n.opset() == 8 ? lower_batched_scan(n) : lower_plain_scan(n); });

}  // namespace
}  // namespace metac
