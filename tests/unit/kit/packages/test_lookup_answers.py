from __future__ import annotations

import contextlib
import json

from hypothesis import example, given
from hypothesis import strategies as st

from kagura_kernel.kit.packages.lookup_answers import (
    NotFound,
    Published,
    Unreadable,
    read_crate,
    read_go,
    read_npm,
    read_release,
    read_simple,
)
from tests.support.effort import examples

_OF_INDEXES = ["files", "filename", "url", "yanked", "dist-tags", "versions", "latest", "1.0.0", "dist", "tarball"]
_OF_OTHERS = ["Version", "vers", "tag_name", "assets", "name", "browser_download_url", "digest", "size"]
KEYS = st.sampled_from([*_OF_INDEXES, *_OF_OTHERS])
TEXTS = st.sampled_from(
    [
        "1.0.0",
        "v1.0.0",
        "x-1.0.0.tar.gz",
        "https://[",
        "//[x",
        "../..",
        "sha256:",
        "tool-linux-x64",
        "https://a.example/x",
    ]
) | st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
ANSWERS = VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=200)


@examples(50, 300, "kagura_kernel/kit/packages/")
@given(ANSWERS, st.sampled_from(["", "1.0.0", "latest"]), st.sampled_from(["text/html", "application/json"]))
def test_whatever_a_registry_answers_is_read_or_refused_in_our_words(data, asked, kind):
    read = (
        lambda: read_simple(data, kind, "https://a.example/simple/x/", "x", asked),
        lambda: read_npm(data, "x", asked),
        lambda: read_go(data),
        lambda: read_crate(data, "x", asked),
        lambda: read_release(data),
    )
    for one in read:
        with contextlib.suppress(NotFound, Unreadable):
            found = one()
            version = found.version if isinstance(found, Published) else found[0]
            assert isinstance(version, str)


@given(st.binary(max_size=300))
@example(b"<![\x00")
def test_a_page_of_links_is_read_whatever_stands_in_them(junk):
    page = b"<a href='x-1.0.tar.gz'>x</a><a href='http://['>y</a><a>z</a><a href='x-99999.tar.gz' data-yanked>" + junk
    with contextlib.suppress(NotFound):
        assert read_simple(page, "text/html", "https://a.example/simple/x/", "x", "").version
