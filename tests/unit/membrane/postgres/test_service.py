import pickle

import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.membrane.postgres.service import is_postgres_url, parse_url

SECRET = "hunter2"


def problems(url: str) -> str:
    """What is wrong with it; no piece of the password stands in the error, and none behind it."""
    with pytest.raises(ConfigurationError) as raised:
        parse_url(url)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    for piece in (SECRET, "hun", "ter2"):
        assert piece not in raised.value.message
    return "; ".join(raised.value.problems)


def test_a_url_is_taken_apart():
    service = parse_url("postgresql://al%40ice:p%3A%2F%20w%C3%B6rd@Db.Example.:6543/sales%20x?sslmode=verify-full")
    assert (service.host, service.port, service.user) == ("db.example", 6543, "al@ice")
    assert (service.database, service.sslmode) == ("sales x", "verify-full")
    assert service.password.reveal() == "p:/ wörd"


def test_what_is_not_said_has_the_usual_value():
    service = parse_url("postgres://alice@db.example")
    assert (service.port, service.database, service.sslmode) == (5432, "alice", "prefer")
    assert (service.options, service.jail_port, service.connect_seconds) == ({}, 0, None)
    assert not service.password


@pytest.mark.parametrize(
    ("place", "host", "port"),
    [
        ("[2001:DB8::1]", "2001:db8::1", 5432),
        ("[2001:db8::1]:6000", "2001:db8::1", 6000),
        ("[::1]", "::1", 5432),
        ("10.0.0.5", "10.0.0.5", 5432),
        ("localhost:1", "localhost", 1),
        ("db.example:65535", "db.example", 65535),
        ("bücher.example", "xn--bcher-kva.example", 5432),
    ],
)
def test_hosts_of_every_kind_are_understood(place, host, port):
    service = parse_url(f"postgresql://alice:{SECRET}@{place}/sales")
    assert (service.host, service.port) == (host, port)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "POSTGRESQL", "postgresql+psycopg"])
def test_the_usual_schemes_are_one(scheme):
    assert is_postgres_url(f"{scheme}://a@b")
    assert parse_url(f"{scheme}://alice@db.example").host == "db.example"


@pytest.mark.parametrize("text", ["sqlite:///x", "https://a@b", "postgresql:a@b", "xpostgresql://a@b", "", "/x"])
def test_other_texts_are_no_such_url(text):
    assert not is_postgres_url(text)
    assert "begins with postgresql://" in problems(text)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"postgresql://alice:{SECRET}@/sales", "no host"),
        (f"postgresql://alice:{SECRET}@%2Fvar%2Frun/sales", "socket"),
        (f"postgresql://alice:{SECRET}@a.example,b.example/sales", "more than one host"),
        (f"postgresql://alice:{SECRET}@db.example:0/sales", "a port is"),
        (f"postgresql://alice:{SECRET}@db.example:65536/sales", "a port is"),
        (f"postgresql://alice:{SECRET}@db.example:{SECRET}/sales", "a port is"),
        (f"postgresql://alice:{SECRET}@[::1/sales", "in brackets"),
        (f"postgresql://alice:{SECRET}@[::1::2::]/sales", "its host is none"),
        (f"postgresql://alice:{SECRET}@[::1]5432/sales", "in brackets"),
        (f"postgresql://alice:{SECRET}@0x.y z/sales", "%20"),
        (f"postgresql://:{SECRET}@db.example/sales", "names no user"),
        (f"postgresql://alice:{SECRET}", "names no user"),
        (f"postgresql://alice:{SECRET}?x{SECRET}=1", "names no user"),
        (f"postgresql://alice:hun@{SECRET}@db.example/sales", "%40"),
        ("postgresql://alice:hun/ter2@db.example/sales", "%2F"),
        ("postgresql://alice:hun?ter2=x@db.example/sales", "%3F"),
        ("postgresql://alice:hun#ter2@db.example/sales", "%23"),
        ("postgresql://alice:hun%ter2@db.example/sales", "%25"),
        ("postgresql://alice:hun\nter2@db.example/sales", "control character"),
        ("postgresql://alice:hun%00ter2@db.example/sales", "zero byte"),
        ("postgresql://alice:hun%ffter2@db.example/sales", "UTF-8"),
        (f"postgresql://alice:{SECRET}@169.254.169.254/sales", "metadata"),
        (f"postgresql://alice:{SECRET}@[::ffff:169.254.169.254]/sales", "metadata"),
        (f"postgresql://alice:{SECRET}@0.0.0.0/sales", "this host"),
        (f"postgresql://alice:{SECRET}@224.0.0.1/sales", "multicast"),
        (f"postgresql://alice:{SECRET}@db.example/sales?sslmode=allow", "sslmode is one of"),
        (f"postgresql://alice:{SECRET}@db.example/sales?sslmode=require&sslmode=disable", "sslmode stands twice"),
        (f"postgresql://alice:{SECRET}@db.example/sales?connect_timeout=0", "connect_timeout"),
        (f"postgresql://alice:{SECRET}@db.example/sales?connect_timeout=1e9", "connect_timeout"),
        (f"postgresql://alice:{SECRET}@db.example/sales?sslmode=verify-ca", "needs sslrootcert"),
        (f"postgresql://alice:{SECRET}@db.example/sales?sslrootcert=/ca.pem", "sslrootcert needs sslmode"),
        (f"postgresql://alice:{SECRET}@db.example/s?sslmode=verify-full&sslrootcert=ca.pem", "absolute path"),
        (f"postgresql://alice:{SECRET}@db.example/s?sslmode=require&sslrootcert=system", "needs sslmode=verify-full"),
        (f"postgresql://alice:{SECRET}@db.example/{'x' * 5000}", "longer than"),
    ],
)
def test_what_cannot_be_is_refused_without_a_piece_of_the_password(url, expected):
    assert expected in problems(url)


def test_unknown_parameters_are_refused_by_their_names_alone():
    query = f"password={SECRET}&passfile=/{SECRET}&{SECRET}/=1&sslmode=require"
    text = problems(f"postgresql://alice@db.example/sales?{query}")
    assert "unknown parameters: password, passfile, one that is no name" in text


def test_everything_that_is_wrong_is_told_at_once():
    text = problems(f"postgresql://:{SECRET}@db.example:99999/s?sslmode=x&host=y")
    assert all(part in text for part in ("names no user", "a port is", "sslmode is one of", "unknown parameters: host"))


def test_no_password_file_and_no_variable_is_looked_at(monkeypatch, tmp_path):
    (tmp_path / ".pgpass").write_text(f"*:*:*:*:{SECRET}")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / ".pgpass"))
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert parse_url("postgresql://alice@db.example").password.reveal() == ""


def test_the_password_does_not_show_itself():
    service = parse_url(f"postgresql://alice:{SECRET}@db.example/sales")
    assert SECRET not in repr(service) + str(service) + format(service)
    with pytest.raises(TypeError):
        pickle.dumps(service)
    assert hash(service) == hash(parse_url("postgresql://alice@db.example/sales"))
    assert service != parse_url("postgresql://alice@db.example/sales")


def test_the_url_for_the_box_names_its_own_loopback_and_no_password():
    service = parse_url(f"postgresql://al%40ice:{SECRET}@db.example:6000/my%2Fsales?sslmode=require", jail_port=5433)
    assert service.box_url() == "postgresql://al%40ice@127.0.0.1:5433/my%2Fsales?sslmode=disable"
    assert service.box_url(7000).startswith("postgresql://al%40ice@127.0.0.1:7000/")
    assert parse_url(service.box_url()).user == "al@ice"
