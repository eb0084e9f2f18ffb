"""Trunkline: one board between people, their agents and every model."""
