"""Networks over tokens: language, queries, patches; and recommendation and points."""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, bias=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=bias) for _ in range(4))

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def turn(self, x):
        return x

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        q, k, v = self.turn(self.split(self.q(x))), self.turn(self.split(self.k(memory))), self.split(self.v(memory))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if self.causal:
            scores = scores + torch.full((x.shape[1], x.shape[1]), -1e9).triu(1)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, width, heads, causal=False, hidden=4):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(width, heads, causal), nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, hidden * width), nn.GELU(), nn.Linear(hidden * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    """decoder, 6 blocks of 768, 64 tokens, causal"""
    inputs = [torch.arange(64).reshape(1, 64) * 7]

    def __init__(self, vocabulary=2000, width=768):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(64, width) * 0.02)
        self.blocks, self.norm, self.head = nn.Sequential(*(Block(width, 12, True) for _ in range(6))), nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.words(ids) + self.places[:ids.shape[1]])))


class RootMeanSquareNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class RotaryAttention(Attention):
    def __init__(self, width, heads, tokens):
        super().__init__(width, heads, True, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(tokens).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def turn(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos[:x.shape[2]] + torch.cat([-b, a], -1) * self.sin[:x.shape[2]]


class Llama(nn.Module):
    """RMSNorm, rotary positions, SwiGLU, 6 blocks of 768, 32 tokens"""
    inputs = [torch.arange(32).reshape(1, 32) * 11]

    class Layer(nn.Module):
        def __init__(self, width, heads, tokens, hidden):
            super().__init__()
            self.attention, self.norm1, self.norm2 = RotaryAttention(width, heads, tokens), RootMeanSquareNorm(width), RootMeanSquareNorm(width)
            self.gate, self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            y = self.norm2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def __init__(self, vocabulary=2000, width=768):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(vocabulary, width), RootMeanSquareNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.blocks = nn.Sequential(*(self.Layer(width, 12, 32, 2048) for _ in range(6)))

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.words(ids))))


class Bert(nn.Module):
    """encoder, 6 blocks of 768, 128 tokens"""
    inputs = [torch.arange(128).reshape(1, 128) * 3, torch.ones(1, 128)]

    def __init__(self, vocabulary=2000, width=768):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(128, width) * 0.02)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.ModuleList([Attention(width, 12), nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)]) for _ in range(6))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.places[:ids.shape[1]]) * mask.unsqueeze(-1)
        for attention, norm1, up, down, norm2 in self.layers:
            x = norm1(x + attention(x))
            x = norm2(x + down(F.gelu(up(x))))
        return x, self.pooler(x[:, 0]).tanh()


class Detr(nn.Module):
    """3 encoder and 3 decoder layers of 256, 400 tokens, 100 queries"""
    inputs = [(1, 400, 256)]

    def __init__(self, width=256):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 100, width))
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(width, 8, 1024, 0.0, batch_first=True) for _ in range(3))
        self.decoder = nn.ModuleList(nn.ModuleList([Attention(width, 8), nn.LayerNorm(width), Attention(width, 8), nn.LayerNorm(width),
                                                    nn.Sequential(nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, width)), nn.LayerNorm(width)]) for _ in range(3))
        self.classes = nn.Linear(width, 92)
        self.boxes = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4), nn.Sigmoid())

    def forward(self, x):
        for layer in self.encoder:
            x = layer(x)
        y = self.queries
        for own, norm1, cross, norm2, feed, norm3 in self.decoder:
            y = norm1(y + own(y))
            y = norm2(y + cross(y, x))
            y = norm3(y + feed(y))
        return self.classes(y), self.boxes(y)


class LinearAttention(nn.Module):
    """linear attention, 1024 tokens of 256"""
    inputs = [(1, 1024, 256)]

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).reshape(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            y = q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2) + 1e-6)
            x = x + self.out(y.transpose(1, 2).reshape(x.shape))
            return x + self.feed(self.norm2(x))

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(self.Layer(256, 8) for _ in range(4)))

    def forward(self, x):
        return self.layers(x)


class Mixer(nn.Module):
    """MLP-Mixer, 196 tokens of 512"""
    inputs = [(1, 3, 224, 224)]

    class Layer(nn.Module):
        def __init__(self, tokens, width):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.across = nn.Sequential(nn.Linear(tokens, 256), nn.GELU(), nn.Linear(256, tokens))
            self.along = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.along(self.norm2(x))

    def __init__(self):
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, 512, 16, 16), nn.Linear(512, 1000)
        self.layers, self.norm = nn.Sequential(*(self.Layer(196, 512) for _ in range(8))), nn.LayerNorm(512)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


class PointNet(nn.Module):
    """1-D convolutions over 1024 points, maximum"""
    inputs = [(1, 3, 1024)]

    def __init__(self):
        super().__init__()
        layer = lambda c, f: nn.Sequential(nn.Conv1d(c, f, 1), nn.BatchNorm1d(f), nn.ReLU())
        self.points = nn.Sequential(layer(3, 64), layer(64, 64), layer(64, 128), layer(128, 1024))
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x):
        return self.head(self.points(x).amax(2))


class Dlrm(nn.Module):
    """26 embeddings, pairwise products, batch 128"""
    inputs = [(128, 13), (torch.arange(128 * 26).reshape(128, 26) * 37) % 1000]

    def __init__(self, width=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, width) for _ in range(26))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(27 * 26 // 2 + width, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())
        rows, columns = torch.tril_indices(27, 27, -1)
        self.register_buffer("pairs", rows * 27 + columns)

    def forward(self, dense, ids):
        x = self.bottom(dense)
        features = torch.stack([x] + [table(ids[:, k]) for k, table in enumerate(self.tables)], 1)
        products = (features @ features.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([x, products[:, self.pairs]], 1))


NETWORKS = {"gpt": Gpt, "llama": Llama, "bert": Bert, "detr": Detr, "linatt": LinearAttention, "mixer": Mixer, "pointnet": PointNet, "dlrm": Dlrm}
