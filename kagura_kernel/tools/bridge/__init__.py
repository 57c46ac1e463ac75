"""What runs in a box beside a toolset's server: between its standard streams, or its URL, and the host.

Standard library only, any Python from 3.8. It is sent into the box as it is and trusted with nothing: whoever is on the
host bounds and checks every message.
"""
