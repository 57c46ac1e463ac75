"""The notebook around a cell, as the front end shows it, as its file has it, or as this kernel has run it.

The front end knows best: Markdown, cells that nobody has run, and what is not saved yet. It is asked over a comm of its
own for each run, and our JupyterLab extension answers. Where nobody answers, the notebook's file is read, and what this
kernel has run counts more than what the file says of it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import re
import types
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from kagura_kernel.domain.errors import NotebookUnwritable, RunKilled
from kagura_kernel.domain.images import RASTER
from kagura_kernel.domain.notebook import (
    LONGEST,
    PRIVATE,
    CellEdit,
    CellImage,
    NamedValue,
    Notebook,
    NotebookCell,
    WriteCells,
    is_cell_id,
    says_private,
)
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.jupyter.surface import Surface, client_of, parent_of, person, place_of

TARGET = "kagura.notebook"
"""The comm under which our JupyterLab extension is asked about the notebook that it shows."""

ANSWER_SECONDS = 1.5
"""How long it may take. Who did not answer once is not asked again."""

WRITE_SECONDS = 10.0
"""The same for cells to be changed."""

KEPT = 200
"""Cells of which it is known what ran last."""

LONGEST_SOURCE = 1_000_000
"""Characters of a source that are kept."""

LARGEST_IMAGE = 4 * 2**20
"""Characters of base64 of one that is kept."""

MOST_CELLS = 5_000
MOST_PASTED = 200
"""Images of a Markdown cell: each is looked for in its text."""
LARGEST_FILE = 64 * 2**20
MOST_NAMES = 200
MOST_COLUMNS = 30

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LIBRARY = re.compile(r"(?:site|dist)-packages|[/\\]lib[/\\]python3|<frozen |kagura_kernel[/\\]|\.(?:pyx|pxi):")
_LOG = "kagura_ran"
_AGENTS_OWN = re.compile(r"\s*%%(?:kagura|sandbox)\b")


class CellLog:
    """What this kernel has run."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cells: dict[str, NotebookCell] = {}
        self._ran = 0
        self._private: set[str] = set()  # Cells that were private when they ran
        # Names that cells have given, in all of their runs: one may become private later
        self._given: dict[str, frozenset[str]] = {}
        self._there = set(shell.user_ns)  # Names that there were after the last cell
        # Sources of cells that ran before this began, and say that they are private
        self._before = [one for one in shell.history_manager.input_hist_raw if says_private(one)]
        self._answering: set[str] = set()  # Front ends that have answered; slow once, they are asked again
        self._silent: set[str] = set()  # Front ends, by their session, that know nothing of our questions

    def ran(self, result: Any) -> None:
        """IPython calls this after every cell."""
        info = result.info
        self._ran += 1
        # A front end that works by lines, and what runs notebooks without a person, name no cells.
        named, count = str(getattr(info, "cell_id", None) or ""), result.execution_count
        named = named if is_cell_id(named) else ""
        ident = named or f"ran-{self._ran}"
        self._cells.pop(ident, None)
        self._private.discard(ident)
        is_private = PRIVATE in _tags(parent_of(self._shell)) or says_private(str(info.raw_cell))
        self._note_names(ident, str(info.raw_cell), kept=bool(named) or is_private)
        if is_private:
            self._private.add(ident)
            return
        error = ""
        failed = result.error_before_exec or result.error_in_exec
        if failed is not None:
            told = getattr(self._shell, "_last_traceback", None) or ()
            error = error_text(type(failed).__name__, str(failed), [str(one) for one in told])
            # Where cells have no names, what runs notebooks as tests may count none of them.
            error = error if named else error.replace(f"In[{count}]", ident)
        source = str(info.raw_cell)
        self._cells[ident] = NotebookCell(
            ident,
            "code",
            source[:LONGEST_SOURCE],
            count if named else None,
            "",
            error,
            whole=len(source) <= LONGEST_SOURCE,
        )
        while len(self._cells) > KEPT:
            del self._cells[next(iter(self._cells))]

    def _note_names(self, ident: str, source: str, *, kept: bool) -> None:
        """Note what names a cell has given, by its source or by whatever it has run."""
        given = _given_names(self._shell, source) | (self._shell.user_ns.keys() - self._there)
        self._there = set(self._shell.user_ns)
        if kept:
            self._given[ident] = self._given.get(ident, frozenset()) | given

    def notebook(self, place: CellPlace) -> tuple[Notebook, set[str]]:
        """What is known without anybody's answer, and the ids of private cells."""
        name = PurePath(place.notebook).name
        read = _of_file(place.notebook)
        if read is None:
            ran = [cell for cell in self._cells.values() if cell.id != place.cell_id]
            count = len(self._private) + len(self._before)
            shown = _without_lines(ran) if count else ran
            return Notebook(name, "kernel", tuple(shown), place.cell_id, (), count), self._private
        cells, private = read
        private |= self._private
        known = {cell.id for cell in cells}
        found = [self._newer(cell) for cell in cells]
        at = next((at for at, cell in enumerate(found) if cell.id == place.cell_id), len(found))
        found[at:at] = [cell for cell in self._cells.values() if cell.id not in known and cell.id != place.cell_id]
        shown = [cell for cell in found if cell.id not in private]
        shown = _without_lines(shown) if private else shown
        return Notebook(name, "file", tuple(shown), place.cell_id, (), len(private)), private

    def _newer(self, cell: NotebookCell) -> NotebookCell:
        ran = self._cells.get(cell.id)
        if ran is None or (ran.source == cell.source and ran.count == cell.count):
            return cell
        return ran

    @property
    def failed(self) -> list[str]:
        """The cells that failed and have not run well since, but for those for an agent; the last one first."""
        ours = ("%kagura", "%%kagura")
        failed = [cell for cell in reversed(self._cells.values()) if cell.error]
        return [cell.id for cell in failed if not cell.source.lstrip().startswith(ours)]

    def private_names(self, private: Collection[str], path: str) -> frozenset[str]:
        """Names that private cells have given: those that ran as such, and these of a notebook.

        Of one that ran before this began its source tells them, as far as its file has it.
        """
        known = (self._given.get(ident, ()) for ident in {*self._private, *private})
        unknown = [ident for ident in private if ident not in self._given]
        sources = [*self._before, *(_sources_of(path, unknown) if unknown else ())]
        return frozenset[str]().union(*known, *(_given_names(self._shell, source) for source in sources))

    async def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the front end answers; None where none knows how to."""
        client = client_of(self._shell)
        if client in self._silent:
            return None
        answer = await _asked({**question, "client": client})
        if answer is not None:
            self._answering.add(client)
        elif client not in self._answering:
            self._silent.add(client)
        return answer


async def notebook_of(shell: Any, place: CellPlace, surface: Surface) -> Notebook | None:
    """The notebook that a cell stands in; None in a terminal, which has none.

    Raises:
        RunKilled: the person stopped the cell while the front end was asked, before there was a run.
    """
    log = getattr(shell, _LOG, None)
    if not isinstance(log, CellLog) or getattr(shell, "kernel", None) is None:
        return None
    answered = None
    if surface is Surface.NOTEBOOK and place.cell_id:
        try:
            answer = await log.ask({"ask": "read", "cell": place.cell_id})
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise RunKilled("", person(), "It was stopped before its run began, and nothing was run.") from None
        answered = _of_front_end(answer, place) if answer is not None else None
    found, private = answered or log.notebook(place)
    names = named_values(shell, log.private_names(private, place.notebook))
    return Notebook(found.name, found.source, found.cells, found.asking, names, found.private)


def failed_cells(shell: Any) -> list[str]:
    """The ids of cells that failed in this kernel and have not run well since; the last one first."""
    log = getattr(shell, _LOG, None)
    return log.failed if isinstance(log, CellLog) else []


def watch(shell: Any) -> None:
    """Begin to note what runs; nothing happens when that has begun."""
    if not isinstance(getattr(shell, _LOG, None), CellLog):
        log = CellLog(shell)
        setattr(shell, _LOG, log)
        shell.events.register("post_run_cell", log.ran)


def unwatch(shell: Any) -> None:
    """End it."""
    log = shell.__dict__.pop(_LOG, None)
    if log is not None:
        with contextlib.suppress(ValueError):
            shell.events.unregister("post_run_cell", log.ran)


def cells_of(raw: object) -> tuple[list[NotebookCell], set[str]]:
    """Cells as notebook files write them, without private ones, and the ids of these; what is no cell is left out."""
    cells: list[NotebookCell] = []
    private: set[str] = set()
    for number, one in enumerate(raw if isinstance(raw, list) else ()):
        if not isinstance(one, dict) or number >= MOST_CELLS:
            continue
        kind, ident = one.get("cell_type"), str(one.get("id") or "")
        ident = ident if is_cell_id(ident) else f"cell-{number + 1}"
        if PRIVATE in _tags(one) or says_private(_joined(one.get("source"))):
            private.add(ident)
        elif kind in ("code", "markdown", "raw"):
            cells.append(_cell(one, ident, kind))
    return _without_lines(cells) if private else cells, private


def _without_lines(cells: Sequence[NotebookCell]) -> list[NotebookCell]:
    """Cells with what their errors say, without the lines on the way there: they may be those of a private cell."""
    return [replace(cell, error=cell.error.rpartition("\n")[2]) if cell.error else cell for cell in cells]


def _cell(one: Mapping[str, Any], ident: str, kind: Any) -> NotebookCell:
    source = _joined(one.get("source"))
    count = one.get("execution_count")
    outputs = one.get("outputs")
    told = [output for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else []
    error = next((output for output in told if output.get("output_type") == "error"), None)
    # What an agent has answered there is its conversation, which goes on by itself.
    texts = [] if _AGENTS_OWN.match(source) else [_output_text(output) for output in told]
    return NotebookCell(
        ident,
        kind,
        source[:LONGEST_SOURCE],
        count if isinstance(count, int) else None,
        "\n".join(filter(None, texts))[:LONGEST],
        "" if error is None else error_text(error.get("ename"), error.get("evalue"), error.get("traceback")),
        tuple(_pasted(one.get("attachments"), source)) if kind == "markdown" else (),
        () if _AGENTS_OWN.match(source) else tuple(_drawn(told, ident)),
        len(source) <= LONGEST_SOURCE and one.get("cut") is not True,
    )


def _pasted(attachments: object, source: str) -> Iterator[CellImage]:
    """The images that a Markdown cell shows; the others in it are ones that its person has taken out."""
    for name, bundle in islice(attachments.items(), MOST_PASTED) if isinstance(attachments, dict) else ():
        if f"(attachment:{name})" in source and (data := image_in(bundle)):
            yield CellImage(str(name), data)


def _drawn(outputs: Sequence[Mapping[str, Any]], ident: str) -> Iterator[CellImage]:
    for output in outputs:
        if output.get("output_type") in ("execute_result", "display_data") and (data := image_in(output.get("data"))):
            yield CellImage(f"output of {ident}", data)


def image_in(bundle: object) -> str:
    """The raster image in a bundle of MIME types, in base64; empty where there is none, or one that is too large."""
    found = (_joined(bundle.get(mime)) for mime in sorted(RASTER)) if isinstance(bundle, dict) else ()
    return next((data for data in found if 0 < len(data) <= LARGEST_IMAGE), "")


def _output_text(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return _ANSI.sub("", _joined(output.get("text"))).rstrip("\n")
        case "execute_result" | "display_data":
            data = output.get("data")
            return _joined(data.get("text/plain")) if isinstance(data, dict) else ""
    return ""


def error_text(name: object, value: object, traceback: object) -> str:
    """An error as its last line, below those parts of its traceback that lie in the person's own code."""
    frames = [_ANSI.sub("", str(one)).strip() for one in traceback] if isinstance(traceback, Sequence) else []
    own = [one for one in frames if one.startswith(("Cell In", "File ")) and not _LIBRARY.search(one.split("\n", 1)[0])]
    return "\n".join([*own, f"{name}: {value}"])[:LONGEST]


