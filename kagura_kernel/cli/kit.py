"""`kagura-kernel kit agents`, `plan`, `build` and `show`."""

from __future__ import annotations

import os
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.cli.printing import as_json, paragraph, size, table, terminal_width
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from kagura_kernel.cockpit.kits import KitDesk, StagedKit

_OK, _FOUND = 0, 1


def run(arguments: SimpleNamespace) -> int:
    """Do it; 1 when something stands against the kit of a plan, else 0.

    Raises:
        ConfigurationError: the settings are wrong.
        KitError: it cannot be done with this agent, here.
        WorkspaceError: the project cannot be used.
        RunUnknown: there is no such run.
        JournalError: the journal cannot be used.
    """
    from kagura_kernel.assembly.kits import make_kits

    return _ACTIONS[arguments.action](make_kits(os.environ), arguments)


def _agents(kits: KitDesk, arguments: SimpleNamespace) -> int:
    agents = kits.named()
    if arguments.json:
        print(as_json([asdict(one) for one in agents]))
        return _OK
    rows = [(one.name, one.origin, "cannot be used" if one.problem else one.description or "-") for one in agents]
    print(table(("agent", "from", "what it does"), rows, whole=("agent",)))
    for one in agents:
        if one.problem:
            print(paragraph(one.problem, f"{one.name}: ", "  ", terminal_width()))
    return _OK


def _plan(kits: KitDesk, arguments: SimpleNamespace) -> int:
    from kagura_kernel.cockpit.kit_words import plan_lines, plan_record

    plan = kits.plan(arguments.agent, arguments.project)
    if arguments.json:
        print(as_json(plan_record(plan)))
    else:
        print("\n".join(map(shown, plan_lines(plan))))
    return _FOUND if plan.kit.problems else _OK


def _build(kits: KitDesk, arguments: SimpleNamespace) -> int:
    from kagura_kernel.views.kit import built_lines

    kit = kits.build(arguments.agent, arguments.project)
    if arguments.json:
        print(as_json(_record(kit)))
        return _OK
    print("\n".join(built_lines(kit, unchanged=kit.unchanged)))
    if kit.digest and kit.link is not None:
        print(shown(str(kit.link)))
    return _OK


def _show(kits: KitDesk, arguments: SimpleNamespace) -> int:
    from kagura_kernel.cockpit.kits import one_of

    one_of(arguments.agent, arguments.run)
    kit = _of_run(kits, arguments.run) if arguments.run is not None else kits.build(arguments.agent, arguments.project)
    if arguments.file is not None:
        return _show_file(kit, arguments)
    files = kit.files()
    if arguments.json:
        print(as_json(_record(kit) | {"files": [asdict(one) for one in files]}))
    elif files:
        rows = [(one.target, size(one.size), f"{one.redactions:,}", ", ".join(one.kinds) or "-") for one in files]
        print(table(("file", "size", "redactions", "of what"), rows, whole=("file",)))
    else:
        print("There is no file in this kit: a box sees what it needs in its workspace.")
    return _OK


def _show_file(kit: StagedKit, arguments: SimpleNamespace) -> int:
    found = kit.read(arguments.file)
    if arguments.json:
        print(as_json(asdict(found)))
    elif found.is_text:
        # Its own line ends stay; what a terminal would obey is told.
        print("\n".join("\t".join(map(shown, line.split("\t"))) for line in found.text.splitlines()))
    else:
        print(f"{shown(found.target)} is no text ({size(found.size)}).")
    return _OK


def _of_run(kits: KitDesk, word: str) -> StagedKit:
    from kagura_kernel.cli.opening import open_journal, place_in_use
    from kagura_kernel.cockpit.naming import here_of, named_run

    with open_journal(place_in_use()) as journal:
        return kits.of_run(journal, named_run(journal, word, here_of()))


def _record(kit: StagedKit) -> dict[str, Any]:
    told = {name: getattr(kit, name) for name in ("agent", "reference", "digest", "unchanged", "agents", "omitted")}
    listed = {name: [asdict(one) for one in getattr(kit, name)] for name in ("skills", "prompt_files", "left_out")}
    return told | listed | {"path": str(kit.link) if kit.link is not None and kit.digest else None}


_ACTIONS = {"agents": _agents, "plan": _plan, "build": _build, "show": _show}
