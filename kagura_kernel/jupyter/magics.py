"""`%%kagura`, `%%sandbox` and `%kagura`: registered in a moment, everything heavier waits for the first use."""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter import dialect
from kagura_kernel.jupyter.completion.matcher import plug_in, unplug
from kagura_kernel.jupyter.errors import calm
from kagura_kernel.jupyter.notebook import unwatch, watch

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kagura_kernel.domain.outcome import RunOutcome


_FIELDS = '<code style="background: none; padding: 0">.text .changes .cost .usage .run_id</code>'
_WHERE = ("kagura_kernel.domain.outcome", "RunOutcome")


def outcome_text(outcome: RunOutcome) -> str:
    """`RunOutcome(done, 2 changed files, 1 conflict, $0.0042)`."""
    return f"RunOutcome({', '.join(_facts(outcome))})"


def outcome_html(outcome: RunOutcome) -> str:
    """The same for the notebook; times and ids stand on the value itself."""
    facts = escape(" · ".join(_facts(outcome)))
    return (
        '<span style="color: var(--jp-content-font-color2, #666); font-size: 12px">'
        f"RunOutcome · {facts} · {_FIELDS}</span>"
    )


def register_outcome(shell: InteractiveShell) -> None:
    """Show outcomes like this; by name, so that nothing is imported yet."""
    formatters = shell.display_formatter.formatters  # type: ignore[union-attr]  # always there once a shell is
    formatters["text/plain"].for_type_by_name(*_WHERE, _pretty)
    formatters["text/html"].for_type_by_name(*_WHERE, outcome_html)


def _pretty(outcome: RunOutcome, printer: Any, _cycle: bool) -> None:  # IPython's own signature
    printer.text(outcome_text(outcome))


def _facts(outcome: RunOutcome) -> list[str]:
    facts: list[str] = [outcome.status]
    # `done` alone would be read as good work.
    if outcome.verified is not None:
        facts.append("verified" if outcome.verified else "verification did not pass")
    if outcome.changes:
        from kagura_kernel.render.figures import counted
        from kagura_kernel.views.changes import changed

        facts.append(changed(outcome.changes))
        if conflicts := sum(change.state == "conflict" for change in outcome.changes):
            facts.append(counted(conflicts, "conflict"))
    if outcome.children or outcome.cost.usd is not None:
        from kagura_kernel.render.figures import whole_cost

        facts.append(whole_cost(outcome.cost.usd, outcome.children, outcome.children_usd))
    return [fact for fact in facts if fact]


def register(shell: InteractiveShell) -> None:
    """Add the magics; doing it twice changes nothing."""
    unregister(shell)
    magics = Magics(shell)
    transforms = shell.input_transformers_cleanup
    transforms.insert(0, dialect.rewrite)
    setattr(shell, dialect.ENTRY, magics.awaited)
    setattr(shell, dialect.ENTRY_INSIDE, magics.inside)
    setattr(shell, dialect.ENTRY_COMMAND, magics.command_awaited)
    setattr(shell, dialect.COMMANDS, magics.commands)
    setattr(shell, dialect.COMMANDS_AWAITED, magics.commands_awaited)
    # IPython's own annotations of this method leave `self` out.
    add: Any = shell.register_magic_function
    add(magics.kagura, "line", "kagura")
    add(magics.kagura_cell, "cell", "kagura")
    add(magics.sandbox, "cell", "sandbox")
    register_outcome(shell)
    plug_in(shell)
    watch(shell)


def unregister(shell: InteractiveShell) -> None:
    """Take the magics away, stop what runs and close what is open; nothing happens when they are not there."""
    transforms = shell.input_transformers_cleanup
    while dialect.rewrite in transforms:
        transforms.remove(dialect.rewrite)
    unplug(shell)
    unwatch(shell)
    for entry in dialect.ENTRIES:
        shell.__dict__.pop(entry, None)
    for kind in ("line", "cell"):
        for name in dialect.CELL_MAGICS:
            shell.magics_manager.magics[kind].pop(name, None)
    process = sys.modules.get("kagura_kernel.assembly.process")
    if process is not None:
        process.close_cockpit()


class Magics:
    """The entry points that IPython calls."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    async def awaited(self, magic: str, line: str, body: str) -> Any:
        """A rewritten cell."""
        with calm():
            from kagura_kernel.jupyter.cell import run_cell

            return await run_cell(self._shell, magic, line, body)

    def kagura(self, line: str) -> Any:
        """Steer runs: `%kagura WORD`; `%kagura help` lists the words."""
        return self._command(line, "%kagura ")

    def commands(self, *lines: str) -> Any:
        """The `/word` lines of a cell: each shows what it has to show, and the last one's value is the cell's."""
        from IPython.display import display

        value: Any = None
        for number, line in enumerate(lines, 1):
            if line in {"", "help"}:
                print(dialect.CELLS)  # noqa: T201  # a command answers by printing
            value = self._command(line, "/")
            if value is not None and number < len(lines):
                display(value)  # type: ignore[no-untyped-call]  # IPython's is untyped
        return value

    async def commands_awaited(self, *lines: str) -> Any:
        """The same where one of them waits for a person."""
        from IPython.display import display

        value: Any = None
        for number, line in enumerate(lines, 1):
            value = await self.command_awaited(line, "/") if dialect.waits(line) else self.commands(line)
            if value is not None and number < len(lines):
                display(value)  # type: ignore[no-untyped-call]  # IPython's is untyped
        return value

    async def command_awaited(self, line: str, prefix: str = "%kagura ") -> Any:
        """A line that asks a person and waits for the answer."""
        with calm():
            from kagura_kernel.jupyter.steering import run_awaited

            if prefix != "/":
                # As IPython does it for a magic that is not awaited.
                line = self._shell.var_expand(line, 1)  # type: ignore[no-untyped-call]  # IPython's is untyped
            return await run_awaited(self._shell, line, prefix=prefix)

    def _command(self, line: str, prefix: str) -> Any:
        with calm():
            from kagura_kernel.jupyter.steering import run_line

            return run_line(self._shell, line, prefix=prefix)

    def kagura_cell(self, line: str, cell: str) -> Any:
        """Send a task to an agent: `%%kagura [options]`, and the task in the lines below."""
        return self.inside("kagura", line, cell)

    def sandbox(self, line: str, cell: str) -> Any:
        """Run the cell's own code in a box, without any model: `%%sandbox [python|bash] [options]`."""
        return self.inside("sandbox", line, cell)

    def inside(self, magic: str, line: str, cell: str) -> Any:
        """A cell that other code runs and that cannot be awaited."""
        from kagura_kernel.jupyter.cell import run_blocking

        return run_blocking(self._shell, magic, line, cell)


def _described(what: str) -> Any:
    """The help that `?` shows, made when somebody asks; IPython calls `getdoc` where an object has it."""

    def getdoc() -> str:
        if what == "%kagura":
            from kagura_kernel.cockpit.lines.help import overview
            from kagura_kernel.domain.grammar import Surface

            return overview(Surface.NOTEBOOK)
        from kagura_kernel.jupyter.cell import help_text

        return help_text(what)

    return getdoc


_DESCRIBED: dict[str, Any] = {"%kagura": Magics.kagura, "kagura": Magics.kagura_cell, "sandbox": Magics.sandbox}
for _name, _magic in _DESCRIBED.items():
    _magic.getdoc = _described(_name)
# Nothing is filled into the options of a cell, unless it says `--fmt`. IPython looks for this attribute.
for _magic in (Magics.kagura_cell, Magics.sandbox):
    _magic._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]  # noqa: SLF001  # of IPython's API
