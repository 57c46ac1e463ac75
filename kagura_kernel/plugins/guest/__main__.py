"""`kagura-host`: calls a plugin's function from a shell.

    kagura-host MODULE FUNCTION [JSON | -] [--raw]
    kagura-host --list [MODULE]

JSON holds the arguments: a list for those in order, an object for those by name, anything else for the only one; `-`
reads it from standard input. The answer is printed as JSON; with --raw a text is printed as it is. Exit codes: 0 done,
1 the call failed, 2 it was not understood.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started as a directory
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is slow

from kagura_host import PluginError, _modules  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DONE, FAILED, MISUSED = 0, 1, 2


class Misuse(Exception):
    """The line was not understood; the text says why."""


def main(words: list[str]) -> int:
    """Do what the words say; the exit code."""
    try:
        if not words or words[0] in ("-h", "--help"):
            out(__doc__)
            return DONE if words else MISUSED
        if words[0] in ("-l", "--list"):
            return show(words[1:])
        return call(words)
    except Misuse as misuse:
        complain(str(misuse))
        return MISUSED
    except PluginError as error:
        complain("{}: {}{}".format(error.code, error.kind + ": " if error.kind else "", error.message))
        return FAILED


def show(names: list[str]) -> int:
    """Say what can be called."""
    modules = _modules.known()
    for name in names or modules:
        if name not in modules:
            raise Misuse(_modules.missing(name))
        for function, signature, doc in modules[name][1]:
            first = doc.strip().split("\n")[0]
            out("{} {}{}{}\n".format(name, function, signature, "  " + first if first else ""))
    return DONE


def call(words: list[str]) -> int:
    """Make one call, and print its answer."""
    import json

    raw = "--raw" in words[2:]
    given = [*words[:2], *(word for word in words[2:] if word != "--raw")]
    if len(given) < 2 or len(given) > 3:  # noqa: PLR2004 - module, function, JSON
        raise Misuse("usage: kagura-host MODULE FUNCTION [JSON | -] [--raw]; quote the JSON as one word")
    module, function, text = given[0], given[1], given[2] if len(given) > 2 else "[]"  # noqa: PLR2004 - likewise
    try:
        _modules.check(module, function)
    except PluginError as error:
        raise Misuse(error.message) from None
    arguments, named = arguments_of(sys.stdin.buffer.read().decode("utf-8") if text == "-" else text)
    from kagura_host import _calls

    answer = _calls.call(module, function, arguments, named)
    out(answer if raw and isinstance(answer, str) else json.dumps(answer, ensure_ascii=False) + "\n")
    return DONE


def arguments_of(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Those in order and those by name."""
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = " (a text needs quotes inside the quotes: '[\"a.txt\"]')" if not text.strip().startswith("[") else ""
        raise Misuse(f"the arguments are no JSON: {error}{hint}") from None
    if isinstance(value, list):
        return value, {}
    return ([], value) if isinstance(value, dict) else ([value], {})


def out(text: str) -> None:
    """Print, whatever the terminal's encoding is."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


def complain(text: str) -> None:
    """A line on the error stream."""
    sys.stderr.buffer.write(b"kagura-host: " + text.encode("utf-8", "surrogatepass") + b"\n")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os._exit(FAILED)
    except KeyboardInterrupt:
        os._exit(130)
    except (ValueError, TypeError) as problem:
        complain(str(problem))
        sys.exit(MISUSED)
