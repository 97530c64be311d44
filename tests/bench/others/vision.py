"""Detectors, segmentation, restoration and generation of images."""
import torch
from torch import nn
from torch.nn import functional as F


def conv(channels, filters, kernel=3, stride=1, groups=1, act=nn.SiLU):
    layers = [nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(filters)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Bottlenecks(nn.Module):
    def __init__(self, channels, filters, count, residual=True):
        super().__init__()
        self.half, self.residual = filters // 2, residual
        self.first = conv(channels, filters, 1)
        self.blocks = nn.ModuleList(nn.Sequential(conv(self.half, self.half), conv(self.half, self.half)) for _ in range(count))
        self.last = conv(filters + count * self.half, filters, 1)

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """detector: SiLU, concatenations, three scales, 320x320"""
    inputs = [(1, 3, 320, 320)]

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), Bottlenecks(32, 32, 1))
        self.p3 = nn.Sequential(conv(32, 64, 3, 2), Bottlenecks(64, 64, 2))
        self.p4 = nn.Sequential(conv(64, 128, 3, 2), Bottlenecks(128, 128, 2))
        self.p5 = nn.Sequential(conv(128, 256, 3, 2), Bottlenecks(256, 256, 1))
        self.pyramid = conv(256, 128, 1)
        self.joined = conv(512, 256, 1)
        self.up4, self.up3 = Bottlenecks(384, 128, 1, False), Bottlenecks(192, 64, 1, False)
        self.down4, self.down5 = conv(64, 64, 3, 2), conv(128, 128, 3, 2)
        self.out4, self.out5 = Bottlenecks(192, 128, 1, False), Bottlenecks(384, 256, 1, False)
        self.heads = nn.ModuleList(nn.Sequential(conv(c, 64), conv(64, 64), nn.Conv2d(64, 144, 1)) for c in (64, 128, 256))

    def forward(self, x):
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        pooled = [self.pyramid(self.p5(p4))]
        for _ in range(3):
            pooled.append(F.max_pool2d(pooled[-1], 5, 1, 2))
        p5 = self.joined(torch.cat(pooled, 1))
        u4 = self.up4(torch.cat([F.interpolate(p5, scale_factor=2.0), p4], 1))
        u3 = self.up3(torch.cat([F.interpolate(u4, scale_factor=2.0), p3], 1))
        d4 = self.out4(torch.cat([self.down4(u3), u4], 1))
        d5 = self.out5(torch.cat([self.down5(d4), p5], 1))
        rows = torch.cat([head(level).flatten(2) for head, level in zip(self.heads, (u3, d4, d5))], 2)
        boxes, classes = rows.split((64, 80), 1)
        distances = boxes.reshape(1, 4, 16, -1).softmax(2) * torch.arange(16.0).reshape(1, 1, 16, 1)
        return torch.cat([distances.sum(2), classes.sigmoid()], 1)


class UNet(nn.Module):
    """U-Net, 32 to 512 channels, 192x192"""
    inputs = [(1, 3, 192, 192)]
    convolution, norm, pool, up, widths = nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.ConvTranspose2d, (32, 64, 128, 256, 512)
    channels = 3

    def block(self, channels, filters):
        layers = []
        for c in (channels, filters):
            layers += [self.convolution(c, filters, 3, padding=1), self.norm(filters), nn.ReLU()]
        return nn.Sequential(*layers)

    def __init__(self):
        super().__init__()
        w = self.widths
        self.down = nn.ModuleList(self.block(c, f) for c, f in zip((self.channels, *w), w))
        self.rise = nn.ModuleList(self.up(f, c, 2, 2) for c, f in zip(w, w[1:]))
        self.join = nn.ModuleList(self.block(2 * c, c) for c in w[:-1])
        self.pooled = self.pool(2)
        self.last = self.convolution(w[0], 2, 1)

    def forward(self, x):
        levels = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else self.pooled(x))
            levels.append(x)
        for k in reversed(range(len(self.rise))):
            x = self.join[k](torch.cat([levels[k], self.rise[k](x)], 1))
        return self.last(x)


