import base64
import hashlib
import hmac

import pytest

from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.postgres.login import MOST_ITERATIONS, ScramBroken, ScramExchange, prepare

# The exchange of RFC 7677, section 3, but for the user name, which PostgreSQL leaves empty.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s={SALT},i=4096".encode()


def exchange(password: str = "pencil") -> ScramExchange:
    return ScramExchange(Secret(password), NONCE)


def server_says(first: bytes, challenge: bytes, final: bytes, password: bytes = b"pencil") -> tuple[bytes, bytes]:
    """What a server computes by the letter of RFC 5802: the proof that it awaits, and its own signature."""
    salted = hashlib.pbkdf2_hmac("sha256", password, base64.b64decode(SALT), 4096)
    said = first.removeprefix(b"n,,") + b"," + challenge + b"," + final.rpartition(b",p=")[0]
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    own = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), said, "sha256")
    return base64.b64encode(proof), b"v=" + base64.b64encode(own)


def test_both_sides_prove_that_they_know_the_password():
    scram = exchange()
    assert scram.first == b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
    final = scram.answer(CHALLENGE)
    proof, signature = server_says(scram.first, CHALLENGE, final)
    assert final == b"c=biws,r=" + CHALLENGE[2:].partition(b",")[0] + b",p=" + proof
    scram.check(signature)
    scram.check(signature + b",m=more")


def test_a_server_that_does_not_know_the_password_is_found_out():
    scram = exchange()
    final = scram.answer(CHALLENGE)
    _, signature = server_says(scram.first, CHALLENGE, final, b"pencil2")
    for wrong in (signature, b"v=", b"v=AAAA", b"v=!", b"e=other-error", b"", b"\xff", signature[:-4]):
        with pytest.raises(ScramBroken):
            scram.check(wrong)


def test_a_signature_before_the_challenge_proves_nothing():
    with pytest.raises(ScramBroken):
        exchange().check(b"v=")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"e=unknown-user",
        b"r=somebody else's,s=AAAA,i=4096",
        f"r={NONCE},s={SALT},i=4096".encode(),
        f"r={NONCE}x,s={SALT},i=0".encode(),
        f"r={NONCE}x,s={SALT},i=-1".encode(),
        f"r={NONCE}x,s={SALT},i=4096 ".encode(),
        f"r={NONCE}x,s=%,i=4096".encode(),
        f"r={NONCE}x,s=AAA,i=4096".encode(),
        f"s={SALT},r={NONCE}x,i=4096".encode(),
        f"m=ext,r={NONCE}x,s={SALT},i=4096".encode(),
        f"r={NONCE}\xff,s={SALT},i=4096".encode("latin-1"),
    ],
)
def test_a_challenge_that_is_none_is_refused(challenge):
    with pytest.raises(ScramBroken):
        exchange().answer(challenge)


def test_a_server_cannot_keep_us_computing():
    with pytest.raises(ScramBroken, match="rounds"):
        exchange().answer(f"r={NONCE}x,s={SALT},i={MOST_ITERATIONS + 1}".encode())


@pytest.mark.parametrize(
    ("password", "prepared"),
    [
        ("pencil", b"pencil"),
        ("I\u00adX", b"IX"),
        ("\u00aa", b"a"),
        ("\u2168", b"IX"),
        ("a\u00a0b", b"a b"),
        ("\u1680x\u1806", b" x"),
        ("A\u030a", "Å".encode()),
        ("ﬁ", b"fi"),
        # What SASLprep refuses is hashed as it is, here and in the server.
        ("\x07ü", "\x07ü".encode()),
        ("\u0627\u0031", "\u0627\u0031".encode()),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628".encode()),
        ("\u0627a\u0628", "\u0627a\u0628".encode()),
        ("\u00ad", "\u00ad".encode()),
        ("\U0001f600", "\U0001f600".encode()),
        ("\x07", b"\x07"),
    ],
)
def test_passwords_are_prepared_as_rfc_4013_has_it(password, prepared):
    assert prepare(password) == prepared
