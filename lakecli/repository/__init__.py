"""The operations: one module per verb, named as its command.

The only package where committed trees, refs and staging meet. May import everything below it;
re-exports nothing. Start at `lakecli.repository.lake`.
"""
