"""Cards in front ends that have ipywidgets alone, by their protocol."""

import json

import pytest

from tests.support.plain_page import PlainPage

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

KEY = "sk-ant-a-key-that-nobody-is-told"
KEYCHAIN = """
import keyring
from tests.support.keychain import Keychain
keychain = Keychain()
keyring.set_keyring(keychain)
"""


@pytest.fixture
def page(kernel):
    return PlainPage(kernel._client)


def test_a_key_that_is_typed_is_told_to_nobody_and_stays_on_no_page(kernel, page):
    """The kernel's keychain is one of this test; the front end tells what it would save."""
    kernel.run(KEYCHAIN)
    kernel.send("%kagura setup", person=True)
    page.wait(lambda: bool(page.found("Password", "Anthropic API key")))
    page.set("Password", "Anthropic API key", value=KEY)
    # The page forgets it before anybody can save it.
    page.wait(lambda: page.found("Password", "Anthropic API key")[0][1]["value"] == "")
    page.press("Use this key")
    page.wait(lambda: not page.models)
    assert KEY in str(kernel.run("print(keychain.kept)"))
    assert KEY not in json.dumps(page.sent_from_kernel, default=str)
