"""Secrets in texts are found and replaced by markers, whatever carries them."""
