"""The doctor's rows about brains, chats and the machine: network, secrets, Jupyter, disk and extensions."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kagura_kernel.assembly.settings import providers_file
from kagura_kernel.cli.output import for_terminal, paragraph, size, terminal_width
from kagura_kernel.domain.errors import ConfigurationError, KaguraError, SecretUnavailable
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.settings import SandboxPolicyType, Settings
from kagura_kernel.journal.place import data_home, read_shared, settings_file
from kagura_kernel.jupyter.installed import look
from kagura_kernel.membrane.credentials.secret import KeychainUnusable, SecretReader, keychain_name
from kagura_kernel.telemetry.logs import problem_with_place, refusal_of_place

if TYPE_CHECKING:
    from kagura_kernel.assembly.transports import CheckedChat
    from kagura_kernel.brain.provider import AuthContext
    from kagura_kernel.membrane.credentials.secret import SecretReference


State = Literal["ok", "warn", "fail"]
OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

BRAIN, MEMORY, SANDBOX, TRANSPORT = "brain", "memory", "sandbox", "transport"
"""What `kagura-kernel setup` can be asked for; every other row is of the machine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found."""

    name: str  # What was looked at
    # `ok`; `warn`: it works without, but less, or somebody waits; `fail`: it does not work, or somebody has to look
    state: State
    said: str  # What was found; one line, or one for each of several problems
    then: str = ""  # The one thing that mends it, mostly a command; empty when there is nothing to do
    part: str = ""  # What `kagura-kernel setup` calls it; empty for what belongs to none of its parts


def laid_out(findings: Sequence[Finding]) -> str:
    """A paragraph for each as wide as the terminal, and what mends it below."""
    names, width = max(len(finding.name) for finding in findings), terminal_width()
    indent = " " * (len("FAIL  ") + names + len("  "))
    lines = []
    for finding in findings:
        start = f"{finding.state.upper():<4}  {finding.name:<{names}}  "
        lines.append(paragraph(for_terminal(finding.said), start, indent, width))
        if finding.then:
            lines.append(paragraph(for_terminal(finding.then), f"{indent}→ ", f"{indent}  ", width))
    return "\n".join(lines)


_SETUP_BRAIN = "`kagura-kernel setup brain`"


def brains(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The brain that a run without `--brain` would have; asks no service.

    A machine that nobody has given a brain is warned of, for boxes and replays work without one. A brain that somebody
    has chosen or signed in to, and that cannot think, is a failure.
    """
    from kagura_kernel.assembly.brains import make_brains
    from kagura_kernel.assembly.extensions import brain_extensions, brain_names

    try:
        states = {
            name: brain.resolve_auth() for name, brain in make_brains(environ, settings, data_home(environ)).items()
        }
    except ConfigurationError as error:
        yield Finding("brain", FAIL, error.message, _SETUP_BRAIN, BRAIN)
        return
    ready = [name for name, auth in states.items() if auth.ready]
    broken = [name for name, auth in states.items() if not auth.ready and auth.method]
    if settings.brain in states:
        yield _named(settings.brain, states[settings.brain])
    elif settings.brain in brain_extensions():
        said = f"{settings.brain}, as the settings say: of another package, which has a row of its own"
        yield Finding("brain", OK, said, part=BRAIN)
    elif settings.brain not in brain_names():
        yield Finding("brain", FAIL, f"{settings.brain}, as the settings say: there is none", _SETUP_BRAIN, BRAIN)
    elif ready:
        more = f"; also {', '.join(ready[1:])}" if ready[1:] else ""
        yield Finding("brain", OK, f"{ready[0]}: {states[ready[0]].reason}{more}", part=BRAIN)
    elif not broken:
        said = f"none: {'; '.join(f'{name}: {auth.reason}' for name, auth in states.items())}"
        yield Finding("brain", WARN, said, _SETUP_BRAIN, BRAIN)
    for name in broken:
        if name != settings.brain:
            # While another one thinks, nobody has to mend it today.
            state: State = WARN if ready else FAIL
            yield Finding(
                f"brain {name}" if ready else "brain", state, f"{name}: {states[name].reason}", _SETUP_BRAIN, BRAIN
            )


def _named(name: str, auth: AuthContext) -> Finding:
    said = f"{name}, as the settings say: {auth.reason}"
    return Finding("brain", OK if auth.ready else FAIL, said, "" if auth.ready else _SETUP_BRAIN, BRAIN)


_SETUP_CHAT = "`kagura-kernel setup transport`"
_SERVE = "`kagura-kernel serve`; docs/serving.md says how to keep it running"


