"""Fleets with parameter servers."""
