"""Proves that images hold no credential and nothing of ours: every layer and the configuration, deleted files too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.images.daemon import ImageDaemon
from kagura_kernel.sandbox.images.export import ExportedImage, read_export
from kagura_kernel.sandbox.images.findings import Finding, Kind, Verdict
from kagura_kernel.sandbox.images.layers import Inspector, LayerFacts
from kagura_kernel.sandbox.images.secrets import assigned_secret, secrets_in_command
from kagura_kernel.sandbox.images.traces import Machine, OurCode, proxy_in_command, proxy_in_variable, variables

_ROOT = ("", "0", "root")


def verify_images(daemon: ImageDaemon, images: Sequence[str], machine: Machine | None = None) -> list[Verdict]:
    """Look through images, by name or id; layers that they share are read once.

    Raises:
        SandboxUnavailable: one is not there, or no daemon answers.
    """
    ids: dict[str, str] = {}
    for image in images:
        found = daemon.inspect(image)
        if found is None:
            raise SandboxUnavailable(
                f"there is no image {image} here", "`kagura-kernel images list` says which there are."
            )
        ids[image] = str(found["Id"])
    layers: dict[str, LayerFacts] = {}
    inspector = Inspector(OurCode.here(), machine or Machine())

    def reader(name: str) -> LayerFacts:
        layers[name] = LayerFacts(inspector)
        return layers[name]

    try:
        exported = {one.id: one for one in read_export(daemon.export(list(dict.fromkeys(ids.values()))), reader)}
    except ValueError as error:
        raise SandboxUnavailable(f"the images cannot be looked through: {error}", "Ask again.") from error
    return [_verdict(image, _exported(exported, image_id), layers) for image, image_id in ids.items()]


def judge_configuration(configuration: Mapping[str, Any]) -> Iterator[Finding]:
    """What an image's configuration gives away: user, variables, labels, commands, the steps that made it."""
    config: Mapping[str, Any] = configuration.get("config") or {}
    user = str(config.get("User") or "")
    if user.partition(":")[0] in _ROOT:
        yield Finding(Kind.ROOT, "user", "its programs run as root unless told otherwise")
    for name, value in variables(config.get("Env") or ()).items():
        if proxy_in_variable(name, value):
            yield Finding(Kind.MACHINE, f"env {name}", "a proxy")
        if why := assigned_secret(name, value):
            yield Finding(Kind.CREDENTIAL, f"env {name}", why)
    for name, value in (config.get("Labels") or {}).items():
        if why := assigned_secret(name, str(value)):
            yield Finding(Kind.CREDENTIAL, f"label {name}", why)
    for where, text in _steps(configuration, config):
        for why in dict.fromkeys(secrets_in_command(text)):
            yield Finding(Kind.CREDENTIAL, where, why)
        if proxy_in_command(text):
            yield Finding(Kind.MACHINE, where, "a proxy")


def _steps(configuration: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every command that an image tells of, with its place."""
    commands = {name.lower(): config.get(name) for name in ("Cmd", "Entrypoint", "OnBuild", "Shell")}
    commands["healthcheck"] = (config.get("Healthcheck") or {}).get("Test")
    yield from ((where, " ".join(words)) for where, words in commands.items() if words)
    for number, step in enumerate(configuration.get("history") or (), start=1):
        yield f"history {number}", f"{step.get('created_by') or ''} {step.get('comment') or ''}"


def judge_layers(layers: Sequence[LayerFacts]) -> Iterator[Finding]:
    """What the layers hold, from the bottom up. Rights count as they are in the end, contents wherever they are."""
    for number, layer in enumerate(layers, start=1):
        above = layers[number:]
        for path, marks in layer.found.items():
            deleted = any(_hides(upper, path) for upper in above)
            yield from (Finding(kind, path, reason, number, deleted) for kind, reason in marks)
        for path, marks in layer.modes.items():
            if not any(_hides(upper, path) for upper in above):
                yield from (Finding(kind, path, reason, number) for kind, reason in marks)


def _hides(layer: LayerFacts, path: str) -> bool:
    """Whether a layer replaces or deletes what a lower one has at that path."""
    if path in layer.paths or path in layer.removed:
        return True
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        if folder in layer.removed or folder in layer.emptied:
            return True
    return False


def _verdict(image: str, exported: ExportedImage, read: Mapping[str, LayerFacts]) -> Verdict:
    layers = [read[name] for name in exported.layers if name in read]
    findings = [*judge_configuration(exported.configuration), *judge_layers(layers)]
    if missing := len(exported.layers) - len(layers):
        findings.append(Finding(Kind.UNREADABLE, ".", f"{missing} of its layers were not in the daemon's archive"))
    return Verdict(image, exported.id, len(layers), sum(layer.entries for layer in layers), tuple(findings))


def _exported(exported: Mapping[str, ExportedImage], image_id: str) -> ExportedImage:
    if image_id in exported:
        return exported[image_id]
    if len(exported) == 1:
        # Newer daemons name an image by its manifest; its configuration has another digest.
        return next(iter(exported.values()))
    raise SandboxUnavailable(f"the daemon's archive lacks {image_id}", "Ask for this image alone.")
