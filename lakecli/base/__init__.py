"""Records, IDs, URIs, object keys of the bucket, and small tools that every other package may use.

This package knows neither stores nor settings. May import `errors` and what is below.

Modules: content_types, directories, git_patterns, identity, ids, layout, model, os_errors, parsing,
pipes, progress, retry, temporary_files, uri, validation, visibility.
"""
