"""`kagura-kernel repl`: a conversation in a terminal. A line is a task of one session, `/word` is a command.

What a line is, is told by its first character alone, as in a cell of the kagura kernel.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.assembly import close_cockpit, get_cockpit
from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.cli.main import call, exit_code, told
from kagura_kernel.cli.output import terminal_width
from kagura_kernel.cli.run import carry_out, intent_of, task_of, tell
from kagura_kernel.cockpit.lines.completion import complete_command
from kagura_kernel.cockpit.lines.help import help_for
from kagura_kernel.cockpit.lines.parser import parse_line
from kagura_kernel.domain.errors import KaguraError, NotThisTime, UsageError
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.settings_text import replace_file
from kagura_kernel.jupyter.completion.names import ShellNames
from kagura_kernel.jupyter.dialect import Form, read

if TYPE_CHECKING:
    from kagura_kernel.cockpit.lines.completion import Names
    from kagura_kernel.runs.request import RunRequest


PROMPT = "kagura> "
HISTORY = "repl-history"
"""Name of the file, in our data directory."""

OK = 0
_NOT_HERE = frozenset({"repl"})
_ENDS = frozenset({"exit", "quit"})
_BY_SIGNAL, _INTERRUPTED = 128, 130


def repl(arguments: SimpleNamespace) -> int:
    """Talk until the end of the input; the exit code of the last line where the lines come by a pipe, otherwise 0.

    Raises:
        KaguraError: the settings are wrong, or the journal cannot be used.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        # A line that is no text is refused by itself, and the conversation goes on.
        sys.stdin.reconfigure(errors="surrogateescape")

    try:
        # There from the beginning, so that no command takes it for its own, and closes it with what it has enabled.
        cockpit = get_cockpit()
        talk = _Talk(arguments, arguments.session or cockpit.session_id)
        return talk.at_a_terminal() if sys.stdin.isatty() else talk.by_a_pipe()
    finally:
        close_cockpit()


class _Talk:
    """One conversation, whose tasks all belong to one session."""

    def __init__(self, arguments: SimpleNamespace, session: str) -> None:
        self._session = session
        self._arguments = vars(arguments) | {"session": session, "new_session": False}

    def at_a_terminal(self) -> int:
        """Lines with a prompt, a history and completion."""
        history = _history()
        remember = _prepare_readline(history)
        print(f"Session {self._session}. A line is a task, /help lists commands, Ctrl-D ends.", file=sys.stderr)
        while True:
            try:
                line = input(PROMPT)
            except EOFError:
                print(file=sys.stderr)
                return OK
            except KeyboardInterrupt:
                # What was typed is dropped, as in a shell.
                print(file=sys.stderr)
                continue
            if not line.strip():
                continue
            remember(line)
            if _ends(line):
                return OK
            self.take(line)

    def by_a_pipe(self) -> int:
        """Lines as they come, until their end."""
        code = OK
        for line in sys.stdin:
            if _ends(line):
                break
            if line.strip():
                code = self.take(line)
                if code > _BY_SIGNAL:
                    # Whoever stopped this one wants no other either.
                    break
        return code

    def take(self, line: str) -> int:
        """Do what one line says; what goes wrong is told, and the conversation goes on."""
        try:
            return self._command(line.strip()[1:]) if line.lstrip().startswith("/") else self._task(line)
        except KaguraError as error:
            print(told(error), file=sys.stderr)
            return exit_code(error)
        except KeyboardInterrupt:
            print(file=sys.stderr)
            return _INTERRUPTED

    def _task(self, line: str) -> int:
        return _carried_out(intent_of(SimpleNamespace(**self._arguments), task_in(line)), as_json=False)

    def _command(self, line: str) -> int:
        if line.split()[:1] == ["new"]:
            why = "`/run --new TASK` has a task begin a new conversation, and so does another `kagura-kernel repl`"
            raise NotThisTime(f"`/new` does not work here; {why}.")
        parsed = parse_line(line, Surface.TERMINAL, prefix="/")
        name = parsed.command.name
        if name in _NOT_HERE:
            raise UsageError(f"/{name}: You are in one already.")
        values = dict(parsed.values) | {"conversation": self._session}
        if values.get("session", "") is None and not values.get("new_session"):
            values["session"] = self._session
        if name == "run":
            return self._run(SimpleNamespace(**values))
        if name == "help":
            print(help_for(parsed.values["word"], Surface.TERMINAL, prefix="/", width=terminal_width()))
            return OK
        return call(parsed._replace(values=values))

    def _run(self, arguments: SimpleNamespace) -> int:
        """`/run` with options of its own, in this process."""
        return _carried_out(intent_of(arguments, task_of(arguments)), as_json=arguments.json)


