"""Commands about plugins in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.kits import one_of
from kagura_kernel.cockpit.next_commands import at_limit
from kagura_kernel.cockpit.plugin_talk import AuditPlugin, EnablePlugin, as_asked, as_typed
from kagura_kernel.cockpit.run_names import named_run
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.jupyter.steering import Asked, say
from kagura_kernel.jupyter.surface import Surface, loop_runs, person, place_of, surface_of

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.plugin_talk import PluginTalk
    from kagura_kernel.jupyter.kit import KitBrowser, PlanText


VIA = "command"


def plugin_list(asked: Asked) -> pd.DataFrame:
    """All plugins, as this session has them."""
    from kagura_kernel.jupyter.tables import plugins_table

    rows = asked.cockpit.plugins.rows(asked["session"])
    for problem in asked.cockpit.plugins.manager.problems:
        say(problem)
    return plugins_table(rows)


async def plugin_enable(asked: Asked) -> None:
    """Audit, decide, configure, enable."""
    accept = Risk[asked["accept_risk"].upper()] if asked["accept_risk"] else None
    intent = EnablePlugin(words=as_typed(asked["values"]), accept=accept, **_about(asked))
    await _follow(asked, asked.cockpit.plugins.enable(intent))


async def plugin_audit(asked: Asked) -> None:
    """Examine a plugin anew."""
    await _follow(asked, asked.cockpit.plugins.audit(AuditPlugin(**_about(asked))))


def plugin_disable(asked: Asked) -> None:
    """Take a plugin away from this session's boxes."""
    name = asked["name"]
    gone = asked.cockpit.plugins.disable(name, by=person(), via=VIA, session=asked["session"])
    say(f"{name} is disabled." if gone else f"{name} was not enabled in this session.")


def plugin_approve(asked: Asked) -> None:
    """Trust a plugin's files in later sessions."""
    from kagura_kernel.cockpit.plugin_talk import approved_text

    row = asked.cockpit.plugins.approve(asked["name"], by=person(), via=VIA)
    say(approved_text(row))


def plugin_unapprove(asked: Asked) -> None:
    """Take an approval back."""
    name = asked["name"]
    gone = asked.cockpit.plugins.unapprove(name, by=person(), via=VIA)
    say(f"{name} is approved no longer." if gone else f"{name} was not approved.")


def plugin_scan(asked: Asked) -> Any:
    """What the static scan finds in these places."""
    from kagura_kernel.jupyter.tables import findings_table
    from kagura_kernel.jupyter.text_frames import FindingsText
    from kagura_kernel.plugins.scan import scan_path

    return FindingsText(findings_table([scan_path(Path(path)) for path in asked["path"]]))


def plugin_config(asked: Asked) -> pd.DataFrame:
    """What a plugin can be told, and was."""
    from kagura_kernel.jupyter.tables import settings_table
    from kagura_kernel.jupyter.text_frames import FieldsText

    plugins = asked.cockpit.plugins
    configured = plugins.row(asked["name"], session=asked["session"]).config
    return FieldsText(settings_table(plugins.examine(asked["name"]).schema, configured))


def plugin_logs(asked: Asked) -> pd.DataFrame:
    """What happened to a plugin."""
    from kagura_kernel.jupyter.tables import logs_table

    lines = asked.cockpit.plugins.logs(asked["name"], asked["limit"])
    if more := at_limit(len(lines), asked["limit"]):
        say(more)
    return logs_table(lines)


def plugin_install(asked: Asked) -> None:
    """Copy a plugin into the person's own ones."""
    from kagura_kernel.cockpit.plugins import installed_text

    shelf = asked.cockpit.plugins.shelf
    found = shelf.install(
        asked["source"],
        asked["sha256"],
        repository=asked["repository"],
        replace=asked["replace"],
        by=person(),
        via=VIA,
    )
    say(installed_text(found, shelf.barred(found.name), f"{asked.prefix}plugin enable {found.name}"))


def plugin_search(asked: Asked) -> pd.DataFrame:
    """The plugins that repositories have."""
    from kagura_kernel.jupyter.tables import hits_table
    from kagura_kernel.jupyter.text_frames import HitsText

    return HitsText(hits_table(asked.cockpit.plugins.shelf.repositories.search(asked["words"])))


def plugin_update(asked: Asked) -> None:
    """Newer versions of what is installed; with a word they take its place."""
    from kagura_kernel.cockpit.plugin_repositories import split_source
    from kagura_kernel.cockpit.plugins import installed_text

    shelf = asked.cockpit.plugins.shelf
    updates = shelf.repositories.updates(*split_source(asked["source"]))
    if not updates:
        say("Nothing newer can be had.")
    for update in updates:
        say(update.text)
        how = f"{asked.prefix}plugin update {update.offer.name}@{update.offer.version} --yes"
        if asked["yes"]:
            found = shelf.repositories.update(update, by=person(), via=VIA)
            say(installed_text(found, shelf.barred(found.name), f"{asked.prefix}plugin enable {found.name}"))
        else:
            say(f"Nothing is changed yet: `{how}`.")


