"""Writes docs/settings.md from the declarations of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from kagura_kernel.domain.settings import EndpointSettings, Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

_INTRO = """# Settings

Made by `dev/settings_page.py` from `kagura_kernel/domain/settings.py`.

Settings are read from `config.toml` in your configuration directory for `kagura-kernel` (or from the file that
`KAGURA_CONFIG` names). Each but those with a table can be given as a variable too, which then counts: `KAGURA_BOX` for
`box`; a list has commas in a variable. JupyterLab has them as a [form](sidebar.md#settings), which writes that file. A
project cannot set them. `KAGURA_HOME` moves the data directory. With Kagura Memory Cloud, `KAGURA_COST_RESOURCE` and
`KAGURA_COST_KEY` name a resource to which what runs cost is told, and its key; `KAGURA_TASK_RESOURCE` and
`KAGURA_TASK_KEY` one that is told how their tasks stand, as the agent's tool `plan` says it, and at the end.
"""

_ENDPOINTS = """## Endpoints

A table `[endpoints.NAME]`, in the file only, for each service with an OpenAI-compatible API. `input_usd` and
`output_usd` are given together. A key is never written there; three fields say where it is kept.
"""

_SHARED = """## Shared settings

What an administrator says for everybody on a machine stands in `/etc/kagura-kernel/shared.toml`, in the same words. It
holds where a person's own file and variables say nothing else; of a table with rows (`endpoints`, `env`, `mirrors`) a
person's rows come to the shared ones.

```toml
# /etc/kagura-kernel/shared.toml
boxes = ["kubernetes", "docker"]     # what --box auto tries, in this order; locked, nothing else has a box
kubernetes_runtime_class = "gvisor"
budget_usd = 2.0
quota_boxes = 3
quota_usd_per_day = 20.0
locked = ["boxes", "kubernetes_runtime_class", "budget_usd", "quota_boxes", "quota_usd_per_day"]
```

What `locked` names has the value that stands there, or its default where none does. A person's file or variable that
says something else is an error that names it, the form shows it and why it cannot be changed, and an option of a cell,
or an agent's definition, only makes it tighter: `--budget 1` goes and `--budget 5` does not. Where the machine has no
such file, `KAGURA_SHARED_CONFIG` may name one; where it has one, that variable counts for nothing. A file that cannot
be read or is wrong lets nobody run anything.

Whoever can change their own programs can have a kernel that reads none of this. It binds agents, definitions and people
in good faith; what binds everybody is said in [JupyterHub](hub.md#what-binds-whom).
"""

_SIGNS = {"gt": "above", "ge": "from", "le": "up to"}


def settings_page() -> str:
    """The page, Markdown."""
    return "\n".join([_INTRO, *_table(Settings), "", _SHARED, _ENDPOINTS, *_table(EndpointSettings), ""])


def _table(of: type[Any]) -> Iterator[str]:
    kinds = get_type_hints(of)
    yield "| name | default | unit | takes | meaning |"
    yield "|---|---|---|---|---|"
    for one in fields(of):
        about = one.metadata
        shown = about["shown"] or _shown(_default(one))
        takes = "; ".join(filter(None, (_kind(kinds[one.name]), _bounds(about["bounds"]))))
        yield f"| `{one.name}` | {shown} | {about['unit']} | {takes} | {about['meaning']} |"


def _default(one: Field[Any]) -> Any:
    return one.default if one.default is not MISSING else one.default_factory()  # type: ignore[misc] # one of them is


def _shown(value: Any) -> str:
    if value in ("", None, (), {}):
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(f'{chr(34)}{one}{chr(34)}' for one in value)}]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _kind(kind: Any) -> str:
    kind = next((one for one in get_args(kind) if type(None) in get_args(kind) and one is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{one.value}`" for one in kind)
    words = {str: "text", bool: "true or false", int: "whole number", float: "number"}
    if kind in words:
        return words[kind]
    if "Literal" in str(kind):
        return ", ".join(f"`{one}`" for one in get_args(kind) if one)
    return "list" if "tuple[str" in str(kind)[:9] else "table"


def _bounds(bounds: dict[str, float]) -> str:
    return " ".join(f"{_SIGNS[sign]} {limit:,}" for sign, limit in bounds.items())


if __name__ == "__main__":
    PAGE.write_text(settings_page(), "utf-8")
    print(f"{PAGE} was written.")
