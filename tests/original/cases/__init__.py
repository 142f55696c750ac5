"""Groups of cases; each file has its records in records/."""
