"""Azure Blob Storage: `store` is the adapter."""