def _of_front_end(answer: Mapping[str, Any], place: CellPlace) -> tuple[Notebook, set[str]] | None:
    if not isinstance(answer.get("cells"), list):
        return None
    cells, private = cells_of(answer["cells"])
    name = PurePath(str(answer.get("name") or place.notebook)).name
    return Notebook(name, "live", tuple(cells), place.cell_id, (), len(private)), private


def _of_file(path: str) -> tuple[list[NotebookCell], set[str]] | None:
    """Of the file that a server names; None where it cannot be read as a notebook."""
    raw = _raw_cells(path)
    return None if raw is None else cells_of(raw)


def _raw_cells(path: str) -> object | None:
    file = Path(path)
    if not path or file.suffix != ".ipynb":
        return None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if file.stat().st_size <= LARGEST_FILE:
            whole = json.loads(file.read_bytes())
            return whole.get("cells") if isinstance(whole, dict) else None
    return None


def _sources_of(path: str, cells: Container[str]) -> list[str]:
    """What these cells say, as their notebook's file has them."""
    raw = _raw_cells(path)
    there = [one for one in raw if isinstance(one, dict)] if isinstance(raw, list) else []
    return [_joined(one.get("source")) for one in there if one.get("id") in cells]


def _given_names(shell: Any, source: str) -> frozenset[str]:
    """The names that a cell gives to something."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        tree = ast.walk(ast.parse(shell.transform_cell(source)))
        return frozenset(
            node.id if isinstance(node, ast.Name) else getattr(node, "asname", None) or node.name
            for node in tree
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias)
            or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        )
    return frozenset()


def named_values(shell: Any, private: Container[str] = ()) -> tuple[NamedValue, ...]:
    """The person's variables, without modules and without private ones: what each is, never what it holds."""
    hidden = getattr(shell, "user_ns_hidden", {})
    found = []
    for name, value in list(shell.user_ns.items()):
        if name.startswith("_") or name in hidden or name in private or isinstance(value, types.ModuleType):
            continue
        found.append(NamedValue(name, about(value)))
        if len(found) == MOST_NAMES:
            break
    return tuple(found)


