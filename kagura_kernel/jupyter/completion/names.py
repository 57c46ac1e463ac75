"""Names for completion and inspection: of runs, leases, files and plugins, of variables, of what can be configured.

A look-up never raises, never starts the cockpit, and takes no longer than a blink: what is slow goes on in a thread of
its own and is there the next time. Nothing is written down about what lies on this machine.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly import brain_names, load_providers, load_settings
from kagura_kernel.assembly.kits import make_kits
from kagura_kernel.cockpit.lines.completion import Name
from kagura_kernel.cockpit.memory_words import tier_words
from kagura_kernel.cockpit.resumption import may_be_resumed
from kagura_kernel.cockpit.run_names import LAST, here_of, named_approval, named_run
from kagura_kernel.domain.extensions import BACKENDS
from kagura_kernel.domain.grammar import ON_DISK, Kind
from kagura_kernel.domain.memory import Query, Tier
from kagura_kernel.journal import views
from kagura_kernel.journal.change_states import changes_of, changes_wait
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.place import data_home, expanded, place_in_use, read_settings
from kagura_kernel.journal.rows import Here, RunRow
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.surface import place_of
from kagura_kernel.membrane.egress.hosts import ASK, NONE
from kagura_kernel.membrane.grant import host_sets
from kagura_kernel.membrane.names import shown
from kagura_kernel.memory.location import FILE, open_memory
from kagura_kernel.plugins.configuration import read_schema
from kagura_kernel.plugins.manifest import discover, plugin_places
from kagura_kernel.plugins.permissions import field_of
from kagura_kernel.plugins.scan.scanner import scan_content
from kagura_kernel.render.figures import counted
from kagura_kernel.sandbox.images.build import BuildPlan
from kagura_kernel.sandbox.images.recipes import RECIPES
from kagura_kernel.sandbox.selection import AUTO, BUILT_IN

if TYPE_CHECKING:
    from kagura_kernel.plugins.configuration import Schema
    from kagura_kernel.plugins.manifest import Found


MOST = 500
"""So many names are given."""

_LONG = 60
_SHAPED = frozenset({"DataFrame", "Series", "ndarray"})
_HOMES = frozenset({"numpy", "pandas", "polars"})
_COUNTED = (str, bytes, list, tuple, dict, set, frozenset)
_PLAIN = (bool, int, float, complex, type(None))
_NO_DATA = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


def variables(namespace: Mapping[str, Any], hidden: Collection[str] = ()) -> list[Name]:
    """Those that hold data and are the person's own, sorted by name."""
    names = [
        name
        for name, value in list(namespace.items())
        if not name.startswith("_") and name not in hidden and not isinstance(value, _NO_DATA)
    ]
    return [Name(name, summary_of(namespace[name])) for name in sorted(names)[:MOST] if name in namespace]


def summary_of(value: Any) -> str:
    """What a value is: its type, and its shape, length or itself where that is known to be cheap."""
    kind = type(value)
    if kind in _PLAIN:
        return f"{kind.__name__}, {value!r}"[:_LONG] if value is not None else "None"
    if kind in _COUNTED:
        return f"{kind.__name__}, {len(value):,} long"
    if kind.__name__ in _SHAPED and kind.__module__.partition(".")[0] in _HOMES:
        return f"{kind.__name__}, {' × '.join(f'{size:,}' for size in value.shape)}"
    return kind.__name__


BLINK = 0.3
"""Seconds a look-up may take before it is given up for this time."""


def journal_in_use() -> AbstractContextManager[Journal]:
    """The journal of the settings, for a moment. Raises `KaguraError`: there is none yet, or it cannot be used."""
    return closing(Journal.open(place_in_use(os.environ), create=False))


