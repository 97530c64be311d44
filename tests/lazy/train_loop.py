"""A training of models/digits with everything that a recipe has: train_loop.py FOLDER [--stop UPDATE] [--signal UPDATE]
[--dropout] [--checkpoint-every UPDATES] [--wrong UPDATE]. Stopping ends the process without a word at that update; a signal
is sent to itself there. Wrong are loss and gradients of the first process at the first step of that update, which is left
out."""
import argparse
import os
import pathlib
import signal

import metac
from metac import nn, op, optim, train

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--stop", type=int)
parser.add_argument("--signal", type=int)
parser.add_argument("--dropout", action="store_true")
parser.add_argument("--checkpoint-every", type=int, default=3)
parser.add_argument("--wrong", type=int)
arguments = parser.parse_args()


class Reader(nn.Module):
    def __init__(self):
        self.features = nn.Sequential(nn.Conv(1, 8, 3, padding=1), nn.BatchNorm(8) if arguments.dropout else op.Relu, op.Relu,
                                      nn.Conv(8, 16, 3, stride=2, padding=1), op.Relu)
        self.dropout, self.head = nn.Dropout(0.3 if arguments.dropout else 0), nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.dropout(self.features(x).flatten(1)))


processes = train.processes()
data = train.Data({"format": "npz", "train": "train.npz", "validation_split": 0.25,
                   "fields": {"image": {"scale": 0.0625, "crop_padding": 1}}},
                  {"image": ("float32", (1, 8, 8)), "label": ("int64", ())}, seed=5,
                  folder=pathlib.Path(__file__).resolve().parents[2] / "models/digits")
loader = data.loader(64 // processes.size, processes=processes)
validation = data.loader(48 // processes.size, validation=True, processes=processes)
nn.seed(0)
net = Reader()
non_finite = "stop" if arguments.wrong is None else "skip"
optimiser = optim.Optimiser(net, "adamw", clip={"norm": 1}, accumulate=2, average=0.95, non_finite=non_finite)


def scores(batch):
    output = net(batch["image"])
    return {"loss": optim.losses("cross_entropy", output, batch["label"]),
            "accuracy": op.ArgMax(output, axis=1, keepdims=0) == batch["label"]}


with train.Run(arguments.folder, loader, epochs=3, schedule={"kind": "cosine", "warmup": 1}, learning_rate=0.003,
               metrics=["accuracy"], watch="accuracy", accumulate=2, checkpoint_every=arguments.checkpoint_every, log_every=4, patience=5, resume=True,
               processes=processes, non_finite=non_finite) as run:
    run.keep(net, optimiser)
    for epoch in run.epochs():
        for batch in run.batches():
            each, rate = scores(batch), run.rate
            loss = each["loss"].mean()
            if run.update == arguments.wrong and run.skipped == 0 and processes.rank == 0:
                loss = loss * float("nan")
            optimiser.step(loss, rate=rate)
            if run.update == arguments.signal:
                os.kill(os.getpid(), signal.SIGINT)
            run.step(loss, rate, accuracy=each["accuracy"].astype("float32").mean())
            if run.update == arguments.stop:
                os._exit(0)
        net.eval()
        with optimiser.averaged():
            result = run.evaluate(validation, scores)
        net.train()
        run.end_epoch(result)
if processes.rank == 0:
    net.save(pathlib.Path(arguments.folder) / "net.safetensors")
