"""Google Cloud Storage: `store` is the adapter."""
