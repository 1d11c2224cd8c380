"""Draws one shape on a plain background, as `tests/support/shapes.rs` does."""

import json
from pathlib import Path

import numpy as np

SIDE = 48  # pixels
FACTS = json.loads((Path(__file__).parent / "shapes.json").read_text())
COLORS, BACKGROUNDS = FACTS["colors"], np.array(FACTS["backgrounds"], np.float32)
# Subpixels of a side of a pixel.
PARTS = 2
EDGE = (np.arange(SIDE * PARTS, dtype=np.float32) + 0.5) / PARTS


def mask(polygons, center, radius, angle):
    """The share of each pixel that is inside: [SIDE, SIDE]. A point is inside if a ray crosses an odd number of edges."""
    cos, sin = np.cos(angle) * radius, np.sin(angle) * radius
    inside = np.zeros((len(EDGE), len(EDGE)), bool)
    for polygon in polygons:
        x, y = np.array(polygon, np.float32).T
        x, y = center[0] + cos * x - sin * y, center[1] + sin * x + cos * y
        for x0, y0, x1, y1 in zip(x, y, np.roll(x, -1), np.roll(y, -1)):
            rows = np.flatnonzero((y0 > EDGE) != (y1 > EDGE))
            crossing = x0 + (EDGE[rows] - y0) * (x1 - x0) / (y1 - y0)
            inside[rows] ^= EDGE[None, :] < crossing[:, None]
    return inside.reshape(SIDE, PARTS, SIDE, PARTS).mean((1, 3)).astype(np.float32)


def place(random):
    """A random center, radius and angle, in pixels and radians."""
    radius = random.uniform(0.22, 0.42) * SIDE
    reach = SIDE / 2 - radius
    center = [SIDE / 2 + random.uniform(-reach, reach) for _ in range(2)]
    return center, radius, random.uniform(-0.26, 0.26)


def color_on(background, random):
    """A color that differs from the background."""
    far = [name for name, rgb in COLORS.items() if np.abs(np.array(rgb) - background).max() > 60]
    return random.choice(far)


def paint(shape_mask, background, color):
    """Pixels [SIDE, SIDE, 3] between 0 and 255."""
    share = shape_mask[..., None]
    return share * np.array(color, np.float32) + (1 - share) * np.array(background, np.float32)