class ShellNames:
    """Names of a shell, of its working directory, of the journal in use, and of the settings."""

    def __init__(
        self,
        shell: Any,
        open_journal: Callable[[], AbstractContextManager[Journal]] = journal_in_use,
        *,
        blink: float = BLINK,
    ) -> None:
        self._shell = shell
        self._open = open_journal
        self._blink = blink

    def names(self, kind: Kind, prefix: str, given: Sequence[str]) -> Sequence[Name]:
        """Names of a kind; none where they cannot be had in time."""
        if kind in (Kind.VARIABLE, Kind.EXPRESSION):
            return variables(getattr(self._shell, "user_ns", {}), getattr(self._shell, "user_ns_hidden", {}))
        here = here_of(place_of(self._shell))
        return _within(self._blink, lambda: self._look_up(kind, prefix, given, here))

    def _look_up(self, kind: Kind, prefix: str, given: Sequence[str], here: Here) -> Sequence[Name]:
        if kind in ON_DISK:
            # Below a prompt stands what the box sees, and that is the project alone.
            return files(Path.cwd(), prefix, kind, outside=bool(given))
        if kind in FINDERS:
            with self._open() as journal:
                found = list(FINDERS[kind](journal, given, here))
        elif kind in _BY_THE_LINE:
            found = list(_BY_THE_LINE[kind](prefix, given))
        else:
            finder = _CONFIGURED.get(kind)
            return list(finder()) if finder is not None else ()
        # Titles, descriptions and file names may be anybody's words. One that cannot be typed is not offered.
        return [Name(name.text, shown(name.summary)) for name in found if name.text.isprintable()]


def _within(seconds: float, look: Callable[[], Sequence[Name]]) -> Sequence[Name]:
    """What a look-up finds, or nothing when it takes longer or fails."""
    found: queue.SimpleQueue[Sequence[Name]] = queue.SimpleQueue()

    def work() -> None:
        # A wrong setting or a broken journal must not turn into a stack trace while somebody types.
        with contextlib.suppress(Exception):
            found.put(look())
            return
        found.put(())

    threading.Thread(target=work, name="kagura-names", daemon=True).start()
    try:
        return found.get(timeout=seconds)
    except queue.Empty:
        return ()


def _boxes() -> Iterator[Name]:
    from importlib.metadata import entry_points

    yield Name(AUTO, "the first that works here")
    for name in (*BUILT_IN, *(entry.name for entry in entry_points(group=BACKENDS))):
        yield Name(name)


def _hosts() -> Iterator[Name]:
    yield Name(ASK, "any other host is a question to you")
    yield Name(NONE, "not even the hosts of the settings")
    for name, targets in host_sets(load_settings(os.environ).mirrors).items():
        hosts = list(dict.fromkeys(target.host for target in targets))
        more = ", …" if len(hosts) > _SHOWN else ""
        yield Name(name, f"{', '.join(hosts[:_SHOWN])}{more}")


_SHOWN = 3


def _grants() -> Iterator[Name]:
    for name, provider in load_providers(os.environ).items():
        for scope in sorted(provider.scopes):
            yield Name(f"{name}:{scope}", provider.kind)


_CONFIGURED: dict[Kind, Callable[[], Iterable[Name]]] = {
    Kind.BOX: _boxes,
    Kind.BRAIN: lambda: map(Name, brain_names()),
    Kind.IMAGE: lambda: (Name(BuildPlan().tag(one), one.holds) for one in RECIPES if not one.asked),
    Kind.RECIPE: lambda: (Name(one.name, one.holds) for one in RECIPES),
    Kind.HOST: _hosts,
    Kind.GRANT: _grants,
    Kind.PROVIDER: lambda: (Name(name, one.kind) for name, one in load_providers(os.environ).items()),
}


MOST_FILES = 200
"""So many names are given."""

LOOKED_AT = 5000
"""So many entries of a folder are looked at: one may hold millions."""


def files(base: Path, prefix: str, kind: Kind, *, outside: bool) -> list[Name]:
    """Names that begin like this, folders first and with a slash behind them; sorted.

    A relative name begins at `base`; names outside of it are found where they may be typed.

    Raises:
        OSError: the folder cannot be read.
    """
    folder, _, begin = prefix.rpartition("/")
    place = base / os.path.expanduser(f"{folder}/" if folder or prefix.startswith("/") else "")  # noqa: PTH111
    if not outside and not place.resolve().is_relative_to(base.resolve()):
        return []
    head = prefix[: len(prefix) - len(begin)]
    found: list[tuple[bool, str]] = []
    with os.scandir(place) as entries:
        for count, entry in enumerate(entries):
            if count == LOOKED_AT:
                break
            if not entry.name.startswith(begin) or (entry.name.startswith(".") and not begin.startswith(".")):
                continue
            is_folder = entry.is_dir()
            fits = entry.name.endswith(".ipynb") if kind is Kind.NOTEBOOK else kind is not Kind.DIRECTORY
            if is_folder or fits:
                found.append((not is_folder, f"{head}{entry.name}{'/' if is_folder else ''}"))
    # A name that cannot be typed is not offered.
    return [Name(text) for _, text in sorted(found) if text.isprintable()][:MOST_FILES]


