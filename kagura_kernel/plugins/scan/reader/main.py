"""The scan's process: a plugin's files come in on standard input, findings go out on standard output, both as JSON."""

from __future__ import annotations

import ast
import binascii
import functools
import gc
import json
import posixpath
import resource
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from .checking import Checks
from .evaluation import Evaluation
from .fields import check_entry, read_schema
from .names import ANY, NOTHING, Material, Value, Values, material_of
from .reaching import without_files
from .scopes import Walk
from .source import Report, check_identifiers, injections, text_of

Finding = tuple[str, str, str, int]
"""Rule, message, file, line."""

MAX_FINDINGS = 500


class Plugin:
    """One plugin while it is scanned."""

    def __init__(self, files: Mapping[str, bytes], source: str) -> None:
        self.uses: set[str] = set()  # What its source reaches for: `read`, `write`, `net`
        self.library: set[str] = set()  # What it reaches for through `kagura_plugin`
        self.doubts: list[tuple[str, int]] = []  # Where an attribute is reached by a name that is not known
        # Names with an underscore that no class of the plugin has, with the file and line
        self.private: list[tuple[str, str, int]] = []
        self.set_by_name: set[str] = set()  # Names under which something is stored by `setattr`
        self.suspicious = False  # Whether a text names something that is never reached honestly
        self.rings = 0  # How often what was asked for was just being worked out: values that depend on themselves
        self.schema: Any = None  # The value of `SCHEMA`
        self._files = files
        self._source = source
        self._units: dict[str, Evaluation] = {}
        self._found: dict[Finding, None] = {}

    # ------------------------------------------------------------------- scan

    def scan(self) -> list[Finding]:
        """Everything that the rules find; in the order of files and lines, but for what is about the whole."""
        for path in sorted(self._files):
            self._parse(path, self._files[path])
        for path, unit in sorted(self._units.items()):
            checks = Checks(unit, self)
            unit.checks = checks
            checks.run()
            if path == self._source:
                self.schema = read_schema(unit.walk, self._reporter(path))
                check_entry(unit.walk, self._reporter(path))
        for path, line in self.doubts:
            if self.suspicious:
                message = (
                    "An attribute is reached by a name that is not known, beside names that lead into the interpreter."
                )
                self.report("computed-attribute", message, path, line)
            else:
                message = "An attribute is reached by a name that the source does not show."
                self.report("unfollowed-attribute", message, path, line)
        for name, path, line in self.private:
            if name not in self.set_by_name:
                message = f"{name} is no attribute of the plugin's own, and not for others."
                self.report("private-attribute", message, path, line)
        return list(self._found)

    @functools.cached_property
    def in_memory(self) -> frozenset[str]:
        """Modules that could use files, and use none here."""
        return without_files(self._units.values())

    @functools.cached_property
    def defined(self) -> frozenset[str]:
        """Names of attributes that the plugin's own classes have."""
        walks = [unit.walk for unit in self._units.values()]
        bound = (inner.bindings for walk in walks for inner in walk.inner.values() if inner.kind == "class")
        return frozenset().union(*bound, *(walk.declared for walk in walks), *(walk.attributes for walk in walks))

    @functools.cached_property
    def material(self) -> Material:
        """What there is to make names of; looked up only where a name is put together."""
        return material_of(self._units.values())

    def report(self, rule: str, message: str, path: str, line: int) -> None:
        """Note a finding; the same one is noted once."""
        if len(self._found) < MAX_FINDINGS or rule not in {one[0] for one in self._found}:
            self._found[rule, message, path, line] = None

    def _reporter(self, path: str) -> Report:
        def report(rule: str, message: str, line: int) -> None:
            self.report(rule, message, path, line)

        return report

    def _parse(self, path: str, data: bytes) -> None:
        report = self._reporter(path)
        text = text_of(data, report)
        if text is None:
            return
        for number, words in injections(text):
            shown = words.encode("ascii", "replace").decode()[:80]
            report("prompt-injection", f"The words {shown!r} speak to whoever audits the plugin.", number)
        check_identifiers(text, report)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except SyntaxError as error:
            report("no-python", f"The file is no Python: {error.msg}.", error.lineno or 0)
        except (ValueError, RecursionError, MemoryError) as error:
            report("no-python", f"The file is too much for Python's parser: {type(error).__name__}.", 0)
        else:
            self._units[path] = Evaluation(path, Walk(tree), self)

    # ------------------------------------------------------------ between files

    def evaluation(self, unit: str) -> Evaluation:
        """What is known of one file."""
        return self._units[unit]

    def _resolve(self, unit: str, module: str, level: int) -> str | None:
        """The path without `.py` to which a relative import leads; None when that is outside."""
        folder = posixpath.dirname(unit)
        for _ in range(level - 1):
            if not folder:
                return None
            folder = posixpath.dirname(folder)
        return posixpath.join(folder, *module.split(".")) if module else folder

    def _file(self, place: str) -> str | None:
        for path in (f"{place}.py", posixpath.join(place, "__init__.py")):
            if path in self._units:
                return path
        return None

    def is_there(self, unit: str, module: str, level: int, name: str) -> bool:
        """Whether a relative import finds something in the plugin's own files."""
        place = self._resolve(unit, module, level)
        if place is None:
            return False
        found = self._file(place) if place else None
        if found is None:
            return (name == "*" and bool(place == "")) or self._is_file(posixpath.join(place, name))
        walk = self._units[found].walk
        return name == "*" or name in walk.module.bindings or bool(walk.stars) or self._is_file(f"{place}/{name}")

    def _is_file(self, place: str) -> bool:
        """Files that did not parse count: what is wrong with them is told by itself."""
        return f"{place}.py" in self._files or f"{place}/__init__.py" in self._files

    def exported(self, unit: str, module: str, level: int, name: str) -> Values:
        """What `from .module import name` gives."""
        place = self._resolve(unit, module, level)
        if place is None:
            return ANY
        found = self._file(place) if place or module else None
        if found is not None and found != unit:
            values = self.attribute_of_file(found, name)
            if values:
                return values
        inner = self._file(posixpath.join(place, name))
        return frozenset({Value("own", "", 0, None, inner)}) if inner else ANY

    def attribute_of_file(self, unit: str, name: str) -> Values:
        """A name in the module of one file; the empty set when it has none."""
        if unit not in self._units:
            return ANY
        home = self._units[unit]
        if name in home.walk.module.bindings or home.walk.stars:
            return home.lookup(name, home.walk.module, 1 << 30)
        inner = self._file(posixpath.join(posixpath.dirname(unit), name))
        return frozenset({Value("own", "", 0, None, inner)}) if inner and inner != unit else NOTHING

    def calls_elsewhere(self, unit: str, name: str) -> list[ast.Call]:
        """Calls in other files of a function of that name."""
        return [call for path, one in self._units.items() if path != unit for call in one.walk.calls.get(name, ())]


MEMORY = 3 << 30
SECONDS = 30
_RECURSION = 6_000


def main() -> None:
    """Read a request, scan, answer; ends itself when a source asks for more than a scan may take."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(_RECURSION)
    # A tree has no rings that would be worth looking for, and the process ends soon.
    gc.disable()
    request = json.load(sys.stdin.buffer)
    files = {path: binascii.a2b_base64(data) for path, data in request["files"].items()}
    plugin = Plugin(files, request["source"])
    findings = plugin.scan()
    answer = {"findings": findings, "uses": sorted(plugin.uses), "library": sorted(plugin.library)}
    answer["schema"] = _plain(plugin.schema)
    sys.stdout.write(json.dumps(answer))


def _plain(schema: Any) -> str | None:
    """A schema as the literal that it is: JSON has no tuples, sets or bytes, and the reader of schemas refuses them."""
    return None if schema is None else repr(schema)
