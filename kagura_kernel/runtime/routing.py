"""Decides where a command runs, and which commands only look. Pure: looks at nothing but its arguments.

The order of the rules is the contract; `strict` chooses between two of them. Ours lets anything run in a box without
asking, for that is what the box is for, and looks at the safe list only where the host is asked for. The strict order
takes a command out of the box as soon as it holds a meta-character or is not on the safe list.

A command is safe when its line is free of meta-characters, its program is on the list (a bare name, or one in a
directory of the system), and its arguments have been understood and found harmless. What is not understood is not safe.

The grammar of a shell line is deliberately smaller than bash's: words of harmless characters, blanks, '…' and "…".
Whatever lies outside of it counts as a meta-character, so that a line without any is split by every shell exactly as
here.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Sequence
from functools import partial

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.policy import CommandDecision, ExecutionRoute, PermissionMode, SandboxPermission
from kagura_kernel.domain.settings import DEFAULTS

_BARE = frozenset(string.ascii_letters + string.digits + "_-./,:=+@%^")
# Inside double quotes these still mean something to bash; `!` does where history expansion is on.
_ALIVE_IN_DOUBLE_QUOTES = frozenset("$`\\!")
_LONGEST_SAID = 80
_NAMES = {"\n": "newline", "\r": "carriage return", "\0": "NUL", "\\": "backslash", "\t": "tab"}


@dataclass(frozen=True, slots=True)
class Line:
    """A shell line, split."""

    words: tuple[str, ...]  # What a shell would pass on, quotes removed; only meaningful when `meta` is empty
    # The characters that need a shell, each once, in order; `=` stands for an assignment before the command
    meta: tuple[str, ...]


def split_line(command: str) -> Line:
    """Words and meta-characters of a line; never fails, whatever the text."""
    splitter = _Splitter()
    for char in command:
        splitter.feed(char)
    return splitter.finish()


def name_of(char: str) -> str:
    """How a meta-character is written in a message: itself, or its name when it cannot be seen."""
    if char in _NAMES:
        return _NAMES[char]
    return char if char.isascii() and char.isprintable() else f"U+{ord(char):04X}"


class _Splitter:
    """One pass over the characters; `quote` is the quotation it is in, or empty."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.meta: dict[str, None] = {}
        self.word: list[str] | None = None
        self.quote = ""

    def feed(self, char: str) -> None:
        if self.quote:
            self._quoted(char)
        elif char in "'\"":
            self.quote = char
            self._add("")
        elif char in " \t":
            self._end_word()
        else:
            if char not in _BARE or (char == "=" and not self.words):
                self.meta[char] = None
            self._add(char)

    def finish(self) -> Line:
        if self.quote:
            self.meta[self.quote] = None
        self._end_word()
        return Line(tuple(self.words), tuple(self.meta))

    def _quoted(self, char: str) -> None:
        if char == self.quote:
            self.quote = ""
            return
        # Control characters, look-alike blanks and direction marks hide what a line says, quoted or not.
        if not (char.isprintable() or char == "\t") or (self.quote == '"' and char in _ALIVE_IN_DOUBLE_QUOTES):
            self.meta[char] = None
        self._add(char)

    def _add(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)

    def _end_word(self) -> None:
        if self.word is not None:
            self.words.append("".join(self.word))
            self.word = None


def _said(word: str) -> str:
    """A word of the line as a question has it: within quotation marks, so that none of it passes for a word of ours."""
    return repr(word if len(word) <= _LONGEST_SAID else f"{word[:_LONGEST_SAID]}…")


