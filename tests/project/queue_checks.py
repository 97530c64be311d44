"""Batching queues: requests of many threads that are run together."""
import os
import pathlib
import sys

from checks import command, expect

HERE = pathlib.Path(__file__).resolve().parent


class QueueChecks:
    """Of run_project.py's Checks."""

    def queue_from_c(self):
        folder = self._queued()
        program = self.work / "queues"
        command("cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-Wall", "-Wextra", "-Werror", HERE / "queues.c", f"-I{folder}/include",
                f"-L{folder}/lib", "-lqueued", f"-Wl,-rpath,{folder}/lib", "-pthread", "-o", program)
        said = command(program)
        expect(said.strip() == "right", said)

    def queue_is_linked_where_it_is_used(self):
        folder = self._queued()
        source = self.work / "no_queue.c"
        source.write_text("#include <queued.h>\nint main(void) { return queued_create(NULL, NULL) == QUEUED_OK; }\n")
        command("cc", source, f"-I{folder}/include", folder / "lib/libqueued.a", "-pthread", "-ldl", "-lm", "-o", self.work / "no_queue")
        names = command("nm", self.work / "no_queue")
        expect("queued_run" in names and "queue_create" not in names and "BatchQueue" not in names, "a queue is linked that nobody asks for")

    def queue_from_cpp(self):
        folder = self._queued()
        source = self.work / "queue_user.cpp"
        source.write_text("""
#include <queued.hpp>
#include <cstdio>
int main() {
  queued::Queue queue({sizeof(queued_queue_options), nullptr, 500, 4, 0, 0, 0});
  const float x[] = {1, 2, 3};
  const int64_t index[] = {4};
  const std::vector<queued::Tensor> inputs = {queued::tensor_of(x, {1, 3}), queued::tensor_of(index, {1})};
  std::vector<queued::Tensor> answer(2), other(2);
  queued::Queue::Request first = queue.submit(inputs, answer), second = queue.submit(inputs, other);
  first.wait();
  second.wait();
  const float* y = static_cast<const float*>(answer[0].data);
  std::printf("%d %g %g %g ", first.is_done(), y[0], y[2], static_cast<const float*>(other[1].data)[1]);
  std::vector<queued::Tensor> more(2);
  float room[2][4];
  for (int k = 0; k < 2; ++k) more[k].data = room[k], more[k].bytes = sizeof room[k];
  queue.run(inputs, more);
  try {
    queue.run({inputs[0]}, more);
  } catch (const queued::Error& error) {
    std::printf("%g %d %s; ", room[1][3], error.status, error.what());
  }
  queue.stop();
  std::printf("%lld", static_cast<long long>(queue.counters().run));
}
""")
        command("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", source, f"-I{folder}/include", folder / "lib/libqueued.a", "-pthread", "-ldl", "-lm", "-o", self.work / "queue_user")
        (self.work / "queued.weights").write_bytes((folder / "queued.weights").read_bytes())
        said = command(self.work / "queue_user")
        expect(said == "1 4 10 17 19 1 1 inputs given, the model has 2; 3", said)

    def queue_from_python(self):
        self._queue_script("""
import os, threading, time, numpy as np, queued
def request(length, rows, first):
    return {"x": np.arange(rows * length, dtype="f4").reshape(rows, length) + first, "index": np.arange(rows) % 5}
def right(asked, answer):
    table = np.arange(20, dtype="f4").reshape(5, 4)
    return (answer["y"] == 3 * asked["x"] + 1).all() and (answer["picked"] == table[asked["index"]]).all()
model = queued.Model(threads=1)
# Within the deadline all that came are one batch; each has its rows.
queue = model.queue(max_batch=64, max_delay=1)
begin = time.monotonic()
asked = [request(4, 1 + k % 3, k) for k in range(6)]
made = [queue.submit(a) for a in asked]
assert not made[0].done()
assert all(right(a, r.result()) for a, r in zip(asked, made)) and made[0].done() and made[0].result() is made[0].result()
told, took = queue.counters, time.monotonic() - begin
assert 1 <= took < 60 and told["batches"] == 1 and told["mean_batch"] == 12 and told["run"] == told["requests"] == 6, (took, told)
assert 0 < told["waited"] <= 6 * took, told
# A batch that is full does not wait; other lengths are other batches.
queue = model.queue(max_batch=4, max_delay=3600)
made = [(a, queue.submit(a)) for a in (request(3 + k % 2, 1, k) for k in range(8))]
assert all(right(a, r.result()) for a, r in made) and queue.counters["batches"] == 2 and queue.counters["mean_batch"] == 4
# What is wrong with one is told to it alone.
good, bad = queue.submit(request(3, 2, 1)), queue.submit({**request(3, 2, 1), "index": [1, 99]})
assert right(request(3, 2, 1), good.result())
try: bad.result(); raise SystemExit("an index of 99")
except queued.Error as e: assert e.status in (1, 2) and str(e), e
for wrong, word in (({"x": np.zeros((2, 3, 1), "f4"), "index": [0, 1]}, "rank 3, expected 2"), ({"x": np.zeros((0, 3), "f4"), "index": []}, "0 rows, expected 1 to 4"),
                    (request(3, 5, 0), "5 rows, expected 1 to 4"), ({"x": np.zeros((2, 3), "f4"), "index": [0]}, 'input "index" has 1 rows, the inputs before it have 2')):
    try: queue.submit(wrong); raise SystemExit("accepted what must say " + word)
    except queued.Error as e: assert e.status == 1 and word in str(e), e
# Memory of the caller's, and arrays that outlive the request.
out = np.zeros((4, 3), "f4")
answer = queue.run(request(3, 4, 5), {"y": out})
assert right(request(3, 4, 5), answer) and (out == answer["y"]).all() and answer["y"].base is not None
# Cancelled, full, closed.
queue = model.queue(max_batch=64, max_delay=3600, max_pending=2)
first, second = queue.submit(request(3, 1, 0)), queue.submit(request(3, 1, 1))
try: queue.submit(request(3, 1, 2)); raise SystemExit("not full")
except queued.Error as e: assert e.status == 10 and "max_pending" in str(e), e
first.cancel()
third, dropped = queue.submit(request(3, 1, 2)), None
del third
with queue: dropped = queue.submit(request(3, 1, 3))
assert right(request(3, 1, 1), second.result()) and right(request(3, 1, 3), dropped.result())
for call in (first.result, lambda: queue.run(request(3, 1, 2))):
    try: call(); raise SystemExit("not cancelled")
    except queued.Error as e: assert e.status == 9, e
queue = model.queue(max_batch=64, max_delay=3600)
waiting = queue.submit(request(3, 1, 0))
queue.close(drain=False)
try: waiting.result(); raise SystemExit("not cancelled")
except queued.Error as e: assert e.status == 9 and "stopped" in str(e), e
# Many threads, two batches at once.
with model.queue(max_batch=8, max_delay=0.002, contexts=2) as queue:
    wrong = []
    def client(me):
        for k in range(40):
            asked = request(2 + (me + k) % 3, 1 + k % 2, me)
            if not right(asked, queue.run(asked)): wrong.append((me, k))
    clients = [threading.Thread(target=client, args=(me,)) for me in range(8)]
    for c in clients: c.start()
    for c in clients: c.join()
    assert not wrong and queue.counters["run"] == 320, wrong
    # In the child of a fork: its own threads; what the parent waits for is cancelled there.
    busy = threading.Thread(target=client, args=(0,))
    busy.start()
    for k in range(5):
        held = model.queue(max_batch=64, max_delay=3600)
        waiting = held.submit(request(3, 1, 0))
        child = os.fork()
        if child == 0:
            asked, good = request(3, 2, 7), True
            for turn in range(3): good &= right(asked, queue.run(asked))
            try: waiting.result(); good = False
            except queued.Error as e: good &= e.status == 9 and "forked" in str(e)
            held.close()
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        held.close()
        assert right(request(3, 1, 0), waiting.result())
    busy.join()
for bad, word in ((dict(max_batch=-1), "max_batch is -1; expected 0"), (dict(max_delay=1e6), "max_delay_us"), (dict(contexts=5000), "contexts is 5000")):
    try: model.queue(**bad); raise SystemExit("accepted what must say " + word)
    except queued.Error as e: assert e.status == 1 and word in str(e), e
model.set_weights({p.name: np.zeros(p.shape, p.dtype) for p in model.parameters})
try: model.queue(); raise SystemExit("another's weights")
except ValueError as e: assert "write_weights" in str(e), e
""")

    def queue_needs_one_open_batch(self):
        """Which models have no queue, and why: it is told where one is made."""
        from onnx import TensorProto, helper
        two = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in (("x", ["a", 2]), ("z", ["b", 2]), ("y", ["a", 2]), ("w", ["b", 2]))]
        ranged = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 2]) for n in ("x", "y")]
        nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Neg", ["z"], ["w"])]
        self._save("two", helper.make_graph(nodes, "g", two[:2], two[2:]))
        self._save("ranged", helper.make_graph(nodes[:1], "g", ranged[:1], ranged[1:]))
        kept = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in ("s", "t")]
        self._save("kept", helper.make_graph([helper.make_node("Neg", ["s"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])], "g", [ranged[0], kept[0]], [ranged[1], kept[1]]))
        self.identity(self.work / "fixed.onnx", [1, 4])
        for name, options, expected in (("fixed", (), 'the first dim of input "x" is 1; a queue needs it to be open'),
                                        ("kept", ("--state", "s=t"), "the model has states"),
                                        ("two", (), 'the first dim of input "z" is "b", and that of input "x" is "a"'),
                                        ("ranged", ("--dim", "batch=1..8"), "max_batch is 9: ")):
            self.compile(self.work / f"no_{name}", *options, model=self.work / f"{name}.onnx")
            self._queue_script("""
import sys
sys.path.insert(0, %r)
import no_%s as net
net.Model().queue(max_batch=8) if "9" in %r else None
try: net.Model().queue(max_batch=9); raise SystemExit("a queue")
except net.Error as e: assert %r in str(e) and e.status in (1, 4), (e.status, e)
""" % (str(self.work / f"no_{name}/python"), name, expected, expected))

    def _queue_script(self, script):
        command(sys.executable, "-c", script, cwd=self.work, timeout=300,
                env={**os.environ, "PYTHONPATH": str(self._queued() / "python"), "OPENBLAS_NUM_THREADS": "1"})

    def _save(self, name, graph):
        import onnx
        from onnx import helper
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.work / f"{name}.onnx")

    def _queued(self):
        """A library of rows that are multiplied and rows that are looked up, with two open dims. An index beyond 4 makes it shape the 20
        numbers of the table into rows of 7, which is a failure of the run."""
        folder = self.work / "queued"
        if folder.exists():
            return folder
        import numpy as np
        from onnx import TensorProto, helper, numpy_helper
        values = {"three": np.float32(3), "zero": np.float32(0), "table": np.arange(20, dtype="f4").reshape(5, 4), "most": np.int64(4), "seven": np.int64([7]), "one": np.int64([1]),
                  "rest": np.int64([-1]), "of_one": np.float32(1)}
        constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
        nodes = [helper.make_node(*node) for node in (
            ("Gather", ["table", "index"], ["picked"]), ("ReduceMax", ["index"], ["largest"]), ("Greater", ["largest", "most"], ["beyond"]), ("Where", ["beyond", "seven", "one"], ["row"]),
            ("Concat", ["row", "rest"], ["shape"]), ("Reshape", ["table", "shape"], ["shaped"]), ("ReduceSum", ["shaped"], ["sum"]), ("Mul", ["sum", "zero"], ["none"]), ("Mul", ["x", "three"], ["m"]),
            ("Add", ["m", "of_one"], ["n"]), ("Add", ["n", "none"], ["y"]))]
        for node in nodes:
            if node.op_type in ("ReduceMax", "ReduceSum"):
                node.attribute.append(helper.make_attribute("keepdims", 0))
            if node.op_type == "Concat":
                node.attribute.append(helper.make_attribute("axis", 0))
        ports = [helper.make_tensor_value_info(*port) for port in (("x", TensorProto.FLOAT, ["batch", "length"]), ("index", TensorProto.INT64, ["batch"]),
                                                                   ("y", TensorProto.FLOAT, ["batch", "length"]), ("picked", TensorProto.FLOAT, ["batch", 4]))]
        self._save("queued", helper.make_graph(nodes, "g", ports[:2], ports[2:], constants))
        self.compile(folder, model=self.work / "queued.onnx")
        return folder
