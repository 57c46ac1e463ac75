"""Builds recipes in the order of their chain. An image gets its name when it is whole, and not before."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from kagura_kernel.domain.errors import ImageBuildFailed, SandboxUnavailable
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.sandbox.docker_endpoint import FORWARDING, Endpoint, ask_version, client_of, no_daemon, our_errors
from kagura_kernel.sandbox.images.recipes import (
    BASE_LABEL,
    DEFAULT_PREFIX,
    RECIPE_LABEL,
    RECIPES,
    STAGE_LABEL,
    Lock,
    PackageSettings,
    Recipe,
    Recipes,
    chain_for,
    recipe_named,
)

if TYPE_CHECKING:
    from docker import APIClient


_HELLO_SECONDS = 5.0
# Nothing but a daemon has images: another back-end is no way out.
_START_IT = "Start it, or let DOCKER_HOST name one that runs."
_PATIENCE = 1800
"""Seconds without a word from the daemon: a step of a build prints nothing while it fetches."""


class ImageDaemon:
    """One daemon, for a `with`. Every method raises `SandboxUnavailable` when it does not answer or refuses."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client: APIClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def inspect(self, name: str) -> Mapping[str, Any] | None:
        """An image in Docker's words; None when it is not there."""
        import docker

        with our_errors(_START_IT):
            try:
                return dict(self._api().inspect_image(name))
            except docker.errors.NotFound:
                return None

    def build(
        self, context: bytes, dockerfile: str, *, arguments: Mapping[str, str], labels: Mapping[str, str], network: str
    ) -> Iterator[Mapping[str, Any]]:
        """Build an image without a name and yield the daemon's messages; the id is in the last `aux`.

        A stage that fails is a message with `error`, no exception.
        """
        with our_errors(_START_IT):
            yield from self._api().build(
                fileobj=io.BytesIO(context),
                custom_context=True,
                dockerfile=dockerfile,
                buildargs=dict(arguments),
                labels=dict(labels),
                network_mode=network or None,
                rm=True,
                forcerm=True,
                decode=True,
            )

    def pull(self, name: str) -> None:
        """Fetch an image from its registry."""
        with our_errors(_START_IT):
            self._api().pull(name)

    def tag(self, image: str, name: str) -> None:
        """Give an image a name, `REPOSITORY:TAG`; it is taken from the image that had it."""
        repository, _, tag = name.rpartition(":")
        with our_errors(_START_IT):
            self._api().tag(image, repository, tag)

    def sweep(self, label: str) -> None:
        """Remove images without a name that bear a label."""
        with our_errors(_START_IT):
            self._api().prune_images(filters={"dangling": True, "label": label})

    def history(self, name: str) -> list[Mapping[str, Any]]:
        """The steps that made an image, newest first."""
        with our_errors(_START_IT):
            return list(self._api().history(name))

    def export(self, names: Sequence[str]) -> Iterator[bytes]:
        """The images as one archive, in pieces: what `docker save` writes. A layer they share comes once."""
        with our_errors(_START_IT):
            client = self._api()
            # The library's own method takes one name; the daemon takes many.
            url = f"{client.base_url}/v{client.api_version}/images/get"
            answer = client.get(url, params={"names": list(names)}, stream=True)
            try:
                answer.raise_for_status()
                yield from answer.iter_content(256 * 1024)
            finally:
                answer.close()

    def _api(self) -> APIClient:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _connect(self) -> APIClient:
        if self.endpoint.problem:
            raise SandboxUnavailable(self.endpoint.problem, FORWARDING)
        try:
            version = asyncio.run(ask_version(self.endpoint, _HELLO_SECONDS))
        except OSError as error:
            raise no_daemon(_START_IT) from error
        return client_of(self.endpoint, version, _PATIENCE)


