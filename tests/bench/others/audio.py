"""Speech, sound and other series: 1-D convolutions and recurrences."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .tokens import Attention, Block


class SpeechEncoder(nn.Module):
    """speech encoder: seven 1-D convolutions, instance normalisation, four attention blocks, 1 s"""
    inputs = [(1, 1, 16000)]

    def __init__(self):
        super().__init__()
        layers, channels = [], 1
        for k, (kernel, stride) in enumerate([(10, 5)] + [(3, 2)] * 4 + [(2, 2)] * 2):
            layers += [nn.Conv1d(channels, 512, kernel, stride, bias=False)] + ([nn.GroupNorm(512, 512)] if k == 0 else []) + [nn.GELU()]
            channels = 512
        self.features, self.norm, self.into = nn.Sequential(*layers), nn.LayerNorm(512), nn.Linear(512, 768)
        self.blocks = nn.Sequential(*(Block(768, 12) for _ in range(4)))

    def forward(self, x):
        return self.blocks(self.into(self.norm(self.features(x).transpose(1, 2))))


class ConformerBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        feed = lambda: nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, c))
        self.feed1, self.feed2, self.attention = feed(), feed(), Attention(c, 4)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
        self.into, self.depthwise, self.batch, self.out = nn.Conv1d(c, 2 * c, 1), nn.Conv1d(c, c, 31, padding=15, groups=c), nn.BatchNorm1d(c), nn.Conv1d(c, c, 1)

    def forward(self, x):
        x = x + 0.5 * self.feed1(x)
        x = x + self.attention(self.norm1(x))
        y = F.glu(self.into(self.norm2(x).transpose(1, 2)), 1)
        x = x + self.out(F.silu(self.batch(self.depthwise(y)))).transpose(1, 2)
        return self.norm3(x + 0.5 * self.feed2(x))


class Conformer(nn.Module):
    """6 Conformer blocks of 256, 4 s"""
    inputs = [(1, 1, 400, 80)]

    def __init__(self, c=256):
        super().__init__()
        self.sampled = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU())
        self.into, self.blocks, self.head = nn.Linear(64 * 20, c), nn.Sequential(*(ConformerBlock(c) for _ in range(6))), nn.Linear(c, 128)

    def forward(self, x):
        y = self.sampled(x)
        y = y.transpose(1, 2).flatten(2)
        return self.head(self.blocks(self.into(y))).log_softmax(-1)


class Spectrogram(nn.Module):
    """log spectrogram as a convolution, two attention blocks"""
    inputs = [(1, 1, 16000)]

    def __init__(self, size=400, hop=160, bands=80):
        super().__init__()
        frequencies, times = torch.arange(size // 2 + 1).float(), torch.arange(size).float()
        angles = 2 * math.pi * torch.outer(frequencies, times) / size
        window = torch.hann_window(size)
        self.register_buffer("waves", torch.cat([angles.cos() * window, -angles.sin() * window]).unsqueeze(1))
        self.register_buffer("filters", torch.rand(bands, size // 2 + 1) * 0.1)
        self.hop, self.into, self.blocks = hop, nn.Linear(bands, 192), nn.Sequential(Block(192, 4), Block(192, 4))

    def forward(self, x):
        real, imaginary = F.conv1d(F.pad(x, (200, 200), mode="reflect"), self.waves, stride=self.hop).chunk(2, 1)
        mel = self.filters @ (real * real + imaginary * imaginary)
        return self.blocks(self.into(torch.log10(mel.clamp(min=1e-10)).transpose(1, 2)))


class WaveNet(nn.Module):
    """WaveNet, dilations 1 to 128, 8000 samples"""
    inputs = [(1, 1, 8000)]

    def __init__(self, c=64):
        super().__init__()
        self.first, self.dilations = nn.Conv1d(1, c, 1), [1, 2, 4, 8, 16, 32, 64, 128] * 2
        self.gates = nn.ModuleList(nn.Conv1d(c, 2 * c, 2, dilation=d) for d in self.dilations)
        self.skips = nn.ModuleList(nn.Conv1d(c, 2 * c, 1) for _ in self.dilations)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(c, 128, 1), nn.ReLU(), nn.Conv1d(128, 256, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for dilation, gate, skip in zip(self.dilations, self.gates, self.skips):
            a, b = gate(F.pad(x, (dilation, 0))).chunk(2, 1)
            step, kept = skip(a.tanh() * b.sigmoid()).chunk(2, 1)
            x, total = x + step, total + kept
        return self.last(total)


class Vocoder(nn.Module):
    """vocoder: transposed and dilated 1-D convolutions"""
    inputs = [(1, 80, 50)]

    def __init__(self, c=256):
        super().__init__()
        self.first, self.rise, self.blocks = nn.Conv1d(80, c, 7, padding=3), nn.ModuleList(), nn.ModuleList()
        for stride in (8, 4, 2):
            self.rise.append(nn.ConvTranspose1d(c, c // 2, 2 * stride, stride, stride // 2))
            c //= 2
            self.blocks.append(nn.ModuleList(nn.ModuleList(nn.ModuleList([nn.Conv1d(c, c, kernel, dilation=d, padding=d * (kernel // 2)), nn.Conv1d(c, c, kernel, padding=kernel // 2)])
                                                           for d in (1, 3)) for kernel in (3, 7)))
        self.last = nn.Conv1d(c, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x)
        for rise, blocks in zip(self.rise, self.blocks):
            x, total = rise(F.leaky_relu(x, 0.1)), 0
            for block in blocks:
                y = x
                for dilated, plain in block:
                    y = y + plain(F.leaky_relu(dilated(F.leaky_relu(y, 0.1)), 0.1))
                total = total + y
            x = total / len(blocks)
        return self.last(F.leaky_relu(x, 0.1)).tanh()


class Separation(nn.Module):
    """1-D U-Net with gates and an LSTM"""
    inputs = [(1, 2, 8192)]

    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(nn.Conv1d(c, w, 8, 4, 2), nn.ReLU(), nn.Conv1d(w, 2 * w, 1), nn.GLU(1)) for c, w in zip((2, *widths), widths))
        self.lstm, self.joined = nn.LSTM(128, 128, 1, bidirectional=True), nn.Linear(256, 128)
        self.up = nn.ModuleList(nn.Sequential(nn.Conv1d(w, 2 * w, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(w, c, 8, 4, 2)) for c, w in zip((8, *widths), widths))

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        x = self.joined(self.lstm(x.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for k in reversed(range(len(self.up))):
            x = self.up[k](x + kept[k])
            x = x.relu() if k else x
        return x


class Lstm(nn.Module):
    """two bidirectional layers of 256, 100 steps"""
    inputs = [(100, 1, 128)]

    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.LSTM(128, 256, 2, bidirectional=True), nn.Linear(512, 64)

    def forward(self, x):
        return self.head(self.layers(x)[0])


class Gru(nn.Module):
    """two layers of 128, 64 steps"""
    inputs = [(64, 1, 64)]

    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.GRU(64, 128, 2), nn.Linear(128, 32)

    def forward(self, x):
        return self.head(self.layers(x)[0])


NETWORKS = {"w2v": SpeechEncoder, "conformer": Conformer, "stft": Spectrogram, "tcn": WaveNet, "hifigan": Vocoder, "demucs": Separation, "lstm": Lstm, "gru": Gru}
