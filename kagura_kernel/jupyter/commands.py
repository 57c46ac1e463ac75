"""The words behind `%kagura`: one line becomes one command value, or a usage answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.domain.errors import UnknownName, UsageError
from kagura_kernel.jupyter.options import split_line

USAGE = """\
usage: %kagura runs | cost | approvals        tables of what happened
       %kagura status                         what runs, what waits, what is there to run on
       %kagura kill RUN                       stop a run; `last` is the newest that still goes on
       %kagura approve ID | deny ID           answer an approval
       %kagura approve ID TEXT                answer a question with this text, or say for how long: 'this session'
       %kagura leases                         credentials that runs hold, with their time left
       %kagura revoke LEASE | extend LEASE    give one back at once, ask for a fresh budget
       %kagura changes RUN                    show what a run would change
       %kagura apply RUN [PATH …]             bring its changes into the project
       %kagura discard RUN [PATH …]           give them up
RUN may be `last`, LEASE also PROVIDER:SCOPE. status, leases, kill, revoke, extend, approve and deny
while a run goes on: from another notebook, or in this one with --bg.
The cell magics tell their options: %%kagura --help, %%sandbox --help."""

# word → (what it needs, whether more words may follow)
_SHAPES: dict[str, tuple[str, bool]] = {
    "runs": ("", False),
    "cost": ("", False),
    "approvals": ("", False),
    "status": ("", False),
    "help": ("", False),
    "kill": ("RUN", False),
    "approve": ("ID", True),
    "deny": ("ID", True),
    "changes": ("RUN", False),
    "apply": ("RUN", True),
    "discard": ("RUN", True),
    "leases": ("", False),
    "revoke": ("LEASE", False),
    "extend": ("LEASE", False),
}


@dataclass(frozen=True, slots=True)
class LineCommand:
    """One understood `%kagura` line.

    Attributes:
        word: Which command.
        target: The run, approval or lease it is about; empty for those that need none.
        rest: Further words: paths, or the answer to a question.
    """

    word: str
    target: str = ""
    rest: tuple[str, ...] = ()


def parse_command(line: str) -> LineCommand:
    """The command on a `%kagura` line; an empty line asks for help.

    Raises:
        UnknownName: no such command; says what was probably meant.
        UsageError: a word is missing or too many.
    """
    words = split_line(line, "%kagura")
    if not words:
        return LineCommand("help")
    word, *arguments = words
    if word in {"--help", "-h", "?"}:
        return LineCommand("help")
    if word not in _SHAPES:
        raise UnknownName("command", word, list(_SHAPES))
    needs, more = _SHAPES[word]
    if needs and not arguments:
        raise UsageError(
            f"`%kagura {word}` needs {'an' if needs == 'ID' else 'a'} {needs}: %kagura {word} {needs}{_more(word)}"
        )
    extra = arguments[1 if needs else 0 :]
    if extra and not more:
        raise UsageError(f"`%kagura {word}` takes no {extra[0]!r}: %kagura {word}{f' {needs}' if needs else ''}")
    return LineCommand(word, arguments[0] if needs else "", tuple(extra))


def _more(word: str) -> str:
    return " [PATH …]" if word in {"apply", "discard"} else ""
