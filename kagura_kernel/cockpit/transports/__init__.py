"""Chats that the cockpit is reached over: each is a normaliser only, and what it means is said in one place for all."""
