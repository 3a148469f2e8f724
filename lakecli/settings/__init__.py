"""The settings: their names, values and sources, the directories on a machine, and the committer.

::

    keys      how values are written, and the names and meaning of all settings
    home      the directories of lakecli on a machine, and the configuration file
    lakectl   the settings that come from lakectl's file and variables
    settings  the precedence of sources; the committer

May import `base` and what is below.
"""
