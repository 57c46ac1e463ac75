"""The kernel itself: IPython's, except for what a plain cell means and for what helps to write one.

In, Out, history, execution counts, interrupts, the debugger, subshells and comms are inherited. The cell is read by an
input transformer, so that all of them see it as it was typed.

Only a cell that a person sent may become a prompt, which costs money. It is told apart from code that libraries and
front ends run in the same kernel: probes of a front end are silent or leave no history, and code that runs code
(`run_cell`, `%autoreload`, a macro) hands over another text than the one that was sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from traitlets import List

from kagura_kernel import __version__
from kagura_kernel.domain.errors import UnknownName, UsageError
from kagura_kernel.jupyter.dialect import ENTRY, PY_ALONE, Form, form_of, masked, plain, read, rewrite
from kagura_kernel.jupyter.errors import KERNEL, calm

_sent: ContextVar[tuple[str, bool] | None] = ContextVar("kagura_cell_sent", default=None)
"""The text of a request that is seen, and whether a person sent it; what is no person's leaves no history."""

UNPLACED = (
    "A plain cell that is run without a place in the history, as nbval runs it, is Python, and this is none. "
    "To have it be a prompt there too, begin it with a line `%%kagura`."
)
UNLOADED = "The extension kagura_kernel is not loaded, so no agent hears this cell. `%load_ext kagura_kernel` loads it."
AS_PROMPT = "To send a prompt that begins with a slash, put a backslash before it: `\\/…`."


@contextmanager
def sent(code: str, *, silent: bool, by_person: bool) -> Iterator[None]:
    """While the request is carried out, know its text and whether a person sent it; of a silent one nothing."""
    token = _sent.set(None if silent else (code, by_person))
    try:
        yield
    finally:
        _sent.reset(token)


def done() -> None:
    """The sent cell has run: whatever runs its text again, as a hook may, is no person.

    A callback of IPython's, the first of all that are called after a cell.
    """
    _sent.set(None)


def translate(lines: Sequence[str]) -> list[str]:
    """An input transformer: the sent cell as a Python kernel would have it, and every other text as it came.

    Raises:
        KaguraError: the cell is refused; nothing of it runs.
    """
    cell = "".join(lines)
    code, by_person = _sent.get() or (None, False)
    if code is None or cell.rstrip("\n") != code.rstrip("\n"):
        return list(lines)
    with calm():
        if not by_person:
            _check_python(cell)
            return list(lines)
        _check_words(cell)
        # An extension that was loaded again has put its own transformer before this one.
        return rewrite(plain(cell, to_run=True).splitlines(keepends=True))


translate.has_side_effects = True  # type: ignore[attr-defined]  # where IPython looks for it


def _check_python(cell: str) -> None:
    """Know that a plain cell which leaves no history is Python, as it is taken for.

    Raises:
        UsageError: it is not.
    """
    from IPython.core.inputtransformer2 import TransformerManager

    # IPython's own annotations leave this out.
    manager: Any = TransformerManager
    if manager().check_complete(cell)[0] == "invalid":
        raise UsageError(UNPLACED)


def _check_words(cell: str) -> None:
    """Know that somebody hears the cell, and every command of it before the first of them runs.

    Raises:
        KaguraError: a command is unknown, or not used as it should be; or the extension was unloaded.
    """
    from IPython.core.getipython import get_ipython

    found = read(cell)
    if found.form in {Form.PROMPT, Form.COMMANDS} and not hasattr(get_ipython(), ENTRY):
        raise UsageError(UNLOADED)
    if found.form is not Form.COMMANDS:
        return
    from kagura_kernel.cockpit.lines.parser import parse_line
    from kagura_kernel.domain.grammar import Surface

    for command in found.commands:
        try:
            parse_line(command, Surface.NOTEBOOK, prefix="/")
        except UnknownName as error:
            error.args = (f"{error.message} {AS_PROMPT}", *error.args[1:])
            raise


_SOURCE = "https://github.com/kagura-ai/kagura-kernel"


