"""Records, IDs, URIs, object keys of the bucket, and small tools that every other package may use.

This package may import `errors` and the layers below. It knows neither stores nor settings.

Modules: content_types, directories, git_patterns, identity, ids, layout, model, os_errors,
own_directory, parsing, pipes, progress, retry, temporary_files, uri, validation, visibility.
"""
