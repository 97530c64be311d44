#!/usr/bin/env python3
"""Races decoders of models/decoders: one token behind caches of several lengths, also of several texts at once, and prompts.

    python3 race_decoders.py --metac build/release/bin/metac --keep DIR [--sizes 20m,170m] [--weights f32,int8,int4]
                             [--caches 0,512,4000] [--prompts 512] [--batches 1,4] [--threads 2] [--rounds 8] [--only ENGINE,...]
    needs: pip install numpy onnx onnxruntime openvino gguf llama-cpp-python; an engine that is not installed is left out

Every engine has the same weights' sizes, a process of its own, and its own best way to keep the cache: metac its states,
ONNX Runtime buffers that past and present share, OpenVINO states of its own, llama.cpp its cache in float16. f32, int8 and
int4 are F32, Q8_0 and Q4_0 for llama.cpp, whose activations are quantised then; int8-a4 and int4-a4 have accuracy_level 4,
where the others' may be as well. bf16 is a float32 model that metac compiles with --precision bfloat16, ONNX Runtime runs
as it is, and llama.cpp has in BF16. Engines take turns; a round is the fastest of 20 tokens, or a prompt; the table has the median
over the rounds.
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models" / "decoders"))
CONTEXT = 4608
GGUF_TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "int8": "Q8_0", "int8-a4": "Q8_0", "int4": "Q4_0", "int4-a4": "Q4_0"}


# ---- engines: run(ids) appends tokens to the cache of each of `batch` texts, truncate(n) keeps n of them ----
def feeds_of(ids, length, batch):
    return {"input_ids": np.array([ids] * batch, np.int64), "attention_mask": np.ones((batch, length), np.int64)}


class Metac:
    def __init__(self, files, threads, batch):
        sys.path.insert(0, str(files["metac"] / "python"))
        import decoder
        self.model, self.length, self.batch = decoder.Model(threads=threads), 0, batch

    def truncate(self, length):
        if length:
            self.model.state_truncate(length)
        else:
            self.model.state_reset()
        self.length = length

    def run(self, ids):
        self.length += len(ids)
        if len(ids) > 1 and self.batch == 1:  # a prompt, up to the first token that is chosen
            made = self.model.generate(list(ids), 1).tokens
            self.model.state_truncate(self.length)  # without the token, which would be read next time
            return made
        return self.model.run(feeds_of(ids, self.length, self.batch))["logits"]


class Onnxruntime:
    def __init__(self, files, threads, batch):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        self.session, self.length = onnxruntime.InferenceSession(str(files["onnx"]), options, providers=["CPUExecutionProvider"]), 0
        self.caches, self.batch = {}, batch
        for value in self.session.get_inputs():
            if value.name.startswith("past"):
                array = np.zeros((batch, value.shape[1], CONTEXT, value.shape[3]), np.float32)
                self.caches[value.name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)

    def truncate(self, length):
        self.length = length

    def run(self, ids):
        self.length += len(ids)
        binding = self.session.io_binding()
        for name, array in feeds_of(ids, self.length, self.batch).items():
            binding.bind_cpu_input(name, array)
        for name, value in self.caches.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
        binding.bind_output("logits")
        self.session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy() if len(ids) == 1 else None


class Openvino:
    def __init__(self, files, threads, batch):
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation
        core = openvino.Core()
        network = core.read_model(str(files["onnx"]))
        names = {v.get_any_name() for v in network.inputs}
        pairs = {n: n.replace("past_key_values", "present") for n in names if n.startswith("past")}
        network.reshape({v: [batch if str(d) == "batch_size" else d for d in v.get_partial_shape()] for v in network.inputs})
        apply_make_stateful_transformation(network, pairs)
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
        self.request, self.length, self.batch = core.compile_model(network, "CPU", settings).create_infer_request(), 0, batch

    def truncate(self, length):
        import openvino
        if length == 0:
            self.request.reset_state()
        elif self.length != length:
            for state in self.request.query_state():
                state.state = openvino.Tensor(np.ascontiguousarray(state.state.data[:, :, :length]))
        self.length = length

    def run(self, ids):
        self.length += len(ids)
        return next(iter(self.request.infer(feeds_of(ids, self.length, self.batch), share_outputs=True).values()))


class LlamaCpp:
    def __init__(self, files, threads, batch):
        import llama_cpp
        self.api, self.length, self.texts = llama_cpp, 0, batch
        llama_cpp.llama_backend_init()
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        self.model = llama_cpp.llama_model_load_from_file(str(files["gguf"]).encode(), llama_cpp.llama_model_default_params())
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch, parameters.n_seq_max = CONTEXT * batch, 512, 512, batch
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)

    def truncate(self, length):
        memory = self.api.llama_get_memory(self.context)
        for text in range(self.texts):
            self.api.llama_memory_seq_rm(memory, text, length, -1)
        self.length = length

    def run(self, ids):
        most = 512 // self.texts
        for start in range(0, len(ids), most):
            part, b = ids[start:start + most], self.batch
            b.n_tokens = len(part) * self.texts
            for k in range(b.n_tokens):
                text, i = divmod(k, len(part))
                b.token[k], b.pos[k], b.n_seq_id[k], b.seq_id[k][0], b.logits[k] = part[i], self.length + i, 1, text, i == len(part) - 1
            if self.api.llama_decode(self.context, b):
                raise RuntimeError("llama_decode")
            self.length += len(part)
        return self.api.llama_get_logits(self.context)[0]  # waits for them


ENGINES = {"metac": Metac, "onnxruntime": Onnxruntime, "openvino": Openvino, "llama.cpp": LlamaCpp}


def serve(engine, files, threads, batch):
    """Answers lines `tokens CACHE COUNT` and `prompt LENGTH COUNT` with a JSON list of ms."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    e = ENGINES[engine]({k: pathlib.Path(v) for k, v in files.items()}, threads, batch)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, length, count = line.split()
        length, ids, times = int(length), [1 + i % 150 for i in range(int(length))], []
        if kind == "tokens" and e.length != length:
            e.truncate(0)
            for start in range(0, length, 512):
                e.run(ids[start:start + 512])
        for _ in range(int(count)):
            if kind == "prompt":
                e.truncate(0)
            start = time.perf_counter()
            e.run(ids if kind == "prompt" else [7])
            times.append(1e3 * (time.perf_counter() - start))
            if kind == "tokens":
                e.truncate(length)
        print(json.dumps(times), flush=True)


