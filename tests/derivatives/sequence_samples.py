"""Recurrent operators, attention, and control flow."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from samples import Fixed, node, operator, program, torch

SIGMOID, TANH = (lambda v: torch.sigmoid(v)), (lambda v: torch.tanh(v))
ACTIVATIONS = {"Sigmoid": SIGMOID, "Tanh": TANH, "Softsign": lambda v: v / (1 + v.abs()), "Affine": lambda v: 0.5 * v + 0.25, "Relu": lambda v: torch.relu(v)}


def recurrent(a, x, w, r, b, lengths, initial, gates, default, step):
    """ONNX's equations with PyTorch's functions. step(x*W' + Wb, state, R, Rb, activations) -> states."""
    if a.get("layout", 0):
        x, initial = x.transpose(0, 1), [None if s is None else s.transpose(0, 1) for s in initial]
    time, batch, hidden = x.shape[0], x.shape[1], a.hidden_size
    direction = a.get("direction", "forward")
    names = a.get("activations", default * w.shape[0])
    ys, finals = [], []
    for d in range(w.shape[0]):
        f = [ACTIVATIONS[name] for name in names[d * len(default):(d + 1) * len(default)]]
        wb, rb = (torch.zeros(2, gates * hidden, dtype=x.dtype) if b is None else b[d].reshape(2, -1))
        state = [torch.zeros(batch, hidden, dtype=x.dtype) if s is None else s[d] for s in initial]
        out = [None] * time
        for t in reversed(range(time)) if direction == "reverse" or d == 1 else range(time):
            new = step(x[t] @ w[d].T + wb, state, r[d], rb, f, d)
            alive = torch.ones(batch, 1, dtype=torch.bool) if lengths is None else (t < lengths)[:, None]
            state = [torch.where(alive, n, s) for n, s in zip(new, state)]
            out[t] = torch.where(alive, new[0], torch.zeros_like(new[0]))
        ys.append(torch.stack(out) if time else torch.zeros(0, batch, hidden, dtype=x.dtype))
        finals.append(state)
    y, finals = torch.stack(ys, 1), [torch.stack([s[k] for s in finals]) for k in range(len(finals[0]))]
    if a.get("layout", 0):
        y, finals = y.permute(2, 0, 1, 3), [s.transpose(0, 1) for s in finals]
    return (y, *finals)


def clipped(a, v):
    return torch.clamp(v, -a.clip, a.clip) if "clip" in a else v


def rnn(a, x, w, r, b=None, lengths=None, h=None):
    return recurrent(a, x, w, r, b, lengths, [h], 1, ["Tanh"], lambda v, s, r, rb, f, d: [f[0](clipped(a, v + s[0] @ r.T + rb))])


def gru(a, x, w, r, b=None, lengths=None, h=None):
    n = a.hidden_size

    def step(v, s, r, rb, f, d):
        update = f[0](clipped(a, v[:, :n] + s[0] @ r[:n].T + rb[:n]))
        reset = f[0](clipped(a, v[:, n:2 * n] + s[0] @ r[n:2 * n].T + rb[n:2 * n]))
        inner = reset * (s[0] @ r[2 * n:].T + rb[2 * n:]) if a.get("linear_before_reset", 0) else (reset * s[0]) @ r[2 * n:].T + rb[2 * n:]
        return [(1 - update) * f[1](clipped(a, v[:, 2 * n:] + inner)) + update * s[0]]
    return recurrent(a, x, w, r, b, lengths, [h], 3, ["Sigmoid", "Tanh"], step)


def lstm(a, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
    n = a.hidden_size

    def step(v, s, r, rb, f, d):
        p = torch.zeros(3 * n, dtype=x.dtype) if peepholes is None else peepholes[d]
        v = v + s[0] @ r.T + rb
        i = f[0](clipped(a, v[:, :n] + p[:n] * s[1]))
        forget = 1 - i if a.get("input_forget", 0) else f[0](clipped(a, v[:, 2 * n:3 * n] + p[2 * n:] * s[1]))
        cell = forget * s[1] + i * f[1](clipped(a, v[:, 3 * n:]))
        o = f[0](clipped(a, v[:, n:2 * n] + p[n:2 * n] * cell))
        return [o * f[2](cell), cell]
    return recurrent(a, x, w, r, b, lengths, [h, c], 4, ["Sigmoid", "Tanh", "Tanh"], step)


@operator("RNN", "GRU", "LSTM")
def recurrent_operator(source, name):
    gates, reference, states = {"RNN": (1, rnn, 1), "GRU": (3, gru, 1), "LSTM": (4, lstm, 2)}[name]
    extra = {"RNN": [{"activations": ["Softsign"]}, {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.25]}], "GRU": [{"linear_before_reset": 1}], "LSTM": [{"input_forget": 1}]}[name]
    for time, batch, inputs, hidden in [(3, 2, 2, 2), (1, 1, 3, 2), (2, 0, 2, 2), (4, 1, 1, 3)]:
        for more in [{}, {"direction": "reverse"}, {"direction": "bidirectional"}, {"clip": 5.0}] + extra:
            d = 2 if more.get("direction") == "bidirectional" else 1
            layout = int(source.rng.integers(0, 2))
            x = source.real(time, batch, inputs)
            initial = [source.real(d, batch, hidden) for _ in range(states)]
            if layout:
                x, initial = x.transpose(1, 0, 2).copy(), [s.transpose(1, 0, 2).copy() for s in initial]
            w, r, b = source.real(d, gates * hidden, inputs), source.real(d, gates * hidden, hidden), source.real(d, 2 * gates * hidden)
            peepholes = [source.real(d, 3 * hidden)] if name == "LSTM" else []
            outputs = 1 + states
            lengths = source.ints(batch, low=1, high=time + 1).astype(np.int32)
            yield node(name, x, w, r, b, lengths, *initial, *peepholes, outputs=outputs, hidden_size=hidden, layout=layout, reference=reference, **more)
            yield node(name, x, w, r, outputs=outputs, hidden_size=hidden, layout=layout, reference=reference, **more)


# ---- attention ----
def heads_of(x, heads):
    """[batch, time, heads * size] as [batch, time, heads, size]."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def attention(a, q, k, v, mask=None, past_key=None, past_value=None):
    three = q.dim() == 3
    if three:
        q = heads_of(q, a.q_num_heads).transpose(1, 2)
        k, v = (heads_of(x, a.kv_num_heads).transpose(1, 2) for x in (k, v))
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    present = (k, v)
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    scores = q @ k.mT * a.get("scale", q.shape[-1] ** -0.5)
    if a.get("softcap", 0.0):
        scores = a.softcap * torch.tanh(scores / a.softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if a.get("is_causal", 0):
        rows, columns = torch.arange(q.shape[2])[:, None] + past, torch.arange(k.shape[2])[None]
        scores = scores.masked_fill(columns > rows, -torch.inf)
    y = torch.softmax(scores, -1) @ v
    if three:
        y = joined(y)
    return (y, *present)


@operator("Attention", reference=attention)
def attention_samples(source, name):
    for batch, heads, kv_heads, rows, columns, size in [(1, 2, 2, 3, 4, 2), (2, 2, 1, 2, 2, 3), (0, 1, 1, 2, 2, 2), (1, 1, 1, 1, 3, 4)]:
        q, k, v = source.real(batch, heads, rows, size), source.real(batch, kv_heads, columns, size), source.real(batch, kv_heads, columns, size + 1)
        yield node(name, q, k, v)
        yield node(name, q, k, v, scale=0.75, softcap=2.0)
        yield node(name, q, k, v, source.real(rows, columns))
        mask = source.ints(batch, 1, rows, columns).astype(bool)
        mask[..., 0] = True
        yield node(name, q, k, v, mask)
        yield node(name, q, k, v, is_causal=1)
        yield node(name, q, k, v, None, source.real(batch, kv_heads, 2, size), source.real(batch, kv_heads, 2, size + 1), outputs=3, is_causal=1)
        yield node(name, source.real(batch, rows, heads * size), source.real(batch, columns, kv_heads * size), source.real(batch, columns, kv_heads * size), q_num_heads=heads, kv_num_heads=kv_heads)
    q, k, v = source.real(1, 1, 2, 2), source.real(1, 1, 3, 2), source.real(1, 1, 3, 2)
    for mode in range(4):
        yield node(name, q, k, v, outputs=["y0", "", "", "y3"], qk_matmul_output_mode=mode, softcap=2.0,
                   reference=(lambda mode: lambda a, q, k, v: (attention(a, q, k, v)[0], None, None, scores_at(a, q, k, mode)))(mode))


def scores_at(a, q, k, mode):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    capped = a.softcap * torch.tanh(scores / a.softcap)
    return [scores, capped, capped, torch.softmax(capped, -1)][mode]


def flex(a, q, k, v):
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    scores = q @ k.mT * a.get("scale", q.shape[-1] ** -0.5)
    if "score_mod" in a:
        scores = torch.tanh(scores)
    weights = torch.softmax(scores, -1)
    return (weights * weights if "prob_mod" in a else weights) @ v


@operator("FlexAttention", domain="ai.onnx.preview", reference=flex)
def flex_attention(source, name):
    def through(op, operands):
        value = helper.make_tensor_value_info("s", TensorProto.DOUBLE, None)
        return helper.make_graph([helper.make_node(op, operands, ["t"])], "modification", [value], [helper.make_tensor_value_info("t", TensorProto.DOUBLE, None)])
    for batch, heads, kv_heads, rows, columns, size in [(1, 2, 2, 3, 4, 2), (2, 2, 1, 2, 2, 3), (0, 1, 1, 2, 2, 2), (1, 1, 1, 1, 3, 4)]:
        q, k, v = source.real(batch, heads, rows, size), source.real(batch, kv_heads, columns, size), source.real(batch, kv_heads, columns, size)
        for more in ({}, {"scale": 0.5}, {"score_mod": through("Tanh", ["s"])}, {"prob_mod": through("Mul", ["s", "s"])}):
            yield node(name, q, k, v, domain="ai.onnx.preview", **more)


def linear_attention(a, q, k, v, past=None, decay=None, beta=None):
    batch, time = q.shape[:2]
    heads = a.kv_num_heads
    q, k, v = heads_of(q, a.q_num_heads), heads_of(k, heads), heads_of(v, heads)
    size = k.shape[-1]
    s = torch.zeros(batch, heads, size, v.shape[-1], dtype=q.dtype) if past is None else past
    scale = a.get("scale", 0.0) or size ** -0.5
    out = []
    for t in range(time):
        if decay is not None:
            s = s * torch.exp(heads_of(decay, heads)[:, t]).unsqueeze(-1)
        value = v[:, t]
        if beta is not None:
            value = (beta[:, t] if beta.shape[-1] != 1 else beta[:, t].expand(batch, heads)).unsqueeze(-1) * (value - (s * k[:, t].unsqueeze(-1)).sum(2))
        s = s + k[:, t].unsqueeze(-1) * value.unsqueeze(2)
        out.append(((s.repeat_interleave(a.q_num_heads // heads, 1)) * q[:, t].unsqueeze(-1)).sum(2) * scale)
    y = torch.stack(out, 1).flatten(2) if out else torch.zeros(batch, 0, a.q_num_heads * v.shape[-1], dtype=q.dtype)
    return (y, s)


@operator("LinearAttention", reference=linear_attention)
def linear_attention_samples(source, name):
    for batch, time, heads, kv_heads, size in [(1, 3, 2, 2, 2), (2, 2, 2, 1, 2), (0, 2, 1, 1, 2), (1, 1, 1, 1, 3)]:
        q, k, v = source.real(batch, time, heads * size), source.real(batch, time, kv_heads * size), source.real(batch, time, kv_heads * size)
        past, decay, beta = source.real(batch, kv_heads, size, size), source.real(batch, time, kv_heads * size, low=-1, high=0), source.real(batch, time, kv_heads)
        heads_of = {"q_num_heads": heads, "kv_num_heads": kv_heads, "outputs": 2}
        yield node(name, q, k, v, update_rule="linear", **heads_of)
        yield node(name, q, k, v, past, update_rule="linear", scale=0.5, **heads_of)
        yield node(name, q, k, v, past, decay, update_rule="gated", **heads_of)
        yield node(name, q, k, v, past, None, beta, update_rule="delta", **heads_of)
        yield node(name, q, k, v, past, decay, beta, update_rule="gated_delta", **heads_of)


def rotated(a, x, cos, sin, at=None):
    three = x.dim() == 3
    if three:
        x = heads_of(x, a.num_heads).transpose(1, 2)
    size = a.get("rotary_embedding_dim", 0) or x.shape[-1]
    turned, rest = x[..., :size], x[..., size:]
    if at is not None:
        cos, sin = cos[at], sin[at]
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    a1, a2 = (turned[..., 0::2], turned[..., 1::2]) if a.get("interleaved", 0) else (turned[..., :size // 2], turned[..., size // 2:])
    real, imaginary = cos * a1 - sin * a2, sin * a1 + cos * a2
    y = torch.stack([real, imaginary], -1).flatten(-2) if a.get("interleaved", 0) else torch.cat([real, imaginary], -1)
    y = torch.cat([y, rest], -1)
    return joined(y) if three else y


@operator("RotaryEmbedding", reference=rotated)
def rotary(source, name):
    for batch, heads, time, size in [(1, 2, 3, 4), (2, 1, 2, 2), (0, 1, 2, 4), (1, 1, 1, 6)]:
        for more in ({}, {"interleaved": 1}):
            x, at = source.real(batch, heads, time, size), source.ints(batch, time, low=0, high=5)
            yield node(name, x, source.real(5, size // 2), source.real(5, size // 2), at, **more)
            yield node(name, x, source.real(batch, time, size // 2), source.real(batch, time, size // 2), **more)
            yield node(name, x.transpose(0, 2, 1, 3).reshape(batch, time, heads * size).copy(), source.real(5, size // 2), source.real(5, size // 2), at, num_heads=heads, **more)
    yield node(name, source.real(1, 1, 2, 6), source.real(5, 2), source.real(5, 2), source.ints(1, 2, low=0, high=5), rotary_embedding_dim=4)


# ---- control flow: bodies that capture what is differentiated by ----
def value(name, dims=None, dtype=TensorProto.DOUBLE):
    return helper.make_tensor_value_info(name, dtype, dims)


def constant(name, array):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array), name))


@operator("If")
def if_(source, name):
    yes = helper.make_graph([helper.make_node("Sin", ["x1"], ["s"]), helper.make_node("Mul", ["s", "x2"], ["t"])], "yes", [], [value("t")])
    no = helper.make_graph([helper.make_node("Exp", ["x2"], ["e"])], "no", [], [value("e")])
    for shape in [(3,), (2, 2), (0,), (), (1, 4)]:
        for taken in (True, False):
            nodes = [helper.make_node("If", ["x0"], ["b"], then_branch=yes, else_branch=no), helper.make_node("Mul", ["b", "x1"], ["y0"])]
            yield program(f"If {taken} of {shape}", nodes, [np.array(taken), source.real(*shape), source.real(*shape)], ["y0"],
                          reference=lambda a, c, x, z: (torch.sin(x) * z if bool(c) else torch.exp(z)) * x)
            yield program(f"If {taken}, constant, of {shape}", nodes, [Fixed(np.array(taken)), source.real(*shape), source.real(*shape)], ["y0"],
                          reference=lambda a, c, x, z: (torch.sin(x) * z if bool(c) else torch.exp(z)) * x)


@operator("Loop")
def loop(source, name):
    """h <- tanh(h * w) + h / 4; what was and what became of it are kept. One loops while the sum is small."""
    def body(condition):
        nodes = [helper.make_node("Mul", ["h", "x2"], ["p"]), helper.make_node("Tanh", ["p"], ["t"]), constant("quarter", np.array(0.25)), helper.make_node("Mul", ["h", "quarter"], ["q"]),
                 helper.make_node("Add", ["t", "q"], ["n"]), helper.make_node("Mul", ["n", "h"], ["kept"])]
        if condition:
            nodes += [helper.make_node("ReduceSumSquare", ["n"], ["size"], keepdims=0), constant("limit", np.array(0.05)), helper.make_node("Greater", ["size", "limit"], ["more"])]
        else:
            nodes += [helper.make_node("Identity", ["go"], ["more"])]
        return helper.make_graph(nodes, "body", [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("h")], [value("more", [], TensorProto.BOOL), value("n"), value("kept")])

    def reference(a, trips, h, w):
        kept = []
        for _ in range(int(trips)):
            n = torch.tanh(h * w) + h / 4
            kept.append(n * h)
            h = n
        return (h, torch.stack(kept) if kept else torch.zeros((0,) + h.shape, dtype=h.dtype))
    for shape in [(2,), (2, 3), (), (0,)]:
        for trips in (0, 1, 3):
            for fixed in (True, False):
                count = Fixed(np.array(trips)) if fixed else np.array(trips)
                nodes = [helper.make_node("Loop", ["x0", "", "x1"], ["y0", "all"], body=body(False))]
                outputs = ["y0"]
                if fixed:
                    nodes.append(helper.make_node("Identity", ["all"], ["y1"]))
                    outputs.append("y1")
                yield program(f"Loop of {trips} over {shape}", nodes, [count, source.real(*shape), source.real(*shape)], outputs, reference=reference if fixed else lambda a, *x: reference(a, *x)[0])
    for shape in [(2,), (3,), (2, 2)]:
        nodes = [constant("yes", np.array(True)), helper.make_node("Loop", ["x0", "yes", "x1"], ["y0", "all"], body=body(True))]

        def while_large(a, trips, h, w):
            for _ in range(int(trips)):
                h = torch.tanh(h * w) + h / 4
                if not float((h * h).sum().detach()) > 0.05:
                    break
            return h
        yield program(f"Loop while large over {shape}", nodes, [Fixed(np.array(9)), source.real(*shape, low=0.5), source.real(*shape, low=0.1, high=0.6)], ["y0"], reference=while_large)


@operator("Scan")
def scan(source, name):
    """h <- tanh(h * w + x_t), h^2 is kept; forwards, backwards, and along other axes."""
    body = helper.make_graph([helper.make_node("Mul", ["h", "x2"], ["p"]), helper.make_node("Add", ["p", "x"], ["a"]), helper.make_node("Tanh", ["a"], ["n"]), helper.make_node("Mul", ["n", "n"], ["kept"])],
                             "body", [value("h", ["k"]), value("x", ["k"])], [value("n", ["k"]), value("kept", ["k"])])
    for time, width in [(3, 2), (1, 3), (4, 1), (2, 0), (0, 2)]:
        for reverse in (0, 1):
            for back in (0, 1):
                for axis in (0, 1):
                    def reference(a, h, xs, w, reverse=reverse, back=back, axis=axis):
                        rows = list(xs.unbind(axis))
                        kept = []
                        for x in rows[::-1] if reverse else rows:
                            h = torch.tanh(h * w + x)
                            kept.append(h * h)
                        return (h, torch.stack(kept[::-1] if back else kept) if kept else torch.zeros((0,) + h.shape, dtype=h.dtype))
                    shape = (time, width) if axis == 0 else (width, time)
                    nodes = [helper.make_node("Scan", ["x0", "x1"], ["y0", "y1"], body=body, num_scan_inputs=1, scan_input_axes=[axis], scan_input_directions=[reverse], scan_output_directions=[back])]
                    yield program(f"Scan of {time}x{width}, axis {axis}, reverse {reverse}, back {back}", nodes, [source.real(width), source.real(*shape), source.real(width)], ["y0", "y1"], reference=reference)
