import h11
import pytest
from hypothesis import given, strategies as st

from kagura_kernel.membrane.credentials.injection.caller import BadRequest, check_request


def ask(target: str, method: str = "GET") -> None:
    check_request(h11.Request(method=method, target=target, headers=[("host", "127.0.0.1:4000")]), 4000)


@pytest.mark.parametrize(
    "path",
    [
        "/..;/b",
        "/..;x=1/b",
        "/%2e%2e;x/b",
        "/..%3b/b",
        "/..%3fx/b",
        "/%252e%252e/b",
        "/%25252e%25252e%25252fb",
        "/%c0%ae%c0%ae/b",
        "/a/%ff/b",
        "/..%00/b",
        "/a%00b",
        "/..%20/b",
        "/%20../b",
        "/.%09./b",
        "/..%5cb",
        "/..%255c..%255cb",
        "/%u002e%u002e/b",
        "/%uff0e%uff0e%u2215b/..",
        "/%ef%bc%8e%ef%bc%8e/b",
        "/%e2%80%a5/b",
        "/.%e2%80%8b./b",
        "/a/.;x",
    ],
)
def test_a_path_that_any_server_might_read_as_climbing_is_refused(path: str) -> None:
    with pytest.raises(BadRequest) as refused:
        ask(path)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/repos/a/b/contents/x%20y.txt?ref=../main",
        "/projects/group%2Fname/repository/files/a%2Eb",
        "/projects/group%252Fname",
        "/a;v=1/b;c",
        "/100%25",
        "/100%",
        "/caf%C3%A9/%E6%97%A5%E6%9C%AC",
        "/.well-known/x/...%20/..a/a..",
        "//double//slash",
        "/search/a%3Fb",
        "/v1/models:generate",
    ],
)
def test_an_ordinary_path_is_passed_on(path: str) -> None:
    ask(path)


def test_a_path_that_is_escaped_again_and_again_is_refused() -> None:
    path = "%"
    for _ in range(20):
        path = path.replace("%", "%25")
    with pytest.raises(BadRequest):
        ask(f"/{path}41")


@given(
    st.sampled_from([".", ".."]),
    st.lists(st.sampled_from(["once", "twice", "upper"]), min_size=2, max_size=2),
    st.sampled_from(["", ";", ";a=b", "%3b", "%20", "%09", "%2520", "%00"]),
    st.sampled_from(["/", "%2f", "%252F", "\\", "%5C"]),
)
def test_no_mixture_of_disguises_leads_out(dots: str, ways: list[str], after: str, slash: str) -> None:
    written = {"once": "%2e", "twice": "%252e", "upper": "%2E"}
    climbing = "".join(written[way] for way, _ in zip(ways, dots, strict=False))
    with pytest.raises(BadRequest):
        ask(f"/a{slash}{climbing}{after}{slash}b")


@pytest.mark.parametrize("method", ["CONNECT", "connect", "Trace", "trace", "track"])
def test_a_method_that_is_not_passed_on_is_refused_however_it_is_written(method: str) -> None:
    with pytest.raises(BadRequest) as refused:
        ask("/", method)
    assert refused.value.status == 405


def test_other_methods_pass_as_they_are_written() -> None:
    for method in ("GET", "PROPFIND", "patch"):
        ask("/", method)
