"""Which models further cells can think with: for the picker of a live card, for the command, and for the sidebar.

The sidebar asks the kernel by an expression, since only the kernel knows which model was chosen in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from kagura_kernel.assembly import get_cockpit, load_settings
from kagura_kernel.assembly.offered_models import offered_models
from kagura_kernel.cockpit.brains import OfferedModel
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.journal.place import data_home
from kagura_kernel.views.models import price_words


def offered(cockpit: Cockpit) -> list[OfferedModel]:
    """Each model, the current one first; services are asked, which takes a moment.

    Raises:
        BrainNotConfigured: nothing can think.
        JournalError: the journal cannot be read.
    """
    settings, home = load_settings(os.environ), data_home(os.environ)
    return offered_models(os.environ, settings, home, cockpit.journal, cockpit.model)


def worded(models: Sequence[OfferedModel]) -> dict[str, str]:
    """Names of models, each with its words."""
    return {one.name: price_words(one.name, one.about, one.input_usd, one.output_usd, one.price) for one in models}


class Answer:
    """What an expression of the sidebar gives: JSON, as its plain text."""

    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def __repr__(self) -> str:
        return json.dumps(self._fields)


def for_sidebar(wanted: str = "") -> Answer:
    """The models, after one of them was chosen where it is named; a `problem` where that cannot be."""
    try:
        cockpit = get_cockpit()
        models = offered(cockpit)
        words = worded(models)
        if wanted and wanted in words:
            cockpit.use_model(wanted)
    except KaguraError as error:
        return Answer(problem=error.message)
    current = cockpit.model or next((one.name for one in models if one.current), "")
    return Answer(models=list(words.items()), current=current)
