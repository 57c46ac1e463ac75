import pytest

from kagura_kernel.domain.settings import Settings
from kagura_kernel.membrane.egress.proxy import proxy_variables, usual_variables
from kagura_kernel.membrane.grant import check_settings


def problems(**fields: object) -> dict[str, str]:
    return dict(check_settings(Settings(**fields)))


def test_nothing_is_wrong_with_the_defaults_and_with_what_may_be_set():
    assert problems() == {}
    assert (
        problems(
            net=["ask", "none", "github", "pypi.org", "10.0.0.5:5432", "warehouse"],
            mirrors={"python-packages": ["pypi.example.org", "10.0.0.7:8443"], "warehouse": ["[fd00::1]:5432"]},
            env={"TZ": "Europe/Berlin", "PIP_INDEX_URL": "https://pypi.example.org/simple", "_x1": "\n"}
            | usual_variables(),
            preapproved_grants=["github:read", "aws:arn:role/x"],
            image="registry.example.org:5000/team/tools:1.2@sha256:0123",
        )
        == {}
    )


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("*.example.org", "wildcards"),
        ("https://example.org/", "not a URL"),
        ("pyhton-packages", "Did you mean python-packages?"),
        ("warehosue", "Did you mean warehouse?"),
        ("169.254.169.254:80", "credentials"),
    ],
)
def test_a_word_that_opens_nothing_is_told(word: str, why: str):
    assert why in problems(net=["ask", word], mirrors={"warehouse": ["a.example"]})["net"]


def test_every_wrong_word_is_told():
    assert len(check_settings(Settings(net=("*.a.example", "ask", "b.example:0")))) == 2


@pytest.mark.parametrize(
    ("name", "hosts", "why"),
    [
        ("python-packages", ["a b"], "is no host"),
        ("python-packages", ["https://pypi.example.org/simple"], "is no host"),
        ("ask", ["a.example"], "word of its own"),
        ("none", ["a.example"], "word of its own"),
        ("two words", ["a.example"], "letters, digits"),
        ("pyhton-packages", ["a.example"], "Did you mean python-packages?"),
    ],
)
def test_a_mirror_that_could_not_be_used_is_told(name: str, hosts: list[str], why: str):
    assert why in problems(mirrors={name: hosts})[f"mirrors.{name}"]


def test_a_word_that_names_a_broken_mirror_is_not_blamed_for_it():
    assert set(problems(net=["warehouse"], mirrors={"warehouse": ["a b"]})) == {"mirrors.warehouse"}


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LD_PRELOAD", "KAGURA_GITHUB_READ_URL", "1X", "A-B", "", *proxy_variables()]
)
def test_a_variable_that_cannot_be_set_is_told_without_its_value(name: str):
    found = problems(env={name: "hunter2"})
    assert list(found) == [f"env.{name}"]
    assert "hunter2" not in str(found)


def test_a_value_that_no_variable_can_hold_is_told_and_not_repeated():
    found = problems(env={"TZ": "hunter2\0"})
    assert "zero byte" in found["env.TZ"]
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("text", ["ghp_0123456789", "github:*", "Github:read", ""])
def test_what_is_no_grant_is_told_by_its_place_alone(text: str):
    found = problems(preapproved_grants=["aws:deploy", text])
    assert found["preapproved_grants"].startswith("entry 2 ")
    assert not text or text not in str(found)


def test_a_password_in_a_url_is_not_repeated():
    url = "https://me:hunter2@pypi.example.org/"
    found = problems(net=[url], mirrors={"npm": [url]})
    assert set(found) == {"net", "mirrors.npm"}
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("name", ["two words", "-v", "a\nb", "x" * 300])
def test_a_name_that_no_image_has_is_told(name: str):
    assert "no name of an image" in problems(image=name)["image"]
