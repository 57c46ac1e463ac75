"""The small process beside the kernel that starts boxes and ends them: standard library only, but for `client`."""
