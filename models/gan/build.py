#!/usr/bin/env python3
"""Writes a program of several networks: their files, a recipe, and made data to train it on.

    python3 build.py dcgan|lsgan|wgan_gp|cyclegan FOLDER [--size 32] [--channels 3] [--batch 16] [--samples 512] [--epochs 10] [--blocks 9]
                     [--narrower 1] [--rate 0.0002] [--drawn-outside]

Then: metac compile FOLDER/generator.json --train FOLDER/recipe.json -o out --name NAME && out/bin/NAME_train --data FOLDER
--narrower divides the channels of all networks. --drawn-outside puts every random number into the data, so that another program can be given the same ones.
"""
import argparse
import json
import pathlib

import numpy as np

import network

NOISE = 100


def node(op, inputs, output, **fields):
    return {"op": op, "inputs": inputs, "outputs": [output], **fields}


def call(name, x, output):
    return node(name, [x], output, domain="network")


def softplus(x, sign):
    """log(1 + exp(sign x)): binary cross-entropy of a logit x with 0 (sign +) or 1 (sign -)."""
    return f"max({sign}{x}, 0) + log1p(exp(-abs({x})))"


class Program:
    def __init__(self, arguments):
        self.optimizer = {"kind": "adam", "learning_rate": arguments.rate, "beta1": 0.5}
        self.a, self.fields, self.states, self.extra = arguments, {"image": [arguments.channels, arguments.size, arguments.size]}, {}, {}
        self.images = [arguments.batch, *self.fields["image"]]

    def uniform(self, name, shape, stream):
        """Numbers in [0, 1) of this shape for every sample: drawn in the step, or from the data."""
        if self.a.drawn_outside:
            self.fields[name] = shape
            self.extra[name] = lambda random, count: random.random((count, *shape), np.float32)
            return []
        return [node("random", ["seed", "call"], name, shape=[self.a.batch, *shape], stream=stream)]

    def noise(self):
        """Standard normal noise z (Box and Muller)."""
        if self.a.drawn_outside:
            self.fields["z"] = [NOISE]
            self.extra["z"] = lambda random, count: random.standard_normal((count, NOISE), np.float32)
            return []
        return self.uniform("u", [NOISE], 1) + self.uniform("v", [NOISE], 2) + [node("elementwise", ["u", "v"], "z", body="sqrt(-2*log(1 - u))*cos(6.283185307179586*v)")]

    def recipe(self, steps, networks):
        recipe = {"batch": self.a.batch, "epochs": self.a.epochs, "networks": networks, "fields": {n: {"dtype": "float32", "shape": s} for n, s in self.fields.items()}}
        if self.states:
            recipe["states"] = {n: {"dtype": "float32", "shape": s} for n, s in self.states.items()}
        return {**recipe, "steps": steps, "data": {"format": "npz", "train": "images.npz", "shuffle": not self.a.drawn_outside}}


def mean(x, output="loss"):
    return node("mean", [x], output)


def least_squares(score, target, output):
    return node("elementwise", [score], output, body=f"({score} - {target})*({score} - {target})")


def two_networks(p, of_made, of_real, of_fake):
    """DCGAN and LSGAN: the generator, then the discriminator on what the generator made. Losses of scores, as bodies."""
    p.states["made"] = p.images
    generator = {"name": "generator", "trains": ["model"], "optimizer": p.optimizer, "loss": "loss", "keep": {"made": "images"}, "nodes": [
        *p.noise(), call("model", "z", "images"), call("D", "images", "score"), node("elementwise", ["score"], "l", body=of_made), mean("l")]}
    discriminator = {"name": "discriminator", "trains": ["D"], "optimizer": p.optimizer, "loss": "loss", "nodes": [
        call("D", "image", "real"), call("D", "made", "fake"), node("elementwise", ["real", "fake"], "l", body=f"0.5*({of_real} + {of_fake})"), mean("l")]}
    return p.recipe([generator, discriminator], {"D": "discriminator.json"})


def dcgan(p):
    return two_networks(p, softplus("score", "-"), softplus("real", "-"), softplus("fake", ""))


def lsgan(p):
    return two_networks(p, "(score - 1)*(score - 1)", "(real - 1)*(real - 1)", "fake*fake")


def wgan_gp(p):
    """I. Gulrajani et al., arXiv:1704.00028: the penalty is on the gradient of the critic by its input, so its own gradient is one of a gradient."""
    critic = {"name": "critic", "trains": ["D"], "optimizer": p.optimizer, "loss": "loss", "nodes": [
        *p.noise(), *p.uniform("mix", [1, 1, 1], 3), call("model", "z", "made"), call("D", "image", "real"), call("D", "made", "fake"),
        node("elementwise", ["mix", "image", "made"], "between", body="mix*image + (1 - mix)*made"), call("D", "between", "score"),
        node("grad", ["between"], "slope", of="score"), node("elementwise", ["slope"], "squares", body="slope*slope"), node("sum", ["squares"], "square", dims=[1, 2, 3]),
        node("elementwise", ["square"], "excess", body="(sqrt(square) - 1)*(sqrt(square) - 1)"), mean("excess", "penalty"), mean("real", "real_mean"), mean("fake", "fake_mean"),
        node("elementwise", ["real_mean", "fake_mean", "penalty"], "loss", body="fake_mean - real_mean + 10*penalty")]}
    generator = {"name": "generator", "trains": ["model"], "optimizer": p.optimizer, "loss": "loss", "every": 5, "nodes": [
        *p.noise(), call("model", "z", "made"), call("D", "made", "score"), node("elementwise", ["score"], "l", body="-score"), mean("l")]}
    return p.recipe([critic, generator], {"D": "discriminator.json"})


