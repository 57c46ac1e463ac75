"""Plugins, what their audits say, and the words that a session of any process is left about one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kagura_kernel.jupyter.server import asking
from kagura_kernel.jupyter.server.handler import ActingHandler, ReadingHandler

if TYPE_CHECKING:
    from kagura_kernel.journal.plugin_words import Deed
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.jupyter.server.handler import Question

RESOURCE = "kagura_plugins"


class PluginsHandler(ReadingHandler):
    """Plugins, as one session has them."""

    auth_resource = RESOURCE

    def question(self, *names: str) -> Question:
        """All that the session, the notebook or the project can have: there are never many."""
        del names
        session, notebook, kernel, project = (
            asking.short(name, self.word(name)) for name in ("session", "notebook", "kernel", "project")
        )

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import plugin_answers

            return plugin_answers.plugins(
                journal, session_id=session, notebook=notebook, kernel_id=kernel, project=project
            )

        return ask


class PluginWordHandler(ActingHandler):
    """Base of the routes that leave a session a word about a plugin."""

    auth_resource = RESOURCE
    wanted: ClassVar[Deed]  # What the session is to do

    def deed(self, name: str, by: str) -> Question:
        """Leave the word for the process that holds the session."""
        order = asking.plugin_order(self.wanted, self.body(asking.PLUGIN_FIELDS))

        def act(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import plugin_answers

            return plugin_answers.leave_word(journal, name, order, by)

        return act


class PluginEnableHandler(PluginWordHandler):
    """Enabling a plugin whose audit somebody has seen."""

    auth_resource = RESOURCE
    wanted = "enable"


class PluginDisableHandler(PluginWordHandler):
    """Taking a plugin away from a session."""

    auth_resource = RESOURCE
    wanted = "disable"


class PluginApproveHandler(PluginWordHandler):
    """Trusting a plugin's files in later sessions."""

    auth_resource = RESOURCE
    wanted = "approve"


class PluginUnapproveHandler(PluginWordHandler):
    """Taking an approval back."""

    auth_resource = RESOURCE
    wanted = "unapprove"


class PluginAuditHandler(ReadingHandler, PluginWordHandler):
    """What an audit says, and having a plugin audited."""

    auth_resource = RESOURCE
    wanted = "audit"

    def question(self, *names: str) -> Question:
        """The latest audit of the files that are named, or of those that are there."""
        (name,) = names
        content_hash = asking.content_hash(self.word("content_hash"))
        project = asking.short("project", self.word("project"))

        def ask(journal: Journal) -> dict[str, Any]:
            from kagura_kernel.jupyter.server import plugin_answers

            return plugin_answers.audit(journal, name, content_hash, project)

        return ask
