"""An independent biLM in plain NumPy and float64, straight from bilm-tf's file layout.

It knows nothing of elmokit: one sentence, one step, one character window at a time.
"""

import json
from pathlib import Path

import h5py
import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class NumpyBiLM:
    """Reads `options.json` and `weights.hdf5`; character input only."""

    def __init__(self, options: Path, weights: Path) -> None:
        self.options = json.loads(options.read_text())
        self.tensors = {}
        with h5py.File(weights) as file:
            file.visititems(self._keep)
        self.reset()

    def _keep(self, name, item):
        if isinstance(item, h5py.Dataset):
            self.tensors[name] = np.asarray(item, dtype=np.float64)

    def reset(self) -> None:
        lstm = self.options["lstm"]
        shape = (2, lstm["n_layers"])
        self.h = np.zeros((*shape, lstm["projection_dim"]))
        self.c = np.zeros((*shape, lstm["dim"]))

    def char_ids(self, word: str) -> list[int]:
        """The 50 ids of a word, not shifted."""
        marks = {"<S>": [256], "</S>": [257]}
        inner = marks.get(word) or list(word.encode("utf-8", "ignore"))[:48]
        return [258, *inner, 259, *[260] * (48 - len(inner))]

    def token(self, word: str) -> np.ndarray:
        cnn = self.options["char_cnn"]
        characters = self.tensors["char_embed"][self.char_ids(word)]  # (50, c)
        features = []
        for i, (width, _) in enumerate(cnn["filters"]):
            kernel = self.tensors[f"CNN/W_cnn_{i}"][0].reshape(-1, cnn["filters"][i][1])
            windows = [characters[p : p + width].ravel() @ kernel for p in range(51 - width)]
            features.append(np.max(windows, axis=0) + self.tensors[f"CNN/b_cnn_{i}"])
        x = np.concatenate(features)
        x = np.maximum(x, 0) if cnn["activation"] == "relu" else np.tanh(x)
        for k in range(cnn["n_highway"]):
            part = {
                name: self.tensors[f"CNN_high_{k}/{name}"]
                for name in ("W_carry", "b_carry", "W_transform", "b_transform")
            }
            gate = sigmoid(x @ part["W_carry"] + part["b_carry"])
            x = gate * np.maximum(x @ part["W_transform"] + part["b_transform"], 0) + (1 - gate) * x
        if "CNN_proj/W_proj" in self.tensors:
            x = x @ self.tensors["CNN_proj/W_proj"] + self.tensors["CNN_proj/b_proj"]
        return x

    def step(self, direction: int, layer: int, x: np.ndarray) -> np.ndarray:
        lstm = self.options["lstm"]
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
        gates = np.concatenate([x, self.h[direction, layer]]) @ self.tensors[cell + "W_0"]
        i, j, f, o = np.split(gates + self.tensors[cell + "B"], 4)
        c = sigmoid(f + 1) * self.c[direction, layer] + sigmoid(i) * np.tanh(j)
        if lstm.get("cell_clip"):
            c = np.clip(c, -lstm["cell_clip"], lstm["cell_clip"])
        h = sigmoid(o) * np.tanh(c)
        if cell + "W_P_0" in self.tensors:
            h = h @ self.tensors[cell + "W_P_0"]
            if lstm.get("proj_clip"):
                h = np.clip(h, -lstm["proj_clip"], lstm["proj_clip"])
        self.h[direction, layer], self.c[direction, layer] = h, c
        return h

    def embed(self, sentence: list[str]) -> np.ndarray:
        """(L + 1, T + 2, 2D) with boundaries; state goes on from the last call unless reset."""
        tokens = np.stack([self.token(word) for word in ["<S>", *sentence, "</S>"]])
        layers = [np.concatenate([tokens, tokens], axis=1)]
        below = [tokens, tokens[::-1]]
        for layer in range(self.options["lstm"]["n_layers"]):
            for direction in (0, 1):
                outputs = np.stack([self.step(direction, layer, x) for x in below[direction]])
                skip = layer > 0 and self.options["lstm"]["use_skip_connections"]
                below[direction] = outputs + below[direction] if skip else outputs
            layers.append(np.concatenate([below[0], below[1][::-1]], axis=1))
        return np.stack(layers)
