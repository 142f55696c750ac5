"""Names of the original's message files: the numbers of their enumerations, and where messages are read here."""
