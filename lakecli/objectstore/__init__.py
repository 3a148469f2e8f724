"""Buckets and directories behind one small protocol, `base.ObjectStore`.

`registry.open_store` finds the adapter of a namespace's URI and imports it on first use: a cloud
SDK is loaded by the command that talks to that cloud and by no other. Imports nothing of lakecli
above `errors`. A new adapter is one module, one row in `registry.ADAPTERS`, and one subclass of
the contract in ``tests/objectstore/``.
"""