# ---- the race ----
def write_gguf(onnx_file, gguf_file, size, weights):
    """The same sizes with weights of the same spread, in the file format of llama.cpp."""
    import gguf
    s, kind, rng = size, getattr(gguf.GGMLQuantizationType, GGUF_TYPES[weights]), np.random.default_rng(0)
    w = gguf.GGUFWriter(str(gguf_file), "llama")
    w.add_context_length(CONTEXT), w.add_embedding_length(s.hidden), w.add_block_count(s.layers)
    w.add_feed_forward_length(s.intermediate), w.add_head_count(s.heads), w.add_head_count_kv(s.kv_heads)
    w.add_layer_norm_rms_eps(1e-5), w.add_rope_dimension_count(s.head), w.add_vocab_size(s.vocabulary)
    w.add_tokenizer_model("no_vocab")

    def matrix(name, rows, depth, kind=kind):
        data = rng.standard_normal((rows, depth), dtype=np.float32) / np.sqrt(depth)
        w.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)

    matrix("token_embd.weight", s.vocabulary, s.hidden, gguf.GGMLQuantizationType.F32)
    for layer in range(s.layers):
        b = f"blk.{layer}."
        w.add_tensor(b + "attn_norm.weight", np.ones(s.hidden, np.float32))
        w.add_tensor(b + "ffn_norm.weight", np.ones(s.hidden, np.float32))
        matrix(b + "attn_q.weight", s.heads * s.head, s.hidden)
        matrix(b + "attn_k.weight", s.kv_heads * s.head, s.hidden)
        matrix(b + "attn_v.weight", s.kv_heads * s.head, s.hidden)
        matrix(b + "attn_output.weight", s.hidden, s.heads * s.head)
        matrix(b + "ffn_gate.weight", s.intermediate, s.hidden)
        matrix(b + "ffn_up.weight", s.intermediate, s.hidden)
        matrix(b + "ffn_down.weight", s.hidden, s.intermediate)
    w.add_tensor("output_norm.weight", np.ones(s.hidden, np.float32))
    matrix("output.weight", s.vocabulary, s.hidden)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def prepared(size_name, weights, a):
    """The files of one decoder, made where --keep has none yet."""
    import build
    stem = a.keep / f"{size_name}-{weights}"
    files = {"onnx": stem.with_suffix(".onnx"), "gguf": stem.with_suffix(".gguf"), "metac": stem.with_suffix(".metac")}
    if not files["onnx"].exists():
        kind, _, level = weights.partition("-a")
        subprocess.run([sys.executable, build.__file__, files["onnx"], "--size", size_name, "--weights", "f32" if kind == "bf16" else kind,
                        "--accuracy-level", level or "0"], check=True)
    if "llama.cpp" in a.only and not files["gguf"].exists():
        write_gguf(files["onnx"], files["gguf"], build.SIZES[size_name], weights)
    if "metac" in a.only and (a.again or not files["metac"].exists()):
        start = time.monotonic()
        precision = ["--precision", "bfloat16"] if weights == "bf16" else []
        subprocess.run([a.metac, "compile", files["onnx"], "-o", files["metac"], "--name", "decoder", "--generate",
                        "--cpu", "native", *precision, *a.metac_option], check=True, stdout=subprocess.DEVNULL)
        print(f"compiled in {time.monotonic() - start:.0f} s", file=sys.stderr)
    return files


