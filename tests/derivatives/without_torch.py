"""What is not compared with PyTorch, and why. Single samples say so where they are made (reference=False)."""

# (domain, name): why PyTorch has no function for it and none is written here.
NO_COUNTERPART = {}
