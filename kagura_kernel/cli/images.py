"""`kagura-kernel images`: builds the images of Docker boxes from their recipes, lists them, and looks through them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.docker_endpoint import endpoint_from
from kagura_kernel.sandbox.images.build import BuildPlan, ImageDaemon, build_chain, list_images, list_recipes
from kagura_kernel.sandbox.images.recipes import NAMES, RECIPES, Lock, Recipes, recipe_named, settings_from
from kagura_kernel.sandbox.images.secrets import Machine
from kagura_kernel.sandbox.images.verification import verify_images

if TYPE_CHECKING:
    from kagura_kernel.sandbox.images.build import Listed
    from kagura_kernel.sandbox.images.verification import Verdict

CLEAN, FOUND = 0, 1
_MEGABYTE = 1_000_000


def images_build(arguments: SimpleNamespace) -> int:
    """Build what is named, and what that is built on; 0.

    Raises:
        UnknownName: there is no such recipe.
        ImageBuildFailed: an image could not be built.
        SandboxUnavailable: no daemon answers.
    """
    plan = BuildPlan(
        base=arguments.base,
        prefix=arguments.tag_prefix,
        lock=Lock(arguments.lock),
        network=arguments.network,
        settings=settings_from(os.environ),
        arguments=dict(arguments.build_arg),
    )
    with ImageDaemon(endpoint_from(os.environ)) as daemon:
        made = build_chain(
            daemon, Recipes.found(), arguments.name, plan, lambda line: print(line, file=sys.stderr, flush=True)
        )
    for image in made:
        print(f"{image.tag} {image.id} {'up to date' if image.kept else 'built'}")
    return CLEAN


def images_list(arguments: SimpleNamespace) -> int:
    """List recipes, without a daemon too; raises `SandboxUnavailable` after that where none answers."""
    recipes, plan = Recipes.found(), BuildPlan(prefix=arguments.tag_prefix)
    try:
        with ImageDaemon(endpoint_from(os.environ)) as daemon:
            _print_list(list_images(daemon, recipes, plan), arguments)
    except SandboxUnavailable:
        # What could be built is known all the same; the error says what is missing.
        _print_list(list_recipes(recipes, plan), arguments)
        raise
    return CLEAN


def _print_list(found: Sequence[Listed], arguments: SimpleNamespace) -> None:
    if arguments.json:
        print(json.dumps([asdict(one) for one in found], ensure_ascii=False))
    else:
        print("\n".join(_line(one) for one in found), flush=True)


def images_verify(arguments: SimpleNamespace) -> int:
    """Look through images; 1 when one is not clean. Raises `SandboxUnavailable` where it is not there."""
    plan = BuildPlan(prefix=arguments.tag_prefix)
    with ImageDaemon(endpoint_from(os.environ)) as daemon:
        images = _named(arguments.image, plan) or _built(daemon, plan)
        verdicts = verify_images(daemon, images, Machine.of(settings_from(os.environ)))
    if arguments.json:
        print(json.dumps([asdict(one) for one in verdicts], ensure_ascii=False))
    else:
        print("\n".join(_told(one) for one in verdicts))
    return FOUND if any(one.findings for one in verdicts) else CLEAN


def _named(words: Sequence[str], plan: BuildPlan) -> list[str]:
    return [plan.tag(recipe_named(word)) if word in NAMES else word for word in words]


def _built(daemon: ImageDaemon, plan: BuildPlan) -> list[str]:
    there = [tag for tag in map(plan.tag, RECIPES) if daemon.inspect(tag) is not None]
    if not there:
        raise SandboxUnavailable("no image is built yet", "`kagura-kernel images build` builds them.")
    return there


def _line(one: Listed) -> str:
    lock = "" if one.locked == "none" else f", {one.locked}"
    if not one.known:
        return f"{one.name:<7} not known, no daemon{lock}: {one.holds}"
    if not one.id:
        state = "not built" if one.tested else "not built, and not built in the tests"
        return f"{one.name:<7} {state}{lock}: {one.holds}"
    state = "up to date" if one.current else "older than its recipe or base"
    facts = f"{one.id.removeprefix('sha256:')[:12]}  {one.size / _MEGABYTE:,.0f} MB  {one.created[:19]}"
    base = f" on {one.base.removeprefix('sha256:')[:12]}" if one.base else ""
    return f"{one.name:<7} {one.tag}  {facts}{base}  {state}{lock}: {one.holds}"


def _told(verdict: Verdict) -> str:
    looked = f"{verdict.layers} layers, {verdict.files} entries"
    if not verdict.findings:
        return f"{verdict.image}: clean ({looked})"
    lines = [f"{verdict.image}: {len(verdict.findings)} found ({looked})"]
    for one in verdict.findings:
        place = f"layer {one.layer}, {one.where}" if one.layer else one.where
        deleted = " (deleted in a later layer)" if one.deleted else ""
        lines.append(f"  - {one.kind}: {place}: {one.reason}{deleted}")
    return "\n".join(lines)
