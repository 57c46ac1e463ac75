import json

import pytest

from kagura_kernel.cli.main import main

NAMES = {
    "pypi.org": ["151.101.0.223", "2a04:4e42::223"],
    "mixed.example": ["127.0.0.1", "1.1.1.1"],
    "private.example": ["10.0.0.5"],
}


@pytest.fixture(autouse=True)
def _names(monkeypatch):
    def look_up(host: str, port: int) -> list[str]:
        del port
        if host not in NAMES:
            raise OSError(-2, "Name or service not known")
        return NAMES[host]

    monkeypatch.setattr("kagura_kernel.membrane.egress.gate._look_up", look_up)


def checked(capsys, *words: str) -> tuple[int, list[dict]]:
    code = main(["egress", "check", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_all_allowed_is_exit_0_and_shows_the_addresses(capsys):
    code, (told,) = checked(capsys, "--net", "python-packages", "https://PyPI.org/project/x/")
    assert code == 0
    assert told == {
        "target": "pypi.org:443",
        "host": "pypi.org",
        "port": 443,
        "allowed": True,
        "verdict": "allow",
        "rule": "python-packages",
        "reason": "It is granted by --net python-packages.",
        "advice": "",
        "addresses": [
            {"address": "151.101.0.223", "allowed": True, "why": "public"},
            {"address": "2a04:4e42::223", "allowed": True, "why": "public"},
        ],
    }


def test_some_refused_is_exit_1_and_says_how_to_grant(capsys):
    code, told = checked(capsys, "--net", "pypi.org", "pypi.org", "pypi.org:80", "other.example:443")
    assert (code, [one["allowed"] for one in told]) == (1, [True, False, False])
    assert told[1]["reason"] == "It is not granted to this run; only its port 443 is."
    assert told[1]["advice"] == "Grant it with: --net pypi.org:80"


def test_a_granted_name_with_private_addresses_is_refused_address_by_address(capsys):
    code, (mixed, private) = checked(
        capsys, "--net", "mixed.example", "--net", "private.example", "mixed.example", "private.example"
    )
    assert (code, mixed["allowed"], private["allowed"]) == (1, True, False)
    assert {one["address"]: one["why"] for one in mixed["addresses"]} == {"1.1.1.1": "public", "127.0.0.1": "loopback"}
    assert "none of its addresses may be reached" in private["reason"]
    assert private["advice"] == "Grant it with: --net 10.0.0.5:443"


def test_an_exact_address_opens_a_private_one(capsys):
    code, _ = checked(capsys, "--net", "private.example:5432", "--net", "10.0.0.5:5432", "private.example:5432")
    assert code == 0


def test_asking_is_no_allowance(capsys):
    code, (told,) = checked(capsys, "--net", "ask", "pypi.org")
    assert (code, told["verdict"], told["allowed"]) == (1, "ask", False)


def test_a_name_that_cannot_be_looked_up_is_refused_and_without_looking_up_it_is_not(capsys):
    assert checked(capsys, "--net", "no.example", "no.example")[0] == 1
    assert checked(capsys, "--net", "no.example", "--no-resolve", "no.example")[0] == 0


def test_an_address_is_judged_without_looking_up(capsys):
    code, (told,) = checked(capsys, "--net", "ask", "--no-resolve", "http://0x7f.1:8080/")
    assert (code, told["host"], told["verdict"]) == (1, "127.0.0.1", "deny")
    assert told["addresses"] == [{"address": "127.0.0.1", "allowed": False, "why": "loopback"}]


def test_the_text_is_for_people(capsys):
    assert main(["egress", "check", "--net", "mixed.example", "mixed.example"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "mixed.example:443: allowed",
        "  - It is granted by --net mixed.example.",
        "  - 1.1.1.1: may be reached",
        "  - 127.0.0.1: loopback",
    ]


@pytest.mark.parametrize(
    "words",
    [["a b"], ["ftp://a.example"], ["--net", "*.example", "a.example"], ["--net", "10.0.0.0/8", "a.example"]],
)
def test_wrong_words_are_exit_2_with_one_line_that_says_why(words, capsys):
    assert main(["egress", "check", *words]) == 2
    assert capsys.readouterr().err.startswith("ERR_")


def test_no_target_is_wrong_usage(capsys):
    assert main(["egress", "check"]) == 2
    assert "TARGET" in capsys.readouterr().err
