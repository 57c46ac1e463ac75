"""A small corpus with questions whose answers are known: how well does a memory find again what it was told?"""
