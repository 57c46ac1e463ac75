"""The recipes: which there are, what each is built on, what it reads, how its packages come.

Looks at files and variables, never at a daemon. A recipe's identity is a digest of all that decides on its result.
What fetching needs on this machine (a certificate, an index, a registry, a proxy) goes into stages of a build that are
thrown away; proxies go in as Docker's predefined build arguments, which leave no trace. None of it is in an image.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from kagura_kernel.domain.errors import ConfigurationError, UnknownName
from kagura_kernel.domain.late_dataclass import dataclass, field

CERTIFICATE_VARIABLES = ("PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
_PIP = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url"}
_NPM = ("NPM_CONFIG_REGISTRY", "npm_config_registry")


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """How packages are reached."""

    # `ca.pem`, `pip.conf` and `npmrc`, as far as there is something to say.
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    # Build arguments that Docker keeps out of the image.
    arguments: Mapping[str, str] = field(default_factory=dict, repr=False)


def settings_from(environment: Mapping[str, str]) -> PackageSettings:
    """The settings of an environment.

    Raises:
        ConfigurationError: a certificate that a variable names cannot be read.
    """
    files: dict[str, bytes] = {}
    if name := next((name for name in CERTIFICATE_VARIABLES if environment.get(name)), ""):
        try:
            files["ca.pem"] = Path(environment[name]).read_bytes()
        except OSError as error:
            raise ConfigurationError(name, [f"the certificate cannot be read: {error.strerror}"]) from error
    lines = [f"{option} = {environment[name]}" for name, option in _PIP.items() if environment.get(name)]
    if lines:
        files["pip.conf"] = ("[global]\n" + "\n".join(lines) + "\n").encode()
    if registry := next((environment[name] for name in _NPM if environment.get(name)), ""):
        files["npmrc"] = f"registry={registry}\n".encode()
    arguments = {}
    for name in PROXY_VARIABLES:
        for spelled in (name, name.lower()):
            if value := environment.get(spelled):
                arguments[spelled] = value
    return PackageSettings(files, arguments)


RECIPE_LABEL = "kagura.recipe"
"""Label of an image: the identity of the recipe that made it."""
BASE_LABEL = "kagura.base"
"""Label of an image: the image that it was built on, by id."""
STAGE_LABEL = "kagura.stage"
"""Label of what is only left over from building."""
DEFAULT_PREFIX = "kagura/"
_DIRECTORY_VARIABLE = "KAGURA_IMAGES"
_HERE = Path(__file__).resolve()
_PLACES = (_HERE.parent / "recipes", _HERE.parents[3] / "images")
_BASE_LINE = re.compile(r"^ARG BASE=(\S+)", re.MULTILINE)


class Lock(StrEnum):
    """How binding the lock of Debian packages is; pip's and npm's are always exact."""

    FLOOR = "floor"
    """Its versions or newer ones: security updates come in, an older archive is refused."""
    STRICT = "strict"
    """Exactly its versions, as long as the archive has them."""
    FRESH = "fresh"
    """No lock: how a new one is made."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image."""

    name: str  # its short name
    base: str  # the recipe that it is built on; empty for the first
    holds: str  # what is in it beyond its base
    tested: bool = True  # whether the tests build it; one that they cannot is built only when it is named
    asked: bool = False  # whether it is built only when it is named: few boxes are made of it, or none

    @property
    def dockerfile(self) -> str:
        """Name of its file."""
        return f"{self.name}.Dockerfile"


RECIPES = (
    Recipe("base", "", "shell, git, gh, curl, jq, ripgrep, ssh, Python"),
    Recipe("python", "base", "numpy, pandas, pyarrow, matplotlib, IPython, pytest, pip, venv"),
    Recipe("node", "python", "Node.js, npm, TypeScript"),
    Recipe("aws", "node", "the AWS command line"),
    Recipe("agent", "aws", "the Claude program"),
    Recipe("rust", "base", "Rust, Cargo, a C compiler", asked=True),
    Recipe("gcloud", "aws", "the Google Cloud command line", tested=False),
    Recipe("server", "base", "bubblewrap and the libraries that `serve` needs", asked=True),
)
NAMES = tuple(recipe.name for recipe in RECIPES)


