"""One `%%kagura` or `%%sandbox` cell, from its text to its value; and cells that this kernel runs for an agent."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import shlex
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.lines.help import cell_help, usage_lines
from kagura_kernel.cockpit.lines.parser import HELP_FLAGS, Word, cell_magic, parse_cell_line, unquoted, words_of
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.notebook import LONGEST, CellImage, CellRan
from kagura_kernel.jupyter.errors import calm, check
from kagura_kernel.jupyter.follow import wait_in_thread
from kagura_kernel.jupyter.launch import from_cell, successor
from kagura_kernel.jupyter.notebook import cells_writer, error_text, image_in, notebook_of
from kagura_kernel.jupyter.surface import Surface, loop_runs, place_of, surface_of
from kagura_kernel.runs.request import RunRequest

if TYPE_CHECKING:
    from kagura_kernel.domain.notebook import ContextMode
    from kagura_kernel.domain.outcome import RunOutcome
    from kagura_kernel.jupyter.background import BackgroundRun


FLAG = "--fmt"

# Of a private area: nobody types it, and it is taken out of what somebody pastes.
_MARK = "\ue000"
_MARKED = re.compile(f"{_MARK}([0-9]+){_MARK}")

_BRACES = "A brace that is text is written {{ or }}."


def wants_fmt(line: str) -> bool:
    """Whether the options of a cell ask for it; looked at before anything in them is filled in."""
    try:
        words = shlex.split(line)
    except ValueError:
        # A quote is not closed: the reader of the options says so.
        words = line.split()
    return FLAG in words


def filled(text: str, variables: Mapping[str, Any], where: str) -> str:
    """The text with each `{expression}` replaced by its value, as IPython does it; `{{` and `}}` are braces.

    Raises:
        UsageError: an expression cannot be evaluated, or a brace stands alone.
    """
    return _filled(text, variables, where, str)


def filled_line(line: str, variables: Mapping[str, Any], where: str) -> str:
    """The same for the line of request, where a value stays inside the word it stands in.

    A value may come out of a box. It is a part of what the person has typed, and never a further option.

    Raises:
        UsageError: as `filled`; or a value would be an option itself.
    """
    values: list[str] = []

    def mark(value: object) -> str:
        values.append(str(value))
        return f"{_MARK}{len(values) - 1}{_MARK}"

    marked = _filled(line.replace(_MARK, ""), variables, where, mark)
    words = [_with_values(word, values, where) for word in words_of(marked)]
    return " ".join(words)


def _with_values(word: Word, values: Sequence[str], where: str) -> str:
    """One word, quoted so that it is one word again."""
    if _MARK not in word.raw:
        return word.raw
    text = _MARKED.sub(lambda found: values[int(found[1])], unquoted(word.raw))
    if text.startswith("-") and not word.text.startswith("-"):
        raise UsageError(f"{where} {FLAG}: a value that begins with a dash cannot stand where an option could.")
    # Between double quotes, which are undone as a whole also where quotes inside mean something.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _filled(text: str, variables: Mapping[str, Any], where: str, written: Callable[[object], str]) -> str:
    from IPython.utils.text import FullEvalFormatter

    class Filling(FullEvalFormatter):
        def format_field(self, value: object, format_spec: str) -> str:
            del format_spec  # it is a part of the expression, so that slices work
            return written(value)

    try:
        return str(Filling().vformat(text, (), dict(variables)))
    except NameError as error:
        raise UsageError(f"{where} {FLAG}: there is no variable {error.name!r} to fill in. {_BRACES}") from error
    # An expression may raise whatever it likes, and so may the value when it is written out.
    except Exception as error:
        raise UsageError(
            f"{where} {FLAG}: {type(error).__name__} in an expression between braces: {error}. {_BRACES}"
        ) from error


async def run_cell(
    shell: Any, magic: str, line: str, body: str, *, surface: Surface | None = None, at_once: bool = False
) -> RunOutcome | BackgroundRun | None:
    """Run a cell and wait for it, with `--bg` only for its beginning; with `--help` only the usage is printed.

    Nothing is filled into the line or the body without `--fmt`. With `--bg` and `at_once` nothing is waited for at all.

    Raises:
        KaguraError: it could not start, failed, or was stopped; shown as one line.
    """
    with calm():
        if wants_fmt(line):
            line = filled_line(line, shell.user_ns, f"%%{magic}")
            body = filled(body, shell.user_ns, f"%%{magic}")
        if wants_help(line):
            print(help_text(magic))  # noqa: T201  # a magic answers by printing
            return None
        request = parse_cell(magic, line, body)
        return await carry_out(shell, request, surface or surface_of(shell), at_once=at_once)


async def carry_out(
    shell: Any, request: RunRequest, place: Surface, *, at_once: bool = False
) -> RunOutcome | BackgroundRun:
    """Launch what a cell asks for and show it, to its end or, in the background, from its beginning on.

    Raises:
        KaguraError: it could not start, failed, or was stopped; shown as one line.
    """
    # From here on it costs: the first cell brings the engine, the journal and the displays in.
    from kagura_kernel.assembly import get_cockpit
    from kagura_kernel.jupyter.follow import follow
    from kagura_kernel.jupyter.forms import launch
    from kagura_kernel.jupyter.live_run import display_for

    cockpit = get_cockpit()
    asked = from_cell(request, place, shell, room=cockpit.room)
    if wants_context(request, cockpit.context):
        # Whoever waits for nothing cannot wait for the front end either.
        notebook = await notebook_of(shell, place_of(shell), Surface.INSIDE if at_once else place)
        if notebook is not None:
            cells = KernelCells.of(shell)
            asked = asked._replace(notebook=notebook, write_cells=cells_writer(shell), runs_cells=cells)
    handle = cockpit.launch(asked) if at_once else await launch(shell, cockpit, asked, place)
    display = display_for(place, cockpit, handle.run_id, asked.write_cells)
    if request.background:
        from kagura_kernel.jupyter.background import BackgroundRun

        arrive = partial(_arrive, shell, request) if request.outputs else None
        background = BackgroundRun(cockpit, handle, display, shell, place, arrive)
        if not at_once:
            await background.begun()
        return background
    outcome = await follow(handle, display, cockpit.attach)
    while (after := successor(cockpit, handle.run_id, place, shell, asked)) is not None:
        handle = after
        display = display_for(place, cockpit, handle.run_id, asked.write_cells)
        outcome = await follow(handle, display, cockpit.attach)
    outcome = check(outcome)
    if request.outputs:
        _arrive(shell, request, outcome)
    return outcome


def wants_context(request: RunRequest, usual: ContextMode) -> bool:
    """Whether somebody will look at the notebook: a brain, which in a replay has said everything already."""
    if request.language:
        return False
    return (request.context or (usual if request.replay is None else "none")) != "none"


def _arrive(shell: Any, request: RunRequest, outcome: RunOutcome) -> None:
    from kagura_kernel.jupyter.variables import bring_back

    bring_back(shell, outcome, request)


def wants_help(line: str) -> bool:
    """Whether a cell's first line asks how the magic is used."""
    return not (HELP_FLAGS | {"?"}).isdisjoint(line.split())