class UNet3d(UNet):
    """3-D U-Net with instance normalisation, 48x48x48"""
    inputs = [(1, 1, 48, 48, 48)]
    convolution, norm, pool, up, widths = nn.Conv3d, nn.InstanceNorm3d, nn.MaxPool3d, nn.ConvTranspose3d, (16, 32, 64, 128)
    channels = 1


class DenseBlock(nn.Module):
    def __init__(self, channels=64, growth=32):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(channels + k * growth, growth if k < 4 else channels, 3, padding=1) for k in range(5))

    def forward(self, x):
        parts = [x]
        for layer in self.layers[:-1]:
            parts.append(F.leaky_relu(layer(torch.cat(parts, 1)), 0.2))
        return x + 0.2 * self.layers[-1](torch.cat(parts, 1))


class Esrgan(nn.Module):
    """dense residual blocks, pixel shuffle, 64x64"""
    inputs = [(1, 3, 64, 64)]

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.blocks = nn.Sequential(*(DenseBlock() for _ in range(6)))
        self.up = nn.Sequential(nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.2), nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2),
                                nn.LeakyReLU(0.2), nn.Conv2d(64, 3, 3, padding=1))

    def forward(self, x):
        x = self.first(x)
        return self.up(x + self.blocks(x))


class SuperResolution(nn.Module):
    """space to depth, Gelu, bicubic skip, 128x128"""
    inputs = [(1, 3, 128, 128)]

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(12, 48, 3, padding=1), *(nn.Sequential(nn.GELU(), nn.Conv2d(48, 48, 3, padding=1)) for _ in range(4)),
                                  nn.Conv2d(48, 48, 3, padding=1), nn.PixelShuffle(4))

    def forward(self, x):
        return F.interpolate(x, scale_factor=2.0, mode="bicubic", align_corners=False) + self.body(x)


class Style(nn.Module):
    """reflected borders, instance normalisation, enlargements, 192x192"""
    inputs = [(1, 3, 192, 192)]

    @staticmethod
    def layer(channels, filters, kernel, stride=1, scale=1, act=True):
        layers = [nn.Upsample(scale_factor=scale)] if scale > 1 else []
        layers += [nn.ReflectionPad2d(kernel // 2), nn.Conv2d(channels, filters, kernel, stride), nn.InstanceNorm2d(filters, affine=True)]
        return nn.Sequential(*layers, *([nn.ReLU()] if act else []))

    def __init__(self):
        super().__init__()
        layer = self.layer
        self.first = nn.Sequential(layer(3, 32, 9), layer(32, 64, 3, 2), layer(64, 128, 3, 2))
        self.blocks = nn.ModuleList(nn.Sequential(layer(128, 128, 3), layer(128, 128, 3, act=False)) for _ in range(5))
        self.last = nn.Sequential(layer(128, 64, 3, scale=2), layer(64, 32, 3, scale=2), nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


class GroupNormBlock(nn.Module):
    def __init__(self, channels, filters):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, filters, 3, padding=1), nn.GroupNorm(32, filters), nn.SiLU(),
                                  nn.Conv2d(filters, filters, 3, padding=1))
        self.skip = nn.Conv2d(channels, filters, 1) if channels != filters else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.body(x)


class LatentDecoder(nn.Module):
    """decoder of a latent diffusion: group normalisation, SiLU, 24x24 to 96x96"""
    inputs = [(1, 4, 24, 24)]

    def __init__(self):
        super().__init__()
        up = lambda c: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(c, c, 3, padding=1))
        self.layers = nn.Sequential(nn.Conv2d(4, 256, 3, padding=1), GroupNormBlock(256, 256), GroupNormBlock(256, 256), up(256), GroupNormBlock(256, 128), GroupNormBlock(128, 128),
                                    up(128), GroupNormBlock(128, 64), GroupNormBlock(64, 64), nn.GroupNorm(32, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1))

    def forward(self, x):
        return self.layers(x)


class SqueezedBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(16, channels), nn.Mish(), nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(16, channels))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 8, 1), nn.ReLU(), nn.Conv2d(channels // 8, channels, 1), nn.Sigmoid())

    def forward(self, x):
        y = self.body(x)
        return F.mish(x + y * self.gate(y))


class GroupNormResidual(nn.Module):
    """residual blocks, group normalisation, Mish, squeeze and excite"""
    inputs = [(1, 3, 128, 128)]

    def __init__(self):
        super().__init__()
        layers, before = [nn.Conv2d(3, 64, 7, 2, 3)], 64
        for width in (64, 128, 256):
            layers += [nn.Conv2d(before, width, 3, 2, 1), SqueezedBlock(width), SqueezedBlock(width)]
            before = width
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100))

    def forward(self, x):
        return self.layers(x)


class ChannelNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        return centred / (centred.pow(2).mean(1, keepdim=True) + 1e-6).sqrt() * self.scale + self.shift


class GatedBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = ChannelNorm(c), ChannelNorm(c)
        self.into, self.depthwise, self.out = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c), nn.Conv2d(c, c, 1)
        self.attention = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.into2, self.out2 = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        a, b = self.depthwise(self.into(self.norm1(x))).chunk(2, 1)
        y = a * b
        x = x + self.out(y * self.attention(y))
        a, b = self.into2(self.norm2(x)).chunk(2, 1)
        return x + self.out2(a * b)


class Restoration(nn.Module):
    """restoration: layer normalisation of channels, gates, depthwise, 128x128"""
    inputs = [(1, 3, 128, 128)]

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
        self.top, self.down, self.low = GatedBlock(16), nn.Conv2d(16, 32, 2, 2), nn.Sequential(GatedBlock(32), GatedBlock(32))
        self.up, self.end = nn.Sequential(nn.Conv2d(32, 64, 1), nn.PixelShuffle(2)), GatedBlock(16)

    def forward(self, x):
        top = self.top(self.first(x))
        return x + self.last(self.end(top + self.up(self.low(self.down(top)))))


class Pyramid(nn.Module):
    """EfficientDet's neck and head, 64 channels"""
    inputs = [(1, 64, 64 >> k, 64 >> k) for k in range(5)]

    def __init__(self, layers=3, c=64):
        super().__init__()
        separable = lambda: nn.Sequential(nn.Conv2d(c, c, 3, padding=1, groups=c), nn.Conv2d(c, c, 1), nn.BatchNorm2d(c), nn.SiLU())
        self.rise = nn.ModuleList(nn.ModuleList(separable() for _ in range(4)) for _ in range(layers))
        self.fall = nn.ModuleList(nn.ModuleList(separable() for _ in range(4)) for _ in range(layers))
        self.weights = nn.Parameter(torch.rand(layers, 8, 3))
        self.head = nn.Sequential(separable(), separable(), nn.Conv2d(c, 9 * 8, 1))

    def forward(self, *levels):
        levels = list(levels)
        for rise, fall, weights in zip(self.rise, self.fall, self.weights.relu()):
            up = list(levels)
            for k in reversed(range(4)):
                a, b, _ = weights[k]
                up[k] = rise[k]((a * levels[k] + b * F.interpolate(up[k + 1], scale_factor=2.0)) / (a + b + 1e-4))
            down = [up[0]]
            for k in range(1, 5):
                a, b, c = weights[3 + k]
                down.append(fall[k - 1]((a * levels[k] + b * up[k] + c * F.max_pool2d(down[-1], 2)) / (a + b + c + 1e-4)))
            levels = down
        return torch.cat([self.head(level).flatten(2) for level in levels], 2)


NETWORKS = {"yolo": Yolo, "unet": UNet, "unet3d": UNet3d, "esrgan": Esrgan, "sr": SuperResolution, "style": Style, "vaedec": LatentDecoder, "gnres": GroupNormResidual,
            "naf": Restoration, "bifpn": Pyramid}
