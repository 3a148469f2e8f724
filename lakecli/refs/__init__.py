"""Names, ref expressions and history; may import kv, layout, uri, model and what is below."""
