"""The settings: their names, values and sources, the directories on a machine, and the committer.

::

    keys      the names and meanings of all settings, and the parsers of their values
    home      the directories of lakecli on a machine, and the configuration file
    lakectl   reads settings from lakectl's configuration file and variables
    settings  the precedence of sources; the committer

This package may import `base` and the layers below.
"""
