"""The doctor's rows about the machine: the network that runs get, where secrets are kept, Jupyter, clock and disk."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.cli.doctor_rows import FAIL, OK, WARN, Finding, State
from kagura_kernel.cli.printing import size

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings

LITTLE, TOO_LITTLE = 1024**3, 100 * 1024**2
"""Free bytes below which a disk is warned of, and below which runs will fail."""

AHEAD = timedelta(minutes=5)
"""How far the journal's newest row may lie ahead of the clock."""

_REINSTALL = "`pip install --force-reinstall --no-deps kagura-kernel`"


def egress_rules(settings: Settings) -> Finding:
    """What every run may reach, by the settings alone."""
    named = [word for word in settings.net if word != "ask"]
    asks = "any other host is a question" if "ask" in settings.net else "no other host can be asked for"
    opened = ", ".join(named) or "nothing by itself"
    return Finding("egress rules", OK, f"a run reaches {opened}; {asks}")


def secret_places(environ: Mapping[str, str]) -> Finding:
    """Whether the keychain answers; variables and files always can be read."""
    from kagura_kernel.journal.place import settings_file
    from kagura_kernel.membrane.credentials.secret import KeychainUnusable, keychain_name

    name = "secret back-ends"
    try:
        return Finding(name, OK, f"variables, files, and the keychain {keychain_name()}")
    except KeychainUnusable as error:
        said = f"variables and files; {error}"
    needed = [
        path.name
        for path in (settings_file(environ), settings_file(environ).with_name("credentials.toml"))
        if _mentions_keyring(path)
    ]
    if needed:
        said += f"; {' and '.join(needed)} keeps secrets in one"
    then = "unlock or install one (`pip install keyring` and a Secret Service, KWallet or macOS), or name files instead"
    return Finding(name, FAIL if needed else WARN, said, then)


def _mentions_keyring(path: Path) -> bool:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.split("=")[0].strip().endswith("_keyring") for line in lines if "=" in line)


def jupyter() -> Iterator[Finding]:
    """The kernel, the sidebar and the server extension, as Jupyter finds them."""
    from kagura_kernel.jupyter.installed import look

    commands = {
        "kernelspec": _REINSTALL,
        "sidebar": "`jupyter labextension enable kagura-kernel`",
        "server extension": "`jupyter server extension enable --sys-prefix kagura_kernel.jupyter.server`",
        "lab": "`pip install 'kagura-kernel[lab]'`",
    }
    for part in look():
        then = "" if part.ok else commands[part.name] if part.there or part.name == "lab" else _REINSTALL
        yield Finding(f"jupyter {part.name}", OK if part.ok else WARN, part.said, then)


def clock(place: Path | str) -> Finding:
    """Whether the clock can be right: nothing that was written before lies in its future.

    Args:
        place: The journal.
    """
    now = datetime.now(UTC)
    built = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    newest = _newest_row(place)
    then = "set it: `timedatectl set-ntp true`"
    if newest is not None and newest > now + AHEAD:
        said = f"{now:%Y-%m-%d %H:%M:%SZ} is before the journal's newest run, of {newest:%Y-%m-%d %H:%M:%SZ}"
        return Finding("clock", FAIL, f"{said}: deadlines and leases cannot be kept", then)
    if built > now + timedelta(days=1):
        said = f"{now:%Y-%m-%d %H:%M:%SZ} is before this program was installed, {built:%Y-%m-%d}"
        return Finding("clock", FAIL, f"{said}: deadlines and leases cannot be kept", then)
    return Finding("clock", OK, f"{now:%Y-%m-%d %H:%M:%SZ}")


def _newest_row(place: Path | str) -> datetime | None:
    from kagura_kernel.cli.opening import open_journal
    from kagura_kernel.domain.errors import KaguraError
    from kagura_kernel.journal import views

    try:
        with open_journal(place) as journal:
            return next((row.started_at for row in views.runs(journal, limit=1)), None)
    except KaguraError:
        # Whether there is one, and what is wrong with it, has a row of its own.
        return None


def data_directory(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether nobody else can look into our data, change it, or put another in its place; nothing where there is none.

    It is made for its owner alone; one that was there before keeps the permissions that it has.
    """
    from kagura_kernel.journal.place import data_home

    home = data_home(environ)
    try:
        found = home.stat()
    except OSError:
        return
    name, mode = "data directory", stat.S_IMODE(found.st_mode)
    then = f"`chmod 700 {shlex.quote(str(home))}`"
    could = "they could approve plugins and forge records in your name"
    if found.st_uid != os.geteuid():
        said = f"{home} belongs to {_who(found.st_uid)}: {could}"
        then = f"`sudo chown -R {os.geteuid()} {shlex.quote(str(home))}` if all in it is yours, {_ELSEWHERE} if not"
        yield Finding(name, FAIL, said, then)
    elif mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding(name, FAIL, f"others can write in {home} (mode {mode:04o}): {could}", then)
    elif above := next(_replaceable(home), None):
        yield Finding(
            name, FAIL, f"{above[0]}, so others can put another folder in the place of {home}: {could}", above[1]
        )
    elif mode & (stat.S_IRWXG | stat.S_IRWXO):
        said = (
            f"others can look into {home} (mode {mode:04o}), where your runs, their outputs and changed files are kept"
        )
        yield Finding(name, WARN, said, then)
    else:
        yield Finding(name, OK, f"{home} is yours alone")


_ELSEWHERE = "name a place of your own in KAGURA_HOME"


def _replaceable(home: Path) -> Iterator[tuple[str, str]]:
    """Folders above one in which somebody else may rename what lies there, and what to do about each."""
    for folder in dict.fromkeys((*home.resolve().parents, *home.parents)):
        found = folder.stat()
        shared = found.st_mode & stat.S_IWOTH or (
            # A group of the person's own is usual, and root's is root.
            found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())
        )
        if found.st_uid not in (0, os.geteuid()):
            yield f"{folder} belongs to {_who(found.st_uid)}", _ELSEWHERE
        elif shared and not found.st_mode & stat.S_ISVTX:
            sudo = "" if found.st_uid == os.geteuid() else "sudo "
            close = f"`{sudo}chmod go-w {shlex.quote(str(folder))}`, or {_ELSEWHERE}"
            yield f"others can write in {folder} (mode {stat.S_IMODE(found.st_mode):04o})", close


def _who(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def disk(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Room for our data, and for boxes."""
    from kagura_kernel.journal.place import data_home

    home = data_home(environ)
    seen: set[int] = set()
    for name, place in (("disk", home), ("disk for boxes", Path(tempfile.gettempdir()))):
        there = _nearest(place)
        device = there.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        yield _room(name, place, there)


def _room(name: str, place: Path, there: Path) -> Finding:
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        said = f"{there} cannot be written, so nothing can be kept at {place}"
        return Finding(name, FAIL, said, "name another place in KAGURA_HOME, or give yourself the right to write there")
    state: State = FAIL if free < TOO_LITTLE else WARN if free < LITTLE else OK
    then = "" if state == OK else f"make room: `du -xh --max-depth=2 {there} | sort -h | tail`"
    return Finding(name, state, f"{size(free)} free at {place}", then)


def _nearest(place: Path) -> Path:
    """The folder itself, or the nearest above it that is there."""
    return next(folder for folder in (place, *place.parents) if folder.exists())
