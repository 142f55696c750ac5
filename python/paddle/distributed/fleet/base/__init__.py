"""Where programs look for role makers."""
from . import role_maker