def about(value: object) -> str:
    """What a value is: its type, and of a few kinds size and columns. No code of another class runs for it."""
    kind = type(value)
    home = kind.__module__.partition(".")[0]
    match value:
        case type():
            return "class"
        case types.FunctionType():
            code = value.__code__
            return f"function({', '.join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])})"
        case str() | bytes() | list() | tuple() | dict() | set() | frozenset():
            return f"{kind.__name__}, {len(value):,}"
    # A library's own property may fail on a half-made object.
    with contextlib.suppress(Exception):
        if home in _WITH_COLUMNS and kind.__name__ == "DataFrame":
            return _frame(value)
        if home in _WITH_SHAPE and hasattr(value, "shape"):
            shape = " × ".join(f"{size:,}" for size in value.shape)
            return f"{kind.__name__} of {getattr(value, 'dtype', '?')}, {shape or 'a single value'}"
    return kind.__name__ if home == "builtins" else f"{home}.{kind.__name__}"


_WITH_COLUMNS = frozenset({"pandas", "polars", "geopandas"})
_WITH_SHAPE = frozenset({"numpy", "pandas", "polars", "torch", "jax", "jaxlib"})


def _frame(frame: Any) -> str:
    columns = [" ".join(str(column).split())[:60] for column in list(frame.columns)[:MOST_COLUMNS]]
    more = f" and {len(frame.columns) - MOST_COLUMNS:,} more" if len(frame.columns) > MOST_COLUMNS else ""
    return f"DataFrame, {frame.shape[0]:,} × {frame.shape[1]:,}: {', '.join(columns)}{more}"


