"""Cases in which ours is not the original, and why. docs/departures.md tells users."""

# case -> heading on the page
DEPARTURES = {}

# case -> what is wrong with ours
KNOWN_DEFECTS = {}

# case -> (how many times the bound of compare.py is allowed, reason)
FACTORS = {}
