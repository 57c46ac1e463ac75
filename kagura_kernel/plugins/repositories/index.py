"""What an index says of plugins: its publisher's words, read strictly. No I/O, and no library for signatures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.plugins.manifest import Manifest
from kagura_kernel.plugins.signature import MAX_AUTHOR
from kagura_kernel.plugins.text import unseen


def _author(text: str) -> str:
    if unseen(text):
        raise ValueError("it holds what a reader would not see")
    return text


class Entry(Manifest):
    """One version of a plugin, as an index has it beside the archive's hash; keys that are not known are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    # Who has signed it; empty for nobody
    author: Annotated[str, Field(max_length=MAX_AUTHOR), AfterValidator(_author)] = ""
    risk: Risk = Risk.UNKNOWN  # What the publisher's own audit said
    content_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # Of the plugin's files


@dataclass(frozen=True, slots=True)
class Offer:
    """One version of a plugin that a repository has."""

    repository: str  # What the repository is called here
    path: str  # Its archive's, in the index
    entry: Entry

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.entry.name

    @property
    def version(self) -> str:
        """SemVer."""
        return self.entry.version


def custom(entry: Entry) -> dict[str, Any]:
    """What stands beside an archive's hash in the index."""
    return entry.model_dump(mode="json", by_alias=True, exclude={"hints"})


def read_offer(repository: str, path: str, custom: object) -> Offer | None:
    """The offer that stands beside an archive's hash; None where it is none that can be understood."""
    try:
        return Offer(repository, path, Entry.model_validate(custom))
    except ValidationError:
        return None


def precedence(version: str) -> tuple[object, ...]:
    """Sorts versions as SemVer has it."""
    core, _, before = version.partition("+")[0].partition("-")
    numbers = tuple(map(int, core.split(".")))
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in before.split(".")]
    # What has nothing behind its numbers comes after all that has.
    return (*numbers, *(parts if before else [(2, 0, "")]))


def newest(offers: Iterable[Offer]) -> Offer | None:
    """The newest of one plugin's; one that is a preview only where there is nothing else."""
    ordered = sorted(offers, key=lambda offer: precedence(offer.version))
    released = [offer for offer in ordered if "-" not in offer.version.partition("+")[0]]
    return next(reversed(released or ordered), None)


def found(offers: Sequence[Offer], name: str, version: str = "") -> Offer:
    """The version that is meant; without one the newest. Raises `UnknownName`."""
    ours = [offer for offer in offers if offer.name == name]
    if not ours:
        raise UnknownName("plugin in the repositories", name, sorted({offer.name for offer in offers}))
    meant = newest(offer for offer in ours if version in ("", offer.version))
    if meant is None:
        raise UnknownName(f"version of {name}", version, sorted({offer.version for offer in ours}))
    return meant


def matching(offers: Iterable[Offer], words: Sequence[str]) -> list[Offer]:
    """Of each plugin and repository the newest, where every word stands in its name, description or author; by name."""
    by_plugin: dict[tuple[str, str], list[Offer]] = {}
    for offer in offers:
        by_plugin.setdefault((offer.name, offer.repository), []).append(offer)
    latest: Mapping[tuple[str, str], Offer | None] = {key: newest(some) for key, some in sorted(by_plugin.items())}
    return [offer for offer in latest.values() if offer is not None and _matches(offer.entry, words)]


def _matches(entry: Entry, words: Sequence[str]) -> bool:
    text = f"{entry.name}\n{entry.description}\n{entry.author}".casefold()
    return all(word.casefold() in text for word in words)
