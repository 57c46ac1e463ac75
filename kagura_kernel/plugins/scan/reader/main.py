"""The scan's process: a plugin's files come in on standard input, findings go out on standard output, both as JSON."""

from __future__ import annotations

import ast
import binascii
import gc
import json
import resource
import sys
import warnings
from collections.abc import Mapping

from .call_values import Meaning
from .checks import Checks
from .evaluation import Files
from .fields import check_entry, read_schema
from .names import Finding
from .scopes import Walk
from .source import Report, check_identifiers, injections, text_of


class Plugin(Files):
    """One plugin while it is scanned."""

    def __init__(self, files: Mapping[str, bytes], source: str) -> None:
        super().__init__(files)
        self._source = source

    def scan(self) -> list[Finding]:
        """Everything that the rules find; in the order of files and lines, but for what is about the whole."""
        for path in sorted(self.files):
            self._parse(path, self.files[path])
        for path, unit in sorted(self.units.items()):
            checks = Checks(unit, self)
            unit.checks = checks
            checks.run()
            if path == self._source:
                self.schema = read_schema(unit.walk, self._reporter(path))
                check_entry(unit.walk, self._reporter(path))
        rule, message = "unfollowed-attribute", "An attribute is reached by a name that the source does not show."
        if self.suspicious:
            rule = "computed-attribute"
            known = "a name that is not known, beside names that lead into the interpreter"
            message = f"An attribute is reached by {known}."
        for path, line in self.doubts:
            self.report(rule, message, path, line)
        for name, path, line in self.private:
            if name not in self.set_by_name:
                message = f"{name} is no attribute of the plugin's own, and not for others."
                self.report("private-attribute", message, path, line)
        return list(self.found)

    def _reporter(self, path: str) -> Report:
        return lambda rule, message, line: self.report(rule, message, path, line)

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
            self.units[path] = Meaning(path, Walk(tree), self)


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
    # As the literal that it is: JSON has no tuples, sets or bytes, and the reader of schemas refuses them.
    schema = None if plugin.schema is None else repr(plugin.schema)
    answer = {"findings": findings, "uses": sorted(plugin.uses), "library": sorted(plugin.library), "schema": schema}
    sys.stdout.write(json.dumps(answer))
