"""Made data that the networks of build.py can learn: nothing is downloaded, the same on every machine."""
import numpy as np


def images(count, size, classes, seed=1):
    """A class is a coarse pattern of colours, a sample that pattern moved about and under noise: uint8 [count, 3, size, size] and labels."""
    random = np.random.default_rng(seed)
    coarse = np.random.default_rng(0).uniform(0.25, 0.75, (classes, 3, 8, 8))
    labels = random.integers(0, classes, count)
    x = np.empty((count, 3, size, size), np.uint8)
    at = np.arange(size)
    for k, label in enumerate(labels):
        dy, dx = random.integers(0, size // 8, 2)
        pattern = coarse[label][:, (at + dy) * 8 // size % 8][:, :, (at + dx) * 8 // size % 8]
        x[k] = np.clip(255 * (pattern + 0.15 * random.standard_normal(pattern.shape)), 0, 255)
    return {"x": x, "target": labels}


def sentences(count, time, vocabulary, seed=1):
    """Translated by a dictionary and turned round. Word 0 begins a sentence."""
    random = np.random.default_rng(seed)
    dictionary = np.concatenate([[0], 1 + np.random.default_rng(0).permutation(vocabulary - 1)])
    source = random.integers(1, vocabulary, (count, time))
    target = dictionary[source[:, ::-1]]
    return {"source": source, "so_far": np.concatenate([np.zeros((count, 1), np.int64), target[:, :-1]], 1), "target": target}


def ratings(count, users, items, seed=1):
    """Who likes what: signs of the products of a few hidden factors."""
    random, hidden = np.random.default_rng(seed), np.random.default_rng(0)
    of_users, of_items = hidden.standard_normal((users, 4)), hidden.standard_normal((items, 4))
    user, item = random.integers(0, users, count), random.integers(0, items, count)
    return {"user": user, "item": item, "target": ((of_users[user] * of_items[item]).sum(1) > 0).astype(np.float32)}
