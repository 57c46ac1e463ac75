"""What the routes about settings answer with, and do: in the person's own file, as a kernel will read it.

Nothing that looks like a secret leaves the server: such a value is told redacted, and is changed in the file alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from kagura_kernel import redact
from kagura_kernel.domain.errors import ConfigurationError, SettingsChanged, UsageError
from kagura_kernel.domain.late_dataclass import dataclass, fields
from kagura_kernel.domain.settings import (
    DEFAULTS,
    FLAT_TABLES,
    TABLES,
    Settings,
    SharedSettings,
    given_settings,
    label_of,
    parse_settings,
    settings_model,
    validated,
)
from kagura_kernel.domain.visible import is_whole
from kagura_kernel.journal.place import read_shared, settings_file, text_of
from kagura_kernel.journal.settings_text import replace_file, with_setting
from kagura_kernel.jupyter.server import models
from kagura_kernel.jupyter.server.parameters import Object, Text

_SHOWN = tuple(one.name for one in fields(Settings) if one.name != "locked")
NAMES = tuple(name for name in _SHOWN if name not in TABLES or name in FLAT_TABLES)
"""What the form can change; the other tables are written into the file by hand."""

_ROW = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SEE = re.compile(r"; see \[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_PASSWORD = re.compile(r"(://[^/?#@\s:]*:)[^\s@]*@")
_writing = threading.Lock()


def settings(environ: Mapping[str, str]) -> models.Settings:
    """Every setting, what it is now, and where that comes from."""
    return _Looked.at(environ).told()


def change_settings(
    environ: Mapping[str, str],
    *,
    version: Annotated[str, Text(says="That of the file as it was shown.")],
    values: Annotated[dict[str, Any], Object(says="What is to be changed, by name; null takes it out of the file.")],
) -> models.Settings:
    """Change settings in the file; where one is wrong nothing is written, and `problems` says what is.

    Raises:
        SettingsChanged: the file is not the one that was shown.
        UsageError: one of them is not known, or cannot be changed here.
    """
    with _writing:
        looked = _Looked.at(environ)
        locked = looked.locked()
        for name in values:
            if name not in NAMES:
                raise UsageError(f"There is no setting {name[:40]!r} that can be changed here.")
            if name in locked:
                raise UsageError(f"`{name}` was not changed. {locked[name]}")
        if version != looked.version:
            raise SettingsChanged(str(looked.path))
        wrong = looked.write(values)
    return {**looked.told(), "problems": wrong} if wrong else _Looked.at(environ).told()


@dataclass(frozen=True, slots=True)
class _Looked:
    """The file as it is, the variables of the server, which its kernels have too, and what is shared."""

    path: Path
    text: str
    environ: Mapping[str, str]
    shared: SharedSettings

    @classmethod
    def at(cls, environ: Mapping[str, str]) -> _Looked:
        path = settings_file(environ)
        return cls(path, text_of(path) if path.exists() else "", environ, read_shared(environ))

    @property
    def version(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def told(self) -> models.Settings:
        """All of it, without secrets."""
        file, broken = self._file()
        values, given, unfit = given_settings(file, self.environ, self.shared)
        found, wrong = validated({name: value for name, value in values.items() if name in NAMES})
        bad = {field.partition(".")[0]: why for field, why in wrong}
        problems = {"": broken} if broken else bad | {name: why for name, why in unfit if name in file}
        now = {name: values.get(name) if name in bad else getattr(found, name) for name in NAMES}
        return {
            "path": str(self.path),
            "version": self.version,
            "form": _form(),
            "values": _as_json({name: _plain(value) for name, value in now.items() if value is not None}),
            "sources": {name: self._source(name, file, given) for name in NAMES},
            "locked": self.locked(),
            "problems": problems,
        }

    def locked(self) -> dict[str, str]:
        """Why some of them cannot be changed here, by name."""
        if why := self._closed():
            return dict.fromkeys(NAMES, why)
        file, _ = self._file()
        _, given, _ = given_settings(file, self.environ)
        locked = {
            name: "It holds a password or a key, which is not shown. Change it in the file."
            for name in NAMES
            if _plain(file.get(name)) != file.get(name)
        }
        locked |= {
            name: f"The variable {variable} of the Jupyter server says so, whatever the file says."
            for name, variable in given.items()
        }
        if self.environ.get("JUPYTERHUB_USER"):
            locked["shared"] = "This server is one of JupyterHub's, so others share the machine."
        return locked | {name: self.shared.why() for name in NAMES if name in self.shared.locked}

    def _source(self, name: str, file: Mapping[str, Any], given: Mapping[str, str]) -> str:
        if name in self.shared.locked:
            return "shared"
        return given.get(name) or ("file" if name in file else "shared" if name in self.shared.values else "default")

    def write(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Write these into the file; or say what is wrong with them, by name."""
        text = self.text
        for name, value in values.items():
            if name in FLAT_TABLES:
                if why := _unfit_rows(value):
                    return {name: why}
                text = _with_rows(text, name, self._file()[0].get(name), value or {})
                continue
            if not _can_stand(value):
                return {name: "it is neither a text, a number, a truth nor a list of texts"}
            text = with_setting(text, name, value)
        try:
            parse_settings(text, {}, str(self.path), shared=self.shared)
            replace_file(self.path, text.encode())
        except ConfigurationError as error:
            told = (problem.partition(": ") for problem in error.problems)
            return {field.partition(".")[0]: why for field, _, why in told}
        except OSError as error:
            return {"": f"{self.path} cannot be written: {(error.strerror or 'unknown reason').lower()}"}
        return {}

    def _file(self) -> tuple[dict[str, Any], str]:
        """What the file says, and why it says nothing."""
        try:
            return tomllib.loads(self.text), ""
        except (ValueError, RecursionError) as error:
            return {}, f"{self.path} is not TOML: {error}"

    def _closed(self) -> str:
        """Why this file cannot be changed from here at all."""
        _, broken = self._file()
        if broken:
            return "The file is not TOML. Mend it in an editor."
        if self.path.exists() and self.path.stat().st_uid != os.geteuid():
            return "The file belongs to somebody else, such as an administrator, who alone changes it."
        folder = next(one for one in self.path.parents if one.exists())
        return "" if os.access(folder, os.W_OK) else "The directory of the file cannot be written by this server."


