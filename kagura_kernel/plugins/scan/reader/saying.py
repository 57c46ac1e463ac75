"""The sentences of findings about what is referred to, and the reach of our own library."""

from __future__ import annotations

from .modules import BACKGROUND, CODE, FILES, MUTATION, NETWORK, OUTSIDE, SDK, UNKNOWN_NAME
from .references import ATTRIBUTE, COMPUTED, THROUGH, UNFOLLOWED

SAID = {
    "process-execution": "{} starts or controls processes.",
    CODE: "{} runs code that the scan cannot see.",
    "dynamic-import": "{} loads modules by a name that the source does not show.",
    "native-code-use": "{} leads to native code.",
    "interpreter-escape": "{} reaches into the interpreter.",
    OUTSIDE: "{} is not among the modules that a plugin may import.",
    FILES: "{} uses the file system.",
    NETWORK: "{} uses the network.",
    "environment": "{} shows the environment that the plugin runs in.",
    MUTATION: "{} changes what other code relies on.",
    BACKGROUND: "{} works on beside the call.",
    "path-handling": "{} handles paths.",
    "mitigation": "{} guards against misuse.",
    THROUGH: "{} is a module that is reached through another one.",
    UNFOLLOWED: "{} reaches attributes by names that the source does not show.",
    COMPUTED: "{} reaches attributes by a path that the source does not show.",
    UNKNOWN_NAME: "{} is not known to be harmless.",
    ATTRIBUTE: "{} leads into the interpreter.",
}
"""By rule; a finding fills in the name."""

LIBRARY = {
    "descent": {"read"},
    "reading": {"read"},
    "writing": {"write"},
    "https": {"net"},
    "database": {"read", "net"},
    "sqlite": {"read"},
    "postgres": {"net"},
    SDK: {"read", "write", "net"},
}
"""What each part of `kagura_plugin` reaches for."""
