"""Installing a toolset's command in the box: before it is started, only if it is not there, through the box's proxy.

Whatever the box says here is a box's word: a path in it, a version, the end of an installer's output.

What is run in a box to install one command: a program, its arguments and its input. Pure.

Arguments are never part of a script. Each command is installed into a folder of its own, which is gone with the box,
and what only the installing needs is gone before it: a box's scratch space is memory.
"""

from __future__ import annotations

import importlib.resources
import json
import re
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from kagura_kernel.domain.commands import Command, CommandResult
from kagura_kernel.domain.errors import SandboxCommandTimeout, SandboxIdleTimeout, ToolsetError
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.kit.packages.hosts import Asset, InstallPlan, choose
from kagura_kernel.kit.packages.registry import Package
from kagura_kernel.sandbox.backend import Box

PACKAGE = "kagura_kernel.runs.boxed_tools"
NO_INSTALLER = 69
"""What a script returns when the box has not what installs; the last line that it prints is its name."""

MAX_RELEASE_BYTES = 2**30
VERSION_LINE = "kagura-installed "
"""What the last line of a recipe's output begins with; the version follows."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One installation."""

    argv: tuple[str, ...]  # What is run
    programs: str  # Folder that holds the command afterwards, and what it starts by name
    stdin: bytes = b""  # What it reads
    env: Mapping[str, str] = field(default_factory=dict)  # Variables that it needs


@cache
def boxed(name: str) -> bytes:
    """A program of `runs/boxed_tools`."""
    return importlib.resources.files(PACKAGE).joinpath(name).read_bytes()


