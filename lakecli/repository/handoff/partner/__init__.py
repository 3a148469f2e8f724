"""What runs on a partner's machine: sources that scripts are put together from.

They use nothing but Python's standard library, from version 3.6 on, or POSIX's shell and curl.
"""
