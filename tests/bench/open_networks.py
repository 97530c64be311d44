"""The networks that race_open.py races, what is open in each, and the shapes they are raced at: one that is usual, an odd
one, a batch."""
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

IMAGES = ["1x3x224x224", "1x3x181x199", "4x3x224x224"]
# Of the backbones: what --shape opens, and the shapes. Heads of a fixed size and learned positions leave the batch alone.
BACKBONES = {name: ("?x3x224x224", ["1x3x224x224", "3x3x224x224", "8x3x224x224"]) for name in ("alexnet", "vgg11", "vgg19", "vit_b_16", "swin_t")}
# Of the other networks: the shapes of each input, one after the other.
OTHERS = {
    "yolo": ["1x3x320x320", "1x3x192x416", "1x3x640x480"],
    "unet": ["1x3x192x192", "1x3x112x208", "4x3x192x192"],
    "unet3d": ["1x1x48x48x48", "1x1x32x48x64", "2x1x48x48x48"],
    "esrgan": ["1x3x64x64", "1x3x45x71", "4x3x64x64"],
    "sr": ["1x3x128x128", "1x3x90x122", "4x3x128x128"],
    "style": ["1x3x192x192", "1x3x148x212", "4x3x192x192"],
    "vaedec": ["1x4x24x24", "1x4x19x27", "4x4x24x24"],
    "gnres": ["1x3x128x128", "1x3x117x139", "4x3x128x128"],
    "naf": ["1x3x128x128", "1x3x96x136", "4x3x128x128"],
    "bifpn": [" ".join(f"{n}x64x{h >> k}x{w >> k}" for k in range(5)) for n, h, w in ((1, 64, 64), (1, 48, 80), (4, 64, 64))],
    "gpt": ["1x64", "1x1", "3x37"],
    "llama": ["1x32", "1x1", "3x19"],
    "bert": ["1x128 1x128", "1x5 1x5", "4x37 4x37"],
    "detr": ["1x400x256", "1x333x256", "4x400x256"],
    "linatt": ["1x1024x256", "1x777x256", "4x1024x256"],
    "mixer": ["1x3x224x224", "3x3x224x224", "8x3x224x224"],
    "pointnet": ["1x3x1024", "1x3x777", "8x3x1024"],
    "dlrm": ["128x13 128x26", "1x13 1x26", "37x13 37x26"],
    "w2v": ["1x1x16000", "1x1x11111", "4x1x16000"],
    "conformer": ["1x1x400x80", "1x1x333x80", "4x1x400x80"],
    "stft": ["1x1x16000", "1x1x11111", "4x1x16000"],
    "tcn": ["1x1x8000", "1x1x5555", "4x1x8000"],
    "hifigan": ["1x80x50", "1x80x37", "4x80x50"],
    "demucs": ["1x2x8192", "1x2x5120", "4x2x8192"],
    "lstm": ["100x1x128", "37x1x128", "100x8x128"],
    "gru": ["64x1x64", "37x1x64", "64x8x64"],
    "r3d_18": ["1x3x16x112x112", "1x3x11x97x123", "2x3x16x112x112"],
    "inception_v3": ["1x3x299x299", "1x3x245x311", "4x3x299x299"],
    "maxvit_t": ["1x3x224x224", "3x3x224x224", "8x3x224x224"],
    "swin_v2_t": ["1x3x224x224", "3x3x224x224", "8x3x224x224"],
}


@dataclasses.dataclass
class Network:
    name: str
    model: pathlib.Path
    options: list            # of metac compile, for the library with open dims
    shapes: list             # "input=1x3x224x224,other=1x5" of each race
    values: dict = dataclasses.field(default_factory=dict)