class KaguraKernel(IPythonKernel):
    """A cell is a prompt, a `/command`, Python below `%%py`, or IPython's."""

    implementation = KERNEL
    implementation_version = __version__
    # Most cells are prose. Front ends colour it as Markdown, and Python in a ``` fence inside it as Python.
    language_info = {  # noqa: RUF012  # as the base class has it
        "name": "kagura",
        "version": __version__,
        "mimetype": "text/x-ipythongfm",
        "codemirror_mode": {"name": "ipythongfm"},
        "pygments_lexer": "markdown",
        "nbconvert_exporter": "markdown",
        "file_extension": ".md",
    }
    help_links = List(
        [
            {"text": "kagura-kernel", "url": f"{_SOURCE}#readme"},
            {"text": "The kagura kernel", "url": f"{_SOURCE}/blob/main/docs/kernel.md"},
            {"text": "IPython", "url": "https://ipython.readthedocs.io/en/stable/"},
            {"text": "Python", "url": f"https://docs.python.org/{sys.version_info.major}.{sys.version_info.minor}"},
        ]
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        self._inherited().__init__(**kwargs)
        # Front ends that ask for comms, as those with widgets do when they connect; by their session.
        self._widget_clients: set[str] = set()
        shell: Any = self.shell
        # As `%load_ext` would: a notebook that loads it again is told so and nothing changes.
        shell.extension_manager.load_extension("kagura_kernel")
        shell.input_transformers_cleanup.insert(0, translate)
        shell.events.register("post_execute", done)
        shell.register_magic_function(self.py, "cell", "py")
        for name in ("exit", "quit"):
            # The bare words are prompts here.
            shell.register_magic_function(self.leave, "line", name)

    def _inherited(self) -> Any:
        """The same kernel as ipykernel has it, whose methods carry no types."""
        return super()

    @property
    def banner(self) -> str:  # type: ignore[override]  # as in the base class
        """What a console shows first."""
        version = ".".join(map(str, sys.version_info[:3]))
        return (
            f"kagura-kernel {__version__} · Python {version}\n"
            "A plain cell is a prompt for an agent in a sandbox. `%%py` is Python, `/help` lists the commands.\n"
        )

    def py(self, line: str, cell: str) -> Any:
        """Python, in the lines below `%%py`."""
        if line.strip():
            raise UsageError(PY_ALONE)
        # Only code gets here; the cell that a person sends is Python before IPython looks for a magic.
        shell: Any = self.shell
        return shell.run_cell(cell).result

    def leave(self, _line: str) -> None:
        """Leave the console, and end its kernel."""
        shell: Any = self.shell
        shell.ask_exit()

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        """Run a cell; see `kagura_kernel.jupyter.dialect` for what it can be."""
        # What leaves no history may be a front end's own Python, and never becomes a prompt. What says by its first
        # words what it is stays that: tools that run notebooks as tests leave no history either.
        by_person = not silent and (store_history or form_of(code) is not Form.PROMPT)
        with sent(code, silent=silent, by_person=by_person):
            reply: dict[str, Any] = await self._inherited().do_execute(
                code, silent, store_history, user_expressions, allow_stdin, cell_meta=cell_meta, cell_id=cell_id
            )
        return reply

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        """Whether a console should send the cell: a prompt is whole unless a backslash ends it."""
        match form_of(code):
            case Form.PYTHON:
                head, _, rest = code.lstrip().partition("\n")
                if head.strip() == "%%py" and not rest.strip():
                    return {"status": "incomplete", "indent": ""}
                return self._python_is_complete(rest)
            case Form.PROMPT | Form.COMMANDS | Form.EMPTY:
                whole = not code.rstrip().endswith("\\")
                return {"status": "complete"} if whole else {"status": "incomplete", "indent": ""}
            case _:
                return self._python_is_complete(code)

    async def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        """Commands, options, ids, files and variables where they belong; Python's names in Python alone."""
        cursor = len(code) if cursor_pos is None else cursor_pos
        match form_of(code):
            case Form.PYTHON if cursor > code.find("%%py") + len("%%py"):
                return self._python_complete(masked(code), cursor)
            case Form.PROMPT | Form.COMMANDS | Form.PYTHON:
                from kagura_kernel.jupyter.completion.matcher import reply

                return reply(self.shell, code, cursor)
            case _:
                from kagura_kernel.jupyter.completion.matcher import own_reply

                # Where ours can stand and nothing fits, IPython would offer Python's words.
                return own_reply(self.shell, code, cursor) or self._python_complete(code, cursor)

    async def do_inspect(
        self, code: str, cursor_pos: int | None, detail_level: int = 0, omit_sections: Sequence[str] = ()
    ) -> dict[str, Any]:
        """What stands below the cursor: an option, a command, an id or a variable, or whatever Python knows of it."""
        from kagura_kernel.jupyter.completion.matcher import explained, inspected

        form, cursor = form_of(code), len(code) if cursor_pos is None else cursor_pos
        text = None if form is Form.PYTHON else explained(self.shell, code, cursor, prompt=True)
        if text is not None:
            return inspected(text)
        if form in {Form.PROMPT, Form.COMMANDS}:
            return {"status": "ok", "found": False, "data": {}, "metadata": {}}
        seen = masked(code) if form is Form.PYTHON else code
        found: dict[str, Any] = self._inherited().do_inspect(seen, cursor, detail_level, omit_sections)
        return found

    async def comm_info_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Which comms are open; whoever asks can show widgets."""
        self._widget_clients.add(_session(parent))
        await self._inherited().comm_info_request(stream, ident, parent)

    def is_console(self, parent: dict[str, Any]) -> bool:
        """Whether a request comes from a client that works by lines: it knows no cells, and has no widgets."""
        metadata = parent.get("metadata") or {}
        return not (metadata.get("cellId") or metadata.get("cell_id") or _session(parent) in self._widget_clients)

    def _python_is_complete(self, code: str) -> dict[str, Any]:
        reply: dict[str, Any] = self._inherited().do_is_complete(code)
        return reply

    def _python_complete(self, code: str, cursor: int) -> dict[str, Any]:
        reply: dict[str, Any] = self._inherited().do_complete(code, cursor)
        return reply


def _session(message: dict[str, Any]) -> str:
    return str((message.get("header") or {}).get("session", ""))
