"""The append-only record of everything that happened, and the mailbox in which others leave their word."""
