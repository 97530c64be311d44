"""The programs of models/gan written for PyTorch, from the same files: DCGAN, LSGAN, WGAN-GP and CycleGAN, one update at a time."""
import base64
import json

import numpy as np
import torch
import torch.nn.functional as F

from torch_reference import OPERATORS


class Net:
    """A network of a JSON document: called with its input, trained through `parameters`."""

    def __init__(self, path, dtype):
        document = json.loads(path.read_text())
        self.values = {p["name"]: torch.from_numpy(np.frombuffer(base64.b64decode(p["base64"]), p["dtype"]).reshape(p["shape"]).copy()) for p in document["parameters"]}
        self.values = {n: v.to(dtype) if v.is_floating_point() else v for n, v in self.values.items()}
        self.input, self.output, self.nodes = document["inputs"][0]["name"], document["outputs"][0], document["nodes"]
        for node in self.nodes:  # attributes are float32, whatever the dtype of the values
            node["attributes"] = {n: float(np.float32(v)) if isinstance(v, float) else v for n, v in node["attributes"].items()}
        statistics = {name for node in self.nodes if node["op"] == "BatchNormalization" for name in node["inputs"][3:]}
        structure = {name for node in self.nodes if node["op"] == "Resize" for name in node["inputs"][2:]}
        self.parameters = [v.requires_grad_() for n, v in self.values.items() if v.is_floating_point() and n not in statistics | structure]

    def __call__(self, x):
        now, last = dict(self.values), {name: k for k, node in enumerate(self.nodes) for name in node["inputs"]}
        now.update({self.input: x, "": None})
        for k, node in enumerate(self.nodes):
            now[node["outputs"][0]] = OPERATORS[node["op"]](node["attributes"], *(now[i] for i in node["inputs"]))
            for name in node["inputs"]:
                if last[name] == k and name not in self.values:
                    now[name] = None
        return now[self.output]


def adam(rate, *nets):
    return torch.optim.Adam([p for net in nets for p in net.parameters], lr=rate, betas=(0.5, 0.999))


def descend(optimiser, loss):
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.item()


class Gan:
    """update(batch of fields) gives the losses of its steps by their names in the log."""

    def __init__(self, folder, rate, dtype=torch.float32):
        self.g, self.d = Net(folder / "generator.json", dtype), Net(folder / "discriminator.json", dtype)
        self.adam_g, self.adam_d, self.count = adam(rate, self.g), adam(rate, self.d), 0


class TwoNetworks(Gan):
    def update(self, batch):
        images = self.g(batch["z"])
        of_g = descend(self.adam_g, self.near(self.d(images), 1))
        made = images.detach()
        of_d = descend(self.adam_d, 0.5 * (self.near(self.d(batch["image"]), 1) + self.near(self.d(made), 0)))
        return {"loss": of_g, "discriminator loss": of_d}


class Dcgan(TwoNetworks):
    def near(self, scores, target):
        return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(target)))


class Lsgan(TwoNetworks):
    def near(self, scores, target):
        return F.mse_loss(scores, torch.full_like(scores, float(target)))


class WganGp(Gan):
    def update(self, batch):
        with torch.no_grad():
            made = self.g(batch["z"])
        real, fake, mix = self.d(batch["image"]), self.d(made), batch["mix"]
        between = (mix * batch["image"] + (1 - mix) * made).requires_grad_()
        slope, = torch.autograd.grad(self.d(between).sum(), between, create_graph=True)
        penalty = ((slope.square().sum((1, 2, 3)).sqrt() - 1) ** 2).mean()
        losses = {"loss": descend(self.adam_d, fake.mean() - real.mean() + 10 * penalty)}
        if self.count % 5 == 0:
            losses["generator loss"] = descend(self.adam_g, -self.d(self.g(batch["z"])).mean())
        self.count += 1
        return losses


class CycleGan:
    def __init__(self, folder, rate, dtype=torch.float32):
        self.ab, self.ba, self.da, self.db = (Net(folder / f"{name}.json", dtype) for name in ("generator", "backwards", "discriminator_a", "discriminator_b"))
        self.adam_g, self.adam_a, self.adam_b = adam(rate, self.ab, self.ba), adam(rate, self.da), adam(rate, self.db)
        self.count, self.stores = 0, {}

    def shown(self, letter, made, batch):
        """One of the earlier images in place of every other one; the store has 50."""
        store = self.stores.setdefault(letter, torch.zeros(50, *made.shape[1:], dtype=made.dtype))
        slot, old = (self.count, False) if self.count < 50 else (int(50 * batch[f"where_{letter}"].item()), batch[f"whether_{letter}"].item() > 0.5)
        image = store[slot:slot + 1].clone() if old else made
        if old or self.count < 50:
            store[slot] = made[0]
        return image

    def update(self, batch):
        a, b = batch["image"], batch["other"]
        same_a, same_b, made_b, made_a = self.ba(a), self.ab(b), self.ab(a), self.ba(b)
        score_b, score_a = self.db(made_b), self.da(made_a)
        loss = 0.5 * ((score_a - 1).square().mean() + (score_b - 1).square().mean()) + 5 * (F.l1_loss(self.ba(made_b), a) + F.l1_loss(self.ab(made_a), b)) + 2.5 * (F.l1_loss(same_a, a) + F.l1_loss(same_b, b))
        losses = {"loss": descend(self.adam_g, loss)}
        for letter, net, optimiser, real, made in (("a", self.da, self.adam_a, a, made_a), ("b", self.db, self.adam_b, b, made_b)):
            shown = self.shown(letter, made.detach(), batch)
            losses[f"discriminator {letter} loss"] = descend(optimiser, 0.5 * ((net(real) - 1).square().mean() + net(shown).square().mean()))
        self.count += 1
        return losses


GANS = {"dcgan": Dcgan, "lsgan": Lsgan, "wgan_gp": WganGp, "cyclegan": CycleGan}
