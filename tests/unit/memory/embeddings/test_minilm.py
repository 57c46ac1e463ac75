import json
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.memory.embeddings import MiniLM, WordPieces, read_tensors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "kit", "##ten", "##tens", "sleep", "##s", "a", "!", "故", "cafe"]
SIZE, WIDE, LAYERS = 8, 16, 2


def _write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    random = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), SIZE),
        "embeddings.position_embeddings.weight": (300, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        dense = {f"attention.self.{part}": (SIZE, SIZE) for part in ("query", "key", "value")}
        dense |= {"attention.output.dense": (SIZE, SIZE)}
        dense |= {"intermediate.dense": (WIDE, SIZE), "output.dense": (SIZE, WIDE)}
        for name, shape in dense.items():
            shapes[f"{layer}.{name}.weight"], shapes[f"{layer}.{name}.bias"] = shape, shape[:1]
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    tensors = {name: random.normal(size=shape) for name, shape in shapes.items()}
    for name in norms:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = np.ones(SIZE), np.zeros(SIZE)
    directory = tmp_path / "small" / "model"
    directory.mkdir(parents=True)
    _write(directory / "model.safetensors", tensors)
    (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    config = {
        "hidden_size": SIZE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 2,
        "layer_norm_eps": 1e-12,
    }
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def test_words_are_cut_into_the_longest_pieces_that_are_known():
    pieces = WordPieces({word: number for number, word in enumerate(WORDS)})

    def words(text: str, most: int = 20) -> list[str]:
        return [WORDS[number] for number in pieces.numbers(text, most)]

    assert words("A kitten sleeps!") == ["[CLS]", "a", "kit", "##ten", "sleep", "##s", "!", "[SEP]"]
    assert words("kittens") == ["[CLS]", "kit", "##tens", "[SEP]"]
    assert words("Café 故障") == ["[CLS]", "cafe", "故", "[UNK]", "[SEP]"]
    assert words("x" * 101) == ["[CLS]", "[UNK]", "[SEP]"]
    assert words("a a a a", 4) == ["[CLS]", "a", "a", "[SEP]"]
    assert words("") == ["[CLS]", "[SEP]"]


def test_a_text_means_the_same_alone_and_among_longer_ones(model):
    encoder = MiniLM(model)
    texts = ["a kitten", "a kitten sleeps and sleeps and sleeps !", "", "a " * 400]

    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts])

    assert together.shape == (4, SIZE)
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert encoder.model == "small"
    assert encoder.encode([]).shape == (0, SIZE)


def test_texts_that_are_cut_off_at_the_same_place_mean_the_same(model):
    one, other = MiniLM(model).encode(["a " * 300, "a " * 400])

    assert np.allclose(one, other)


def test_threads_may_ask_at_once(model):
    encoder, found = MiniLM(model), []
    threads = [threading.Thread(target=lambda: found.append(encoder.encode(["a kitten"]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(np.array_equal(found[0], one) for one in found)
    assert len(found) == 4


@pytest.mark.parametrize("damage", ["short", "header", "offsets", "missing", "missing layer"])
def test_weights_that_are_damaged_are_told(model, damage):
    file = model / "model.safetensors"
    if damage == "short":
        file.write_bytes(b"x")
    elif damage == "header":
        file.write_bytes(struct.pack("<Q", 2**60) + b"{}")
    elif damage == "offsets":
        text = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}}).encode()
        file.write_bytes(struct.pack("<Q", len(text)) + text)
    elif damage == "missing layer":
        tensors = read_tensors(file)
        del tensors["encoder.layer.1.output.dense.weight"]
        _write(file, tensors)
    else:
        _write(file, {"a": np.ones(3)})

    with pytest.raises(MemoryUnavailable, match="model of meaning is damaged"):
        MiniLM(model).encode(["a"])


def test_half_floats_are_read_and_other_types_passed_over(tmp_path):
    half = np.array([1.5, 2.0], dtype="<f2").tobytes()
    header = {
        "half": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]},
        "ids": {"dtype": "I64", "shape": [1], "data_offsets": [4, 12]},
    }
    text = json.dumps(header).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(text)) + text + half + b"\0" * 8)

    tensors = read_tensors(tmp_path / "x")

    assert {name: values.tolist() for name, values in tensors.items()} == {"half": [1.5, 2.0]}


def test_only_what_may_be_english_is_asked(model):
    encoder = MiniLM(model)

    assert encoder.understands("Which pet did she get?")
    assert not encoder.understands("Wann wurde der Server gestartet?")
    assert not encoder.understands("サーバー")
