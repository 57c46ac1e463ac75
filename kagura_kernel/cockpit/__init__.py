"""Where a person steers: intents come in, sessions go on, approvals wait at the desk."""