_MEMORIES = 100


def memories(given: Sequence[str]) -> list[Name]:
    """The newest memories; to be promoted only those that are not trusted, and the other way round.

    Raises:
        KaguraError: the settings are wrong, or the memory cannot be used.
    """
    where, home = read_settings(os.environ).memory, data_home(os.environ)
    path = expanded(where) if where else home / FILE
    if not path.is_file():
        return []
    wanted = {"promote": Tier.QUARANTINE, "demote": Tier.TRUSTED}
    tier = wanted.get(given[1]) if len(given) > 1 else None
    with closing(open_memory(str(path), home, os.environ, meaning=False)) as store:
        found = store.recall(Query("", k=_MEMORIES, tier=tier))
    return [
        Name(one.memory.id, f"{one.memory.type}, {tier_words(one.memory.tier)}: {one.memory.summary}") for one in found
    ]


_KEPT = 64

_lock = threading.Lock()
_schemas: OrderedDict[str, Schema] = OrderedDict()
"""Of plugins that were looked at, by the hash of their files: a source is read by another process, which takes longer
than anybody waits for a list of names."""


def plugins(prefix: str, given: Sequence[str]) -> Iterator[Name]:
    """All plugins that can be used; only the person's own where one is removed."""
    del prefix
    own = tuple(given[:2]) == ("plugin", "remove")
    for found in _plugins_here().values():
        if not own or found.place == "user":
            yield Name(found.name, found.manifest.description)


def plugin_settings(prefix: str, given: Sequence[str]) -> Iterator[Name]:
    """What the plugin on the line can be told, each with a sign behind it; behind the sign, paths where it is one."""
    known = _plugins_here()
    found = next((known[word] for word in given[2:] if word in known), None) if given[:1] == ("plugin",) else None
    if found is None:
        return
    schema = _schema(found)
    field, sign, value = prefix.partition("=")
    if sign:
        yield from _setting_values(found, schema, field, value)
        return
    told = {word.partition("=")[0] for word in given if "=" in word}
    for name, field_ in sorted(schema.items(), key=lambda item: not item[1].asked):
        if name not in told:
            needed = ", needed" if field_.asked and field_.default is None else ""
            yield Name(f"{name}=", f"{field_.type}{needed}: {field_.description}")


def _setting_values(found: Found, schema: Schema, name: str, value: str) -> Iterator[Name]:
    permissions = found.manifest.permissions
    if name in schema and schema[name].type == "boolean":
        yield from (Name(f"{name}={word}") for word in ("yes", "no"))
    elif name in map(field_of, (*permissions.read, *permissions.write)):
        for file in files(Path.cwd(), value, Kind.FILE, outside=True):
            yield Name(f"{name}={file.text}", file.summary)


def _plugins_here() -> Mapping[str, Found]:
    return discover(plugin_places(data_home(os.environ), Path.cwd())).found


def _schema(found: Found) -> Schema:
    """What its source says that it can be told. Raises `PluginInvalid`: it says nothing that can be understood."""
    key = found.content.content_hash
    with _lock:
        if key in _schemas:
            return _schemas[key]
    schema = read_schema(scan_content(found.content, found.manifest.permissions).schema, found.name)
    with _lock:
        _schemas[key] = schema
        if len(_schemas) > _KEPT:
            _schemas.popitem(last=False)
    return schema


_DOCUMENTS = (".yaml", ".yml", ".toml", "/")


def _agents(prefix: str) -> list[Name]:
    """Agents that have a name, then files that may hold one; nothing is fetched."""
    named = [] if "/" in prefix else [Name(name) for name in make_kits(os.environ).agents()]
    found = files(Path.cwd(), prefix, Kind.FILE, outside=True)
    return [*named, *(one for one in found if one.text.endswith(_DOCUMENTS))]


def _staged(given: Sequence[str]) -> list[Name]:
    """Files of the kit that the line is about; nothing is staged.

    Raises:
        KaguraError: there is no such agent, or the project cannot be used.
    """
    words = list(given[2:])
    if len(words) > 1:
        return []
    kit = make_kits(os.environ).latest(words[0] if words else None)
    if kit is None:
        return []
    return [Name(one.target, counted(one.redactions, "redaction") if one.redactions else "") for one in kit.files()]


