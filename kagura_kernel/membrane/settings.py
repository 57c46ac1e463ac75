"""What a user has set, judged where it speaks of the membrane: hosts, mirrors, credentials, variables, an image. Pure.

The form of single fields is checked where they are read; here stands what needs to know what a host is and which
variables are the membrane's own. Values of variables are never repeated, and neither is what should be a grant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood, UsageError
from kagura_kernel.domain.settings import PREFIX, Problem, Settings
from kagura_kernel.membrane.credentials.lease import parse_grant
from kagura_kernel.membrane.egress.names import (
    ASK,
    HOST_SETS,
    HTTPS,
    NONE,
    HostSets,
    Target,
    parse_target,
    suggest,
    with_mirrors,
)
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.proxy import proxy_variables

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}", re.ASCII)

# Not repeated: what stands before the sign may be a password.
_HIDES = "entry {} holds an @; a host is written HOST or HOST:PORT, without a user name"

_NOT_YOURS = {
    "PATH": "it says where programs are found, and every box has its own",
    "HOME": "it is the box's own private folder",
    "LD_PRELOAD": "it would load code into every program of the box, its first one too",
    "LD_AUDIT": "it would load code into every program of the box, its first one too",
} | dict.fromkeys(proxy_variables(), "it leads to the box's one way out, and the membrane sets it")


def check_settings(settings: Settings) -> list[Problem]:
    """Everything that is wrong with them, each as the field and what it is; none when nothing is."""
    sets = dict(HOST_SETS)
    return [
        *_mirrors(settings.mirrors, sets),
        *_net(settings.net, sets),
        *_env(settings.env),
        *_grants(settings.preapproved_grants),
        *_image(settings.image),
    ]


def _mirrors(mirrors: Mapping[str, Sequence[str]], sets: dict[str, Sequence[Target]]) -> Iterator[Problem]:
    """What is wrong with the mirrors; `sets` gets the names of all, so that words which name them are understood."""
    for name, hosts in mirrors.items():
        field = f"mirrors.{_shown(name)}"
        if not _SET_NAME.fullmatch(name):
            yield field, "the name of a set is made of letters, digits, dashes and underscores"
        elif name in (ASK, NONE):
            yield field, f"`{name}` is a word of its own after --net; call the set otherwise"
        elif name not in HOST_SETS and suggest(name):
            yield field, suggest(name).partition(" A host of")[0]
        targets: list[Target] = []
        for number, host in enumerate(hosts, 1):
            try:
                targets.append(parse_target(host, HTTPS))
            except HostNotUnderstood as error:
                yield field, _HIDES.format(number) if "@" in host else error.message
        sets |= with_mirrors({}, {name: tuple(targets)})


def _net(words: Sequence[str], sets: HostSets) -> Iterator[Problem]:
    for number, word in enumerate(words, 1):
        try:
            parse_grants([] if word == NONE else [word], sets)
        except ConfigurationError as error:
            yield "net", _HIDES.format(number) if "@" in word else error.problems[0]


def _env(env: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in env.items():
        field = f"env.{_shown(name)}"
        if not _VARIABLE.fullmatch(name):
            yield field, "a variable's name is made of letters, digits and underscores, and begins with no digit"
        elif why := _NOT_YOURS.get(name):
            yield field, f"it cannot be set: {why}"
        elif name.startswith(PREFIX):
            yield field, f"it cannot be set: names that begin with {PREFIX} are for what the membrane leases"
        if "\0" in value:
            yield field, "its value holds a zero byte, which no variable can hold"


def _grants(grants: Sequence[str]) -> Iterator[Problem]:
    for number, text in enumerate(grants, 1):
        try:
            parse_grant(text)
        except UsageError:
            # Not repeated: somebody may have pasted a secret here.
            yield "preapproved_grants", f"entry {number} is not written PROVIDER:SCOPE, as in `github:read`"


def _image(name: str) -> Iterator[Problem]:
    if name and not _IMAGE.fullmatch(name):
        yield "image", "it is no name of an image, as `python` or `registry.example.org/team/tools:1.2` is one"


def _shown(name: str) -> str:
    return ascii(name[:60])[1:-1]