def cyclegan(p):
    """Two translators, two discriminators, and for each of these a store of 50 earlier images, of which every other batch sees one."""
    p.fields["other"] = p.fields["image"]
    def score(images, name, target):
        return [call(name, images, f"{images}.{name}"), node("elementwise", [f"{images}.{name}"], f"{images}.{name}.l", body=f"(@0 - {target})*(@0 - {target})"), mean(f"{images}.{name}.l", f"{images}.{name}.loss")]

    def distance(a, b, output):
        return [node("elementwise", [a, b], output + ".l", body="abs(@0 - @1)"), mean(output + ".l", output)]

    translators = {"name": "translators", "trains": ["model", "BA"], "optimizer": p.optimizer, "loss": "loss", "keep": {"made_b": "b", "made_a": "a"}, "nodes": [
        call("BA", "image", "same_a"), call("model", "other", "same_b"), call("model", "image", "b"), call("BA", "other", "a"), call("BA", "b", "again_a"), call("model", "a", "again_b"),
        *distance("same_a", "image", "id_a"), *distance("same_b", "other", "id_b"), *distance("again_a", "image", "cycle_a"), *distance("again_b", "other", "cycle_b"), *score("b", "DB", 1), *score("a", "DA", 1),
        node("elementwise", ["a.DA.loss", "b.DB.loss", "cycle_a", "cycle_b", "id_a", "id_b"], "loss", body="0.5*(@0 + @1) + 5*(@2 + @3) + 2.5*(@4 + @5)")]}
    steps, stored = [translators], [50, *p.fields["image"]]
    for k, (letter, real) in enumerate((("a", "image"), ("b", "other"))):
        p.states[f"made_{letter}"], p.states[f"store_{letter}"] = p.images, stored
        # The first 50 batches fill the store; then every other one is exchanged for a random older one.
        choose = [*p.uniform(f"where_{letter}", [1], 2 * k + 1), *p.uniform(f"whether_{letter}", [1], 2 * k + 2),
                  node("elementwise", [f"where_{letter}", "call"], "slot", body="float32(@1) < 150 ? floor(float32(@1)/3) : floor(50*@0)"),
                  node("elementwise", [f"whether_{letter}", "call"], "old", body="float32(@1) >= 150 && @0 > 0.5 ? float32(1) : float32(0)"),
                  node("cast", ["slot"], "slots", dtype="int64"), node("reshape", ["slots"], "place", shape=[1]), node("reshape", ["old"], "exchanged", shape=[1, 1, 1, 1]),
                  node("gather", [f"store_{letter}", "place"], "stored"), node("elementwise", ["exchanged", "stored", f"made_{letter}"], "shown", body="@0 > 0 ? @1 : @2"),
                  node("elementwise", [f"store_{letter}", f"made_{letter}", "place", "exchanged", "call"], "next", body="i0 == @2(0) && (@3(0, 0, 0, 0) > 0 || float32(@4) < 150) ? @1(0, i1, i2, i3) : @0", shape="@0.shape")]
        name = f"D{letter.upper()}"
        steps.append({"name": f"discriminator {letter}", "trains": [name], "optimizer": p.optimizer, "loss": "loss", "keep": {f"store_{letter}": "next"}, "nodes": [
            *choose, *score(real, name, 1), *score("shown", name, 0), node("elementwise", [f"{real}.{name}.loss", f"shown.{name}.loss"], "loss", body="0.5*(@0 + @1)")]})
    return p.recipe(steps, {"BA": "backwards.json", "DA": "discriminator_a.json", "DB": "discriminator_b.json"})


def shapes(count, size, channels, seed):
    """Coloured discs on coloured ground, in [-1, 1]."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size] / size
    images = np.empty((count, channels, size, size), np.float32)
    for image in images:
        cx, cy, r = random.uniform(0.3, 0.7), random.uniform(0.3, 0.7), random.uniform(0.12, 0.3)
        inside = 1 / (1 + np.exp((np.hypot(x - cx, y - cy) - r) * size))
        front, back = random.uniform(-1, 1, (2, channels, 1, 1))
        image[...] = inside * front + (1 - inside) * back
    return images


PROGRAMS = {"dcgan": dcgan, "lsgan": lsgan, "wgan_gp": wgan_gp, "cyclegan": cyclegan}


def build(name, folder, arguments):
    folder.mkdir(parents=True, exist_ok=True)
    program = Program(arguments)
    recipe = PROGRAMS[name](program)
    size, channels, narrower = arguments.size, arguments.channels, arguments.narrower
    if name == "cyclegan":
        files = {"generator": network.translator("forwards", size, channels, arguments.blocks, narrower), "backwards": network.translator("backwards", size, channels, arguments.blocks, narrower),
                 **{f"discriminator_{k}": network.patch_discriminator(f"discriminator_{k}", size, channels, narrower) for k in "ab"}}
    else:
        files = {"generator": network.generator(size, channels, NOISE, narrower), "discriminator": network.discriminator(size, channels, name != "wgan_gp", narrower)}
    for file, document in {**files, "recipe": recipe}.items():
        (folder / f"{file}.json").write_text(json.dumps(document, indent=1 if file == "recipe" else None))
    data = {"image": shapes(arguments.samples, size, channels, 1)}
    if name == "cyclegan":
        data["other"] = -shapes(arguments.samples, size, channels, 2).mean(1, keepdims=True).repeat(channels, 1)  # grey negatives
    random = np.random.default_rng(3)
    np.savez(folder / "images.npz", **data, **{field: draw(random, arguments.samples) for field, draw in program.extra.items()})


def options(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("folder", type=pathlib.Path)
    for name, value in (("size", 32), ("channels", 3), ("batch", 16), ("samples", 512), ("epochs", 10), ("blocks", 9), ("narrower", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--drawn-outside", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    given = options()
    build(given.program, given.folder, given)
