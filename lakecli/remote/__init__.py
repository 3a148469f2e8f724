"""What clones share in the bucket: ref objects and how they move, commit packs, the reflog."""