def help_text(magic: str) -> str:
    """The usage of `kagura` or `sandbox` with a line for each option, and examples."""
    return cell_help(cell_magic(magic))


def parse_options(magic: str, line: str) -> RunRequest:
    """What the first line of a cell says, without a task.

    Raises:
        UsageError: unknown or badly formed options; the text ends with the usage.
    """
    values = parse_cell_line(cell_magic(magic), line)
    return RunRequest.of(values, language=values.get("language", ""))


def parse_cell(magic: str, line: str, body: str) -> RunRequest:
    """What a cell asks for, before it is known where it stands. Raises `UsageError`: bad options, or an empty cell."""
    request = parse_options(magic, line)
    if not body.strip() and request.resume is None:
        what = "program" if request.language else "task"
        usage = usage_lines(cell_magic(magic))
        raise UsageError(f"%%{magic}: the cell is empty; the {what} goes into the lines below.\n{usage}")
    return request._replace(task=body if request.language else body.strip())


def run_blocking(shell: Any, magic: str, line: str, body: str) -> Any:
    """The same as `run_cell`, waited for.

    A kernel that is blocked hears no buttons, so nobody can be asked: what needs an approval is denied by policy.
    """
    place = surface_of(shell)
    with calm():
        if _in_background(magic, line, body):
            run = _begun(run_cell(shell, magic, line, body, surface=place, at_once=True))
            run.wait_begun()
            return run
        surface = Surface.INSIDE if place in {Surface.NOTEBOOK, Surface.CONSOLE} else place
        return wait_in_thread(run_cell(shell, magic, line, body, surface=surface), "kagura cell")


