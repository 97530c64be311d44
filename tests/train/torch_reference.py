"""Runs networks of the JSON IR, those of networks.py and of models/gan, with PyTorch's operators, and trains them with PyTorch's optimisers."""
import torch
import torch.nn.functional as F


def _lstm(x, w, r, b, hidden_size, direction="forward"):
    """ONNX's gates are i, o, f, c; PyTorch's i, f, g, o."""
    def reordered(t):
        i, o, f, c = t.chunk(4)
        return torch.cat([i, f, c, o])
    weights = []
    for d in range(w.shape[0]):
        bias_x, bias_h = b[d].chunk(2)
        weights += [reordered(w[d]), reordered(r[d]), reordered(bias_x), reordered(bias_h)]
    zero = torch.zeros(w.shape[0], x.shape[1], hidden_size, dtype=x.dtype)
    y = torch.lstm(x, (zero, zero), weights, True, 1, 0.0, True, direction == "bidirectional", False)[0]
    return y.unflatten(2, (w.shape[0], hidden_size)).movedim(2, 1)


OPERATORS = {
    "Gemm": lambda a, x, w, b: F.linear(x, w, b),
    "MatMul": lambda a, x, y: x @ y,
    "Add": lambda a, x, y: x + y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Erf": lambda a, x: torch.erf(x),
    "Relu": lambda a, x: F.relu(x),
    "Tanh": lambda a, x: torch.tanh(x),
    "Clip": lambda a, x, low, high: x.clamp(low, high),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Softmax": lambda a, x: torch.softmax(x, a["axis"]),
    "Flatten": lambda a, x: x.flatten(1),
    "Reshape": lambda a, x, shape: x.reshape(*shape.tolist()),
    "Transpose": lambda a, x: x.permute(*a["perm"]),
    "Gather": lambda a, table, x: F.embedding(x, table),
    "ReduceMean": lambda a, x: x.mean(a["axes"]),
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "Conv": lambda a, x, w, b=None: F.conv2d(x, w, b, a["strides"], a.get("pads", [0])[0], groups=a.get("group", 1)),
    "AveragePool": lambda a, x: F.avg_pool2d(x, a["kernel_shape"], a["strides"]),
    "MaxPool": lambda a, x: F.max_pool2d(x, a["kernel_shape"], a["strides"], a["pads"][0]),
    "BatchNormalization": lambda a, x, w, b, m, v: F.batch_norm(x, m, v, w, b, True, 1 - a["momentum"], a["epsilon"]),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a["alpha"]),
    "Resize": lambda a, x, _, scales: F.interpolate(x, scale_factor=tuple(scales[2:].tolist()), mode="nearest"),
    "InstanceNormalization": lambda a, x, w, b: F.instance_norm(x, None, None, w, b, eps=a["epsilon"]),
    "LayerNormalization": lambda a, x, w, b: F.layer_norm(x, w.shape, w, b, a["epsilon"]),
    "LSTM": lambda a, x, w, r, b: _lstm(x, w, r, b, **a),
}


def train(network, output, batches, optimiser, axis=1):
    """The loss of every update. batches: of arrays by name, "target" the classes along `axis`, or 0 and 1 (floats); optimiser: parameters -> torch.optim.Optimizer."""
    values = {name: torch.from_numpy(value.copy()) for name, value in network.weights.items()}
    trained = [v for name, v in values.items() if v.is_floating_point() and v.ndim > 0 and name not in network.statistics]
    for v in trained:
        v.requires_grad_()
    update, losses = optimiser(trained), []
    for batch in batches:
        now = dict(values, **{name: torch.from_numpy(array) for name, array in batch.items()})
        for node in network.nodes:
            now[node["outputs"][0]] = OPERATORS[node["op"]](node["attributes"], *(now[i] for i in node["inputs"]))
        scores, target = now[output], now["target"]
        loss = F.binary_cross_entropy_with_logits(scores, target) if target.is_floating_point() else F.cross_entropy(scores.movedim(axis, 1), target)
        update.zero_grad()
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses
