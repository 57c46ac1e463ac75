import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kagura_kernel.brain.replay import ReplayBrain
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round


def write_cassette(path: Path, rounds: Sequence[Round]) -> None:
    lines: list[dict[str, object]] = [{"kagura_cassette": 1, "brain": "hand", "model": "hand-1", "task": "?"}]
    for one in rounds:
        lines += [{"text": one.text}] if one.text else []
        calls = [{"id": f"c{index}", "name": name, "arguments": dict(a)} for index, (name, a) in enumerate(one.calls)]
        lines += [{"calls": calls}] if len(calls) > 1 else [{"call": call} for call in calls]
        lines.append({"usage": {"input_tokens": 100, "output_tokens": 10, "model": "hand-1"}})
    done = {"text": rounds[-1].text, "model": "hand-1", "turns": len(rounds), "stopped": "", "reported_usd": 0.5}
    lines.append({"done": done})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


class TestReplayBrain(BrainConformance):
    @pytest.fixture
    def brain_for(self, tmp_path: Path) -> BrainFor:
        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[ReplayBrain]:
            write_cassette(tmp_path / "talk.jsonl", rounds)
            yield ReplayBrain(tmp_path / "talk.jsonl", delay=0.01 if any(one.slow for one in rounds) else 0.0)

        return make