def recipe(plan: InstallPlan, folder: str, asset: Asset | None = None) -> Recipe:
    """How a plan is carried out.

    Args:
        plan: What is installed.
        folder: In the box, not there yet, of this command alone.
        asset: Of a release: the file for the box's machine.

    Raises:
        ValueError: it is a release, and there is no file.
    """
    package = plan.package
    match package.installer:
        case "pip":
            wanted = [_python(one, exactly=bool(plan.asked)) for one in (package, *plan.companions)]
            name = package.name.partition("[")[0]
            return Recipe(("sh", "-c", _PIP, "pip", folder, name, *wanted), f"{folder}/bin")
        case "npm":
            names = [f"{one.name}@{one.version or 'latest'}" for one in (package, *plan.companions)]
            argv = ("sh", "-c", _NPM, "npm", folder, package.name, *names)
            return Recipe(argv, f"{folder}/node_modules/.bin")
        case "go":
            wanted = [f"{one.name}@{one.version or 'latest'}" for one in (package, *plan.companions)]
            env = {"GOPATH": f"{folder}/path", "GOCACHE": f"{folder}/cache", "GOBIN": f"{folder}/bin"}
            env |= {"GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}
            return Recipe(("sh", "-c", _GO, "go", folder, plan.command, *wanted), f"{folder}/bin", env=env)
        case "cargo":
            version = ("--version", package.version) if package.version else ()
            env = {"CARGO_HOME": f"{folder}/home", "CARGO_TARGET_DIR": f"{folder}/target"}
            return Recipe(("sh", "-c", _CARGO, "cargo", folder, package.name, *version), f"{folder}/bin", env=env)
        case "github":
            if asset is None:
                raise ValueError("a release is installed from one of its files")
            limit = str(min(asset.size or MAX_RELEASE_BYTES, MAX_RELEASE_BYTES))
            argv = ("python3", "-I", "-", asset.url, asset.sha256, asset.name, folder, plan.command, limit)
            return Recipe(argv, f"{folder}/bin", boxed("release.py"))


def _python(package: Package, *, exactly: bool) -> str:
    """A requirement. The newest of what was looked up may need a newer Python than the box has: then it is older."""
    if not package.version:
        return package.name
    return f"{package.name}{'==' if exactly else '<='}{package.version}"


# An environment of its own: what it brings is nobody else's, and what others bring is in nobody's way. Programs of the
# environment itself are not linked: what the command starts as `python3` is the box's. Older pips, and uv, trust
# authorities of their own and not the system's, which know those of a company's network.
_PIP = """
folder=$1 name=$2; shift 2
system=/etc/ssl/certs/ca-certificates.crt
if [ -r $system ]; then
  export PIP_CERT="${PIP_CERT:-${REQUESTS_CA_BUNDLE:-$system}}" SSL_CERT_FILE="${SSL_CERT_FILE:-$system}"
fi
mkdir -p "$folder/bin" || exit 1
install() { "$@" --no-input --disable-pip-version-check --no-cache-dir --progress-bar off; }
if python3 -m pip --version >/dev/null 2>&1 && python3 -m venv --without-pip "$folder/env" >/dev/null 2>&1 &&
   python3 -m pip --python "$folder/env/bin/python" --version >/dev/null 2>&1
then install python3 -m pip --python "$folder/env/bin/python" install "$@" || exit 1
elif command -v uv >/dev/null 2>&1
then uv venv --quiet --no-project --python "$(command -v python3)" "$folder/env" &&
     uv pip install --no-cache --python "$folder/env/bin/python" "$@" || exit 1
elif rm -rf "$folder/env" && python3 -m venv "$folder/env" >/dev/null 2>&1
then install "$folder/env/bin/python" -m pip install "$@" || exit 1
else echo pip >&2; exit 69
fi
for one in "$folder"/env/bin/*; do
  case ${one##*/} in [!a-z]*thon|python*|pip*|activate*|Activate*) ;; *) ln -s "$one" "$folder/bin/" ;; esac
done
printf 'kagura-installed '
"$folder/env/bin/python" -I -c 'import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))' "$name"
"""

# Node trusts authorities of its own and not the system's, as the other installers do. A host that is refused is asked
# again for more than a minute, unless told otherwise.
_NPM = """
folder=$1 name=$2; shift 2
command -v npm >/dev/null 2>&1 || { echo npm >&2; exit 69; }
system=/etc/ssl/certs/ca-certificates.crt
[ -n "$NODE_EXTRA_CA_CERTS" ] || [ ! -r $system ] || export NODE_EXTRA_CA_CERTS=$system
mkdir -p "$folder" && cd "$folder" && echo '{"private": true}' > package.json || exit 1
npm install --prefix "$folder" --cache "$folder/.cache" --no-audit --no-fund --no-update-notifier --no-package-lock \
  --no-progress --loglevel=error --fetch-retries=1 --fetch-retry-mintimeout=500 -- "$@" || exit 1
rm -rf "$folder/.cache"
printf 'kagura-installed '
node -p 'JSON.parse(require("fs").readFileSync(process.argv[1])).version' "$folder/node_modules/$name/package.json"
"""

_GO = """
folder=$1 command=$2; shift 2
command -v go >/dev/null 2>&1 || { echo go >&2; exit 69; }
mkdir -p "$folder/bin" && cd "$folder" || exit 1
for one; do go install "$one" || exit 1; done
printf 'kagura-installed '
go version -m "$folder/bin/$command" 2>/dev/null | awk '$1 == "mod" { print $3; exit }'
rm -rf "$folder/path" "$folder/cache"
"""

_CARGO = """
folder=$1 name=$2; shift 2
command -v cargo >/dev/null 2>&1 || { echo cargo >&2; exit 69; }
mkdir -p "$folder" && cd "$folder" || exit 1
cargo install --root "$folder" --locked --no-track --quiet "$@" -- "$name" || exit 1
rm -rf "$folder/home" "$folder/target"
"""


INSTALL_SECONDS = 300.0
"""How long installing one command may take."""

LOOK_SECONDS = 30.0
KEPT_BYTES = 64 * 1024
TOLD_LINES = 12
TOLD_CHARACTERS = 1500

# A box's scratch space is memory: what was half installed is not kept.
_IN_FOLDER = """
folder=$1; shift
rm -rf -- "$folder"
"$@"; code=$?
[ $code = 0 ] || rm -rf -- "$folder"
exit $code
"""
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_!~/-]{0,127}", re.ASCII)
# npm's last word is where it has written the words before.
_LOG = "A complete log of this run"
_IMAGES = {"npm": "--image node", "pip": "--image python"}


@dataclass(frozen=True, slots=True)
class Installed:
    """A command that can be started in the box."""

    argv: tuple[str, ...]  # What is started in place of the command, without the toolset's own arguments
    # Variables that it, and what it starts, needs beside those of every command: PATH, where something was installed;
    # empty otherwise
    env: Mapping[str, str] = field(default_factory=dict)
    what: str = ""  # What was installed, `pip:mcp-server-time@2026.10.19`; empty when the box had it
    seconds: float = 0.0  # How long that took


