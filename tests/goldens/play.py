"""Every scene is played on one journal; then each reader is asked for it. What is seen becomes text."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tests.goldens.plainly import Plain, bundle, data, few, once, readable, sections
from tests.goldens.readers import CHANGED, IN_NOTEBOOK, IN_TERMINAL, SERVED, WAITING
from tests.goldens.scenes import FILES, Scene, scenes, scripts
from tests.goldens.stage import BEGIN, PATIENCE, Answer, Ask, Cell, Stage
from tests.support.story import Calendar

PAUSE_SECONDS = 60


@dataclass
class Played:
    """What was seen, by the name of the file that keeps it."""

    journal: dict[str, str] = field(default_factory=dict)  # What each run left in the journal, as an auditor gets it
    cells: dict[str, str] = field(default_factory=dict)  # What each cell showed, asked and gave
    terminal: dict[str, str] = field(default_factory=dict)  # What the same runs look like in a terminal
    commands: dict[str, str] = field(default_factory=dict)  # What each reading command of the terminal printed
    magics: dict[str, str] = field(default_factory=dict)  # What each reading command of the notebook gave
    routes: dict[str, str] = field(default_factory=dict)  # What the server answered
    formats: dict[str, str] = field(default_factory=dict)  # Files that were written


def play(root: Path) -> Played:
    """Play everything in an empty folder."""
    clock, script = Calendar(BEGIN), dict[str, Any]()
    with Stage(root, script, clock) as stage:
        return _Play(stage, script).all()


class _Play:
    def __init__(self, stage: Stage, script: dict[str, Any]) -> None:
        self._stage = stage
        self._plain = Plain(stage.names, stage.port)
        self._scenes = scenes(stage.port)
        # The brain looks into it as it is asked.
        script.update(scripts([*self._scenes, WAITING], stage.clock))
        self._seen = Played()
        self._runs: dict[str, str] = {}

    def all(self) -> Played:
        for scene in self._scenes:
            self._scene(scene)
        self._written()
        self._in_a_terminal()
        self._server()
        self._commands()
        self._journal()
        return self._seen

    # -------------------------------------------------------------------- scenes

    def _scene(self, scene: Scene) -> None:
        stage = self._stage
        stage.clock.go_on(PAUSE_SECONDS)
        folder = stage.project(scene.place or scene.name, scene.files)
        self._plain.names[str(folder)] = "<project>"
        stage.shell.user_ns.update(scene.values)
        stage.backend.broken = scene.broken
        told = [("cell", scene.cell)]
        for line in scene.before:
            told += self._told(f"%kagura {line}", stage.line(line))
        cell = stage.cell(scene.cell, name=scene.name, answers=scene.answers, person=scene.person)
        stage.backend.broken = ""
        self._name(scene)
        for number, parts in enumerate(cell.asked, 1):
            text = "\n".join(f"<!-- {key} -->\n{text}" for key, text in parts.items())
            self._keep(self._seen.cells, f"{scene.name}/asked-{number}", {"html": bundle({"text/html": text})["html"]})
        kinds = ("run", "changes")
        for number, (content, metadata) in enumerate(cell.places):
            name = kinds[number] if number < len(kinds) else f"place-{number}"
            self._keep(self._seen.cells, f"{scene.name}/{name}", bundle(content, metadata))
        told += self._told("what it said", cell)
        told += [(f"variable {name}", repr(stage.shell.user_ns.get(name))) for name in scene.wanted]
        for line in scene.after:
            told += self._told(f"%kagura {line}", stage.line(line))
        self._keep(self._seen.cells, f"{scene.name}/cell", {"txt": sections(told)})

    def _name(self, scene: Scene) -> None:
        """The newest run is the scene's, and those that it has handed work to are its children."""
        known = {*self._runs.values()}
        new = [run for run in self._stage.newest() if run not in known]
        for number, run in enumerate(new):
            name = scene.name if not number else f"{scene.name}-{number}"
            self._runs[name] = run
            self._plain.names[run] = f"run-<{name}>"

    def _told(self, head: str, cell: Cell) -> Iterator[tuple[str, str]]:
        said = cell.printed + (f"\n[error] {cell.error}" if cell.error else "")
        yield head, said if not isinstance(cell.value, pd.DataFrame) else f"{said}\n{_frame(cell.value)}"

    def _keep(self, where: dict[str, str], name: str, texts: Mapping[str, str]) -> None:
        for ending, text in texts.items():
            where[f"{name}.{ending}"] = self._plain(text)

    # ------------------------------------------------------------------- readers

    def _written(self) -> None:
        """Files that are formats of ours."""
        stage = self._stage
        self._keep(self._seen.formats, "cassette", {"jsonl": (stage.person / "tour/tour.jsonl").read_text("utf-8")})

    def _in_a_terminal(self) -> None:
        stage = self._stage
        for name, run in self._runs.items():
            cell = stage.typed(f"%kagura attach {run}")
            # Whether it says where the run was depends on how long the run is looked for.
            said = re.sub(r"^\[.*\] .* isolation: .*\n", "", cell.printed)
            self._keep(self._seen.terminal, name, {"txt": said + cell.error})

    def _commands(self) -> None:
        stage = self._stage
        stage.project("reading", FILES)
        for words in IN_NOTEBOOK:
            cell = stage.line(words.format(**self._runs))
            told = [*self._told("printed", cell)]
            told += [(kind, text) for kind, text in _shown(cell) if kind != "text/plain" or not cell.printed]
            self._keep(self._seen.magics, _file_name(words), {"txt": sections([("line", f"%kagura {words}"), *told])})
        stage.close()
        for words in [*IN_TERMINAL, *CHANGED]:
            said = [word.format(**self._runs) for word in words.split()]
            parts = [("command", f"kagura-kernel {words}")]
            for more in ((), ("--json",)):
                code, out, trouble = stage.command(*said, *more)
                parts += [(f"{' '.join(['', *more]).strip() or 'plainly'}: {code}", readable(out))]
                parts += [("errors", trouble)] if trouble else []
                if words in CHANGED:
                    break
            self._keep(self._seen.commands, _file_name(words), {"txt": sections(parts)})

    def _server(self) -> None:
        stage = self._stage
        stage.project("served", FILES)
        stage.clock.go_on(PAUSE_SECONDS)

        async def visit(ask: Ask) -> None:
            names = await _named(ask)
            self._plain.names[names["run_id"]] = "run-<served>"
            for method, path, body in SERVED:
                answer = await ask(method, path.format(**names, **self._runs), body)
                head = f"{method} {path}" + ("" if body is None else f" {json.dumps(body)}")
                name = f"{_file_name(path.partition('?')[0])}.{method.lower()}.yaml"
                told = data(few(_body(answer)))
                before = self._seen.routes.get(name, "")
                self._seen.routes[name] = f"{before}# {head}\n# {answer.status} {answer.kind}\n" + self._plain(told)
                if path == "leases/{lease_id}/revoke":
                    # Its run hears of it a moment later, and here before it ends.
                    until = time.monotonic() + PATIENCE
                    while _body(await ask("GET", "leases", None))["items"]:
                        assert time.monotonic() < until, "nobody gives it back"
                        await asyncio.sleep(0.02)

        stage.visited(WAITING.cell, WAITING.answers, visit)

    def _journal(self) -> None:
        """Every row, as the export gives it to an auditor."""
        stage = self._stage
        code, out, trouble = stage.command("journal", "export")
        assert not code, trouble
        head, *lines, end = [json.loads(line) for line in out.splitlines()]
        rows: dict[str, list[Any]] = {}
        named = {run: name for name, run in self._runs.items()}
        known: dict[str, str] = {}
        for line in lines:
            event = json.loads(line["body"])
            rows.setdefault(named.get(event.get("run_id", ""), "others"), []).append(_row(event))
        for name, events in rows.items():
            first = [row for row in events if not (name == "others" or _beside(row))]
            # Nobody promises in which order what goes on at once is told.
            beside = sorted(
                (row for row in events if row not in first), key=lambda row: (_at(row), self._plain(data(row)))
            )
            told = {"rows": first, "beside them, by time": beside}
            text = self._plain(data({head: found for head, found in told.items() if found}))
            self._seen.journal[f"{name}.yaml"] = once(text, name, known)
        self._keep(self._seen.formats, "audit", {"yaml": data([head, *lines[:2], end])})


