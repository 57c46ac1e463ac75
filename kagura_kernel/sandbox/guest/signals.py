"""The signals that the guest knows; the `signal` package costs three milliseconds, its engine nothing."""

from __future__ import annotations

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from signal import (
        SIG_DFL,
        SIG_IGN,
        SIGCHLD,
        SIGHUP,
        SIGINT,
        SIGKILL,
        SIGPIPE,
        SIGQUIT,
        SIGSTOP,
        SIGTERM,
        SIGXFSZ,
        set_wakeup_fd,
        signal,
    )
else:
    from _signal import (
        SIG_DFL,
        SIG_IGN,
        SIGCHLD,
        SIGHUP,
        SIGINT,
        SIGKILL,
        SIGPIPE,
        SIGQUIT,
        SIGSTOP,
        SIGTERM,
        SIGXFSZ,
        set_wakeup_fd,
        signal,
    )

__all__ = [
    "SIGCHLD",
    "SIGHUP",
    "SIGINT",
    "SIGKILL",
    "SIGPIPE",
    "SIGQUIT",
    "SIGSTOP",
    "SIGTERM",
    "SIGXFSZ",
    "SIG_DFL",
    "SIG_IGN",
    "set_wakeup_fd",
    "signal",
]
