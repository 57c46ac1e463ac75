"""Which models cells can name here, and what each costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from kagura_kernel.assembly.brains import Prices, compatible_brain, make_brains, make_endpoints
from kagura_kernel.assembly.local_services import local_services, local_urls
from kagura_kernel.brain.openai_compatible import (
    Endpoint,
    is_loopback,
    joined_model,
    problem_with_url,
    split_model,
    usual_endpoint,
)
from kagura_kernel.brain.provider import AUTO, choose, usual_model
from kagura_kernel.cockpit.brains import OfferedModel
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal

_LATEST = 200  # runs, the newest, whose models are offered again
_COUNTED = 1_000  # tokens for which a price is asked: some models cost more beyond a length
_PER_MILLION = 1_000_000 / _COUNTED


def offered_models(
    environ: Mapping[str, str], settings: Settings, home: Path, journal: Journal, chosen: str
) -> list[OfferedModel]:
    """Models of the brain that cells here have, the current one first; `auto` where the brain chooses it.

    They are those that the brain knows names of, those that configured services tell, and those that answered lately. A
    name that stands for another model has the price of the one that it stood for when that last answered.
    Services are asked at once, and one that does not answer in time is left out.

    Args:
        environ: Where keys may lie.
        settings: The user's.
        home: Where the package keeps its data.
        journal: Where runs stand.
        chosen: The model of runs of this process; empty where settings and the brain choose.

    Raises:
        BrainNotConfigured: nothing can think.
        JournalError: the journal cannot be read.
    """
    brain, _ = choose(settings.brain, make_brains(environ, settings, home))
    current = chosen or usual_model(settings, brain.name, lambda: brain.name)
    told = brain.capabilities().models
    endpoints = make_endpoints(environ, settings)
    urls = _urls(endpoints, settings)
    compatible = compatible_brain(environ, settings)
    if brain.name == compatible.name:
        told = tuple(_told_by_services(urls, endpoints))
        try:
            endpoint, model = compatible.thinks_with(current)
            current = joined_model(endpoint.name, model)
        except BrainNotConfigured:
            current = ""
    used = [row.model for row in views.runs(journal, limit=_LATEST) if row.model and row.brain == brain.name]
    # Where nobody names one the brain chooses; a service has none of its own.
    first = current or ("" if brain.name == compatible.name else AUTO)
    names = dict.fromkeys([*([first] if first else []), *told, *used])
    prices, known = Prices(settings), views.answered_as(journal, brain.name, limit=_LATEST)
    stands_for = {name or AUTO: model for name, model in known.items()}
    return [
        replace(
            _offered(name, stands_for.get(name, name), prices, urls),
            current=name == first,
            about=_about(name, stands_for.get(name, "")),
        )
        for name in names
    ]


def _about(name: str, stands_for: str) -> str:
    chosen = "the brain’s own choice" if name == AUTO else ""
    return ", ".join(filter(None, [chosen, f"{stands_for} when it last answered" if stands_for else ""]))


def _urls(endpoints: Mapping[str, Endpoint], settings: Settings) -> dict[str, str]:
    """What is asked for its models: what the settings name, and what may answer on this machine."""
    named = dict.fromkeys([usual_endpoint(settings), *settings.endpoints])
    fit = (endpoints[name] for name in named if name in endpoints)
    configured = {one.name: one.url for one in fit if not problem_with_url(one.url, keyed=one.key is not None)}
    return configured | local_urls(settings)


def _told_by_services(urls: Mapping[str, str], endpoints: Mapping[str, Endpoint]) -> list[str]:
    keys = {name: key for name in urls if (key := endpoints[name].key) is not None and key.there()}
    return [joined_model(one.name, model) for one in local_services(urls, keys) for model in one.models]


def _offered(name: str, model: str, prices: Prices, urls: Mapping[str, str]) -> OfferedModel:
    """With the price of the model that it stands for."""
    now = datetime.now(UTC)
    read, source = prices.price(Usage(input_tokens=_COUNTED), model, now)
    written, _ = prices.price(Usage(output_tokens=_COUNTED), model, now)
    if read is None or written is None:
        return OfferedModel(name, input_usd=None, output_usd=None, price="price unknown")
    endpoint, _ = split_model(name, list(urls))
    free = not read and not written and bool(endpoint) and is_loopback(urlsplit(urls[endpoint]).hostname or "")
    price = "free, on this machine" if free else source
    return OfferedModel(name, input_usd=read * _PER_MILLION, output_usd=written * _PER_MILLION, price=price)
