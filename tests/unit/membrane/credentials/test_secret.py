import copy
import json
import logging
import pickle
import traceback

import pytest

from kagura_kernel.membrane.credentials.secret import Credential, Secret

VALUE = "s3cr3t-value-of-a-lease"


def test_only_one_method_gives_the_value() -> None:
    assert Secret(VALUE).reveal() == VALUE


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r:>40}".format, "%s".__mod__, lambda s: f"{s}"])
def test_no_way_of_printing_shows_it(show: object) -> None:
    assert callable(show)
    for one in (Secret(VALUE), Credential.token(VALUE)):
        assert VALUE not in show(one)


def test_it_cannot_be_pickled_or_made_json() -> None:
    for one in (Secret(VALUE), Credential.token(VALUE)):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="never pickled"):
                pickle.dumps(one, protocol)
        with pytest.raises(TypeError):
            json.dumps(one)
        assert VALUE not in json.dumps(one, default=str)


def test_copies_are_the_same_object() -> None:
    secret = Secret(VALUE)
    assert copy.copy(secret) is secret
    assert copy.deepcopy({"a": secret})["a"] is secret
    credential = Credential.token(VALUE)
    assert copy.deepcopy(credential) is credential


def test_it_has_no_dictionary_and_does_not_change() -> None:
    secret = Secret(VALUE)
    assert not hasattr(secret, "__dict__")
    with pytest.raises(AttributeError) as caught:
        secret._value = "other"
    assert VALUE not in str(caught.value)


def test_comparing_tells_only_whether_they_are_equal() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    assert Secret("\udcff") != Secret("\udcfe")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Secret(VALUE))


def test_an_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret("x")


def test_logs_and_tracebacks_do_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(VALUE)
    logging.getLogger("kagura").warning("holding %s and %r", secret, {"a": secret})
    try:
        int(secret)  # type: ignore[call-overload]
    except TypeError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "secret = Secret(hidden)" in shown
    assert VALUE not in caplog.text + shown


def test_a_credential_has_named_parts_and_a_main_one() -> None:
    credential = Credential({"B": Secret("b"), "A": Secret("a")})
    assert credential.names == ("B", "A")
    assert credential.main.reveal() == "b"
    assert credential.part("A").reveal() == "a"
    assert [secret.reveal() for secret in credential] == ["b", "a"]
    with pytest.raises(KeyError):
        credential.part("C")
    with pytest.raises(ValueError, match="at least one part"):
        Credential({})
