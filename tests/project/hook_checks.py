"""Functions of the caller's that a context calls: its log, its memory, what hears of progress. Tensors with strides, shared arenas."""
import os
import pathlib
import sys

from checks import command, expect

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "models/digits"


class HookChecks:
    """Of run_project.py's Checks."""

    def hooks_under_sanitizers(self):
        if not self.rival.exists():
            self.compile(self.rival, "--grad=inputs")
        kept = self._library_with_a_state()
        programs = {"logs": (), "memory_hooks": (kept,), "progress": (), "strided": (), "arenas": ()}
        build = self.build_programs("build hooks", "-O1 -DNDEBUG -fsanitize=address,undefined -g1", *programs)
        for program, arguments in programs.items():
            said = command(build / program, *arguments, cwd=build)
            expect(said.strip() == "right", f"{program}: {said}")

    def hooks_from_python(self):
        script = """
import numpy as np, first
one = np.load(%r)
said, heard, cancels = [], [], False
def hear(done, total):
    heard.append((done, total))
    if cancels: m.cancel()
m = first.Model(threads=1, log=lambda level, text: said.append((level, text)), progress=hear)
assert {level for level, text in said} == {"info"} and any(m.cpu in text for level, text in said), said
right = m.run([one])["probabilities"]
many = np.repeat(one, 30000, 0)
assert (m.run([many])["probabilities"] == right).all()
assert len(heard) > 1 and heard == sorted(heard) and heard[-1][0] == heard[-1][1], heard
cancels = True
try: m.run([many]); raise SystemExit("not cancelled")
except first.Error as e: assert e.status == 9 and said[-1] == ("error", str(e)), said[-1]
cancels = False
assert (m.run([one])["probabilities"] == right).all()
# A queue's contexts have the same functions.
before = len(said)
with m.queue(max_batch=2) as queue:
    assert (queue.run({"image": one})["probabilities"] == right).all()
assert any("runs" in text for level, text in said[before:]), said[before:]
""" % str(DIGITS / "digit_3.npy")
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.first / "python")}, cwd=self.work)

    def _library_with_a_state(self):
        """Of rows x: a state that grows by them, a value whose size the data decide, kernels between."""
        import numpy
        import onnx
        from onnx import TensorProto, helper

        nodes = [helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in (
            ("Concat", ["s", "x"], ["t"], {"axis": 0}), ("MatMul", ["x", "w"], ["product"]), ("Softmax", ["product"], ["share"]),
            ("Add", ["share", "x"], ["y"]), ("NonZero", ["x"], ["where"]), ("ReduceSum", ["t"], ["sum"]))]
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [dim, 16]) for name, dim in (("x", "n"), ("s", "past"))]
        outputs = [helper.make_tensor_value_info(name, TensorProto.INT64 if name == "where" else TensorProto.FLOAT, None)
                   for name in ("y", "where", "sum", "t")]
        weights = [onnx.numpy_helper.from_array(numpy.eye(16, dtype="f4"), "w")]
        path, folder = self.work / "kept.onnx", self.work / "kept"
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights),
                                    opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        self.compile(folder, "--state", "s=t", model=path)
        return folder / "lib/libkept.so.1"