def race(size_name, weights, batch, a):
    files = prepared(size_name, weights, a)
    runners = {}
    for engine in a.only:
        argv = [sys.executable, __file__, "--serve", engine, json.dumps({k: str(v) for k, v in files.items()}), str(a.threads), str(batch)]
        log = open(a.keep / f"{engine}.log", "w")
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        if process.stdout.readline().strip() == "ready":
            runners[engine] = process

    def ask(process, *words):
        time.sleep(0.3)  # the threads of whose turn it was may wait for more work without sleeping, llama.cpp's 0.1 s
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    jobs = [("tokens", n, 20) for n in a.caches] + [("prompt", n, 1) for n in a.prompts if batch == 1]
    for kind, length, count in jobs:
        times = {engine: [] for engine in runners}
        for engine in list(runners):
            try:
                ask(runners[engine], kind, length, 2)
            except (json.JSONDecodeError, BrokenPipeError):
                print(f"{engine} failed, see {a.keep}/{engine}.log", file=sys.stderr)
                del runners[engine], times[engine]
        for _ in range(a.rounds):
            for engine, process in runners.items():
                times[engine].append(min(ask(process, kind, length, count)))
        figures = {engine: statistics.median(t) for engine, t in times.items()}
        peers = [v for k, v in figures.items() if k != "metac"]
        lead = f"{min(peers) / figures['metac']:.2f}" if peers and "metac" in figures else ""
        texts = f"{batch} texts, " if batch > 1 else ""
        print(f"| {size_name} | {weights} | {texts}{kind} {length} | " +
              " | ".join(f"{figures[e]:.2f}" if e in figures else "" for e in a.only) + f" | {lead} |", flush=True)
    for process in runners.values():
        process.stdin.close()
        process.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--metac", type=pathlib.Path, required=True)
    p.add_argument("--keep", type=pathlib.Path, required=True)
    p.add_argument("--sizes", default="20m,170m")
    p.add_argument("--weights", default="f32,int8,int4")
    p.add_argument("--caches", default="0,512,4000")
    p.add_argument("--prompts", default="512")
    p.add_argument("--batches", default="1")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--only", default=",".join(ENGINES))
    p.add_argument("--again", action="store_true", help="compile anew")
    p.add_argument("--metac-option", action="append", default=[])
    a = p.parse_args()
    a.only = a.only.split(",")
    a.caches, a.prompts, a.batches = ([int(n) for n in word.split(",") if n] for word in (a.caches, a.prompts, a.batches))
    a.keep = a.keep.resolve()
    a.keep.mkdir(parents=True, exist_ok=True)
    again = a.again
    print("| size | weights | run | " + " | ".join(a.only) + " | best peer / metac |")
    print("|---|---|---|" + "--:|" * (len(a.only) + 1))
    for size in a.sizes.split(","):
        for weights in a.weights.split(","):
            for batch in a.batches:
                race(size, weights, batch, a)
                a.again = False
            a.again = again


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], json.loads(sys.argv[3]), *map(int, sys.argv[4:]))
    else:
        main()
