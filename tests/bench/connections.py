"""Connections out of a box, beside the same without a box and by other proxies."""

from __future__ import annotations

from statistics import median

from tests.bench.box_output import peak_memory
from tests.bench.harness import Bench, Bound, Line, Measure, interleaved, milliseconds
from tests.bench.membrane_boxes import Ask, Ways, guest_pid, ways

IN_A_ROW = 20
AT_ONCE = 200
WHOLE = 2**30
MEGABYTE = 1e6
BESIDE = {
    "direct": "direct, from the host",
    "relay": "a plain asyncio relay, from the host",
    "mitmproxy": "mitmproxy, from the host",
    "squid": "squid, from the host",
}
Bounds = dict[str, Bound]


async def connections_out_of_a_box(bench: Bench) -> list[Line]:
    """To a server on this machine: one after the other, many at once, and one that carries much."""
    async with ways(bench) as found:
        lines = await _in_a_row(bench, found)
        lines += await _at_once(bench, found)
        return lines + await _download(bench, found)


async def _in_a_row(bench: Bench, found: Ways) -> list[Line]:
    def one(ask: Ask) -> Measure:
        async def once() -> float:
            return float(median(await ask("connect", IN_A_ROW)))

        return once

    samples = max(3, bench.samples // 2)
    figures = await interleaved(samples, warm_up=1, **{name: one(ask) for name, ask in found.asks.items()})
    bounds = {"direct": Bound("≤ 3 ms more", 3, "more"), "mitmproxy": Bound("≤ 1×", 1)}
    figures = {name: milliseconds(figure) for name, figure in figures.items()}
    return _lines("connection through the membrane, from a box", found, figures, bounds, "ms", samples)


async def _at_once(bench: Bench, found: Ways) -> list[Line]:
    failed: list[str] = []

    def all_of_them(name: str, ask: Ask) -> Measure:
        async def once() -> float:
            answer = await ask("many", AT_ONCE)
            if name == "membrane" and answer["failed"]:
                failed.extend([answer["why"][0]] * answer["failed"])
            return float(answer["seconds"])

        return once

    samples = max(3, bench.samples // 4)
    sides = {name: all_of_them(name, ask) for name, ask in found.asks.items() if name != "relay"}
    figures = await interleaved(samples, warm_up=1, **sides)
    what = f"{AT_ONCE} connections at once through the membrane, all of them answered"
    figures = {name: milliseconds(figure) for name, figure in figures.items()}
    count = Line(
        f"connections that failed, of {samples + 1} times {AT_ONCE} at once" + (f" ({failed[0]})" if failed else ""),
        figure=len(failed),
        unit="",
        bound=Bound("0", 0),
        samples=samples + 1,
    )
    return [count, *_lines(what, found, figures, {"mitmproxy": Bound("≤ 1×", 1)}, "ms", samples)]


async def _download(bench: Bench, found: Ways) -> list[Line]:
    grown: list[int] = []
    guest_grown: list[int] = []

    def whole(name: str, ask: Ask) -> Measure:
        async def once() -> float:
            peak, guest_peak = peak_memory(), peak_memory(guest) if guest else None
            took = await ask("download", WHOLE)
            if name == "membrane":
                grown.append(peak())
                if guest_peak:
                    guest_grown.append(guest_peak())
            return WHOLE / MEGABYTE / float(took)

        return once

    guest = guest_pid()
    # The membrane lets one run have so many bytes and no more.
    samples = min(8, max(3, bench.samples // 6))
    sides = {name: whole(name, ask) for name, ask in found.asks.items()}
    figures = await interleaved(samples, warm_up=1, **sides)
    bounds = {"relay": Bound("≥ 1/3", 1 / 3, "least"), "mitmproxy": Bound("≥ 1×", 1, "least")}
    lines = _lines("1 GiB through the membrane, into a box", found, figures, bounds, "MB/s", samples)
    flat = Bound("≤ 64 MiB", 64)
    for whose, sizes in (("host", grown), ("guest's", guest_grown)):
        what = f"{whose} memory while 1 GiB comes through the membrane"
        if sizes:
            lines.append(Line(what, figure=max(sizes) / 2**20, unit="MiB", bound=flat, samples=len(sizes)))
        else:
            lines.append(Line(what, missing="the guest is not to be seen from here", bound=flat))
    return lines


def _lines(what: str, found: Ways, figures: dict[str, float], bounds: Bounds, unit: str, samples: int) -> list[Line]:
    """The membrane's figure beside each of the others."""
    nothing = Bound("", float("inf"))
    lines = []
    for name, beside in BESIDE.items():
        bound = bounds.get(name, nothing)
        if name in found.missing:
            lines.append(Line(what, beside, missing=found.missing[name], bound=bound))
        elif name in figures:
            lines.append(Line(what, beside, figures["membrane"], figures[name], unit, bound, samples))
    return lines
