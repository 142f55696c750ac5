"""Roles of processes, and what both kinds of fleet have in common."""
from . import fleet_base, role_maker
