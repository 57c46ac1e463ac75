"""Credentials are leased: minted for one run, short-lived, counted, written down before they exist, and given back."""
