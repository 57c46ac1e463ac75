"""What boxes of gVisor say of themselves that those of other back-ends need not say."""

TOO_OLD = "this release of runsc is too old for today's programs (`ls` fails in a box): install one from gVisor itself"
OPEN_PIPE = (
    "commands in this box can open the guest's pipe, which gVisor does not gate and Docker makes: one of them may read "
    "what is sent to another, or answer in the guest's place"
)
