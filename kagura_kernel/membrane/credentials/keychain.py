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


def keychain_name() -> str:
    """What this machine's keychain is called; asks it for nothing, so that none has to be unlocked.

    Raises:
        KeychainUnusable: there is none that could keep a secret.
    """
    import keyring

    # Back-ends are programs of others and raise what they like.
    try:
        found = keyring.get_keyring()
        # Several in a row: the first of them is the one that keeps.
        first = next(iter(getattr(found, "backends", ())), found)
        priority = float(first.priority)
    except Exception as error:  # noqa: BLE001 - whatever it is, there is no keychain
        raise KeychainUnusable(f"the keychain does not work ({type(error).__name__})") from None
    if priority <= 0:
        raise KeychainUnusable("this machine has no keychain that keyring can use")
    if type(first).__name__.startswith("Plaintext"):
        raise KeychainUnusable("the only keychain of this machine is a file of plain text")
    return str(first.name)


def keep_in_keychain(service: str, username: str, secret: str) -> None:
    """Keep a secret under a service and a user name, in place of the one that was there.

    Raises:
        KeychainUnusable: there is no keychain, it is a file of plain text, it is locked, or it does not take it.
    """
    import keyring

    keychain_name()
    # Back-ends are programs of others and raise what they like, perhaps with the secret in it.
    try:
        keyring.set_password(service, username, secret)
    except Exception as error:  # noqa: BLE001 - see above
        raise KeychainUnusable(f"the keychain does not take it ({type(error).__name__})") from None