_LOCK = re.compile(
    r"(?m:^)LOCK-UNMET (?P<file>\S+): (?P<floor>.+)"
    r"|E: (?P<apt>Version .+ was not found|Unable to locate package .+|Package .+ has no installation candidate)"
    r"|(?P<pip>THESE PACKAGES DO NOT MATCH THE HASHES|No matching distribution found for \S+)"
    r"|(?P<npm>EINTEGRITY|ETARGET|npm (?:error|ERR!) .*can only install packages when .+)"
)
_NETWORK = re.compile(
    r"Temporary failure|Could not resolve|Could not connect|Connection (?:timed out|reset|refused|failed|broken)"
    r"|Failed to fetch|Read timed out|NewConnectionError|Hash Sum mismatch|Mirror sync in progress|Undetermined Error"
    r"|\b50[234]\b .*(?:Bad Gateway|Unavailable|Time-?out)|ETIMEDOUT|ECONNRESET|EAI_AGAIN|ENOTFOUND|TLS handshake",
    re.IGNORECASE,
)
_CERTIFICATE = re.compile(r"CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|self-signed certificate|UNABLE_TO_GET_ISSUER")
# The daemon repeats the whole step, what it would have said in every other case among it.
_FAILURES_STEP = re.compile(r"The command '.*' returned a non-zero code: (\d+)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_USERINFO = re.compile(r"(?<!\w)(\w+://)[^/\s@]+@")
_LINES = 8


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong."""

    reason: str  # one line, or the last few of what was printed; no secret of an address in it
    advice: str = ""  # what to do next; may be empty
    passing: bool = False  # whether the same attempt may work a moment later


def failure_of(printed: str, error: str, recipe: str) -> Failure:
    """The failure of a build that printed this and ended with that error."""
    ended = _FAILURES_STEP.sub(r"its exit code was \1", error)
    text = _USERINFO.sub(r"\1***@", _COLOUR.sub("", f"{printed}\n{ended}"))
    if found := _CERTIFICATE.search(text):
        return Failure(
            f"a server's certificate was not trusted ({found[0]})",
            "Let PIP_CERT or SSL_CERT_FILE name the certificate of your package mirror or proxy.",
        )
    network = _NETWORK.search(text)
    if (found := _LOCK.search(text)) and not network:
        what = next(value for key, value in found.groupdict().items() if value and key != "file")
        return Failure(
            f"the lock cannot be met: {what.strip()}",
            f"Renew it with `dev/images.sh lock {recipe}`, or build on a base whose archive still has these "
            "versions (a snapshot).",
        )
    if network:
        return Failure(f"packages could not be fetched ({network[0].strip()})", "Try again.", passing=True)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return Failure("; ".join(lines[-_LINES:]))


_STEP = re.compile(r"^Step (\d+)/(\d+) : (.*)", re.DOTALL)
_ATTEMPTS = 3
_KEPT = 64 * 1024
"""Characters of what a build printed that are kept to tell why it failed."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """How images are built."""

    base: str = ""  # image that stands in for the pinned one; empty for that
    prefix: str = DEFAULT_PREFIX  # what stands before each name: `kagura/` makes `kagura/base:latest`
    lock: Lock = Lock.FLOOR  # how binding the lock of Debian packages is
    network: str = ""  # Docker's network mode while building; empty for the daemon's own choice
    settings: PackageSettings = field(default_factory=PackageSettings)  # how packages are reached on this machine
    arguments: Mapping[str, str] = field(default_factory=dict)  # build arguments for recipes that ask for more
    pause: float = 5.0  # seconds between attempts when a network failed

    def tag(self, recipe: Recipe) -> str:
        """The name that a recipe's image gets."""
        return f"{self.prefix}{recipe.name}:latest"


@dataclass(frozen=True, slots=True)
class Built:
    """An image that is there now."""

    name: str  # its recipe
    tag: str  # its name
    id: str  # its id
    kept: bool  # whether it was there already, made from the same recipe on the same base


def build_chain(
    daemon: ImageDaemon, recipes: Recipes, names: Iterable[str], plan: BuildPlan, progress: Progress = lambda _: None
) -> list[Built]:
    """Build the images named and all below them; what is up to date is left alone.

    Raises:
        UnknownName: a name is none.
        ImageBuildFailed: one could not be built; those before it stay, its name stays with the image that had it.
        SandboxUnavailable: no daemon answers.
    """
    chain = chain_for(names)
    builder = _Builder(daemon, recipes, plan, progress)
    made: dict[str, Built] = {}
    try:
        for recipe in chain:
            below = made.get(recipe.base)
            base = below.tag if below else plan.base or recipes.default_base(recipe)
            made[recipe.name] = builder.ensure(recipe, base, below.id if below else builder.base_id(base, recipe))
    finally:
        # What the fetching stages hold (a certificate, a mirror's address) goes with them.
        daemon.sweep(f"{STAGE_LABEL}=fetch")
    return list(made.values())


@dataclass(frozen=True, slots=True)
class _Builder:
    daemon: ImageDaemon
    recipes: Recipes
    plan: BuildPlan
    progress: Progress

    def base_id(self, base: str, recipe: Recipe) -> str:
        """The id of a base that is no recipe's image, which is fetched when it is not here."""
        found = self.daemon.inspect(base)
        if found is None:
            self.progress(f"{recipe.name}: fetching {base}")
            try:
                self.daemon.pull(base)
            except SandboxUnavailable as error:
                raise ImageBuildFailed(
                    recipe.name,
                    f"its base {base} is not here and cannot be fetched ({error.reason})",
                    "Name another with --base IMAGE; images/README.md says how to make one without a registry.",
                ) from error
            found = self.daemon.inspect(base)
        return str(found["Id"]) if found else ""

    def ensure(self, recipe: Recipe, base: str, base_id: str) -> Built:
        """The recipe's image on this base, built unless it is there."""
        plan, tag = self.plan, self.plan.tag(recipe)
        identity = self.recipes.identity(recipe, base_id, plan.lock)
        there = self.daemon.inspect(tag)
        if there is not None and _labels(there).get(RECIPE_LABEL) == identity:
            self.progress(f"{recipe.name}: {tag} is up to date")
            return Built(recipe.name, tag, str(there["Id"]), kept=True)
        arguments = {**plan.settings.arguments, **plan.arguments, "BASE": base}
        if b"ARG LOCK" in self.recipes.files(recipe)[recipe.dockerfile]:
            arguments["LOCK"] = plan.lock.value
        for left in range(_ATTEMPTS - 1, -1, -1):
            outcome = self._attempt(recipe, arguments, {RECIPE_LABEL: identity, BASE_LABEL: base_id})
            if isinstance(outcome, str):
                self.daemon.tag(outcome, tag)
                self.progress(f"{recipe.name}: built {tag}")
                return Built(recipe.name, tag, outcome, kept=False)
            if not (left and outcome.passing):
                raise ImageBuildFailed(recipe.name, outcome.reason, outcome.advice)
            self.progress(f"{recipe.name}: {outcome.reason}; trying again")
            time.sleep(plan.pause)
        raise AssertionError

    def _attempt(self, recipe: Recipe, arguments: Mapping[str, str], labels: Mapping[str, str]) -> str | Failure:
        """The id of the image, or why there is none."""
        printed, image = "", ""
        context = self.recipes.context(recipe, self.plan.settings.files)
        for message in self.daemon.build(
            context, recipe.dockerfile, arguments=arguments, labels=labels, network=self.plan.network
        ):
            if "error" in message:
                return failure_of(printed, str(message["error"]), recipe.name)
            if "aux" in message:
                image = str(message["aux"].get("ID", image))
            text = str(message.get("stream", ""))
            if (step := _STEP.match(text)) is None:
                printed = (printed + text)[-_KEPT:]
            else:
                self.progress(f"{recipe.name}: step {step[1]} of {step[2]}: {' '.join(step[3].split())[:80]}")
        return image or failure_of(printed, "the daemon named no image", recipe.name)


def _labels(image: Mapping[str, Any]) -> Mapping[str, Any]:
    return (image.get("Config") or {}).get("Labels") or {}


@dataclass(frozen=True, slots=True)
class Listed:
    """One recipe and its image."""

    name: str  # the recipe
    tag: str  # the image's name, built or not
    holds: str  # what is in it beyond its base
    locked: str  # `locked`, `unlocked`, or `none` where there is nothing to lock
    tested: bool  # whether the tests build the recipe
    id: str = ""  # the image's id; empty when it is not built
    size: int = 0  # in bytes, its bases included
    created: str = ""  # when it was made, as ISO 8601
    base: str = ""  # id of the image that it was built on; empty when nobody wrote it down
    current: bool = False  # whether it was made from the recipe as it is now, on the base that is there now
    known: bool = True  # whether a daemon said what there is; without one all of these from `id` on say nothing


def list_images(daemon: ImageDaemon, recipes: Recipes, plan: BuildPlan) -> list[Listed]:
    """Every recipe in the order of the chain. Raises `SandboxUnavailable` when no daemon answers."""
    return [_with_image(one, daemon, recipes, plan) for one in _listed(recipes, plan)]


def list_recipes(recipes: Recipes, plan: BuildPlan) -> list[Listed]:
    """Every recipe in the order of the chain, where no daemon says which are built."""
    return [replace(one, known=False) for one in _listed(recipes, plan)]


def _listed(recipes: Recipes, plan: BuildPlan) -> list[Listed]:
    return [Listed(one.name, plan.tag(one), one.holds, recipes.lock_state(one), one.tested) for one in RECIPES]


def _with_image(listed: Listed, daemon: ImageDaemon, recipes: Recipes, plan: BuildPlan) -> Listed:
    found = daemon.inspect(listed.tag)
    if found is None:
        return listed
    recipe, labels = recipe_named(listed.name), _labels(found)
    base = str(labels.get(BASE_LABEL, ""))
    below = plan.tag(recipe_named(recipe.base)) if recipe.base else plan.base
    under = daemon.inspect(below) if below else None
    same_base = under is None or str(under["Id"]) == base
    made_so = labels.get(RECIPE_LABEL) in {recipes.identity(recipe, base, lock) for lock in Lock}
    return replace(
        listed,
        id=str(found["Id"]),
        size=int(found.get("Size") or 0),
        created=str(found.get("Created") or ""),
        base=base,
        current=bool(base) and made_so and same_base,
    )
