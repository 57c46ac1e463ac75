"""From the steps of an audit or an enabling to the value that its card is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kagura_kernel.cockpit.plugin_prompting import enabled_text
from kagura_kernel.cockpit.plugin_talk import (
    AuditBegun,
    AuditDone,
    AuditorSilent,
    PluginAsked,
    PluginEnabled,
    PluginExamined,
    PluginFailure,
    PluginStep,
)
from kagura_kernel.domain.events import AnyEvent
from kagura_kernel.jupyter.cards.audit_view import AuditView, FormField, PluginForm, Subject

if TYPE_CHECKING:
    from kagura_kernel.cockpit.plugin_talk import PluginQuestion
    from kagura_kernel.plugins.configuring import Question
    from kagura_kernel.plugins.rows import PluginRow


def take(view: AuditView, what: PluginStep | AnyEvent) -> None:
    """Tell a view one step, or one event of the run."""
    match what:
        case PluginExamined(row=row):
            view.examined(subject_of(row))
        case AuditBegun() | AuditorSilent():
            pass  # the run's own events tell of it
        case AuditDone(audit=audit, cached=cached, config=config):
            view.reported(audit, cached=cached, config=config)
        case PluginAsked(question=question):
            view.asked(form_of(question))
        case PluginEnabled(row=row):
            view.went_well(subject_of(row), enabled_text(what))
        case PluginFailure(error=error):
            view.failed(error)
        case _:
            view.apply(what)


def subject_of(row: PluginRow) -> Subject:
    """A plugin, as cards name it."""
    return Subject(
        row.name, row.version, row.description, row.place, row.signed_by, row.modules, row.config, row.approved
    )


def form_of(question: PluginQuestion) -> PluginForm:
    """A question, as cards ask it."""
    fields = tuple(map(_field_of, question.fields))
    return PluginForm(question.approval_id, question.choices, fields, question.deadline)


def _field_of(question: Question) -> FormField:
    field = question.field
    default = None if field.default is None else question.shown_default
    return FormField(question.name, field.type, field.description, default, field.minimum, field.maximum)