# find: tests, options and actions that only print. Anything else that begins with a dash is refused, so a new
# action of a later find is, too.
# What follows links (-H, -L, -follow) is left out as well: it looks at more than the directories it is given.
_FIND_WORD = re.compile(
    r"-(P|a|and|amin|anewer|atime|cmin|cnewer|ctime|daystart|depth|empty|executable|false|fstype|"
    r"gid|group|ilname|iname|inum|ipath|iregex|iwholename|links|lname|ls|maxdepth|mindepth|"
    r"mmin|mount|mtime|name|newer|newermt|newerat|newerct|nogroup|noleaf|not|nouser|o|or|path|perm|"
    r"print|print0|printf|prune|quit|readable|regex|regextype|samefile|size|true|type|uid|used|user|"
    r"wholename|writable|xdev|xtype)"
)


def find_problem(arguments: Sequence[str]) -> str:
    """`-exec`, `-delete`, `-fprint`, `-L` and whatever else is not known to only print what lies below."""
    for word in arguments:
        if word.startswith("-") and not _FIND_WORD.fullmatch(word) and not re.fullmatch(r"-[0-9]+[a-zA-Z]?", word):
            return f"find {_said(word)} may do more than look"
    return ""


def rg_problem(arguments: Sequence[str]) -> str:
    """`--pre`, `--hostname-bin` and `-z` start other programs; `-L`, `-f` and `--ignore-file` read other files."""
    follows = r"--fo|--fil(e?=|e?$)|--ignore-file(=|$|-c)|-[^-]*[Lf]"
    starts = r"--(?!(?:path-separator|passthru|pcre2|pretty)\b)(p|ho|se)|-[^-]*z"
    return _first_match(follows, "rg {} may read other files than those named", arguments) or _first_match(
        starts, "rg {} may start other programs", arguments
    )


def _first_match(pattern: str, words: str, arguments: Sequence[str]) -> str:
    return next((words.format(_said(word)) for word in arguments if re.match(pattern, word)), "")


# awk: no way to write, to start anything or to name another file is left in a program without these. `>` also
# compares; that is asked for.
_AWK_ALIVE = re.compile(r"system|getline|ARGV|ARGC|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|[|>@\\]")


def awk_problem(arguments: Sequence[str]) -> str:
    """Program files, `system()`, `getline`, `ARGV`, pipes, redirections, and options other than -F and -v."""
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        option = arguments[position]
        if option == "--":
            position += 1
            break
        if not re.match(r"-[Fv]", option):
            return f"awk {_said(option)} may do more than look"
        if option in ("-F", "-v"):
            position += 1
            if position < len(arguments) and arguments[position].startswith("-"):
                return f"awk {_said(option)} {_said(arguments[position])} is unclear"
        position += 1
    program, *rest = arguments[position:] or [""]
    if alive := _AWK_ALIVE.search(program):
        return f"awk program uses {alive.group()!r}"
    if any(word.startswith("-") and word != "-" for word in rest):
        return "awk options after the program"
    return ""


def sed_problem(arguments: Sequence[str]) -> str:
    """`-i`, script files, and every script command that is not one of a small, harmless grammar."""
    scripts: list[str] = []
    operands: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            operands.extend(words)
        elif word.startswith("--"):
            if script := re.fullmatch(r"--expression=(.*)", word):
                scripts.append(script[1])
            elif word not in ("--quiet", "--silent", "--regexp-extended", "--separate", "--null-data", "--sandbox"):
                return f"sed {_said(word)} may do more than look"
        elif word.startswith("-") and word != "-":
            if not (option := re.fullmatch(r"-[nErszu]*(e(.*))?", word)):
                return f"sed {_said(word)} may do more than look"
            if option[1]:
                scripts.append(option[2] or next(words, ""))
        else:
            operands.append(word)
    if not scripts:
        scripts = operands[:1]
    unclear = next((script for script in scripts if not _harmless(script)), None)
    return "" if unclear is None else f"sed script {_said(unclear)} may do more than look"