def networks(arguments, keep):
    """Those of the command line, or the suite's."""
    if arguments.model:
        opened = [word for part in arguments.open.split(",") if part for word in ("--shape", part)]
        values = {name: float(x) for name, x in (v.rsplit("=", 1) for v in arguments.value)}
        yield Network(arguments.model.stem, arguments.model, [*opened, *(w for d in arguments.dim for w in ("--dim", d))], arguments.at, values)
        return
    yield from backbones(keep, re.compile(arguments.only).search)
    yield from dynamic(keep)
    yield from packages(keep)
    if arguments.others:
        for file in sorted(arguments.others.glob("*.onnx")):
            shapes = OTHERS.get(file.stem, IMAGES)
            yield Network(file.stem, file, [], [",".join(f"x{i}={dims}" for i, dims in enumerate(shape.split())) for shape in shapes])


def backbones(keep, wanted):
    sys.path.insert(0, str(ROOT / "models" / "backbones"))
    import build
    import onnx
    for name in build.BUILDERS:
        if not wanted(name):
            continue
        file = keep / "models" / f"{name}.onnx"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            onnx.save(build.build(name), file.with_suffix(".partial"))
            file.with_suffix(".partial").rename(file)
        if name == "bert_base":
            yield Network(name, file, [], [f"input_ids={n}x128,attention_mask={n}x128" for n in (1, 3, 8)], {"attention_mask": 1})
            continue
        opened, shapes = BACKBONES.get(name, ("?x3x?x?", IMAGES))
        yield Network(name, file, ["--shape", f"input={opened}"], [f"input={s}" for s in shapes])


def dynamic(keep):
    """models/dynamic, with everything open that the files leave open."""
    sys.modules.pop("build", None)
    sys.path.insert(0, str(ROOT / "models" / "dynamic"))
    import build
    import onnx
    caches = lambda n, steps, past: f"ids={n}x{steps},past_key=2x{n}x4x{past}x8,past_value=2x{n}x4x{past}x8"  # noqa: E731
    cases = {"detector": ([], [f"image={s}" for s in ("1x3x224x224", "1x3x184x200", "4x3x224x224")]),
             "decoder": (["--dim", "past=0..4096"], [caches(1, 1, 40), caches(3, 1, 113), caches(1, 64, 0)]),
             "convolutions": ([], [f"image={s}" for s in IMAGES])}
    for name, (options, shapes) in cases.items():
        file = keep / "models" / f"{name}.onnx"
        file.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(build.BUILDERS[name](), file)
        yield Network(name, file, options, shapes, {"ids": 7})
    sys.path.remove(str(ROOT / "models" / "dynamic"))


def packages(keep):
    sys.path.insert(0, str(ROOT / "tests" / "models"))
    from run_models import from_wheel
    vad = lambda n: f"input={n}x512,state=2x{n}x128"  # noqa: E731
    cases = {"magika": ("magika", "model.onnx", [f"bytes={n}x2048" for n in (1, 5, 8)]),
             "silero15": ("silero-vad", "silero_vad_16k_op15.onnx", [vad(n) for n in (1, 3, 8)]),
             "silero18": ("silero-vad", "silero_vad_op18_ifless.onnx", [vad(n) for n in (1, 3, 8)]),
             "det": ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", [f"x={s}" for s in ("1x3x640x640", "1x3x480x736", "1x3x320x224")]),
             "rec": ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", [f"x={s}" for s in ("1x3x48x320", "1x3x48x203", "6x3x48x320")]),
             "cls": ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", [f"x={s}" for s in ("1x3x48x192", "3x3x48x192", "6x3x48x192")]),
             "nudenet": ("nudenet", "320n.onnx", [f"images={s}" for s in ("1x3x320x320", "1x3x256x384", "4x3x320x320")]),
             "pitch": ("basic-pitch", "nmp.onnx", [f"serving_default_input_2:0={n}x43844x1" for n in (1, 3, 8)])}
    for name, (package, file_name, shapes) in cases.items():
        yield Network(name, from_wheel(package, file_name, keep), [], shapes, {"sr": 16000})
