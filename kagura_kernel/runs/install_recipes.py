"""What is run in a box to install one command: a program, its arguments and its input. Pure.

Arguments are never part of a script. Each command is installed into a folder of its own, which is gone with the box,
and what only the installing needs is gone before it: a box's scratch space is memory.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from kagura_kernel.kit.packages.hosts import InstallPlan
from kagura_kernel.kit.packages.installers import Package
from kagura_kernel.kit.packages.releases import Asset

PACKAGE = "kagura_kernel.runs.boxed_tools"
NO_INSTALLER = 69
"""What a script returns when the box has not what installs; the last line that it prints is its name."""

MAX_RELEASE_BYTES = 2**30
VERSION_LINE = "kagura-installed "
"""What the last line of a recipe's output begins with; the version follows."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One installation.

    Attributes:
        argv: What is run.
        stdin: What it reads.
        programs: Folder that holds the command afterwards, and what it starts by name.
        env: Variables that it needs.
    """

    argv: tuple[str, ...]
    programs: str
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)


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
  case ${one##*/} in python*|pip*|activate*|Activate*) ;; *) ln -s "$one" "$folder/bin/" ;; esac
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
