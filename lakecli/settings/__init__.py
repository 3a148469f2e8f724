"""The settings: their names and values, where they come from, places on a machine, who commits.

May import base, errors and what is below.

Modules: committer, file, home, keys, lakectl, settings, values.
"""