def _sed_grammar() -> re.Pattern[str]:
    # Escapes that GNU sed turns into other characters (\c \d \o \x) are left out, and a bracket has to close before
    # anything that could be a delimiter: sed versions disagree on both.
    escape = r"\\[.*\[\]^$+?(){}|/&ntwsbBWS0-9<>\"'-]"
    bracket = r"\[(?!\^?\])\^?[^\]/|,#\\\[]+\]"

    def until(delimiter: str) -> str:
        plain = rf"[^{re.escape(delimiter)}\\\[\]]"
        return rf"(?:{plain}|{escape}|{bracket})"

    address = rf"(?:[0-9]+|\$|/{until('/')}+/I?)"
    substitutions = "|".join(
        rf"s{re.escape(mark)}{until(mark)}*{re.escape(mark)}(?:[^{re.escape(mark)}\\]|{escape})*"
        rf"{re.escape(mark)}[gpiI0-9]*"
        for mark in "/|,#"
    )
    command = rf"(?:{address}(?:,\+?{address})?\s*!?\s*)?(?:[pdqQ=nNhHgGxPD]|{substitutions})\s*"
    return re.compile(rf"\s*{command}(?:;\s*{command})*;?\s*")


_SED = _sed_grammar()


def _harmless(script: str) -> bool:
    # A run of blanks means what one blank means here, and would cost the pattern time that grows with its square.
    return script == "" or _SED.fullmatch(re.sub(r"\s+", " ", script)) is not None


SAFE_COMMANDS: tuple[str, ...] = (
    *("pwd", "ls", "find", "cat", "head", "tail"),
    *("wc", "echo", "grep", "sed", "awk", "rg"),
)
"""Programs that only look, when their arguments are harmless."""

SYSTEM_DIRECTORIES: tuple[str, ...] = ("/bin", "/usr/bin")
"""A program named with its path counts only if it lies here."""