_BY_THE_LINE: dict[Kind, Callable[[str, Sequence[str]], Iterable[Name]]] = {
    Kind.PLUGIN: plugins,
    Kind.PAIR: plugin_settings,
    Kind.MEMORY: lambda _prefix, given: memories(given),
    Kind.AGENT: lambda prefix, _given: _agents(prefix),
    Kind.KIT_FILE: lambda _prefix, given: _staged(given),
}
"""What finds names by the words that stand on the line already."""


_LATEST = 100
_WAITING = 20
_TASK = 60


def _runs(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    def fitting(of: Here | None) -> list[RunRow]:
        to_stop = given[:1] == ("kill",)
        rows = views.unfinished(journal, here=of) if to_stop else views.runs(journal, limit=_LATEST, here=of)
        if given[:1] in (("apply",), ("discard",)):
            return list(islice((row for row in rows if changes_wait(journal, row)), _WAITING))
        if given:
            return rows
        # The first line of a cell names a run for one reason: to go on from it.
        return [row for row in rows if may_be_resumed(row)]

    for row in fitting(here)[:1]:
        yield Name(LAST, _told(row))
    for row in fitting(None):
        yield Name(row.run_id, _told(row))


def _approvals(journal: Journal, given: Sequence[str], _here: Here) -> Iterator[Name]:
    for row in views.approvals(journal, limit=_LATEST, pending_only=True):
        yield Name(row.id, f"{row.title} ({row.run_id})")
    if given[:1] in (("approve",), ("deny",)):
        return
    for row in views.approvals(journal, limit=_LATEST):
        if row.verdict is not None:
            yield Name(row.id, f"{row.title}: {row.verdict} by {row.by}")


def _answers(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    """The answers that a question offers, as the first word after its id."""
    if len(given) != 2 or given[0] not in ("approve", "deny"):  # noqa: PLR2004  # the command and the id
        return
    approval_id = named_approval(journal, given[1], here)
    for request in Mailbox(journal).pending():
        if request.id == approval_id:
            yield from (Name(option) for option in request.options)


def _leases(journal: Journal, _given: Sequence[str], _here: Here) -> Iterator[Name]:
    rows = {row.lease_id: row for row in LeaseLedger(journal).open_rows()}
    for lease_id, row in rows.items():
        yield Name(lease_id, f"{row.provider}:{row.scope} of {row.run_id}")
    for scope in dict.fromkeys(f"{row.provider}:{row.scope}" for row in rows.values()):
        yield Name(scope)


def _sessions(journal: Journal, _given: Sequence[str], _here: Here) -> Iterator[Name]:
    newest = {row.session_id: row for row in reversed(views.runs(journal, limit=_LATEST))}
    for session_id, row in reversed(newest.items()):
        yield Name(session_id, _told(row))


def _models(journal: Journal, _given: Sequence[str], _here: Here) -> Iterator[Name]:
    for model in dict.fromkeys(row.model for row in views.runs(journal, limit=_LATEST) if row.model):
        yield Name(model)


def _changed(journal: Journal, given: Sequence[str], here: Here) -> Iterator[Name]:
    """Files that wait for a decision, of the run that the line names."""
    if len(given) < 2:  # noqa: PLR2004  # the command and the run
        return
    for change in changes_of(journal, named_run(journal, given[1], here)):
        if change.written if given[0] == "undo" else change.state in ("proposed", "conflict"):
            yield Name(change.path, f"{change.status}, {change.state}")


def _told(row: RunRow) -> str:
    task = " ".join(row.task.split())
    shown = task if len(task) <= _TASK else f"{task[: _TASK - 1]}…"
    return f"{row.status.replace('_', ' ')}, {shown}" if shown else row.status.replace("_", " ")


FINDERS: Mapping[Kind, Callable[[Journal, Sequence[str], Here], Iterator[Name]]] = {
    Kind.RUN: _runs,
    Kind.APPROVAL: _approvals,
    Kind.TEXT: _answers,
    Kind.LEASE: _leases,
    Kind.SESSION: _sessions,
    Kind.MODEL: _models,
    Kind.CHANGED_PATH: _changed,
}
