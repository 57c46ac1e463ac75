"""Which arguments keep a program of the safe list harmless. Pure; each check answers with the problem, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
            return f"find {word} may do more than look"
    return ""


def tail_problem(arguments: Sequence[str]) -> str:
    """`-f`, bundled and abbreviated too: it never ends."""
    for word in arguments:
        # `--` alone is looked past on purpose: it may be the value of the option before it.
        if re.match(r"--[fr]", word) or re.match(r"[-+][^-]*[fF]", word):
            return f"tail {word} does not end by itself"
    return ""


def ls_problem(arguments: Sequence[str]) -> str:
    """`-L` and `-H`: with `-R` they list what links lead to."""
    return _first_match(r"--der|-[^-]*[LH]", arguments, "ls {} follows links")


def grep_problem(arguments: Sequence[str]) -> str:
    """`-R` follows links, and `-f` reads a file of patterns, which an error message or a match may tell."""
    return _first_match(r"--der|--fil(e?=|e?$)|-[^-]*[Rf]", arguments, "grep {} may read other files than those named")


def wc_problem(arguments: Sequence[str]) -> str:
    """`--files0-from`: the files are named in another file."""
    return _first_match(r"--f", arguments, "wc {} reads files that are not named")


def rg_problem(arguments: Sequence[str]) -> str:
    """`--pre`, `--hostname-bin` and `-z` start other programs; `-L`, `-f` and `--ignore-file` read other files."""
    follows = r"--fo|--fil(e?=|e?$)|--ignore-file(=|$|-c)|-[^-]*[Lf]"
    if problem := _first_match(follows, arguments, "rg {} may read other files than those named"):
        return problem
    for word in arguments:
        if re.match(r"--(p|ho|se)", word) and not re.match(r"--(path-separator|passthru|pcre2|pretty)\b", word):
            return f"rg {word} may start other programs"
        if re.match(r"-[^-]*z", word):
            return f"rg {word} may start other programs"
    return ""


def _first_match(pattern: str, arguments: Sequence[str], words: str) -> str:
    return next((words.format(word) for word in arguments if re.match(pattern, word)), "")


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
            return f"awk {option} may do more than look"
        if option in ("-F", "-v"):
            position += 1
            if position < len(arguments) and arguments[position].startswith("-"):
                return f"awk {option} {arguments[position]} is unclear"
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
                return f"sed {word} may do more than look"
        elif word.startswith("-") and word != "-":
            if not (option := re.fullmatch(r"-[nErszu]*(e(.*))?", word)):
                return f"sed {word} may do more than look"
            if option[1]:
                scripts.append(option[2] or next(words, ""))
        else:
            operands.append(word)
    if not scripts:
        scripts = operands[:1]
    return next((f"sed script {script!r} may do more than look" for script in scripts if not _harmless(script)), "")


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
