"""Every error this package raises on purpose, as one tree.

::

    KaguraError                          ERR_KAGURA
    ├── UsageError                       ERR_USAGE
    │   ├── UnknownName                  ERR_UNKNOWN_NAME
    │   ├── HostNotUnderstood            ERR_EGRESS_HOST
    │   └── NotThisTime                  ERR_UNSUPPORTED
    ├── ConfigurationError               ERR_CONFIGURATION
    │   └── NotInstalled                 ERR_NOT_INSTALLED
    ├── ExtensionBroken                  ERR_EXTENSION_BROKEN
    ├── SessionBusy                      ERR_SESSION_BUSY
    ├── SessionGone                      ERR_SESSION_GONE
    ├── SettingsChanged                  ERR_SETTINGS_CHANGED
    ├── ServedAlready                    ERR_SERVED_ALREADY
    ├── OutputUnwritable                 ERR_OUTPUT
    ├── BudgetExhausted                  ERR_BUDGET_EXHAUSTED
    ├── QuotaReached                     ERR_QUOTA
    ├── ApprovalError
    │   ├── ApprovalRequired             ERR_APPROVAL_REQUIRED
    │   ├── ApprovalDenied               ERR_APPROVAL_DENIED
    │   ├── ApprovalAborted              ERR_APPROVAL_ABORTED
    │   ├── ApprovalUnknown              ERR_APPROVAL_UNKNOWN
    │   ├── ApprovalExpired              ERR_APPROVAL_EXPIRED
    │   └── ApprovalAlreadyDecided       ERR_APPROVAL_DECIDED
    ├── CredentialError                  ERR_CREDENTIAL
    │   ├── GrantMissing                 ERR_GRANT_MISSING
    │   ├── SecretUnavailable            ERR_SECRET_UNAVAILABLE
    │   ├── LeaseRefused                 ERR_LEASE_REFUSED
    │   ├── LeaseUnavailable             ERR_LEASE_UNAVAILABLE
    │   ├── LeaseUnknown                 ERR_LEASE_UNKNOWN
    │   ├── LeaseElsewhere               ERR_LEASE_ELSEWHERE
    │   ├── LeaseEnded                   ERR_LEASE_ENDED
    │   └── InjectionFailed              ERR_INJECTION
    ├── EgressRefused                    ERR_EGRESS
    │   ├── EgressDenied                 ERR_EGRESS_DENIED
    │   ├── EgressUnreachable            ERR_EGRESS_UNREACHABLE
    │   ├── EgressBusy                   ERR_EGRESS_BUSY
    │   └── EgressSignInRefused          ERR_EGRESS_SIGN_IN
    ├── SandboxError
    │   ├── SandboxUnsupported           ERR_SANDBOX_UNSUPPORTED
    │   ├── SandboxUnavailable           ERR_SANDBOX_UNAVAILABLE
    │   │   └── SandboxDied              ERR_SANDBOX_DIED
    │   ├── SandboxProtocolError         ERR_SANDBOX_PROTOCOL
    │   ├── IsolationTooWeak             ERR_ISOLATION_TOO_WEAK
    │   ├── SandboxCommandTimeout        ERR_SANDBOX_COMMAND_TIMEOUT
    │   ├── SandboxIdleTimeout           ERR_SANDBOX_IDLE_TIMEOUT
    │   ├── BoxFileError                 ERR_BOX_FILE
    │   └── ImageBuildFailed             ERR_IMAGE_BUILD
    ├── HostError
    │   ├── HostCommandTimeout           ERR_HOST_COMMAND_TIMEOUT
    │   └── HostIdleTimeout              ERR_HOST_IDLE_TIMEOUT
    ├── WorkspaceError
    │   ├── WorkspaceUnreadable          ERR_WORKSPACE_UNREADABLE
    │   ├── WorkspaceRefused             ERR_WORKSPACE_REFUSED
    │   ├── WorkspaceTooLarge            ERR_WORKSPACE_TOO_LARGE
    │   ├── PathNotShown                 ERR_PATH_NOT_SHOWN
    │   ├── ChangesIncomplete            ERR_CHANGES_INCOMPLETE
    │   ├── ChangeConflict               ERR_CHANGE_CONFLICT
    │   ├── MergeOverlaps                ERR_MERGE_OVERLAPS
    │   ├── CannotUndo                   ERR_CANNOT_UNDO
    │   ├── CommitsRefused               ERR_COMMITS
    │   └── NotebookUnwritable           ERR_NOTEBOOK_UNWRITABLE
    ├── BrainError
    │   ├── BrainNotConfigured           ERR_BRAIN_NOT_CONFIGURED
    │   ├── BrainRefused                 ERR_BRAIN_REFUSED
    │   │   └── BrainForgot              ERR_BRAIN_FORGOT
    │   ├── BrainLost                    ERR_BRAIN_LOST
    │   ├── CassetteMissing              ERR_CASSETTE_MISSING
    │   └── CassetteBroken               ERR_CASSETTE_BROKEN
    ├── KitError                         ERR_KIT
    │   ├── AgentInvalid                 ERR_AGENT_INVALID
    │   ├── McpConfigInvalid             ERR_MCP_CONFIG
    │   ├── AgentNotFound                ERR_AGENT_NOT_FOUND
    │   ├── AgentUnavailable             ERR_AGENT_UNAVAILABLE
    │   ├── KitRefused                   ERR_KIT_REFUSED
    │   ├── KitUnwritable                ERR_KIT_UNWRITABLE
    │   ├── KitGone                      ERR_KIT_GONE
    │   ├── RedactionUnavailable         ERR_REDACTION
    │   ├── ToolsetError                 ERR_TOOLSET
    │   └── ToolHostsUnresolved          ERR_TOOL_HOSTS
    ├── JournalError
    │   ├── JournalMissing               ERR_JOURNAL_MISSING
    │   ├── JournalUnwritable            ERR_JOURNAL_UNWRITABLE
    │   │   └── JournalLocked            ERR_JOURNAL_LOCKED
    │   ├── JournalUnreadable            ERR_JOURNAL_UNREADABLE
    │   ├── JournalTooNew                ERR_JOURNAL_TOO_NEW
    │   └── JournalTampered              ERR_JOURNAL_TAMPERED
    ├── MemoryStoreError                 ERR_MEMORY
    │   ├── MemoryUnavailable            ERR_MEMORY_UNAVAILABLE
    │   ├── MemoryUnknown                ERR_MEMORY_UNKNOWN
    │   └── MemoryInvalid                ERR_MEMORY_INVALID
    ├── PluginError                      ERR_PLUGIN
    │   ├── PluginInvalid                ERR_PLUGIN_INVALID
    │   ├── PluginRefused                ERR_PLUGIN_REFUSED
    │   ├── PluginChangedSince           ERR_PLUGIN_CHANGED
    │   ├── PluginNotConfigured          ERR_PLUGIN_CONFIG
    │   ├── PluginQuarantined            ERR_PLUGIN_QUARANTINED
    │   ├── PluginFailed                 ERR_PLUGIN_FAILED
    │   ├── PluginCallRefused            ERR_PLUGIN_CALL
    │   ├── PluginBusy                   ERR_PLUGIN_BUSY
    │   ├── PluginTimeout                ERR_PLUGIN_TIMEOUT
    │   ├── PluginJailBroken             ERR_PLUGIN_JAIL
    │   ├── PluginRepositoryError        ERR_PLUGIN_REPOSITORY
    │   └── SignatureInvalid             ERR_PLUGIN_SIGNATURE
    ├── VariableError                    ERR_VARIABLE
    │   ├── VariableRefused              ERR_VARIABLE_REFUSED
    │   └── VariableMissing              ERR_VARIABLE_MISSING
    └── RunError
        ├── CellFailed                   ERR_CELL_FAILED
        ├── TurnsExhausted               ERR_TURNS_EXHAUSTED
        ├── RunUnknown                   ERR_RUN_UNKNOWN
        ├── NotHeard                     ERR_NOT_HEARD
        ├── RunOver                      ERR_RUN_OVER
        ├── RunDenied                    ERR_RUN_DENIED
        ├── RunFailed                    ERR_RUN_FAILED
        ├── RunKilled                    ERR_RUN_KILLED
        ├── RunLost                      ERR_RUN_LOST
        ├── WorkNotVerified              ERR_NOT_VERIFIED
        ├── ResumeRefused                ERR_RESUME_REFUSED
        └── WorkersUnavailable           ERR_WORKERS

A message says what happened, to what, and what to do next. It never holds a secret and never needs a
stack trace beside it. The data a program might want stands on attributes, so that nobody matches text.
"""

