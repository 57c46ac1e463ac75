"""A credential cannot be had, held, or given back."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError, UsageError


class HostNotUnderstood(UsageError):
    """A host, port or URL is not one that could ever be reached; nothing was looked up."""

    code = "ERR_EGRESS_HOST"

    def __init__(self, text: str, why: str) -> None:
        # What a box sends may hold anything; a message is one printable line.
        shown = ascii(text if len(text) <= 80 else text[:79] + "~")  # noqa: PLR2004 - a line of a message
        super().__init__(f"{shown} is no host that can be reached: {why}.")
        self.text = text
        self.why = why


class EgressRefused(KaguraError):
    """A connection out of a box was not made. `status` is what an HTTP proxy answers."""

    code = "ERR_EGRESS"
    status = 502

    def __init__(self, host: str, port: int, why: str, advice: str = "") -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        super().__init__(f"{place} {why}." + (f" {advice}" if advice else ""))
        self.host = host
        self.port = port
        self.why = why


class EgressDenied(EgressRefused):
    """It is not granted, a person said no, or it leads to an address that no box may reach."""

    code = "ERR_EGRESS_DENIED"
    status = 403


class EgressUnreachable(EgressRefused):
    """It is granted, and could not be resolved or did not answer."""

    code = "ERR_EGRESS_UNREACHABLE"
    status = 502


class EgressBusy(EgressRefused):
    """Too much of it at once, connections or questions to a person; later it may be otherwise."""

    code = "ERR_EGRESS_BUSY"
    status = 503


class EgressSignInRefused(EgressRefused):
    """It was reached, and the session that the membrane wanted to start there for a box did not come about.

    `state` is what the protocol's own error codes call it, where they do (an SQLSTATE); `advice` stands in the text.
    """

    code = "ERR_EGRESS_SIGN_IN"
    status = 502

    def __init__(self, host: str, port: int, why: str, advice: str = "", *, state: str = "") -> None:
        super().__init__(host, port, why, advice)
        self.advice = advice
        self.state = state


class ApprovalError(KaguraError):
    """Something needs a person's word."""

    code = "ERR_APPROVAL"


class ApprovalRequired(ApprovalError):
    """An approval is needed and nobody is there who could give it."""

    code = "ERR_APPROVAL_REQUIRED"

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} needs an approval: {reason}.")
        self.subject = subject
        self.reason = reason


class ApprovalDenied(ApprovalError):
    """A person, a policy or the deadline said no."""

    code = "ERR_APPROVAL_DENIED"

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(f"{subject} was not approved: {why}.")
        self.subject = subject
        self.why = why


class ApprovalAborted(ApprovalError):
    """The person called the whole thing off while being asked."""

    code = "ERR_APPROVAL_ABORTED"

    def __init__(self, subject: str) -> None:
        super().__init__(f"The approval of {subject} was called off, and the run with it.")
        self.subject = subject


class ApprovalUnknown(ApprovalError):
    """No approval bears this id."""

    code = "ERR_APPROVAL_UNKNOWN"

    def __init__(self, approval_id: str, why: str = "") -> None:
        super().__init__(f"{why or f'There is no approval {approval_id!r}.'} `%kagura approvals` lists them.")
        self.approval_id = approval_id


class ApprovalExpired(ApprovalError):
    """Nobody answered by the deadline, which is a denial; this answer came later."""

    code = "ERR_APPROVAL_EXPIRED"

    def __init__(self, approval_id: str) -> None:
        super().__init__(
            f"Approval {approval_id} had a deadline, and it is over: no answer is a denial. "
            "If the run goes on, it may ask again."
        )
        self.approval_id = approval_id


class ApprovalAlreadyDecided(ApprovalError):
    """Somebody was faster; the first decision stands."""

    code = "ERR_APPROVAL_DECIDED"

    def __init__(self, approval_id: str, verdict: str, by: str) -> None:
        super().__init__(f"Approval {approval_id} was already decided: {verdict} by {by}.")
        self.approval_id = approval_id
        self.verdict = verdict
        self.by = by


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
