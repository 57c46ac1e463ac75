"""What runs in the scan's own process: standard library only, and every import among these files is relative.

Nothing of a plugin is ever run here. The process has no more memory and processor time than a scan needs, so that a
source which is too much for Python's parser ends this process and nothing else.
"""