def plugin_repository_list(asked: Asked) -> pd.DataFrame:
    """The repositories that are trusted."""
    from kagura_kernel.jupyter.tables import repositories_table
    from kagura_kernel.jupyter.text_frames import RepositoriesText

    return RepositoriesText(repositories_table(asked.cockpit.plugins.shelf.repositories.trusted()))


def plugin_repository_add(asked: Asked) -> None:
    """Trust a repository."""
    from kagura_kernel.cockpit.plugin_repositories import trusted_text

    options = {name: asked[name] for name in ("root", "sha256", "name")}
    repositories = asked.cockpit.plugins.shelf.repositories
    say(trusted_text(*repositories.add(asked["source"], **options, by=person(), via=VIA)))


def plugin_repository_remove(asked: Asked) -> None:
    """Trust a repository no longer."""
    asked.cockpit.plugins.shelf.repositories.remove(asked["name"], by=person(), via=VIA)
    say(f"{asked['name']} is trusted no longer. What was installed from it stays.")


def plugin_remove(asked: Asked) -> None:
    """Delete one of the person's own plugins."""
    asked.cockpit.plugins.shelf.remove(asked["name"], by=person(), via=VIA)
    say(f"{asked['name']} is removed.")


def plugin_trust(asked: Asked) -> Any:
    """Trust an author's key, or list those that are trusted."""
    from kagura_kernel.jupyter.tables import authors_table
    from kagura_kernel.jupyter.text_frames import AuthorsText

    plugins = asked.cockpit.plugins
    author, key = asked["author"], asked["key"]
    if author is None:
        return AuthorsText(authors_table(plugins.shelf.authors()))
    if asked["remove"]:
        gone = plugins.shelf.distrust(author, by=person(), via=VIA)
        say(f"{author} is trusted no longer." if gone else f"{author} was not trusted.")
    else:
        plugins.shelf.trust(author, key or "", by=person(), via=VIA)
        say(f"{author} is trusted. A signature says who wrote a plugin; enabling it is still yours to decide.")
    return None


def _about(asked: Asked) -> dict[str, Any]:
    surface = surface_of(asked.shell)
    return {
        **as_asked(asked.values),
        "session": asked.values.get("session"),  # noqa: PD011 - not of a DataFrame
        "headless": asked.blocked or surface is Surface.HEADLESS,
        "origin": "terminal" if surface in {Surface.TERMINAL, Surface.CONSOLE} else "notebook",
        "place": place_of(asked.shell),
        "by": person(),
        "via": VIA,
    }


async def _follow(asked: Asked, talk: PluginTalk) -> None:
    from kagura_kernel.jupyter.plugin_card import follow_talk

    surface = surface_of(asked.shell)
    await follow_talk(asked.cockpit, talk, Surface.INSIDE if asked.blocked else surface)


def kit_agents(asked: Asked) -> pd.DataFrame:
    """The agents that have a name."""
    from kagura_kernel.jupyter.kit import agents_table

    return agents_table(asked.cockpit.kits.named())


def kit_add(asked: Asked) -> None:
    """Write an agent for a cloud among the person's own, and say what it needs."""
    say("\n".join(asked.cockpit.kits.add(asked["name"]).lines))


def kit_plan(asked: Asked) -> PlanText:
    """What a run of an agent would be given."""
    from kagura_kernel.jupyter.kit import PlanText

    return PlanText(asked.cockpit.kits.plan(asked["agent"]))


def kit_build(asked: Asked) -> None:
    """Stage an agent's kit."""
    from kagura_kernel.views.kit import built_lines

    kit = asked.cockpit.kits.build(asked["agent"])
    say("\n".join(built_lines(kit, unchanged=kit.unchanged)))


def kit_show(asked: Asked) -> KitBrowser:
    """What is staged, to look into."""
    from kagura_kernel.jupyter.kit import KitBrowser

    one_of(asked["agent"], asked["run"])
    cockpit = asked.cockpit
    if asked["run"] is not None:
        kit = cockpit.kits.of_run(cockpit.journal, named_run(cockpit.journal, asked["run"], asked.here))
    else:
        kit = cockpit.kits.build(asked["agent"])
    return KitBrowser(kit, asked["file"] or "", live=surface_of(asked.shell) is Surface.NOTEBOOK and loop_runs())


def kit_redact(asked: Asked) -> Any:
    """A file without its secrets."""
    from kagura_kernel.jupyter.kit import RedactedText

    return RedactedText(asked["file"].name, asked.cockpit.kits.redact_file(asked["file"]))