def recipe_named(name: str) -> Recipe:
    """A recipe by its short name. Raises `UnknownName` when there is none."""
    for recipe in RECIPES:
        if recipe.name == name:
            return recipe
    raise UnknownName("image", name, list(NAMES))


def chain_for(names: Iterable[str]) -> list[Recipe]:
    """The recipes named (when none is, all for boxes that the tests build) and all that they are built on, bases first.

    Raises:
        UnknownName: one of the names is none.
    """
    usual = [recipe for recipe in RECIPES if recipe.tested and not recipe.asked]
    named = [recipe_named(name) for name in names] or usual
    wanted: set[str] = set()
    for recipe in named:
        name = recipe.name
        while name:
            wanted.add(name)
            name = recipe_named(name).base
    return [recipe for recipe in RECIPES if recipe.name in wanted]


@dataclass(frozen=True, slots=True)
class Recipes:
    """A directory of recipes."""

    directory: Path

    @classmethod
    def found(cls) -> Recipes:
        """Those that came with the package, those beside it in a clone, or where `KAGURA_IMAGES` says.

        Raises:
            ConfigurationError: they are nowhere.
        """
        told = os.environ.get(_DIRECTORY_VARIABLE)
        for place in [Path(told)] if told else _PLACES:
            if (place / "base.Dockerfile").is_file():
                return cls(place)
        problem = f"no base.Dockerfile is there: let {_DIRECTORY_VARIABLE} name the directory that holds it"
        raise ConfigurationError("The directory of image recipes", [problem])

    def default_base(self, recipe: Recipe) -> str:
        """The image that the recipe itself names as its base."""
        found = _BASE_LINE.search((self.directory / recipe.dockerfile).read_text("utf-8"))
        return found[1] if found else ""

    def files(self, recipe: Recipe) -> dict[str, bytes]:
        """All files that the recipe reads, by name: `NAME.Dockerfile`, `NAME.apt`, its locks."""
        return {
            path.name: path.read_bytes()
            for path in sorted(self.directory.glob(f"{recipe.name}.*"))
            if path.is_file() and not path.name.endswith((".pip", ".swp"))
        }

    def identity(self, recipe: Recipe, base_id: str, lock: Lock) -> str:
        """Hexadecimal digest of what decides on the result: every file, the base, the lock's mode."""
        digest = hashlib.sha256(f"{base_id}\0{lock}\0".encode())
        for name, content in self.files(recipe).items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()

    def context(self, recipe: Recipe, settings: Mapping[str, bytes]) -> bytes:
        """The build context, an uncompressed tar: the recipe's files, and `settings/` for its fetching stage."""
        files = self.files(recipe) | {"settings/README": b"What fetching needs on this machine.\n"}
        files |= {f"settings/{name}": content for name, content in settings.items()}
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                # Nothing about the file's own time or owner: the same recipe is the same image.
                member.size, member.mode = len(content), 0o644
                archive.addfile(member, io.BytesIO(content))
        return stream.getvalue()

    def lock_state(self, recipe: Recipe) -> str:
        """`locked`, `unlocked` when a lock is missing or empty, `none` when the recipe has nothing to lock."""
        files = self.files(recipe)
        wanted = [f"{recipe.name}.apt.lock"] if f"{recipe.name}.apt" in files else []
        wanted += [f"{recipe.name}.pip.lock"] if (self.directory / f"{recipe.name}.pip").exists() else []
        wanted += [f"{recipe.name}.package-lock.json"] if f"{recipe.name}.package.json" in files else []
        if not wanted:
            return "none"
        return "locked" if all(files.get(name, b"").strip() for name in wanted) else "unlocked"