def chats(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """A row for each chat that the settings name, and one about the server; asks no service."""
    if not settings.transports:
        yield Finding("chats", OK, "none is set up", part=TRANSPORT)
        return
    from kagura_kernel.cockpit.served import server_of

    server = server_of(data_home(environ))
    for name, table in settings.transports.items():
        yield _chat(name, table, environ, served=server is not None)
    if server is None:
        yield Finding("chat server", WARN, "none runs, so nobody is heard in any chat", _SERVE, TRANSPORT)
    else:
        yield Finding("chat server", OK, f"process {server}" if server else "it runs", part=TRANSPORT)


def _chat(name: str, table: Mapping[str, Any], environ: Mapping[str, str], *, served: bool) -> Finding:
    from kagura_kernel.assembly.transports import chat_kind, check_chat

    row = f"chat {name}"
    try:
        kind, _ = chat_kind(name)
        if command := kind.missing():
            return Finding(row, FAIL, "its library is not installed", command, TRANSPORT)
        chat = check_chat(name, table)
    except KaguraError as error:
        return Finding(row, FAIL, error.message, _SETUP_CHAT, TRANSPORT)
    missing = [why for one in chat.tokens.values() if (why := _not_there(one, environ, served=served))]
    if missing:
        return Finding(row, FAIL, "; ".join(missing), _SETUP_CHAT, TRANSPORT)
    if chat.homeless:
        return Finding(row, FAIL, chat.homeless, _SETUP_CHAT, TRANSPORT)
    if not chat.settings.operators:
        return Finding(row, WARN, "nobody is heard there, for its `operators` are empty", _SETUP_CHAT, TRANSPORT)
    return Finding(row, OK, _told(chat), part=TRANSPORT)


def _told(chat: CheckedChat) -> str:
    count = len(chat.settings.operators)
    heard = "1 operator is heard" if count == 1 else f"{count} operators are heard"
    return f"{heard}; runs in {chat.project or 'the directory in which the server is started'}"


def _not_there(reference: SecretReference, environ: Mapping[str, str], *, served: bool) -> str:
    """Why a token cannot be had here, as far as that is seen without unlocking a keychain; empty when it can."""
    token = reference.setting.rpartition(".")[2]
    # A variable may be set for the server alone, and one that runs has had it.
    if reference.source == "env" and served:
        return ""
    try:
        if reference.source == "keyring":
            keychain_name()
        else:
            asyncio.run(SecretReader(environ).read(reference))
    except (SecretUnavailable, KeychainUnusable) as error:
        return f"{token}: {error.why if isinstance(error, SecretUnavailable) else error}"
    return ""


LITTLE, TOO_LITTLE = 1024**3, 100 * 1024**2
"""Free bytes below which a disk is warned of, and below which runs will fail."""

_ANOTHER_PLACE = "mend that, or name another place in the setting `log_place`"
_REINSTALL = "install the package again as it was installed, with `pip install --force-reinstall --no-deps …`"


def egress_rules(settings: Settings) -> Finding:
    """What every run may reach, by the settings alone."""
    named = [word for word in settings.net if word != "ask"]
    asks = "any other host is a question" if "ask" in settings.net else "no other host can be asked for"
    opened = ", ".join(named) or "nothing by itself"
    return Finding("egress rules", OK, f"a run reaches {opened}; {asks}")


def usual_agent(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The agent that the settings name, where they do; nothing is fetched."""
    if not settings.agent or "://" in settings.agent:
        return
    from kagura_kernel.assembly.kits import make_kits

    try:
        make_kits(environ, settings).resolve()
    except KaguraError as error:
        yield Finding("agent", FAIL, error.message, "name another one in the setting `agent`, or leave it out")
    else:
        yield Finding("agent", OK, f"{settings.agent}, as the settings say")


def settings_place(environ: Mapping[str, str]) -> Finding:
    """Which file the settings come from; a variable that names none is seldom meant so."""
    path = settings_file(environ)
    if path.exists():
        return Finding("settings", OK, str(path))
    if environ.get("KAGURA_CONFIG"):
        then = "write it, or unset KAGURA_CONFIG"
        return Finding("settings", WARN, f"KAGURA_CONFIG names {path}, which is not there: defaults hold", then)
    return Finding("settings", OK, f"defaults: there is no {path}")


def shared_settings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What an administrator says here for everybody, by names; nothing where there is no such file."""
    shared = read_shared(environ)
    if shared.source:
        said = f"{shared.source} sets {', '.join(name for name in shared.values if name != 'locked') or 'nothing'}"
        locked = f"; nobody else changes {', '.join(shared.locked)}" if shared.locked else ""
        yield Finding("shared settings", OK, f"{said}{locked}")


def secret_places(environ: Mapping[str, str]) -> Finding:
    """Whether the keychain answers; variables and files always can be read."""
    name = "secret back-ends"
    try:
        return Finding(name, OK, f"variables, files, and the keychain {keychain_name()}")
    except KeychainUnusable as error:
        said = f"variables and files; {error}"
    needed = [path.name for path in (settings_file(environ), providers_file(environ)) if _mentions_keyring(path)]
    if needed:
        said += f"; {' and '.join(needed)} {'keep' if needed[1:] else 'keeps'} secrets in one"
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
    commands = {
        "kernelspec": _REINSTALL,
        "sidebar": "`jupyter labextension enable kagura-kernel`",
        "server extension": "`jupyter server extension enable --sys-prefix kagura_kernel.jupyter.server`",
        "lab": "`pip install 'kagura-kernel[lab]'`",
    }
    for part in look():
        then = "" if part.ok else commands[part.name] if part.there or part.name == "lab" else _REINSTALL
        yield Finding(f"jupyter {part.name}", OK if part.ok else WARN, part.said, then)


# What a machine has that is a sandbox itself, by what it is then.
_SIGNS = {
    "a Docker container": (".dockerenv", ""),
    "a container": ("run/.containerenv", "container"),
    "a pod": ("var/run/secrets/kubernetes.io/serviceaccount", "KUBERNETES_SERVICE_HOST"),
    "a Colab machine": ("", "COLAB_RELEASE_TAG"),
    "a codespace": ("", "CODESPACES"),
}
# What leads out of such a machine, relative to the root.
_DOORS = ("var/run/docker.sock", "run/podman/podman.sock", "var/run/secrets/kubernetes.io/serviceaccount/token")
# What a person's keys are called, relative to the home directory.
_KEYS = (".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".config/gcloud", ".kube/config", ".netrc")


def without_box(policy: SandboxPolicyType, environ: Mapping[str, str], root: Path = Path("/")) -> Finding:
    """What can be seen of the sandbox around this machine, and what a run reaches here; never that all is well.

    Args:
        policy: One without a box.
        environ: Variables.
        root: The file system's.
    """
    home = Path(environ.get("HOME", "/nowhere"))
    signs = [what for what, (path, name) in _SIGNS.items() if (path and (root / path).exists()) or environ.get(name)]
    doors = [f"/{one}" for one in _DOORS if (root / one).exists()]
    reached = [*doors, *(f"~/{one}" for one in _KEYS if (home / one).exists())]
    told = f"{policy}: runs have no box, and act on this machine as you"
    if policy is SandboxPolicyType.EXTERNAL:
        around = f"It looks like {' and '.join(signs)}" if signs else "Nothing here looks like a sandbox"
        told = f"{told}. {around}"
    if reached:
        told = f"{told}. Within their reach: {', '.join(reached)}"
    then = 'take away what they are not to reach, or write `policy = "workspace_write"` into the settings'
    return Finding("policy", WARN, told, "" if signs and not reached else then, SANDBOX)


def data_directory(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether nobody else can look into our data, change it, or put another in its place; nothing where there is none.

    It is made for its owner alone; one that was there before keeps the permissions that it has.
    """
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
    home = data_home(environ)
    seen: set[int] = set()
    for name, place in (("disk", home), ("disk for boxes", Path(tempfile.gettempdir()))):
        there = next(folder for folder in (place, *place.parents) if folder.exists())
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


def extension_findings(settings: Settings) -> Iterator[Finding]:
    """A row for each extension, which is loaded for it, and what the settings say of watching.

    What the settings name has to work.
    """
    from kagura_kernel.assembly.extensions import tried

    named = {f"brain {settings.brain}", f"back-end {settings.box}", *(f"tool {name}" for name in settings.own_tools)}
    named |= {f"memory {settings.memory.partition('://')[0]}", *(f"transport {name}" for name in settings.transports)}
    found = list(tried())
    for part in found:
        package = part.reason.removeprefix("of ").split(" ")[0]
        then = "" if part.ok else f"mend it, or `pip uninstall {package}`"
        yield Finding(part.name, OK if part.ok else FAIL if part.name in named else WARN, part.reason, then)
    for name in (f"tool {tool}" for tool in settings.own_tools):
        if name not in {part.name for part in found}:
            said = "the setting `own_tools` names it, and no package that is installed brings it"
            yield Finding(name, FAIL, said, "install its package, or take it out of `own_tools`")
    yield _telemetry(settings)
    place = settings.log_place or "standard error"
    if why := problem_with_place(settings.log_place):
        said = f"{place}, as the settings say: {why}, so no run can start"
        yield Finding("log", FAIL, said, _ANOTHER_PLACE)
    elif why := refusal_of_place(settings.log_place):
        yield Finding("log", FAIL, f"{place}: {why}, so every line of the log is lost", _ANOTHER_PLACE)
    else:
        yield Finding("log", OK, f"{settings.log_level} and above, to {place}")


def _telemetry(settings: Settings) -> Finding:
    from kagura_kernel.assembly.settings import is_wanted

    if not is_wanted(settings):
        return Finding("telemetry", OK, "off")
    from kagura_kernel.telemetry.telemetry import endpoint

    words = "with tasks and answers" if settings.telemetry_content else "without any word of a run"
    where = endpoint()
    if not _answers(where):
        then = "start the collector, or set OTEL_EXPORTER_OTLP_ENDPOINT to one that runs"
        return Finding("telemetry", WARN, f"on, {words}: nobody answers at {where}", then)
    return Finding("telemetry", OK, f"on, {words}: to {where}")


def _answers(where: str) -> bool:
    """Whether somebody listens there; nothing is sent."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(where)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=1.0):
            return True
    except OSError:
        return False
