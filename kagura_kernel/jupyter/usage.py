"""How the cell magics are used: in a few lines below an error, and with a line for each option on `--help`."""

from __future__ import annotations

KAGURA_USAGE = """\
usage: %%kagura [--brain NAME] [--model NAME] [--box NAME] [--image NAME] [--session NAME | --new] [--budget USD]
                [--net HOST[:PORT]|SET|ask …] [--grant PROVIDER:SCOPE …] [--writable-root]
                [--timeout SECONDS] [--idle SECONDS] [--max-turns N] [--write ask|through|none]
                [--record FILE | --replay FILE] [--bg]
       what the agent is to do, in the lines below"""

SANDBOX_USAGE = """\
usage: %%sandbox [python|bash] [--box NAME] [--image NAME] [--session NAME | --new]
                 [--net HOST[:PORT]|SET|ask …] [--grant PROVIDER:SCOPE …] [--writable-root]
                 [--timeout SECONDS] [--idle SECONDS] [--write ask|through|none] [--bg]
       the program, in the lines below"""

_SHARED = """\
  --box NAME         the box to work in; `%kagura status` lists them
  --image NAME       an image, for boxes that have images
  --session NAME     go on with this session instead of the notebook's own
  --new              start a fresh session
  --net WORD         let it connect to HOST (which means port 443), HOST:PORT, or a set such as python-packages;
                     ask: any other host is a question to you; none: not even the hosts of the settings;
                     several with commas, or the option again
  --grant WHAT       let it hold a credential, PROVIDER:SCOPE, under a budget that you allow
  --writable-root    let it change its whole system, as apt does; gone with the box
  --timeout SECONDS  how long each command may take, not the whole run; 0 lifts the limit
  --idle SECONDS     how long each command may print nothing, not the whole run; 0 lifts the limit
  --write MODE       ask: changes wait for you; through: they are applied as they are made; none: they are dropped
  --bg               return at once; await the cell's value for the outcome"""

_AGENT = """\
  --brain NAME       the brain that thinks; `%kagura status` lists them
  --model NAME       its model
  --budget USD       stop the run before it costs more
  --max-turns N      how often the brain may go round
  --record FILE      write a cassette, which can be played without a model
  --replay FILE      play a cassette instead of asking a brain"""

_LANGUAGE = """\
  python|bash        the language of the program; python when none is named"""

_ASKS = frozenset({"--help", "-h", "?"})


def wants_help(line: str) -> bool:
    """Whether a cell's first line asks how the magic is used."""
    return not _ASKS.isdisjoint(line.split())


def help_text(magic: str) -> str:
    """The usage of `kagura` or `sandbox` with a line for each option."""
    if magic == "kagura":
        return f"{KAGURA_USAGE}\n\n{_AGENT}\n{_SHARED}"
    return f"{SANDBOX_USAGE}\n\n{_LANGUAGE}\n{_SHARED}"
