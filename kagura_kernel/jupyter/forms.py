"""Forms in a cell for what keeps its run from beginning: there is no model, or no folder that may be the project.

The cell waits for a person, and begins its run once there is an answer. Where nobody can answer, and when nobody does
before the deadline of approvals, it ends with its error. A key comes over the card's own channel, goes into the
keychain, and is in nothing that is shown, kept or saved.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly import brain_choice
from kagura_kernel.assembly.local_services import local_services, local_urls
from kagura_kernel.assembly.places import folder_for_project
from kagura_kernel.assembly.settings import load_settings
from kagura_kernel.brain.openai_compatible import NAME as COMPATIBLE
from kagura_kernel.brain.provider import AUTO, CLAUDE
from kagura_kernel.domain.errors import (
    BrainNotConfigured,
    ConfigurationError,
    KaguraError,
    NotThisTime,
    RunKilled,
    WorkspaceRefused,
)
from kagura_kernel.journal.place import data_home
from kagura_kernel.jupyter.follow import TICK_SECONDS, interruptible
from kagura_kernel.jupyter.slots import Slot
from kagura_kernel.jupyter.surface import Surface, loop_runs, person, place_of
from kagura_kernel.membrane.credentials.secret import KeychainUnusable, in_thread, keychain_name
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.escape import shown_path
from kagura_kernel.views import forms as view

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.runs.request import RunRequest


UNSEEN_SECONDS = 30.0
"""How long a front end may take to show a form before it is taken for one without widgets."""

PROPOSED = "kagura-work"
"""The folder below the home directory that is proposed as the first project."""

_CHOOSABLE = (None, "", AUTO, CLAUDE, COMPATIBLE)
"""Brains of a cell for which a choice of a model changes anything."""


async def launch(shell: Any, cockpit: Cockpit, request: RunRequest, place: Surface) -> RunHandle:
    """Set a cell's run going, after a person has chosen what was missing for it.

    Raises:
        KaguraError: it cannot begin, and nobody can be asked, or nobody answers.
        RunKilled: the person does not choose now.
    """
    why, is_read_anew = "", False
    while True:
        try:
            return cockpit.launch(request)
        except WorkspaceRefused as error:
            if request.project is not None or not _can_ask(request, place):
                raise
            await _choose_folder(shell, cockpit, error)
        except BrainNotConfigured as error:
            if not is_read_anew:
                # Somebody may have set one up since the process began, in a terminal or another notebook.
                is_read_anew = True
                cockpit.reread_brains()
                continue
            if not _can_choose(request) or not _can_ask(request, place):
                raise
            await choose_model(cockpit, why or _why(error), error)
            # What is told when it comes to this again: the choice was not enough.
            why = _still()


async def set_up(cockpit: Cockpit, place: Surface) -> str:
    """Have a person choose a model, whatever thinks now; what thinks then.

    Raises:
        NotThisTime: nobody can be asked here.
        RunKilled: the person does not choose now.
    """
    nobody = NotThisTime(
        "Nobody can be asked here. In a terminal, `kagura-kernel setup brain` asks the same; in a notebook, "
        "`%kagura setup` stands in a cell of its own."
    )
    if place is not Surface.NOTEBOOK or not loop_runs():
        raise nobody
    await choose_model(cockpit, "Further cells think with what you choose.", nobody, now=_thinks())
    return _thinks()


def _can_ask(request: RunRequest, place: Surface) -> bool:
    return place is Surface.NOTEBOOK and not request.background and loop_runs()


def _can_choose(request: RunRequest) -> bool:
    return request.brain in _CHOOSABLE and request.replay is None and not request.seal


def _why(error: BrainNotConfigured) -> str:
    """What there is to say beside that nothing is set up."""
    return "" if load_settings(os.environ).brain == AUTO else error.message


def _still() -> str:
    variables = " and ".join(brain_choice.overriding(os.environ))
    if variables:
        return (
            f"Your choice was written down, and {variables} of this kernel’s environment says otherwise: take it away."
        )
    return "Your choice was written down, and this cell, or its agent, asks for something else."


def _thinks() -> str:
    from kagura_kernel.assembly.brains import make_brains
    from kagura_kernel.brain.provider import choose

    settings = load_settings(os.environ)
    try:
        brain, reason = choose(settings.brain, make_brains(os.environ, settings, data_home(os.environ)))
    except KaguraError:
        return ""
    return f"{brain.name}: {settings.model or reason}"


class _Form:
    """A live card that waits for a person's buttons."""

    def __init__(self, cockpit: Cockpit, label: str, parts: Mapping[str, Blocks], error: KaguraError) -> None:
        self._label, self._error = label, error
        self._deadline = cockpit.approval_deadline
        self._arrived: deque[Mapping[str, Any]] = deque()
        self._slot = Slot()
        self._slot.open(label, "This cell waits for a choice.", parts, self._arrived.append, view.kept(label, _WAITS))

    def show(self, parts: Mapping[str, Blocks]) -> None:
        self._slot.show(parts)

    def tell(self, text: str, about: str) -> None:
        self._slot.tell(text, about)

    def close(self, words: str, *, chosen: bool = False) -> None:
        """Leave a line in the form's place."""
        self._slot.write(view.kept(self._label, words, chosen=chosen))

    async def pressed(self) -> Mapping[str, Any]:
        """The next button.

        Raises:
            KaguraError: no front end shows the form, or nobody presses anything in time; the error that led to it.
            RunKilled: the person does not choose now.
        """
        began = time.monotonic()
        # Every button begins the time anew.
        self.show(view.time_part(self._deadline))
        while not self._arrived:
            waited = time.monotonic() - began
            if waited > self._deadline or (waited > UNSEEN_SECONDS and not self._slot.heard):
                self.close(_NOBODY)
                raise self._error
            await asyncio.sleep(TICK_SECONDS)
        content = self._arrived.popleft()
        if content.get("act") == view.NOT_NOW:
            raise self.stopped()
        return content

    def stopped(self) -> RunKilled:
        """Take the form away; the error that ends the cell."""
        self.close(_NOT_NOW)
        return RunKilled("", person(), _NOT_NOW)


