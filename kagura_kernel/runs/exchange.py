"""The folder in a box's own /tmp in which a run's variables and results lie, and what runs programs there.

It is no part of the workspace, so that nothing in it is a change of the project.

    lib/    the box runner: what runs Python programs
    in/     variables that came in
    calls/  programs of the brain's python tool
    host/   what calls plugins, where any are enabled
    out/    what is to be brought back
    shown/  what each program shows, a folder for each call
"""

from __future__ import annotations

import asyncio
import base64
import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.domain.events import ResultShown
from kagura_kernel.domain.images import MAX_PIXELS, MAX_SIDE, RASTER, Image, NoImageError, measured, read_image
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.domain.tools import FileStat, ShowImage
from kagura_kernel.domain.variables import is_free_in_a_shell
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.runs.box_runner.wire import CannotCross, readable_size
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.sandbox.backend import Box

PACKAGE = "kagura_kernel.runs.box_runner"
BOXED_PACKAGE = "kagura_box_runner"
ENTRY = "run.py"
_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


@cache
def inbox_files() -> Mapping[str, bytes]:
    """What is sent into a box, by path below `lib/`."""
    found = {}
    for one in importlib.resources.files(PACKAGE).iterdir():
        if one.name == ENTRY:
            found[ENTRY] = one.read_bytes()
        elif one.name.endswith(".py"):
            found[f"{BOXED_PACKAGE}/{one.name}"] = one.read_bytes()
    return found


@cache
def _scratch_beside(workspace: str) -> str:
    return str(PurePosixPath(workspace).parent / "tmp")


@dataclass(frozen=True, slots=True)
class SearchPaths:
    """Where programs of a box look, in place of what the box says."""

    programs: tuple[str, ...]
    modules: tuple[str, ...]  # PYTHONPATH

    def variables(self, modules: Sequence[str] = ()) -> dict[str, str]:
        """Both as variables; `modules` are looked through after the first place for modules."""
        first, rest = self.modules[:1], self.modules[1:]
        return {"PATH": ":".join(self.programs), "PYTHONPATH": ":".join((*first, *modules, *rest))}


class BoxRunner:
    """What runs Python programs in one box. It is sent in with the first of them: many runs have none."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._there = False

    async def lay_out(self, box: Box, folder: str) -> None:
        """Send it in, unless it is there."""
        async with self._lock:
            if not self._there:
                write = box.files.write
                await asyncio.gather(*(write(f"{folder}/{path}", data) for path, data in inbox_files().items()))
            self._there = True


@dataclass(frozen=True, slots=True)
class ExchangeDirectory:
    """A run's folder in its box."""

    box: Box  # The run's box
    inputs: Sequence[str] = ()  # Names of variables that lie in it
    outputs: Sequence[str] = ()  # Names that are brought back
    room: int = DEFAULTS.variables_mib * 2**20  # Bytes that one output may have
    backend: str = "Agg"  # How matplotlib draws; empty leaves that to the box
    # What shell programs find in their environment: plain values as they are, others as paths
    variables: Mapping[str, str] = field(default_factory=dict)
    # The cell, where its box stays for others: each has variables of its own, and tracebacks show which one it was
    cell: str = ""
    search: SearchPaths | None = None  # Where programs look beside the box's own places; None leaves it at those
    runner: BoxRunner = field(default_factory=BoxRunner)  # What Python programs are run by

    @property
    def scratch(self) -> str:
        """The box's /tmp, which lies beside its workspace."""
        return _scratch_beside(self.box.files.root)

    @property
    def root(self) -> str:
        """Where it lies in the box."""
        return f"{self.scratch}/kagura"

    @property
    def out(self) -> str:
        """Where outputs are left."""
        return f"{self.root}/out"

    def shown(self, call_id: str) -> str:
        """Where the program of a call leaves what it shows."""
        return f"{self.root}/shown/{_PLAIN.sub('_', call_id)[:64]}"

    async def lay_out(self) -> None:
        """Send the box runner in, unless it is there."""
        await self.runner.lay_out(self.box, f"{self.root}/lib")

    async def python(self, path: str, call_id: str, first: str = ".") -> tuple[str, ...]:
        """The command that runs a Python program.

        Args:
            path: The program, in the box.
            call_id: The call it belongs to.
            first: Where it looks for modules first; `.` is the working directory.
        """
        await self.lay_out()
        call = PurePosixPath(self.shown(call_id)).name
        given = (path, call, first, ",".join(self.inputs), ",".join(self.outputs), str(self.room))
        return (*self._runner, *given)

    def finding(self, search: SearchPaths | None) -> ExchangeDirectory:
        """The same, with programs that look there."""
        return replace(self, search=search)

    def environment(self, call_id: str, modules: Sequence[str] = ()) -> dict[str, str]:
        """What every program of a call finds in its environment.

        Args:
            call_id: The call.
            modules: Where Python looks for modules beside its own places.
        """
        ours = {"KAGURA_SHOW": self.shown(call_id)}
        if self.search is not None:
            ours |= self.search.variables(modules)
        elif modules:
            ours["PYTHONPATH"] = ":".join(modules)
        if self.backend:
            ours["MPLBACKEND"] = self.backend
        if self.outputs:
            ours["KAGURA_OUT"] = self.out
        usable = {name: word for name, word in self.variables.items() if is_free_in_a_shell(name)}
        return {**usable, **ours}

    async def python_call(self, call_id: str, code: bytes) -> Command:
        """Put the code of a python call into the box; the command that runs it in the run's own Python session."""
        call = PurePosixPath(self.shown(call_id)).name
        path = str(PurePosixPath(self.root, "calls", self.cell, f"{call}.py"))
        await asyncio.gather(self.lay_out(), self.box.files.write(path, code))
        given = (path, call, ",".join(self.inputs), self.cell)
        return Command(given, resident=(*self._runner, "--stay"), shows=self.shown(call_id))

    async def begin_cell(self) -> None:
        """Take away what the variables and results of the cell before have left here; its Python session stays."""
        await self.box.run(Command(("rm", "-rf", "--", f"{self.root}/in", self.out, f"{self.root}/shown")))

    async def had_session(self) -> bool:
        """Whether the box has had a Python session: only python calls leave their code in its folder."""
        try:
            await self.box.files.stat(f"{self.root}/calls")
        except BoxFileError:
            return False
        return True

    async def keeping(self) -> Command:
        """What keeps the outputs of the Python session, when nothing more comes."""
        await self.lay_out()
        return Command(("--keep", ",".join(self.outputs), str(self.room)), resident=(*self._runner, "--stay"))

    @property
    def _runner(self) -> tuple[str, ...]:
        return ("python3", "-u", f"{self.root}/lib/{ENTRY}")


