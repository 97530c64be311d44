"""Networks in torch.nn, and the ways in which PyTorch exports them. Imported where torch is known to be there."""
import contextlib
import io
import logging
import warnings

import torch
from torch import nn


class Images(nn.Module):
    """Convolutions with BatchNormalization, one without a bias, and Dropout; a GroupNorm, whose exported form has constants that are no parameters."""

    def __init__(self, ratio, group=False):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(1, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.c2, self.b2 = nn.Conv2d(6, 6, 3, padding=1, stride=2), nn.BatchNorm2d(6, momentum=0.3)
        self.g = nn.GroupNorm(3, 6) if group else nn.Identity()
        self.smooth = group  # one Relu that rounding has on the other side of 0 and this network leaves PyTorch's own path for good
        self.drop, self.head = nn.Dropout(ratio), nn.Linear(6 * 16, 5)

    def forward(self, x):
        bend = torch.tanh if self.smooth else torch.relu
        x = self.g(bend(self.b2(self.c2(bend(self.b1(self.c1(x)))))))
        return self.head(self.drop(x.flatten(1)))


class PreNormed(nn.Module):
    """BatchNormalization before the products, which nothing can fold."""

    def __init__(self, ratio):
        super().__init__()
        self.b1, self.c1, self.b2, self.drop, self.head = nn.BatchNorm2d(1), nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.Dropout(ratio), nn.Linear(6 * 36, 5)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.b2(torch.relu(self.c1(self.b1(x))))).flatten(1)))


class Words(nn.Module):
    """What PyTorch ties stays tied, what is only equal at first does not: an output layer with the embedding's weight, a layer that is called twice,
    two that begin as copies (as nn.TransformerEncoder's do), equal norms, and a buffer that nothing trains."""

    def __init__(self, ratio):
        super().__init__()
        self.e, self.o = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.o.weight = self.e.weight
        self.twice, self.layers = nn.Linear(8, 8), nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.layers[1].load_state_dict(self.layers[0].state_dict())
        self.n1, self.n2, self.drop = nn.LayerNorm(8), nn.LayerNorm(8), nn.Dropout(ratio)
        self.register_buffer("places", torch.randn(6, 8))

    def forward(self, x):
        y = self.n1(self.e(x) + self.places)
        y = self.twice(torch.relu(self.twice(y)))
        y = self.layers[1](self.drop(torch.tanh(self.layers[0](y))))
        return self.o(self.n2(y))


def half_frozen(ratio):
    """The first BatchNormalization in evaluation mode: its statistics stay, as in fine-tuning."""
    network = Images(ratio)
    network.b1.frozen = True
    return network


NETWORKS = {"images": Images, "grouped": lambda ratio: Images(ratio, True), "frozen": half_frozen, "prenormed": PreNormed, "words": Words}


def train_mode(network, on=True):
    network.train(on)
    for module in network.modules():
        if getattr(module, "frozen", False):
            module.eval()
    return network


def export(network, path, sample, *, dynamo, training=None, opset=None, open_batch=True, **options):
    """Quietly: what the exporter prints is of no use here."""
    if training:
        options["training"] = getattr(torch.onnx.TrainingMode, training)
    if open_batch:
        options.update({"dynamic_shapes": ({0: torch.export.Dim("N", min=2)},)} if dynamo else {"dynamic_axes": {"x": {0: "N"}}})
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (sample,), str(path), input_names=["x"], output_names=["y"], opset_version=opset, dynamo=dynamo, **options)
    logging.disable(logging.NOTSET)
