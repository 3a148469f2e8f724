"""What every other package may use: records, IDs, URIs, keys in a bucket, and small tools.

It knows neither stores nor settings. May import `errors` and what is below.

Modules: content_types, directories, identity, ids, layout, model, os_errors, parsing, pipes,
progress, retry, temporary_files, uri, validation, visibility.
"""
