"""Modules: networks as Python objects whose parameters have names.

    net = nn.Sequential(nn.Linear(64, 32), op.Relu, nn.Linear(32, 10))
    optimiser = metac.optim.Optimiser(net, "adam")

A Module is a class with parameters (Vars) and modules as attributes and a method `forward`. docs/lazy.md shows how.
"""
from .attention import MultiHeadAttention
from .layers import (BatchNorm, Conv, ConvTranspose, Dropout, Embedding, GroupNorm, InstanceNorm, LayerNorm, Linear)
from .module import Module, Sequential, seed
from .recurrent import GRU, LSTM

__all__ = ["BatchNorm", "Conv", "ConvTranspose", "Dropout", "Embedding", "GRU", "GroupNorm", "InstanceNorm", "LSTM",
           "LayerNorm", "Linear", "Module", "MultiHeadAttention", "Sequential", "seed"]