def cells_writer(shell: Any) -> WriteCells | None:
    """What changes cells of a notebook on screen; None where there is no kernel that a front end could have."""
    if getattr(shell, "kernel", None) is None:
        return None
    asking = place_of(shell)

    def write(notebook: str, edits: Sequence[CellEdit]) -> Mapping[str, str] | None:
        # By the cell that asks its notebook is known again that was given another name since its kernel was started.
        own = {"own": asking.notebook, "cell": asking.cell_id}
        question = {"ask": "write", "notebook": notebook, "client": client_of(shell), **own}
        with _asking(question) as asked:
            try:
                shows = (asked.answer.result(WRITE_SECONDS) or {}).get("shows")
            except TimeoutError:
                return None
            if not shows:
                return None
            # Several may show it, and share it: one of them is to change it.
            asked.send({"to": shows, "edits": [edit._asdict() for edit in edits]})
            try:
                return asked.refused.result(WRITE_SECONDS)
            except TimeoutError as error:
                raise NotebookUnwritable(notebook, "the page that shows it gave no answer") from error

    return write


async def _asked(question: Mapping[str, Any]) -> Mapping[str, Any] | None:
    with _asking(question) as asked:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.wrap_future(asked.answer)
        except TimeoutError:
            return None


class _Asked(NamedTuple):
    """A question to all front ends of this kernel, with what comes back, in another thread."""

    answer: Future[Mapping[str, Any] | None]  # Of whoever answers first
    refused: Future[Mapping[str, str]]  # Of the one that changed cells: those that it left, each with the reason
    send: Callable[[dict[str, Any]], object]  # Says more to all of them


@contextlib.contextmanager
def _asking(question: Mapping[str, Any]) -> Iterator[_Asked]:
    from comm import create_comm

    comm = create_comm(target_name=TARGET, data=dict(question))
    asked = _Asked(Future(), Future(), comm.send)

    def hear(message: Mapping[str, Any]) -> None:
        said = (message.get("content") or {}).get("data")
        refused = said.get("refused") if isinstance(said, dict) else None
        with contextlib.suppress(InvalidStateError):
            if isinstance(refused, dict):
                asked.refused.set_result({str(cell): str(why) for cell, why in refused.items()})
            else:
                asked.answer.set_result(said if isinstance(said, dict) else None)

    comm.on_msg(hear)
    try:
        yield asked
    finally:
        _close_the_one_before(comm)


_last_comm: list[Any] = []


def _close_the_one_before(comm: Any) -> None:
    """Close the comm of the question before this one.

    JupyterLab has a shell of the kernel for comms of a name, and ends it with the last of them: a question that comes
    at that moment is never answered. So one stays open.
    """
    _last_comm.append(comm)
    while len(_last_comm) > 1:
        _last_comm.pop(0).close()


def _tags(message: Mapping[str, Any]) -> Sequence[object]:
    """Of a cell, or of the request to run one."""
    metadata = message.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, Mapping) else None
    return tags if isinstance(tags, list) else ()


def _joined(text: object) -> str:
    if isinstance(text, list):
        return "".join(map(str, text))
    return text if isinstance(text, str) else ""