_ARGUMENT_CHECKS: dict[str, Callable[[Sequence[str]], str]] = {
    "find": find_problem,
    "sed": sed_problem,
    "awk": awk_problem,
    # `-R` follows links, and `-f` reads a file of patterns, which an error message or a match may tell.
    "grep": partial(_first_match, r"--der|--fil(e?=|e?$)|-[^-]*[Rf]", "grep {} may read other files than those named"),
    # `-L` and `-H`: with `-R` they list what links lead to.
    "ls": partial(_first_match, r"--der|-[^-]*[LH]", "ls {} follows links"),
    "rg": rg_problem,
    # `-f`, bundled and abbreviated too. `--` alone is looked past: it may be the value of the option before it.
    "tail": partial(_first_match, r"--[fr]|[-+][^-]*[fF]", "tail {} does not end by itself"),
    # `--files0-from`: the files are named in another file.
    "wc": partial(_first_match, r"--f", "wc {} reads files that are not named"),
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the safe list says of one command."""

    safe: bool  # Whether it only looks
    base: str  # Name of its program; empty when there is none that counts
    words: tuple[str, ...]  # The line, split; only meaningful when `meta` is empty
    meta: tuple[str, ...]  # Characters that need a shell, each once
    reasons: tuple[str, ...]  # Why it is not safe; empty when it is


def judge(command: str, more: Collection[str] = ()) -> Judgement:
    """What the safe list, with `more` programs on it, says of a command, with every reason."""
    safe = {*SAFE_COMMANDS, *more}
    line = split_line(command)
    base = base_command(line)
    reasons = []
    if line.meta:
        reasons.append("command contains shell metacharacters: " + " ".join(name_of(char) for char in line.meta))
    program = re.split(r"[;&|<>(){}$`]", line.words[0])[0] if line.words else ""
    if not program:
        reasons.append("command names no program")
    elif base not in safe and not (line.meta and program in safe):
        reasons.append(f"command {_said(program)} is not in the safe list")
    elif not line.meta and base in _ARGUMENT_CHECKS and (problem := _ARGUMENT_CHECKS[base](line.words[1:])):
        reasons.append(problem)
    return Judgement(not reasons, base, line.words, line.meta, tuple(reasons))


def base_command(line: Line) -> str:
    """Name of the program a line starts; empty when it is given by a path outside the system's directories."""
    if not line.words:
        return ""
    directory, slash, name = line.words[0].rpartition("/")
    return name if not slash or directory in SYSTEM_DIRECTORIES else ""


def is_preapproved(judgement: Judgement, command: str, preapproved: Collection[str]) -> bool:
    """Whether settings let a command run on the host without asking.

    An entry is the name of a program, or one whole line. Either way the command has to be safe and to stay below
    the working directory: `cat` in the settings is no leave to read anybody's keys. Links are not seen here; see
    `leads_out`.
    """
    named = judgement.base in preapproved or command.strip() in preapproved
    return named and judgement.safe and not any(_leaves_directory(word) for word in judgement.words[1:])


def _leaves_directory(word: str) -> bool:
    if re.search(r"(^|[/=:])\.\.($|/)", word):
        return True
    return word.startswith("/") or "=/" in word or (word.startswith("-") and "/" in word)


REQUESTED = "command requests host execution, which requires approval"
"""The reason that says nothing new to a person who is being asked."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What the person in charge decided about where commands run."""

    mode: PermissionMode = PermissionMode.DEFAULT  # `full_control` sends everything to the host without asking
    strict: bool = False  # whether what is not on the safe list leaves the box
    preapproved: tuple[str, ...] = ()  # programs, or whole lines, that may run on the host unasked while they are safe
    approval_deadline: float = DEFAULTS.approval_deadline  # seconds until an unanswered approval is a denial
    safe: tuple[str, ...] = ()  # programs on the safe list beside our own


def decide_route(
    command: str, permission: SandboxPermission, routing: Routing = Routing(), *, missing_box: str | None = None
) -> CommandDecision:
    """Where one command may run, and why.

    Args:
        command: The shell line.
        permission: Whether it asks for the host.
        routing: What was decided about all commands.
        missing_box: Why there is no box, empty when that is not known; None where there is one. Without a box the host
            is used only after an approval, pre-approved or not.
    """
    if routing.mode is PermissionMode.FULL_CONTROL:
        why = "full control: commands run on the host without approval"
        return CommandDecision(ExecutionRoute.HOST, reasons=(why,))
    if missing_box is not None:
        why = "sandbox unavailable, host execution requires approval"
        return ask_first(f"{why}: {missing_box}" if missing_box else why)
    judgement = judge(command, routing.safe)
    if permission is SandboxPermission.REQUIRE_ESCALATED:
        if not routing.strict and is_preapproved(judgement, command, routing.preapproved):
            why = "host execution requested: the command is safe and pre-approved by settings"
            return CommandDecision(ExecutionRoute.HOST, reasons=(why,))
        return ask_first(REQUESTED, *judgement.reasons)
    if routing.strict and not judgement.safe:
        return ask_first(*judgement.reasons)
    safe, any_line = "command is safe and runs in the sandbox", "commands run in the sandbox without approval"
    return CommandDecision(ExecutionRoute.SANDBOX, reasons=(safe if routing.strict else any_line,))


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, for reading."""

    command: str  # the shell line
    route: str  # `sandbox` or `host`
    approval_needed: bool  # whether a person has to agree first
    reasons: tuple[str, ...]  # every rule that spoke
    safe: bool  # whether the safe list has no objection
    meta: tuple[str, ...]  # characters that need a shell, each once


def explain(
    command: str,
    permission: SandboxPermission = SandboxPermission.AUTO,
    routing: Routing = Routing(),
    *,
    missing_box: str | None = None,
) -> Explanation:
    """What `decide_route` would say, together with what the safe list thinks of the command."""
    decision = decide_route(command, permission, routing, missing_box=missing_box)
    judged = judge(command, routing.safe)
    approval = decision.needs_approval
    return Explanation(command, decision.route.value, approval, decision.reasons, judged.safe, judged.meta)


def ask_first(*reasons: str) -> CommandDecision:
    """Host execution after an approval, and why."""
    return CommandDecision(ExecutionRoute.HOST, needs_approval=True, reasons=reasons)