from kagura_kernel.domain.errors.base import (
    BudgetExhausted as BudgetExhausted,
    ConfigurationError as ConfigurationError,
    ExtensionBroken as ExtensionBroken,
    KaguraError as KaguraError,
    NotInstalled as NotInstalled,
    NotThisTime as NotThisTime,
    OutputUnwritable as OutputUnwritable,
    QuotaReached as QuotaReached,
    ServedAlready as ServedAlready,
    SessionBusy as SessionBusy,
    SessionGone as SessionGone,
    SettingsChanged as SettingsChanged,
    UnknownName as UnknownName,
    UsageError as UsageError,
    shorten as shorten,
)
from kagura_kernel.domain.errors.credentials import (
    ApprovalAborted as ApprovalAborted,
    ApprovalAlreadyDecided as ApprovalAlreadyDecided,
    ApprovalDenied as ApprovalDenied,
    ApprovalError as ApprovalError,
    ApprovalExpired as ApprovalExpired,
    ApprovalRequired as ApprovalRequired,
    ApprovalUnknown as ApprovalUnknown,
    CredentialError as CredentialError,
    EgressBusy as EgressBusy,
    EgressDenied as EgressDenied,
    EgressRefused as EgressRefused,
    EgressSignInRefused as EgressSignInRefused,
    EgressUnreachable as EgressUnreachable,
    GrantMissing as GrantMissing,
    HostNotUnderstood as HostNotUnderstood,
    InjectionFailed as InjectionFailed,
    LeaseElsewhere as LeaseElsewhere,
    LeaseEnded as LeaseEnded,
    LeaseRefused as LeaseRefused,
    LeaseUnavailable as LeaseUnavailable,
    LeaseUnknown as LeaseUnknown,
    SecretUnavailable as SecretUnavailable,
)
from kagura_kernel.domain.errors.kit import (
    AgentInvalid as AgentInvalid,
    AgentNotFound as AgentNotFound,
    AgentUnavailable as AgentUnavailable,
    KitError as KitError,
    KitGone as KitGone,
    KitRefused as KitRefused,
    KitUnwritable as KitUnwritable,
    McpConfigInvalid as McpConfigInvalid,
    PluginBusy as PluginBusy,
    PluginCallRefused as PluginCallRefused,
    PluginChangedSince as PluginChangedSince,
    PluginError as PluginError,
    PluginFailed as PluginFailed,
    PluginInvalid as PluginInvalid,
    PluginJailBroken as PluginJailBroken,
    PluginNotConfigured as PluginNotConfigured,
    PluginQuarantined as PluginQuarantined,
    PluginRefused as PluginRefused,
    PluginRepositoryError as PluginRepositoryError,
    PluginTimeout as PluginTimeout,
    RedactionUnavailable as RedactionUnavailable,
    SignatureInvalid as SignatureInvalid,
    ToolHostsUnresolved as ToolHostsUnresolved,
    ToolsetError as ToolsetError,
)
from kagura_kernel.domain.errors.memory import (
    MemoryInvalid as MemoryInvalid,
    MemoryStoreError as MemoryStoreError,
    MemoryUnavailable as MemoryUnavailable,
    MemoryUnknown as MemoryUnknown,
)
from kagura_kernel.domain.errors.run import (
    BrainError as BrainError,
    BrainForgot as BrainForgot,
    BrainLost as BrainLost,
    BrainNotConfigured as BrainNotConfigured,
    BrainRefused as BrainRefused,
    CassetteBroken as CassetteBroken,
    CassetteMissing as CassetteMissing,
    CellFailed as CellFailed,
    JournalError as JournalError,
    JournalLocked as JournalLocked,
    JournalMissing as JournalMissing,
    JournalTampered as JournalTampered,
    JournalTooNew as JournalTooNew,
    JournalUnreadable as JournalUnreadable,
    JournalUnwritable as JournalUnwritable,
    NotHeard as NotHeard,
    ResumeRefused as ResumeRefused,
    RunDenied as RunDenied,
    RunError as RunError,
    RunFailed as RunFailed,
    RunKilled as RunKilled,
    RunLost as RunLost,
    RunOver as RunOver,
    RunUnknown as RunUnknown,
    TurnsExhausted as TurnsExhausted,
    WorkersUnavailable as WorkersUnavailable,
    WorkNotVerified as WorkNotVerified,
)
from kagura_kernel.domain.errors.sandbox import (
    BoxFileError as BoxFileError,
    CannotUndo as CannotUndo,
    ChangeConflict as ChangeConflict,
    ChangesIncomplete as ChangesIncomplete,
    CommandTimeout as CommandTimeout,
    CommitsRefused as CommitsRefused,
    HostCommandTimeout as HostCommandTimeout,
    HostError as HostError,
    HostIdleTimeout as HostIdleTimeout,
    ImageBuildFailed as ImageBuildFailed,
    IsolationTooWeak as IsolationTooWeak,
    MergeOverlaps as MergeOverlaps,
    NotebookUnwritable as NotebookUnwritable,
    PathNotShown as PathNotShown,
    SandboxCommandTimeout as SandboxCommandTimeout,
    SandboxDied as SandboxDied,
    SandboxError as SandboxError,
    SandboxIdleTimeout as SandboxIdleTimeout,
    SandboxProtocolError as SandboxProtocolError,
    SandboxUnavailable as SandboxUnavailable,
    SandboxUnsupported as SandboxUnsupported,
    VariableError as VariableError,
    VariableMissing as VariableMissing,
    VariableRefused as VariableRefused,
    WorkspaceError as WorkspaceError,
    WorkspaceRefused as WorkspaceRefused,
    WorkspaceTooLarge as WorkspaceTooLarge,
    WorkspaceUnreadable as WorkspaceUnreadable,
)
