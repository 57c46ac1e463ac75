"""The one way out of a box: by granted host and port, to an address that was checked, counted and recorded."""