def _can_stand(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) and _can_stand(one) for one in value)
    if isinstance(value, str):
        return is_whole(value)
    return value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))


def _with_rows(text: str, table: str, before: Any, rows: Mapping[str, Any]) -> str:
    """The text with these rows in a table, and no others; those that are as they were are left alone."""
    before = before if isinstance(before, dict) else {}
    for row in dict.fromkeys([*before, *rows]):
        if rows.get(row) != before.get(row):
            text = with_setting(text, row, rows.get(row), table=table)
    return text


def _unfit_rows(value: Any) -> str:
    """Why these cannot be the rows of a table; empty where they can."""
    rows = {} if value is None else value
    if not isinstance(rows, dict) or not all(isinstance(one, (str, list)) and _can_stand(one) for one in rows.values()):
        return "each row is a text, or a list of texts"
    unfit = [name for name in rows if not _ROW.fullmatch(name)]
    return f"a row’s name is made of letters, digits, dashes and underscores, not {unfit[0][:40]!r}" if unfit else ""


def _plain(value: Any) -> Any:
    """A value as JSON, with what looks like a secret taken out."""
    if isinstance(value, Mapping):
        # Some values are told to be a secret by their name alone.
        lines = {name: f"{name}={one}" for name, one in value.items()}
        return {name: _plain(one) if redact(lines[name]) == lines[name] else "***" for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return redact(_PASSWORD.sub(r"\1***@", value)) if isinstance(value, str) else value


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with text for what JSON has no word for: a file of TOML may hold times, and numbers without end."""
    found: dict[str, Any] = json.loads(json.dumps(values, default=str), parse_constant=str)
    return found


def _form() -> dict[str, Any]:
    """The settings as a JSON schema: each with its label, its meaning, its default and its bounds."""
    whole = settings_model().model_json_schema()
    return {"type": "object", "properties": {name: _field(name, whole) for name in _SHOWN}}


def _field(name: str, whole: Mapping[str, Any]) -> dict[str, Any]:
    meaning = _LINK.sub(r"\1", _SEE.sub("", Settings.__dataclass_fields__[name].metadata["meaning"])).replace("`", "")
    about = {"title": label_of(name), "description": f"{meaning[0].upper()}{meaning[1:]}."}
    if name not in NAMES:
        return {
            **about,
            "description": f"{about['description']} Write each into the file, as [{name}.NAME].",
            "type": "null",
        }
    given = whole["properties"][name]
    if "$ref" in given:
        kind = {"enum": whole["$defs"][given["$ref"].rpartition("/")[2]]["enum"], "type": "string"}
    else:
        kind = given["anyOf"][0] if "anyOf" in given else {key: given[key] for key in given if key != "title"}
    if "enum" in kind:
        # Nothing chosen is no choice of its own.
        kind["enum"] = [word for word in kind["enum"] if word]
    default = _plain(getattr(DEFAULTS, name))
    known = {} if default is None else {"default": default}
    kind.pop("default", None)
    return {**about, **kind, **known}
