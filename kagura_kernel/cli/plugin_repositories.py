"""`kagura-kernel plugin search`, `plugin update`, `plugin publish` and `plugin repository`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.cli.plugin import VIA, in_cockpit
from kagura_kernel.cli.printing import moment, tell, tell_rows
from kagura_kernel.cockpit.plugin_repositories import split_source, trusted_text
from kagura_kernel.cockpit.plugins import installed_text
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.plugin_repositories import Hit, Update
    from kagura_kernel.plugins.repositories.trusted import TrustedRepository

NEWER = 1


@in_cockpit
def plugin_search(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print what the repositories have; 0."""
    hits = found.plugins.shelf.repositories.search(arguments.words)
    head = ("plugin", "version", "installed", "repository", "author", "risk", "asks for", "what it does")
    cells = [_cells(hit) for hit in hits]
    return tell_rows(
        arguments, list(map(_hit, hits)), head, cells, whole=("plugin", "version"), none="Nothing like that can be had."
    )


def _cells(hit: Hit) -> tuple[str, ...]:
    entry = hit.offer.entry
    asked = (("reads", entry.permissions.read), ("writes", entry.permissions.write), ("reaches", entry.permissions.net))
    asks = "; ".join(f"{word} {', '.join(entries)}" for word, entries in asked if entries)
    return (
        entry.name,
        entry.version,
        hit.installed or "-",
        hit.offer.repository,
        entry.author or "-",
        str(entry.risk),
        asks or "nothing",
        entry.description,
    )


def _hit(hit: Hit) -> dict[str, Any]:
    entry = hit.offer.entry
    return {
        "plugin": entry.name,
        "version": entry.version,
        "installed": hit.installed,
        "repository": hit.offer.repository,
        "author": entry.author,
        "risk": entry.risk,
        "permissions": asdict(entry.permissions),
        "description": entry.description,
        "content_hash": entry.content_hash,
    }


@in_cockpit
def plugin_update(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print what is newer, and install it where somebody says so; 1 when anything newer was left, else 0."""
    shelf = found.plugins.shelf
    updates = shelf.repositories.updates(*split_source(arguments.source))
    # What a program reads is data alone.
    out = sys.stderr if arguments.json else sys.stdout
    done = []
    for update in updates:
        print(update.text, file=out)
        if arguments.yes or _said_yes(update, arguments):
            installed = shelf.repositories.update(update, by=person(), via=VIA)
            how = f"kagura-kernel plugin enable {installed.name}"
            print(installed_text(installed, shelf.barred(installed.name), how), file=out)
            done.append(installed.name)
        else:
            wanted = f"{update.offer.name}@{update.offer.version}"
            print(f"Nothing is changed: `kagura-kernel plugin update {wanted} --yes` does it.", file=out)
    if arguments.json or not updates:
        tell(arguments, [_update(one, done) for one in updates], "Nothing newer can be had.")
    return NEWER if len(done) < len(updates) else 0


def _said_yes(update: Update, arguments: SimpleNamespace) -> bool:
    if arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        said = input(f"Put it in the place of {update.difference.versions[0]}? (y)es, (n)o [n]: ")
    except EOFError:
        return False
    return said.strip().casefold() in ("y", "yes")


def _update(update: Update, done: list[str]) -> dict[str, Any]:
    what = asdict(update.difference)
    before, now = what.pop("versions")
    about = {"plugin": update.offer.name, "repository": update.offer.repository}
    return about | {"installed": before, "version": now, "updated": update.offer.name in done} | what


@in_cockpit
def plugin_repository_list(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print the repositories that are trusted; 0."""
    trusted = found.plugins.shelf.repositories.trusted()
    head = ("repository", "where", "root", "since")
    cells = [(one.name, one.url, f"{one.root_sha256[:16]}…", moment(one.since)) for one in trusted]
    return tell_rows(arguments, list(map(_trusted, trusted)), head, cells, none="You trust no repository yet.")


def _trusted(one: TrustedRepository) -> dict[str, Any]:
    return {"repository": one.name, "url": one.url, "root_sha256": one.root_sha256, "since": one.since}


@in_cockpit
def plugin_repository_add(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Trust a repository; 0."""
    options = {name: getattr(arguments, name) for name in ("root", "sha256", "name")}
    trusted, count = found.plugins.shelf.repositories.add(arguments.source, **options, by=person(), via=VIA)
    return tell(arguments, _trusted(trusted) | {"plugins": count}, trusted_text(trusted, count))


@in_cockpit
def plugin_repository_remove(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Trust a repository no longer; 0."""
    found.plugins.shelf.repositories.remove(arguments.name, by=person(), via=VIA)
    said = f"{arguments.name} is trusted no longer. What was installed from it stays."
    return tell(arguments, {"removed": arguments.name}, said)


@in_cockpit
def plugin_publish(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Add to a repository, and sign it; 0."""
    if arguments.key is None:
        raise UsageError("Say with which key: `plugin publish FOLDER PLUGIN … --key FILE`.")
    published = found.plugins.shelf.repositories.publish(
        Path(arguments.folder), [Path(one) for one in arguments.plugins], arguments.key, days=arguments.days
    )
    added = f"{', '.join(published.added)} added" if published.added else "nothing new"
    said = (
        f"{published.folder}: {added}, {published.plugins} in all, signed until {moment(published.expires)}. Serve the "
        "folder as it is. Whoever is to trust it needs its address and the hash of its first root:\n"
        f"  kagura-kernel plugin repository add {shlex.quote(str(published.folder))} --sha256 {published.root_sha256}"
    )
    return tell(arguments, asdict(published) | {"folder": str(published.folder)}, said)
