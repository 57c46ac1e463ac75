"""`kagura-kernel plugin install`, `remove`, `sign` and `trust`."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from types import SimpleNamespace

from kagura_kernel.cli.plugin import VIA, as_data, cockpit
from kagura_kernel.cli.printing import as_json, table
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.plugin_shelf import installed_text
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.surface import person


def run(arguments: SimpleNamespace) -> int:
    """Do it; 0 unless it cannot be done.

    Raises:
        UsageError: something that is needed was not said.
        UnknownName: there is no such plugin.
        PluginError: it cannot be done with this plugin.
        JournalError: the journal cannot be used.
    """
    with cockpit() as found:
        match arguments.action:
            case "install":
                _install(found, arguments)
            case "remove":
                found.plugins.shelf.remove(arguments.name, by=person(), via=VIA)
                _say(arguments, {"removed": arguments.name}, f"{arguments.name} is removed.")
            case "sign":
                _sign(found, arguments)
            case _:
                _trust(found, arguments)
    return 0


def _install(found: Cockpit, arguments: SimpleNamespace) -> None:
    shelf, replace = found.plugins.shelf, arguments.replace
    installed = shelf.install(arguments.source, arguments.sha256, replace=replace, by=person(), via=VIA)
    barred = shelf.barred(installed.name)
    said = installed_text(installed, barred, f"kagura-kernel plugin enable {installed.name}")
    _say(arguments, as_data(found.plugins.row(installed.name)) | {"barred": barred}, said)


def _sign(found: Cockpit, arguments: SimpleNamespace) -> None:
    if arguments.key is None or arguments.author is None:
        raise UsageError("Say with which key and as whom: `plugin sign PATH --key FILE --author NAME`.")
    signed = found.plugins.shelf.sign(arguments.path, arguments.key, arguments.author, by=person(), via=VIA)
    said = (
        f"{arguments.path} is signed by {signed.author}: whoever trusts you needs your public key:\n"
        f"  kagura-kernel plugin trust {shlex.quote(signed.author)} {signed.key}"
    )
    _say(arguments, asdict(signed), said)


def _trust(found: Cockpit, arguments: SimpleNamespace) -> None:
    author, key = arguments.author, arguments.key
    if author is None:
        authors = [asdict(one) for one in found.plugins.shelf.authors()]
        rows = [(one["name"], one["key"]) for one in authors]
        _say(arguments, authors, table(("author", "key"), rows) if rows else "You trust no author yet.")
    elif arguments.remove:
        gone = found.plugins.shelf.distrust(author, by=person(), via=VIA)
        said = f"{author} is trusted no longer." if gone else f"{author} was not trusted."
        _say(arguments, {"author": author, "was_trusted": gone}, said)
    elif key is None:
        raise UsageError(
            f"Say which key is {author}’s: `plugin trust {shlex.quote(author)} KEY`, as their `plugin sign` prints it."
        )
    else:
        found.plugins.shelf.trust(author, key, by=person(), via=VIA)
        _say(arguments, {"author": author, "key": key}, f"{author} is trusted.")


def _say(arguments: SimpleNamespace, data: object, text: str) -> None:
    print(as_json(data) if arguments.json else text)
