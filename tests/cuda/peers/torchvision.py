"""Stands in for torchvision: its networks are torch.py's."""
import types

import torch

models = types.SimpleNamespace(alexnet=torch.Module, digits=torch.Module)
