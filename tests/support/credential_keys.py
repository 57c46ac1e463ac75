"""Keys that open nothing, made when they are first needed: for fakes that check signatures."""

from __future__ import annotations

import json
from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


@cache
def _key(number: int) -> rsa.RSAPrivateKey:
    del number  # only tells keys apart
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def private_pem(number: int = 1) -> str:
    """The private key of this number, the same each time within a process."""
    return _key(number).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_pem(number: int = 1) -> str:
    """Its public half."""
    return _key(number).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def service_account(token_uri: str, number: int = 1) -> str:
    """A Google service account's key file around the private key of this number."""
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": f"key-{number}",
            "private_key": private_pem(number),
            "client_email": "robot@project.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": token_uri,
        }
    )
