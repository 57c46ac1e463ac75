"""A certificate authority that nobody else trusts, made when it is first needed, and servers with its certificates."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_Made = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def trusting() -> ssl.SSLContext:
    """A client's context that trusts this authority and no other."""
    return ssl.create_default_context(cadata=authority().decode())


@cache
def serving(name: str) -> ssl.SSLContext:
    """A server's context with a certificate for this host name or address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.pem"
        path.write_bytes(certificate(name))
        context.load_cert_chain(path)
    return context


@cache
def certificate(name: str) -> bytes:
    """A certificate for this host name or address with its key, as PEM."""
    signed, key = _signed(name)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return signed.public_bytes(Encoding.PEM) + private


def authority() -> bytes:
    """The authority's own certificate, as PEM."""
    return _authority()[0].public_bytes(Encoding.PEM)


@cache
def _authority() -> _Made:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("a test's authority")
    builder = _builder(name, name, key, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return builder.add_extension(usage, critical=True).sign(key, SHA256()), key


def _signed(name: str) -> _Made:
    issuer, signer = _authority()
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        subject: x509.GeneralName = x509.IPAddress(ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    builder = _builder(_name(name), issuer.subject, key, signer).add_extension(
        x509.SubjectAlternativeName([subject]), critical=False
    )
    return builder.sign(signer, SHA256()), key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """Whose keys are whose is said in it: from Python 3.13 on, nothing else is trusted."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