_WAITS = "This cell waited for a choice."
_NOBODY = "Nobody chose, and nothing was run."
_NOT_NOW = "Nothing was chosen, and nothing was run. Run the cell again to choose."


async def choose_model(cockpit: Cockpit, why: str, error: KaguraError, *, now: str = "") -> None:
    """Have a person choose what thinks, write it down, and have the cockpit follow it.

    Raises:
        KaguraError: `error`, when nobody chooses.
        RunKilled: the person does not choose now, or has stopped the cell.
    """
    choosing = _ModelForm(cockpit, why, error, now)
    looking = asyncio.ensure_future(choosing.look())
    try:
        with interruptible():
            while not (chosen := await choosing.take(await choosing.form.pressed())):
                pass
            cockpit.reread_brains()
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise choosing.form.stopped() from None
    finally:
        looking.cancel()
    choosing.form.close(chosen, chosen=True)


class _ModelForm:
    """The form for a model, and what its buttons do."""

    def __init__(self, cockpit: Cockpit, why: str, error: KaguraError, now: str) -> None:
        self._urls = local_urls(load_settings(os.environ))
        looked = ", ".join(
            f"{name} at {url.partition('//')[2].removesuffix('/v1')}" for name, url in self._urls.items()
        )
        self._offer = view.ModelOffer(
            now=now,
            why=why,
            looked_at=looked,
            library=brain_choice.missing_library(),
            claude=brain_choice.missing_claude(os.environ),
            sign_in=_short(brain_choice.sign_in_command(os.environ)),
            keychain=_no_keychain(),
        )
        self.form = _Form(cockpit, view.MODEL_LABEL, view.model_parts(self._offer), error)

    async def look(self) -> None:
        """Show what answers on this machine."""
        found = await in_thread(lambda: local_services(self._urls), "kagura local services")
        models = [(f"{one.name}:{model}", f"{model} ({one.name})") for one in found for model in one.models]
        self._update(models=models)

    async def take(self, content: Mapping[str, Any]) -> str:
        """Act on a button; what was chosen, in words, or nothing. What cannot be done is told beside it."""
        act, typed = str(content.get("act")), content.get("fields")
        fields = {str(name): str(text).strip() for name, text in typed.items()} if isinstance(typed, dict) else {}
        acts = {
            "use-here": (self._use_here, view.HERE),
            "use-key": (self._use_key, view.CLAUDE),
            "signed-in": (self._signed_in, view.CLAUDE),
            "use-service": (self._use_service, view.SERVICE),
        }
        if act == "look":
            self._update(models=None)
            await self.look()
        elif act in (view.INSTALL, view.INSTALL_CLAUDE):
            await self._install(act)
        elif act in acts:
            do, block = acts[act]
            try:
                # A keychain that is locked waits for a person.
                return await in_thread(lambda: do(fields), "kagura choice")
            except ConfigurationError as error:
                self.form.tell(
                    f"{error.source[:1].upper()}{error.source[1:]} will not do: {'; '.join(error.problems)}.", block
                )
            except KeychainUnusable as error:
                self.form.tell(f"The key was not kept: {error}.", block)
            except KaguraError as error:
                self.form.tell(error.message, block)
        return ""

    def _use_here(self, fields: Mapping[str, str]) -> str:
        value = fields.get("Model", "")
        if value not in dict(self._offer.models or ()):
            raise ConfigurationError("the model", ["it is not among those that were found"])
        name, _, model = value.partition(":")
        brain_choice.use_service(os.environ, name, model)
        return f"Thinks with {model} of {name}, on this machine."

    def _use_key(self, fields: Mapping[str, str]) -> str:
        if not (key := fields.get("Anthropic API key", "")):
            raise ConfigurationError("the key", ["paste it into the field first"])
        brain_choice.use_claude(os.environ, key)
        return "Thinks with Claude, with a key in the keychain."

    def _signed_in(self, fields: Mapping[str, str]) -> str:
        del fields
        state = brain_choice.claude_state(os.environ)
        if not state.ready:
            raise NotThisTime(f"Not signed in yet: {state.reason}.")
        brain_choice.use_claude(os.environ)
        return "Thinks with Claude, by the sign-in of its program."

    def _use_service(self, fields: Mapping[str, str]) -> str:
        url, model = fields.get("URL", "").rstrip("/"), fields.get("Model", "")
        if not url or not model:
            raise ConfigurationError("that service", ["it needs a URL and a model"])
        name = brain_choice.service_name(url)
        brain_choice.use_service(os.environ, name, model, url=url, key=fields.get("Key", ""))
        return f"Thinks with {model} of {name}."

    async def _install(self, act: str) -> None:
        """Install what services or Claude need, as a person would in this kernel's environment."""
        claude = act == view.INSTALL_CLAUDE
        package = brain_choice.CLAUDE_LIBRARY if claude else brain_choice.LIBRARY
        # Without the working directory, where a project may have a `pip` of its own.
        line = [sys.executable, "-P", "-m", "pip", "install", "--no-input", "--quiet", package]
        quiet = asyncio.subprocess.DEVNULL
        self._update(installing=act)
        installing = await asyncio.create_subprocess_exec(*line, stdin=quiet, stdout=quiet, stderr=quiet)
        try:
            await installing.wait()
        finally:
            if installing.returncode is None:
                installing.kill()
        importlib.invalidate_caches()
        if claude:
            missing = brain_choice.missing_claude(os.environ)
            self._update(installing="", claude=missing, sign_in=_short(brain_choice.sign_in_command(os.environ)))
        else:
            missing = brain_choice.missing_library()
            self._update(installing="", library=missing)
        if missing:
            for block in (view.CLAUDE,) if claude else (view.HERE, view.SERVICE):
                self.form.tell(f"It could not be installed. Type `{missing}` in a terminal, and press again.", block)

    def _update(self, **changed: Any) -> None:
        self._offer = replace(self._offer, **changed)
        parts = view.model_parts(self._offer)
        shown = (view.HERE, view.SERVICE, view.CLAUDE) if "installing" in changed else (view.HERE,)
        self.form.show({key: parts[key] for key in shown})


