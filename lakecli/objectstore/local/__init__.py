"""A directory of this machine: `store` is the adapter."""
