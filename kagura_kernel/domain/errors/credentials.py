"""A credential cannot be had, held, or given back."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError


class CredentialError(KaguraError):
    """A credential cannot be had, held, or given back."""

    code = "ERR_CREDENTIAL"


class GrantMissing(CredentialError):
    """Nobody granted this credential to this run; nothing is granted by default."""

    code = "ERR_GRANT_MISSING"

    def __init__(self, provider: str, scope: str) -> None:
        super().__init__(
            f"{provider}:{scope} is not granted to this run. Grant exactly this with `--grant {provider}:{scope}`."
        )
        self.provider = provider
        self.scope = scope


class SecretUnavailable(CredentialError):
    """A secret that the configuration refers to cannot be read; neither it nor its place is repeated."""

    code = "ERR_SECRET_UNAVAILABLE"

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(f"The secret behind {setting} cannot be read: {why}.")
        self.setting = setting
        self.why = why


class LeaseRefused(CredentialError):
    """The provider said no, and will say so again: a wrong key, a missing right, an unknown scope."""

    code = "ERR_LEASE_REFUSED"

    def __init__(self, provider: str, why: str) -> None:
        super().__init__(
            f"{provider} gave no credential: {why}. Check its key and its rights in the providers' configuration."
        )
        self.provider = provider
        self.why = why


class LeaseUnavailable(CredentialError):
    """The provider could not be asked, or did not answer sensibly; later it may.

    `uncertain` says that it may have made a credential all the same, `retry_after` when it wants to be asked again.
    """

    code = "ERR_LEASE_UNAVAILABLE"

    def __init__(self, provider: str, why: str, *, uncertain: bool = False, retry_after: float | None = None) -> None:
        super().__init__(f"{provider} cannot give a credential now: {why}. Try again later.")
        self.provider = provider
        self.why = why
        self.uncertain = uncertain
        self.retry_after = retry_after


class LeaseUnknown(CredentialError):
    """No run that goes on holds such a lease."""

    code = "ERR_LEASE_UNKNOWN"

    def __init__(self, lease_id: str) -> None:
        super().__init__(
            f"No run holds a lease {lease_id!r}. `%kagura leases` lists those that are held; what runs have left at "
            "providers stands in `kagura-kernel leases`."
        )
        self.lease_id = lease_id


class LeaseElsewhere(CredentialError):
    """The lease is held by a run of another process, and only there can this be done."""

    code = "ERR_LEASE_ELSEWHERE"

    def __init__(self, lease_id: str, run_id: str, where: str) -> None:
        super().__init__(
            f"{lease_id} is held by {run_id} in another kernel{where}. Extend it in that run's own card, or there with "
            f"`%kagura extend {lease_id}`; it can be revoked from here."
        )
        self.lease_id = lease_id
        self.run_id = run_id


class LeaseEnded(CredentialError):
    """The lease is over, or on hold; its credential is not given out."""

    code = "ERR_LEASE_ENDED"

    def __init__(self, provider: str, scope: str, why: str, *, on_hold: bool = False) -> None:
        state = "on hold" if on_hold else "over"
        next_step = "Try again once that is settled." if on_hold else "Ask for it again."
        super().__init__(f"The lease of {provider}:{scope} is {state}: {why}. {next_step}")
        self.provider = provider
        self.scope = scope
        self.why = why


class InjectionFailed(CredentialError):
    """A lease cannot be used from inside a box the way it was meant to be; the box was given no secret."""

    code = "ERR_INJECTION"

    def __init__(self, provider: str, scope: str, why: str) -> None:
        super().__init__(f"The lease of {provider}:{scope} cannot be used in the box: {why}.")
        self.provider = provider
        self.scope = scope
        self.why = why