def begin(shell: Any, request: RunRequest) -> Any:
    """Launch what a command asks for: in the background where a card can live on, otherwise waited for."""
    place = surface_of(shell)
    with calm():
        # A kernel that carries out a command hears nothing of what the front end would say of the notebook, and the
        # file may not know yet what became private. A command that is awaited sees it, see `steering.runs.say`.
        request = request._replace(context="none")
        if not loop_runs():
            return wait_in_thread(carry_out(shell, request, place), "kagura cell")
        run = _begun(carry_out(shell, request._replace(background=True), place, at_once=True))
        run.wait_begun()
        return run


def _in_background(magic: str, line: str, body: str) -> bool:
    """Whether the cell asks for a run that the caller does not wait for.

    Raises:
        UsageError: it does, and there is no loop in which its card could live.
    """
    if wants_help(line) or "--bg" not in line.split():
        return False
    if not loop_runs():
        raise UsageError(f"%%{magic}: `--bg` needs a cell of its own, with nothing above it.")
    return parse_cell(magic, line, body).background


def _begun(cell: Coroutine[Any, Any, Any]) -> Any:
    """What a cell that waits for nothing returns."""
    try:
        cell.send(None)
    except StopIteration as over:
        return over.value
    cell.close()
    raise RuntimeError("a run in the background was waited for")


_AGENTS = re.compile(r"get_ipython\(\)\.(?:kagura_|run_cell_magic\('(?:kagura|sandbox)')")


@dataclass(slots=True)
class KernelCells:
    """Runs cells for an agent, in the thread that runs all cells of this kernel.

    While the cell that asked waits, or between the person's own. The person has read the source and allowed it; see
    `tools.cells.RunCellTool`. What it shows goes to whoever asked, and an error ends nothing but itself.
    """

    shell: Any
    loop: asyncio.AbstractEventLoop
    _one: threading.Lock = field(default_factory=threading.Lock)
    _runs: bool = False  # Whether one runs now, and may be interrupted

    @classmethod
    def of(cls, shell: Any) -> KernelCells | None:
        """Those of a shell; None where no loop of its main thread is there to run them in."""
        if getattr(shell, "kernel", None) is None or threading.current_thread() is not threading.main_thread():
            return None
        try:
            return cls(shell, asyncio.get_running_loop())
        except RuntimeError:
            return None

    def why_not(self, source: str) -> str:
        """See `RunsCells.why_not`."""
        code = self.shell.transform_cell(source)
        if _AGENTS.search(code):
            return "it is a cell for an agent"
        if self.shell.should_run_async(source, transformed_cell=code):
            return "it awaits something at its top level, and the kernel waits for you; let the person run it"
        return ""

    async def run(self, source: str, cell: str) -> CellRan:
        """See `RunsCells.run`."""

        async def now() -> CellRan:
            return self._ran(source, cell)

        running = asyncio.run_coroutine_threadsafe(now(), self.loop)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            # A cell that has not begun was called off with its future.
            with self._one:
                if self._runs:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            raise

    def _ran(self, source: str, cell: str) -> CellRan:
        from IPython.utils.capture import capture_output

        hook, errors = self.shell.displayhook, []
        kept, result = hook.exec_result, None

        def tell(kind: object, value: object, told: list[str]) -> None:
            self.shell._last_traceback = told  # noqa: SLF001 - where IPython keeps it
            errors.append(error_text(getattr(kind, "__name__", kind), value, told))

        self.shell._showtraceback = tell  # noqa: SLF001 - ipykernel would end the asking cell with it
        try:
            with self.shell.display_trap, capture_output() as shown, self._interruptible():
                result = self.shell.run_cell(source, store_history=False, cell_id=cell)
        finally:
            del self.shell._showtraceback  # noqa: SLF001
            hook.exec_result = kept
        bundles = [{mime: _text(data) for mime, data in output.data.items()} for output in shown.outputs]
        told = [shown.stdout, shown.stderr, *(bundle.get("text/plain", "") for bundle in bundles), *errors]
        images = [CellImage(f"output of {cell}", data) for bundle in bundles if (data := image_in(bundle))]
        text = "\n".join(part.rstrip("\n") for part in told if part)
        return CellRan(text[:LONGEST], tuple(images), result is None or not result.success)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """An interrupt means the cell that runs now; ipykernel's own means the one that waits."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._runs = True
        try:
            yield
        except KeyboardInterrupt:
            # It came too late for the cell, which is over.
            pass
        finally:
            with self._one:
                self._runs = False
            signal.signal(signal.SIGINT, before)


def _text(data: object) -> str:
    """Text as it is, and bytes as a front end gets them."""
    return base64.b64encode(data).decode() if isinstance(data, bytes) else str(data)
