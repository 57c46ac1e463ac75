"""A page that knows no more than ipywidgets' own protocol: it keeps models, shows views of them, and sends clicks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
_REFERENCE = "IPY_MODEL_"
MODULES = frozenset({"@jupyter-widgets/base", "@jupyter-widgets/controls"})
"""Those that every front end has which has ipywidgets."""


class PlainPage:
    """What such a page shows of a kernel's messages.

    Args:
        client: A started client of `jupyter_client`, whose messages nobody else reads.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.models: dict[str, dict[str, Any]] = {}  # The state of each model that is open, by its comm
        self.shown: dict[str, Mapping[str, Any]] = {}  # The data of each output, by its display id
        self.sent_from_kernel: list[Mapping[str, Any]] = []  # All that the kernel has published

    def wait(self, until: Callable[[], bool], seconds: float = 60.0) -> None:
        """Read messages until this is so.

        Raises:
            TimeoutError: it does not come about.
        """
        limit = time.monotonic() + seconds
        while not until():
            if time.monotonic() > limit:
                raise TimeoutError(f"not so; shown is: {self.text}")
            if self._client.iopub_channel.msg_ready():
                self._take(self._client.get_iopub_msg(timeout=1))
            else:
                time.sleep(0.02)

    def _take(self, message: Mapping[str, Any]) -> None:
        self.sent_from_kernel.append(message)
        kind, content = message["msg_type"], message["content"]
        if kind == "comm_open" and content["target_name"] == "jupyter.widget":
            self.models[content["comm_id"]] = dict(content["data"]["state"])
        elif kind == "comm_msg" and content["comm_id"] in self.models and content["data"].get("method") == "update":
            self.models[content["comm_id"]] |= content["data"]["state"]
        elif kind == "comm_close":
            self.models.pop(content["comm_id"], None)
        elif kind in ("display_data", "update_display_data"):
            self.shown[content["transient"].get("display_id", str(len(self.shown)))] = content["data"]

    @property
    def views(self) -> list[tuple[str, dict[str, Any]]]:
        """The models on the page, in the order of reading; what this page cannot draw is not on it."""
        roots = [data[WIDGET_MIME]["model_id"] for data in self.shown.values() if WIDGET_MIME in data]
        return [view for root in roots for view in self._below(root)]

    def _below(self, comm: str) -> Iterator[tuple[str, dict[str, Any]]]:
        state = self.models.get(comm)
        if state is None or state["_model_module"] not in MODULES:
            return
        yield comm, state
        for child in state.get("children", ()):
            yield from self._below(child.removeprefix(_REFERENCE))

    @property
    def text(self) -> str:
        """What can be read on it, but for style sheets."""
        said = [str(state.get("value", "")) for _, state in self.views if state["_model_name"] in _READ]
        return "\n".join(text for text in said if not text.startswith("<style>"))

    def found(self, kind: str, name: str = "") -> list[tuple[str, dict[str, Any]]]:
        """Views of this kind, such as `Button`, with this description."""
        return [
            (comm, state)
            for comm, state in self.views
            if state["_model_name"] == f"{kind}Model" and (not name or state.get("description") == name)
        ]

    def can_press(self, name: str) -> bool:
        """Whether there is one such button, and it is not greyed out."""
        found = self.found("Button", name)
        return len(found) == 1 and not found[0][1]["disabled"]

    def press(self, name: str) -> None:
        """Click on a button once it can be."""
        self.wait(lambda: self.can_press(name))
        [(comm, _)] = self.found("Button", name)
        self.send(comm, {"method": "custom", "content": {"event": "click"}})

    def set(self, kind: str, name: str, **state: Any) -> None:
        """Type or choose something, as a page tells it."""
        [(comm, model)] = self.found(kind, name)
        model |= state
        self.send(comm, {"method": "update", "state": state, "buffer_paths": []})

    def send(self, comm: str, data: Mapping[str, Any]) -> None:
        """A message on a comm."""
        message = self._client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self._client.shell_channel.send(message)


_READ = frozenset({"HTMLModel", "LabelModel"})