def _no_keychain() -> str:
    try:
        keychain_name()
    except KeychainUnusable as error:
        return str(error)
    return ""


def _short(path: str) -> str:
    home = os.environ.get("HOME", "")
    return f"~{path.removeprefix(home)}" if home and path.startswith(f"{home}/") else path


async def _choose_folder(shell: Any, cockpit: Cockpit, error: WorkspaceRefused) -> None:
    """Have a person choose a folder below their home directory, and go there.

    Raises:
        KaguraError: `error`, when nobody chooses.
        RunKilled: the person does not choose now, or has stopped the cell.
    """
    if not os.environ.get("HOME"):
        raise error
    proposed = _proposed(shell)
    parts = view.folder_parts(
        _short(error.path) if _short(error.path) != error.path else error.path, error.why, proposed
    )
    form = _Form(cockpit, view.FOLDER_LABEL, parts, error)
    try:
        with interruptible():
            while True:
                content = await form.pressed()
                typed = content.get("fields")
                named = str(typed.get("Folder", "")).strip() if isinstance(typed, dict) else ""
                try:
                    folder = folder_for_project(os.environ, data_home(os.environ), Path(named or proposed))
                    os.chdir(folder)
                except WorkspaceRefused as refused:
                    form.tell(f"{shown_path(named)} will not do: {refused.why}.", view.FOLDER)
                except (KaguraError, OSError) as failed:
                    form.tell(str(failed), view.FOLDER)
                else:
                    break
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise form.stopped() from None
    form.close(f"This kernel works in {shown_path(_short(str(folder)))} now.", chosen=True)


def _proposed(shell: Any) -> str:
    """The notebook's own folder where it may be a project, else one of a usual name."""
    usual = f"~/{PROPOSED}"
    home = Path(os.environ["HOME"])
    notebook = place_of(shell).notebook
    own = Path(notebook).parent if notebook else home
    if own in (home, home.resolve()) or not own.is_relative_to(home) or not own.is_dir():
        return usual
    return _short(str(own))
