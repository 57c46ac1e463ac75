"""Commands about memories and lessons in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.memory import Act, note_of, query_of, read_file, write_file
from kagura_kernel.cockpit.run_names import named_run, told_run
from kagura_kernel.cockpit.trust import revoked_words
from kagura_kernel.domain.memory import LESSON, Query
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.steering import Asked, say
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.jupyter.memories import MemoryText


VIA = "command"


def recall(asked: Asked) -> pd.DataFrame:
    """What is remembered about something, the best first."""
    return _table(asked, searched=True)


def memory_list(asked: Asked) -> pd.DataFrame:
    """The newest memories."""
    return _table(asked, searched=False)


def _table(asked: Asked, *, searched: bool) -> pd.DataFrame:
    from kagura_kernel.jupyter.memories import memories_table

    now = datetime.now(UTC)
    query, desk = query_of(asked.values, now), asked.cockpit.memory
    found = desk.recall(query)
    _tell_more(desk.further(query, len(found)))
    return memories_table(found, now, searched=searched)


def _tell_more(told: str) -> None:
    if told:
        say(told)


def lessons(asked: Asked) -> pd.DataFrame:
    """What went wrong before, and what mended it."""
    from kagura_kernel.cockpit.memory_words import no_lessons
    from kagura_kernel.jupyter.memories import NONE, lessons_table

    words, desk = " ".join(asked["query"]), asked.cockpit.memory
    found = desk.lessons(words, asked["k"])
    _tell_more(desk.further(Query(words, k=asked["k"], types=(LESSON,)), len(found)))
    table = lessons_table(found, datetime.now(UTC))
    if not found:
        table.attrs[NONE] = no_lessons(asked["query"])
    return table


def memory_show(asked: Asked) -> MemoryText:
    """One memory as a whole."""
    from kagura_kernel.jupyter.memories import MemoryText

    return MemoryText(asked.cockpit.memory.show(asked["memory"]))


def memory_explore(asked: Asked) -> pd.DataFrame:
    """What a memory has to do with others."""
    from kagura_kernel.jupyter.memories import joined_table

    return joined_table(asked.cockpit.memory.explore(asked["memory"], depth=asked["depth"], types=asked["type"]))


def memory_add(asked: Asked) -> None:
    """Remember something oneself."""
    from kagura_kernel.cockpit.memory_words import added_lines

    draft = note_of(asked.values, datetime.now(UTC))
    memory = asked.cockpit.memory.remember(draft, by=person(), via=VIA)
    _say(added_lines(memory, draft.text, asked.prefix))


def _changing(act: Act) -> Callable[[Asked], None]:
    """What promotes, demotes, pins, unpins or restores."""

    def change(asked: Asked) -> None:
        _change(asked, act)

    return change


memory_promote, memory_demote = _changing("promote"), _changing("demote")
memory_pin, memory_unpin = _changing("pin"), _changing("unpin")
memory_restore = _changing("restore")


def memory_forget(asked: Asked) -> None:
    """Forget memories; or show what an erasure would remove, and with `--yes` do it."""
    from kagura_kernel.cockpit.memory_words import erased_lines, erasure_lines

    named, cascade = asked["memory"], asked["cascade"]
    if not (cascade or asked["erase"]):
        _change(asked, "forget")
    elif asked["yes"]:
        _say(erased_lines(asked.cockpit.memory.erase(named, cascade=cascade, by=person(), via=VIA)))
    else:
        how = "--cascade" if cascade else "--erase"
        command = f"{asked.prefix}memory forget {how} --yes {' '.join(named)}"
        _say(erasure_lines(asked.cockpit.memory.would_erase(named, cascade=cascade), named, command))


def memory_import(asked: Asked) -> None:
    """Keep what a file holds."""
    from kagura_kernel.cockpit.memory_words import imported_line

    lines = read_file(asked["file"])
    found = asked.cockpit.memory.import_lines(lines, trusting=asked["trust"], by=person(), via=VIA)
    say(imported_line(found, trusting=asked["trust"], prefix=asked.prefix))


def memory_export(asked: Asked) -> None:
    """Write all of it into a file."""
    count = write_file(asked["file"], asked.cockpit.memory.export_lines())
    say(f"{asked['file']} was written: {count:,} lines.")


def memory_counts(asked: Asked) -> None:
    """How much is remembered."""
    from kagura_kernel.cockpit.memory_words import counts_line

    desk = asked.cockpit.memory
    say(counts_line(desk.counts(), desk.store.where))


def _change(asked: Asked, act: Act) -> None:
    from kagura_kernel.cockpit.memory_words import changed_lines

    memories = asked.cockpit.memory.change(act, asked["memory"], by=person(), via=VIA)
    _say(changed_lines(act, memories, asked.prefix))


def _say(lines: Any) -> None:
    # What a memory says may hold what a terminal obeys.
    say("\n".join(map(visible, lines)))


def graduation(asked: Asked) -> pd.DataFrame:
    """How every category stands."""
    from kagura_kernel.jupyter.tables import trust_table
    from kagura_kernel.jupyter.text_frames import TrustText

    desk = asked.cockpit.trust
    return TrustText(trust_table(desk.reports(), desk.terms))


def graduation_chart(asked: Asked) -> Any:
    """How they came there."""
    from kagura_kernel.jupyter.charts import chart

    return chart(asked.cockpit, "trust")


def graduation_grant(asked: Asked) -> None:
    """Trust a category from now on."""
    found = asked.cockpit.trust.grant(asked["category"], by=person(), via="command")
    say(f"{found.category.name} is asked about no more, until it fails once or you take it back.")


def graduation_vouch(asked: Asked) -> None:
    """Say that a run went well."""
    run_id = named_run(asked.cockpit.journal, asked["run"], asked.here)
    found = asked.cockpit.trust.vouch(run_id, by=person(), via="command")
    say(f"{told_run(asked.cockpit.journal, run_id)} is evidence for {', '.join(found)}.")


def graduation_revoke(asked: Asked) -> None:
    """Take it back."""
    found = asked.cockpit.trust.revoke(asked["category"], by=person(), via="command")
    say(revoked_words(found))
