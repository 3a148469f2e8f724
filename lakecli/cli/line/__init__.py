"""The words of a command line, from what a user types to the call of a command."""