MAX_RESULTS = 20
"""Of one call."""

MAX_BYTES = 2 * 2**20
"""Of one result."""

MAX_RUN_BYTES = 10 * 2**20
"""Of all results of a run."""

MAX_HEAD = 256 * 1024
MAX_TEXT = 20_000
FOR_THE_BRAIN = 4000
TEXTS = ("text/html", "text/markdown", "text/plain", "image/svg+xml")
_BY_SUFFIX = {
    "html": "text/html",
    "htm": "text/html",
    "md": "text/markdown",
    "txt": "text/plain",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class _Found:
    mime: str
    data: bytes
    text: str


class Shown(NamedTuple):
    """What a brain learns of what a program showed."""

    words: str = ""
    images: tuple[Image, ...] = ()  # For one that takes images


class Results:
    """Collects what the programs of one run show.

    Args:
        exchange: Where they leave it.
        recorder: The run's record.
        scrubber: Knows what must not be shown; texts are scrubbed where they are recorded.
        redacting: Takes secrets out of texts; pictures stay as they are.
        show: Shows pictures to the brain as well; None for one that takes none.
    """

    def __init__(
        self,
        exchange: ExchangeDirectory,
        recorder: Recorder,
        scrubber: Scrubber,
        redacting: Redacting,
        show: ShowImage | None = None,
    ) -> None:
        self._exchange = exchange
        self._recorder = recorder
        self._scrubber = scrubber
        self._redacting = redacting
        self._show = show
        self._left = MAX_RUN_BYTES

    async def collect(self, call_id: str) -> Shown:
        """Record what the program of a call showed; the same for a brain.

        Raises:
            SandboxError: the box is gone, or broke the protocol.
        """
        try:
            entries = await self._exchange.box.files.list_dir(self._exchange.shown(call_id))
        except BoxFileError:
            return Shown()
        files = sorted((one for one in entries if one.kind == "file" and _mime_of(one.path)), key=lambda one: one.path)
        found = [await self._one(call_id, entry) for entry in files[:MAX_RESULTS]]
        if (more := len(files) - MAX_RESULTS) > 0:
            self._note(call_id, f"{more:,} more results were not kept: a call may show {MAX_RESULTS}.")
        return Shown("\n".join(one.words for one in found), tuple(image for one in found for image in one.images))

    async def _one(self, call_id: str, entry: FileStat) -> Shown:
        try:
            found = await self._read(entry)
            self._check(found)
        except CannotCross as why:
            self._note(call_id, f"A result was not kept: {why}.", _mime_of(entry.path), entry.size)
            return Shown(f"A result was not shown: {why}.")
        except BoxFileError as error:
            self._note(call_id, f"A result was not kept: {error.message}")
            return Shown("A result was not shown.")
        raster = found.mime in RASTER
        data = base64.b64encode(found.data).decode() if raster else await self._text(found.data)
        size = len(found.data)
        self._left -= size
        self._recorder.record(ResultShown, call_id=call_id, mime=found.mime, data=data, bytes=size, text=found.text)
        told = Shown(f"Shown to the person: {found.mime}, {readable_size(size)}.")
        if raster and self._show is not None:
            told = await self._shown_to_brain(call_id, found.data, told.words, self._show)
        return told._replace(words=f"{told.words}\n{found.text[:FOR_THE_BRAIN]}") if found.text else told

    async def _shown_to_brain(self, call_id: str, data: bytes, words: str, show: ShowImage) -> Shown:
        try:
            image = await show(call_id, read_image(data))
        except NoImageError as why:
            return Shown(f"{words} Not shown to you: {why}.")
        return Shown(f"{words} You see it as well, {image.width} × {image.height}.", (image,))

    async def _read(self, entry: FileStat) -> _Found:
        boxed = entry.path.endswith(".shown")
        most = MAX_BYTES + (MAX_HEAD if boxed else 0)
        if entry.size > most:
            raise CannotCross(f"it has {readable_size(entry.size)}, and {readable_size(MAX_BYTES)} are shown")
        data = await self._exchange.box.files.read(entry.path, limit=most + 1)
        found = _unboxed(data) if boxed else _Found(_mime_of(entry.path), data, "")
        if len(found.data) > min(MAX_BYTES, self._left):
            whole = f"and a run may show {readable_size(MAX_RUN_BYTES)} in all"
            limit = f"and {readable_size(MAX_BYTES)} are shown" if len(found.data) > MAX_BYTES else whole
            raise CannotCross(f"it has {readable_size(len(found.data))}, {limit}")
        return found

    async def _text(self, data: bytes) -> str:
        return await self._redacting.words(self._scrubber.scrub(data.decode("utf-8", "replace")))

    def _check(self, found: _Found) -> None:
        if found.mime not in RASTER:
            return
        check_image(found.mime, found.data)
        if self._scrubber.holds(found.data):
            raise CannotCross("it holds a secret that this run has leased")

    def _note(self, call_id: str, note: str, mime: str = "", size: int = 0) -> None:
        mime = mime if mime in RASTER or mime in TEXTS else "text/plain"
        self._recorder.record(ResultShown, call_id=call_id, mime=mime, bytes=size, note=note)


def _mime_of(path: str) -> str:
    """A file's MIME type by its name; `shown` for what the box runner wrote, empty for what is no result."""
    suffix = path.rpartition("/")[2].rpartition(".")[2].lower()
    return "shown" if suffix == "shown" else _BY_SUFFIX.get(suffix, "")


def _unboxed(data: bytes) -> _Found:
    """A file of the box runner: a line of JSON, then the data.

    Raises:
        CannotCross: it is none.
    """
    end = data.find(b"\n", 0, MAX_HEAD)
    try:
        head = json.loads(data[: max(end, 0)])
        mime, text = head["mime"], head["text"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CannotCross("what was shown cannot be understood") from error
    if not isinstance(mime, str) or (mime not in RASTER and mime not in TEXTS) or not isinstance(text, str):
        raise CannotCross("what was shown cannot be understood")
    return _Found(mime, data[end + 1 :], _CONTROL.sub("", text[:MAX_TEXT]))


def check_image(mime: str, data: bytes) -> None:
    """Whether an image is what it says it is.

    Raises:
        CannotCross: it is something else, or is larger than it may be.
    """
    try:
        found, width, height = measured(data)
    except NoImageError:
        found, width, height = "", 0, 0
    if found != mime:
        raise CannotCross(f"it is no {mime.removeprefix('image/').upper()} image")
    if not 0 < width <= MAX_SIDE or not 0 < height <= MAX_SIDE or width * height > MAX_PIXELS:
        raise CannotCross(f"it is an image of {width:,} × {height:,} pixels, which is too large to show")
