"""Shared by all other parts: errors, units, the columns of the tables, packaged files."""
