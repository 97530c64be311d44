#!/usr/bin/env python3
"""Random graphs whose weights change: a session that was given new ones answers as one that was opened with them.

    python3 new_weights.py --build build/ci [--count 40] [--first 0] [--seed 1] [--nodes 8] [--only NAME,NAME]
    needs: pip install numpy onnx onnxruntime

The graphs are those of random_graphs.py; most of their inputs become initialisers. They get other elements, their own in another
order or others of the same dtype, some at a time; both sessions must then say the same to the bit, or both refuse. So what
the compiler took for granted of a weight (a scale, an exponent, what it folded) shows. Ends with 'N passed, N failed, N skipped'.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools"), str(HERE.parents[0] / "conformance")]
import reference_cases  # noqa: E402
from check_graphs import check_graphs  # noqa: E402

# Of which the compiler looks at floats: every other graph has no others.
LOOKED_AT = ("Add", "Cast", "Clip", "Mul", "Pad", "Pow", "QuantizeLinear", "Range", "Resize")


def model_of(graph, given):
    """The graph's model; `given` are inputs, all others initialisers."""
    made = {v.name for s in graph.steps for v in s.outputs}
    needed = {v.name: v.array for s in graph.steps for v in s.inputs if v.name not in made}
    outputs = [v.name for s in graph.steps for v in s.outputs]
    weights = {k: v for k, v in needed.items() if k not in given}
    model = reference_cases.build_model([s.proto for s in graph.steps], given, outputs, graph.opset, weights)
    for output in model.graph.output:  # new weights may mean other shapes
        output.type.tensor_type.ClearField("shape")
    return model, weights


def drawn_anew(rng, array):
    other = rng.permutation(array.reshape(-1)).reshape(array.shape)
    if array.dtype == bool:
        return ~array if rng.random() < 0.5 else other
    if array.dtype.kind in "iu" or rng.random() < 0.4:
        return other
    return (array + array.dtype.type(rng.integers(1, 3))).astype(array.dtype)


def with_weights(model, weights):
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for initializer in changed.graph.initializer:
        if initializer.name in weights:
            initializer.CopyFrom(numpy_helper.from_array(weights[initializer.name], initializer.name))
    return changed.SerializeToString()


class Answer:
    def __init__(self, run):
        import metac
        try:
            self.outputs, self.refusal = {k: np.array(v) for k, v in run().items()}, None
        except metac.Error as error:
            self.outputs, self.refusal = None, str(error)

    def __eq__(self, other):
        if self.refusal or other.refusal:
            return bool(self.refusal) == bool(other.refusal)
        return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(self.outputs.values(), other.outputs.values()))


def check(graph, rng):
    """What differs, or None; "" where there is nothing to see."""
    import metac
    data = [v for v in graph.inputs if any(v.name == i.name for s in graph.steps for i in s.inputs)]
    given = {v.name: v.array for v in data if rng.random() < 0.4}
    model, weights = model_of(graph, given)
    names = [n for n, a in weights.items() if a.size and a.dtype.kind in "fiub"]  # bfloat16 has no buffers
    if not names:
        return ""
    policy = "never" if rng.random() < 0.5 else "eager"
    session = metac.Session(model.SerializeToString(), specialise=policy)
    if Answer(lambda: session.run(given)).refusal:
        return ""
    new = {}
    for _ in range(2):
        some = {n: drawn_anew(rng, weights[n]) for n in names if rng.random() < 0.5}
        new.update(some)
        session.set_weights(some)
        expected = Answer(lambda: metac.Session(with_weights(model, new), specialise=policy).run(given))
        if Answer(lambda: session.run(given)) != expected:
            return f"new {', '.join(some)} of {policy}; {' '.join(s.proto.op_type for s in graph.steps)}"
        if expected.refusal:
            break
    return None


if __name__ == "__main__":
    sys.exit(check_graphs(__doc__, check, salt=7, every_other=LOOKED_AT, nodes=8))