async def install(
    box: Box, toolset: str, command: str, plan: InstallPlan | None, *, root: str, seconds: float = INSTALL_SECONDS
) -> Installed:
    """Make sure that a toolset's command can be started in a box.

    May be called for several toolsets at once; each gets a folder of its own, below which what an earlier call for it
    has left is removed. Where an exact version was asked for, a command that the box has is taken only if it says that
    it is this one.

    Args:
        box: The run's, behind its membrane: what installers fetch goes through its proxy.
        toolset: The toolset's name.
        command: What it starts, without arguments: a name, or a path in the box.
        plan: How it is installed; None when it never is, or nobody knows how.
        root: Directory in the box below which things are installed, `f"{ExchangeDirectory(box).root}/tools"`.
        seconds: How long it may take.

    Raises:
        ToolsetError: the command is not there and could not be installed; `output` ends what the installer printed.
        SandboxError: the box is gone.
    """
    began = time.monotonic()
    here = await _look(box, toolset, command, plan)
    if here.path and (plan is None or not plan.asked or _same(here.version, plan.asked)):
        return Installed((here.path,), seconds=time.monotonic() - began)
    if plan is None:
        raise ToolsetError(
            toolset,
            f"cannot be started: there is no {command!r} in its box, and nothing installs it: no package is known for "
            "it, its `version` is off, or the run has no network",
            "Name its package in `version`, as in pip:mcp-server-time, or choose an image that has it.",
        )
    asset = _asset(plan, here.machine)
    made = recipe(plan, f"{root}/{toolset}", asset)
    version = await _carry_out(box, plan, made, f"{root}/{toolset}", seconds)
    path = f"{made.programs}/{command}"
    if not await _can_start(box, path):
        raise ToolsetError(toolset, f"cannot be started: {plan.package} was installed and has no program {command!r}")
    what = str(plan.package.at(version or plan.package.version))
    search = f"{made.programs}:{here.search}" if here.search else made.programs
    return Installed((path,), {"PATH": search}, what, time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class _Here:
    """What a box has of a command."""

    path: str = ""
    version: str = ""
    machine: str = ""
    search: str = ""


async def _look(box: Box, toolset: str, command: str, plan: InstallPlan | None) -> _Here:
    # The version costs time, and is only asked for where it decides.
    wanted = (plan.package.installer, plan.package.name) if plan is not None and plan.asked else ("", "")
    argv = ("python3", "-I", "-", command, *wanted)
    limits = CommandLimits(LOOK_SECONDS, None)
    try:
        answer = await box.run(Command(argv, stdin=boxed("look.py"), limits=limits, keep_bytes=KEPT_BYTES))
    except (SandboxCommandTimeout, SandboxIdleTimeout) as error:
        raise ToolsetError(toolset, f"cannot be started: its box took longer than {LOOK_SECONDS:g} s") from error
    found = _object(answer.stdout.text)
    if not answer.ok or found is None:
        raise ToolsetError(
            toolset, "cannot be started: its box has no Python 3.8 or newer that works", output=_end(answer)
        )
    texts = {name: found.get(name) for name in ("path", "version", "machine", "search")}
    return _Here(**{name: text if isinstance(text, str) and "\0" not in text else "" for name, text in texts.items()})


def _asset(plan: InstallPlan, machine: str) -> Asset | None:
    if plan.package.installer != "github":
        return None
    asset = choose(plan.assets, machine, plan.command, plan.patterns)
    if asset is None:
        raise ToolsetError(
            plan.toolset, f"cannot be installed: the release of {plan.package} has no file for Linux on {machine!r}"
        )
    return asset


async def _carry_out(box: Box, plan: InstallPlan, made: Recipe, folder: str, seconds: float) -> str:
    """The version that was installed, as far as the box says."""
    argv = ("sh", "-c", _IN_FOLDER, "install", folder, *made.argv)
    limits = CommandLimits(seconds, None)
    order = Command(argv, env=dict(made.env), stdin=made.stdin, limits=limits, keep_bytes=KEPT_BYTES)
    try:
        answer = await box.run(order)
    except (SandboxCommandTimeout, SandboxIdleTimeout) as error:
        raise ToolsetError(
            plan.toolset, f"cannot be started: installing {plan.package} took longer than {seconds:g} s"
        ) from error
    if answer.exit_code == NO_INSTALLER:
        raise ToolsetError(plan.toolset, *_no_installer(plan))
    if not answer.ok:
        end = _end(answer)
        why = next((line for line in reversed(end.splitlines()) if line.strip() and _LOG not in line), "")
        raise ToolsetError(
            plan.toolset,
            f"cannot be started: {plan.package} could not be installed ({why or f'exit code {answer.exit_code}'})",
            output=end,
        )
    last = answer.stdout.text.rstrip("\n").rpartition("\n")[2]
    version = last.removeprefix(VERSION_LINE) if last.startswith(VERSION_LINE) else ""
    return version if _VERSION.fullmatch(version) else ""


def _no_installer(plan: InstallPlan) -> tuple[str, str]:
    installer = plan.package.installer
    image = _IMAGES.get(installer)
    advice = f"Boxes of Docker have it with {image}." if image else "Choose an image that has it."
    return f"cannot be started: its box has no {installer}, which installs {plan.package}", advice


async def _can_start(box: Box, path: str) -> bool:
    answer = await box.run(Command(("test", "-x", path), limits=CommandLimits(LOOK_SECONDS, None)))
    return answer.ok


def _same(version: str, asked: str) -> bool:
    return bool(version) and version.removeprefix("v") == asked.removeprefix("v")


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _end(answer: CommandResult) -> str:
    """The last lines that a program printed: of what it complained of, otherwise of the rest."""
    text = answer.stderr.text.strip() or answer.stdout.text.strip()
    return "\n".join(text.splitlines()[-TOLD_LINES:])[-TOLD_CHARACTERS:]
