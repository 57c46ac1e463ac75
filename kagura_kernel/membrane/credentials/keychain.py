"""The keychain of this machine, by way of `keyring`; the only file that knows that library."""

from __future__ import annotations


class KeychainUnusable(Exception):
    """There is no keychain, it is locked, or it does not answer. The text never holds a secret."""


def from_keychain(service: str, username: str) -> str | None:
    """The secret of a service and a user name; None when there is none.

    Raises:
        KeychainUnusable: the keychain cannot be asked.
    """
    import keyring
    from keyring.errors import InitError, KeyringError, NoKeyringError

    try:
        return keyring.get_password(service, username)
    except NoKeyringError:
        raise KeychainUnusable("this machine has no keychain that keyring can use") from None
    except (InitError, KeyringError) as error:
        raise KeychainUnusable(f"the keychain does not open ({type(error).__name__})") from None
    # Back-ends are programs of others and raise what they like; without an answer there is no secret.
    except Exception as error:  # noqa: BLE001 - fails closed, see above
        raise KeychainUnusable(f"the keychain does not work ({type(error).__name__})") from None
