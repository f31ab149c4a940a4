"""Draw masks for the cases of any exercise."""

import numpy as np


def draw_mask(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Draw a mask that allows about half of the keys. Each row allows at least one key, but not all keys."""
    mask = rng.random(shape) < 0.5
    keep = rng.integers(shape[-1], size=shape[:-1])[..., None]
    np.put_along_axis(mask, keep, True, axis=-1)
    np.put_along_axis(mask, (keep + 1) % shape[-1], False, axis=-1)
    return mask


def draw_one(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Draw a mask that allows one key in each row."""
    return np.eye(shape[-1], dtype=bool)[rng.integers(shape[-1], size=shape[:-1])]
