from tests.bench.connections import _lines
from tests.bench.contenders import serving
from tests.bench.harness import Bench, Bound, Missing
from tests.bench.membrane_boxes import Ways, ways


def test_a_contender_that_is_not_there_keeps_its_line_and_says_why():
    found = Ways({}, {"squid": "squid is not installed"})
    bounds = {"direct": Bound("≤ 3 ms more", 3, "more")}

    direct, squid = _lines("connection", found, {"membrane": 2.0, "direct": 0.5}, bounds, "ms", samples=9)

    assert (direct.figure, direct.floor_figure, direct.verdict, direct.samples) == (2.0, 0.5, "yes", 9)
    assert (squid.missing, squid.figure, squid.verdict) == ("squid is not installed", None, "")


async def test_a_contender_that_does_not_work_does_not_keep_the_others_from_being_measured(tmp_path, monkeypatch):
    def absent(_target):
        raise Missing("it is not installed")

    monkeypatch.setattr("tests.bench.membrane_boxes.mitmproxy", absent)
    # It listens, and answers nobody as a proxy would.
    monkeypatch.setattr("tests.bench.membrane_boxes.squid", lambda _target: serving("server.py"))

    async with ways(Bench(tmp_path)) as found:
        assert list(found.asks) == ["membrane", "direct", "relay"]
        assert list(found.missing) == ["mitmproxy", "squid"]
        assert len(await found.asks["membrane"]("connect", 2)) == 2