def _carried_out(intent: RunRequest, *, as_json: bool) -> int:
    outcome, code = carry_out(get_cockpit(), intent)
    tell(outcome, as_json=as_json)
    return code


def task_in(line: str) -> str:
    """The task on a line: a backslash before its first character makes `/`, `%`, `!` and `?` part of it.

    Raises:
        UsageError: it begins as a line for IPython does, and there is no IPython here.
    """
    text = line.strip()
    if text[:1] in {"%", "!", "?"}:
        raise UsageError(
            f"A line that begins with {text[0]} is IPython's, and there is none here. `\\{text[0]}…` makes it a task, "
            "`/help` lists commands."
        )
    cell = read(text)
    return cell.text.strip() if cell.form is Form.PROMPT else text


def _ends(line: str) -> bool:
    return line.strip().removeprefix("/") in _ENDS and line.lstrip().startswith("/")


def _history() -> History:
    home = data_home(os.environ)
    return History(home / HISTORY, lambda line: redactor_of(home).redact(line).text)


def _prepare_readline(history: History) -> Callable[[str], object]:
    """Editing, history and completion where Python has them; returns what remembers a line."""
    try:
        import readline
    except ImportError:
        return history.add

    readline.set_auto_history(False)
    for line in history.lines():
        readline.add_history(line)
    readline.set_completer(completer(readline.get_line_buffer, readline.get_endidx))
    readline.set_completer_delims(" \t")
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    def remember(line: str) -> None:
        readline.add_history(history.add(line))

    return remember


MOST = 2000
"""So many lines are kept."""


@dataclass(eq=False)
class History:
    """One file, a line for each entry; what cannot be read or written is as if nothing were remembered."""

    path: Path  # Where it lies
    clean: Callable[[str], str]  # Takes secrets out of a line

    def lines(self) -> list[str]:
        """What is remembered, the oldest first; the file is made shorter when it has grown too long."""
        try:
            found = self.path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        if len(found) > 2 * MOST:
            with contextlib.suppress(OSError):
                replace_file(self.path, "".join(f"{line}\n" for line in found[-MOST:]).encode("utf-8", "replace"))
        return found[-MOST:]

    def add(self, line: str) -> str:
        """Remember a line; returns it as it is remembered."""
        told = self.clean(" ".join(line.split()))
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                # A file that was there may have been made by somebody with other habits.
                os.fchmod(file, 0o600)
                os.write(file, f"{told}\n".encode("utf-8", "replace"))
            finally:
                os.close(file)
        return told


def completer(
    line: Callable[[], str], end: Callable[[], int], names: Names | None = None
) -> Callable[[str, int], str | None]:
    """For readline: asked with a word and a number until it has nothing more.

    Args:
        line: The whole line, as readline has it.
        end: Where the cursor is in it.
        names: Looked up for values; None knows the journal, the settings and the working directory.
    """
    known = names or ShellNames(None, blink=1.0)
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            found[:] = _fitting(line()[: end()], word, known)
        return found[number] if number < len(found) else None

    return complete


def _fitting(text: str, word: str, names: Names) -> list[str]:
    if not text.lstrip().startswith("/"):
        return []

    command = text.lstrip()[1:]
    completions = complete_command(command, Surface.TERMINAL, names)
    # Readline replaces its own word, which may begin before the part that is completed.
    kept = word[: max(0, len(word) - (completions.end - completions.start))]
    return [f"{kept}{item.text}" for item in completions.items]
