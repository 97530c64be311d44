"""Parameter groups of optimisers, and steps whose numbers are not finite, of training loops written as code."""
import json
import pathlib
import tempfile

import metac
import numpy as np
from expectations import Skip, expect, raises
from metac import nn, optim, train

GROUPS = [{"match": ["*.bias", "*norm*"], "weight_decay": 0}, {"match": "first.*", "rate_scale": 0.1},
          {"match": ["*.weight", "norm.bias"], "frozen": True}, {"match": "*t.weight", "frozen": False}]


class Net(nn.Module):
    def __init__(self, width=6):
        self.first, self.norm, self.last = nn.Linear(3, width), nn.BatchNorm(width), nn.Linear(width, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).tanh())


def values(net):
    return {name: var.numpy(copy=True) for name, var in net.parameters(states=True).items()}


def same_bits(a, b):
    return list(a) == list(b) and all(a[name].tobytes() == b[name].tobytes() for name in a)


def message(kind, call, *words):
    told = raises(kind, call)
    expect(all(word in told for word in words), told)


class UpdateChecks:
    def groups_are_pytorchs(self):
        try:
            import torch
        except ImportError:
            raise Skip("PyTorch is not installed") from None
        rng, apart = np.random.default_rng(0), 0.0
        x, y = rng.standard_normal((20, 16, 3)), rng.standard_normal((20, 16, 2))
        of = torch.optim
        for kind, maker in (("adamw", of.AdamW), ("adam", of.Adam), ("sgd", of.SGD), ("rmsprop", of.RMSprop)):
            start = {"first.weight": rng.standard_normal((3, 5)), "first.bias": rng.standard_normal(5),
                     "last.weight": rng.standard_normal((5, 2)), "norm.bias": rng.standard_normal(2)}
            own = {name: metac.array(value) for name, value in start.items()}
            their = {name: torch.tensor(value, requires_grad=True) for name, value in start.items()}
            optimiser = optim.Optimiser(own, kind, learning_rate=0.02, weight_decay=0.3, clip={"norm": 0.5}, groups=GROUPS)
            expect(list(optimiser.trained) == ["first.weight", "first.bias", "last.weight"], f"{list(optimiser.trained)}")
            expect(not any(name.startswith("norm.bias/") for name in optimiser.state()), "a frozen parameter has slots")
            their["norm.bias"].requires_grad_(False)
            torchs = maker([{"params": [their["first.weight"]], "lr": 0.002},
                            {"params": [their["first.bias"]], "lr": 0.002, "weight_decay": 0},
                            {"params": [their["last.weight"]]}], lr=0.02, weight_decay=0.3)

            def loss_of(w, x, y):
                hidden = (x @ w["first.weight"] + w["first.bias"]).tanh()
                return ((hidden @ w["last.weight"] + w["norm.bias"] - y) ** 2).mean()
            for k in range(20):
                optimiser.step(loss_of(own, metac.array(x[k]), metac.array(y[k])))
                torchs.zero_grad()
                loss_of(their, torch.tensor(x[k]), torch.tensor(y[k])).backward()
                torch.nn.utils.clip_grad_norm_([p for p in their.values() if p.requires_grad], 0.5)
                torchs.step()
            for name, var in own.items():
                apart = max(apart, np.abs(var.numpy() - their[name].detach().numpy()).max())
            expect(apart < 1e-12, f"{kind}: {apart} apart")
            expect(own["norm.bias"].numpy().tobytes() == start["norm.bias"].tobytes(), "a frozen parameter changed")
        return f"at most {apart:.1e} apart"

    def groups_by_formulas(self):
        # Lists have names by number; the second is left out of the norm, of the gradients and of what is kept.
        rng = np.random.default_rng(1)
        start, slopes = rng.standard_normal((3, 4)), rng.standard_normal((6, 3, 4))
        w = [metac.array(row) for row in start]
        optimiser = optim.Optimiser(w, "sgd", learning_rate=0.1, momentum=0.9, weight_decay=0.2, clip={"norm": 1.5},
                                    accumulate=2, average=0.8,
                                    groups=[{"match": "*", "rate_scale": 0.5}, {"match": "1", "frozen": True},
                                            {"match": "2", "rate_scale": 2, "weight_decay": 0}])
        own, momenta, average = start.copy(), np.zeros((3, 4)), start.copy()
        for k, both in enumerate(slopes):
            optimiser.step([metac.array(both[0]), metac.array(both[2])])
            if k % 2 == 0:
                continue
            g = (slopes[k - 1] + both) / 2
            g *= min(1, 1.5 / (np.linalg.norm(g[[0, 2]]) + 1e-6))
            for row, decay, scale in ((0, 0.2, 0.5), (2, 0, 2)):
                momenta[row] = 0.9 * momenta[row] + g[row] + decay * own[row]
                own[row] -= 0.1 * scale * momenta[row]
                average[row] = 0.8 * average[row] + 0.2 * own[row]
        expect(np.allclose([var.numpy() for var in w], own, rtol=1e-12), "other values than the formulas'")
        with optimiser.averaged():
            expect(np.allclose([var.numpy() for var in w], average, rtol=1e-12), "other averages")
        expect(sorted(optimiser.state()) == [f"{k}/{s}" for k in (0, 2) for s in ("accumulated", "average", "momentum")],
               f"{list(optimiser.state())}")
        expect(np.allclose([var.numpy() for var in w], own, rtol=1e-12), "the parameters are back")
        message(metac.ArgumentError, lambda: optimiser.step([metac.array(row) for row in slopes[0]]),
                "3 gradients for 2 parameters that train")

    def left_out_steps_change_nothing(self):
        rng = np.random.default_rng(2)
        slopes = rng.standard_normal((8, 2, 5)).astype("f4")
        wrong = slopes[3].copy()
        for number in (np.nan, np.inf, -np.inf):
            wrong[1, 4] = number
            for options in ({}, {"accumulate": 3, "average": 0.8}, {"clip": {"norm": 0.7}, "average": {"from": 1}},
                            {"groups": [{"match": "0", "rate_scale": 0.5}]}):
                found = []
                for with_wrong in (True, False):
                    w = [metac.array(np.ones(5, "f4")) for _ in range(2)]
                    optimiser = optim.Optimiser(w, "adam", learning_rate=0.1, non_finite="skip", **options)
                    for k, both in enumerate(slopes):
                        for given in ([wrong] if with_wrong and k in (2, 5) else []) + [both]:
                            optimiser.step([metac.array(g) for g in given])
                        w[0].evaluate()
                    found.append({"w": np.stack([var.numpy() for var in w]), "steps": np.int64(optimiser.steps),
                                  **{name: var.numpy(copy=True) for name, var in optimiser.state().items()}})
                expect(found[0]["steps"] == len(slopes), f"{found[0]['steps']} steps")
                expect(same_bits(*found), f"{options}: a step with {number} left something behind")
        # It goes on from its state.
        again = optim.Optimiser([metac.array(np.ones(5, "f4"))], "adam", non_finite="skip")
        again.load_state({name: var for name, var in again.state().items()}, 5)
        again.step([metac.array(np.full(5, np.nan, "f4"))])
        expect(again.steps == 5, f"{again.steps} steps")
        again.step([metac.array(np.ones(5, "f4"))])
        expect(again.steps == 6, f"{again.steps} steps")

    def _run(self, folder, images, epochs=2, fail=(), metric=(), **more):
        """What is kept behind a training of a Net, and how many steps were left out. fail: batches, counted over all epochs,
        whose gradients alone are NaN; metric: whose metric is."""
        data = train.Data({"shuffle": False}, arrays={"x": images, "y": np.tanh(np.nan_to_num(images[:, :2]))})
        loader, seen = data.loader(8), 0
        nn.seed(1)
        net = Net()
        optimiser = optim.Optimiser(net, "adamw", learning_rate=0.05, clip={"norm": 1}, average=0.9, non_finite="skip",
                                    accumulate=more.get("accumulate", 1))
        with train.Run(folder, loader, epochs, quiet=True, non_finite="skip", metrics=["largest"], learning_rate=0.05,
                       **more) as run:
            run.keep(net, optimiser)
            for _ in run.epochs():
                for batch in run.batches():
                    loss = ((net(batch["x"]) - batch["y"]) ** 2).mean()
                    if seen in fail:
                        loss = loss + (net.last.weight.sum() * 0.0).sqrt()  # 0, and its derivative 0/0
                    optimiser.step(loss, rate=run.rate)
                    run.step(loss, largest=loss * (np.nan if seen in metric else 1))
                    seen += 1
                run.end_epoch()
            kept = {**values(net), **{name: var.numpy(copy=True) for name, var in optimiser.state().items()},
                    "steps": np.int64(optimiser.steps), "update": np.int64(run.update)}
            return kept, run.skipped

    def a_run_leaves_batches_out(self):
        images = np.random.default_rng(3).standard_normal((48, 3)).astype("f4")
        wrong = np.insert(images, 16, np.full((8, 3), 0.5), 0)  # a third batch
        nans = wrong.copy()
        nans[20, 1] = np.nan
        for more in ({}, {"accumulate": 3}):
            with tempfile.TemporaryDirectory() as folder:
                wanted, none = self._run(f"{folder}/without", images, **more)
                expect(none == 0 and np.isfinite(wanted["norm.running_mean"]).all(), f"{none} left out")
                before = metac._metac.graph_report()["compiled"]
                for name, given, which in (("data", nans, {}), ("gradients", wrong, {"fail": (2, 9)}),
                                           ("metric", wrong, {"metric": (2, 9)})):
                    found, skipped = self._run(f"{folder}/{name}", given, **which, **more)
                    expect(skipped == 2, f"{name}: {skipped} left out")
                    expect(same_bits(found, wanted), f"{name} {more}: what is kept is not that of the run without the batch")
                programs = metac._metac.graph_report()["compiled"] - before
                expect(programs <= 6, f"{programs} programs")
                log = [json.loads(line) for line in pathlib.Path(f"{folder}/gradients/log.jsonl").read_text().splitlines()]
                told = [line for line in log if "what" in line]
                expect(len(told) == 2 and "a gradient is NaN or infinite at update" in told[0]["what"], f"{told}")
                losses = [[line["loss"] for line in map(json.loads, pathlib.Path(f"{folder}/{name}/log.jsonl").open())
                           if "what" not in line] for name in ("without", "data", "gradients", "metric")]
                expect(losses[0] == losses[1] == losses[2] == losses[3], f"{losses}")
        return f"{programs} programs for those with a gradient of its own"

    def eleven_in_a_row_end_it(self):
        images = np.random.default_rng(4).standard_normal((120, 3)).astype("f4")
        images[16:16 + 80, 0] = np.inf
        with tempfile.TemporaryDirectory() as folder:
            expect(self._run(f"{folder}/ten", images, 1)[1] == 10, "ten are left out")
            images[96, 1] = np.nan
            message(metac.ModelError, lambda: self._run(f"{folder}/eleven", images, 1), "that was the 11th batch in a row",
                    "the loss is NaN at update 2 (epoch 1, batch 13", "there is no checkpoint yet")

    def a_run_that_skips_resumes(self):
        images = np.random.default_rng(5).standard_normal((48, 3)).astype("f4")
        images[20, 1] = np.nan
        with tempfile.TemporaryDirectory() as folder:
            wanted, _ = self._run(f"{folder}/whole", images, 4, resume=True)
            self._run(f"{folder}/parts", images, 2)
            found, skipped = self._run(f"{folder}/parts", images, 4, resume=True)
            expect(skipped == 4 and same_bits(found, wanted), f"{skipped} left out")

    def what_is_assigned_between_steps_stays(self):
        data = train.Data({"shuffle": False}, arrays={"x": np.array([[1], [2], [np.nan], [4]], "f4")})
        w, target = metac.array(np.ones(1, "f4")), metac.array(np.zeros(1, "f4"))
        optimiser = optim.Optimiser({"w": w}, "sgd", learning_rate=0.5, non_finite="skip")
        with tempfile.TemporaryDirectory() as folder, \
                train.Run(folder, data.loader(1), 1, quiet=True, non_finite="skip") as run:
            run.keep({"w": w, "target": target}, optimiser)
            run.begin()
            for k, batch in enumerate(run.batches()):
                loss = (w * batch["x"]).sum()
                optimiser.step(loss)
                run.step(loss)
                target.assign(target + 1)
            expect(target.item() == 4 and w.item() == 1 - 0.5 * 7, f"{target}, {w}")

    def mistakes_of_updates_are_named(self):
        def made(groups=None, **options):
            return lambda: optim.Optimiser(Net(), "adam", groups=groups, **options)
        message(metac.ModelError, made([{"match": "frist.*"}]), 'no parameter matches "frist.*"', "there are 6",
                '"first.weight"', "first.")
        message(metac.ModelError, made([{"match": "*", "weight_decai": 0}]), "weight_decai", 'did you mean "weight_decay"')
        message(metac.ModelError, made([{"weight_decay": 0}]), "match")
        message(metac.ModelError, made([{"match": "*", "rate_scale": -1}]), "rate_scale", "-1")
        message(metac.ModelError, made([{"match": "*", "frozen": "yes"}]), "frozen")
        message(metac.ModelError, made([{"match": "*", "frozen": True}]), "nothing is left to train", "6")
        message(metac.ModelError, made(non_finite="skp"), "non_finite", "skp", "skip")
        data = train.Data({}, arrays={"x": np.zeros((8, 3), "f4")})
        with tempfile.TemporaryDirectory() as folder:
            message(metac.ArgumentError, lambda: train.Run(folder, data.loader(8), non_finite="skp"), "non_finite", '"skp"',
                    '"skip"')
            with train.Run(folder, data.loader(8), quiet=True, non_finite="skip") as run:
                message(metac.ArgumentError, lambda: run.keep(made()()), "non_finite", '"skip"', '"stop"')
            # A run that stops notices what its optimiser left out.
            with train.Run(folder, data.loader(8), quiet=True) as run:
                w = metac.array(np.zeros(1, "f4"))
                optimiser = optim.Optimiser({"w": w}, "sgd", non_finite="skip")
                run.keep({"w": w}, optimiser)
                run.begin()
                loss = w.sqrt().sum()  # 0, and its derivative infinite
                optimiser.step(loss)
                message(metac.ModelError, lambda: run.step(loss), "a gradient is NaN or infinite", "update 0")
                expect(w.item() == 0, f"{w}")
