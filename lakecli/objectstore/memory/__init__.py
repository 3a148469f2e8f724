"""A bucket in memory, for tests and for trying things out: `store` is the adapter."""