def _row(event: Mapping[str, Any]) -> dict[str, Any]:
    """A row in short: what it does not say is left out, and so is what every row of its run says."""
    told = {name: value for name, value in event.items() if value not in (None, "", [], {})}
    rest = {name: value for name, value in told.items() if name not in {"kind", "run_id", "session_id"}}
    # Commands in boxes are timed by the clock on the wall.
    if not float(rest.get("duration", 0)).is_integer():
        rest["duration"] = "measured"
    return {str(told["kind"]): rest}


def _beside(row: Mapping[str, Any]) -> bool:
    return any(kind.startswith(("lease.", "egress.", "memory.", "memories.")) for kind in row)


def _at(row: Mapping[str, Any]) -> str:
    return str(next(iter(row.values())).get("at"))


def _frame(frame: pd.DataFrame) -> str:
    kinds = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes.items())
    with pd.option_context("display.width", 200, "display.max_columns", None, "display.max_colwidth", 80):
        return f"index {frame.index.name}; columns {kinds}\n{frame.to_string()}"


def _shown(cell: Cell) -> Iterator[tuple[str, str]]:
    for content, metadata in cell.places:
        yield from bundle(content, metadata).items()


def _file_name(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "nothing"


def _body(answer: Answer) -> Any:
    return json.loads(answer.body) if answer.kind == "application/json" and answer.body else answer.body[:200]


async def _named(ask: Ask) -> dict[str, str]:
    """Names that stand in the paths: of the run that goes on, its question, its lease, and a memory."""

    async def first(path: str) -> Any:
        return json.loads((await ask("GET", path)).body)["items"][0]

    return {
        "run_id": (await first("runs?state=live"))["run_id"],
        "approval_id": (await first("approvals?state=pending"))["id"],
        "lease_id": (await first("leases"))["lease_id"],
        "memory_id": (await first("memories?q=board"))["id"],
    }
