"""Repositories of plugins: signed indexes by The Update Framework, which a person trusts once by their first root."""
