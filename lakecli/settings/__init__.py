"""The settings: their names and values, where they come from, places on a machine, who commits.

::

    keys      how values are written, and the names and meaning of all settings
    home      the directories of lakecli on a machine, and the configuration file
    lakectl   what is taken from lakectl's file and variables
    settings  which source wins; the committer

May import `base` and what is below.
"""
