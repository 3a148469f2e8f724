"""What a storage namespace holds, as a whole.

::

    data_index    an index of its data objects, on disk
    packs         its commit packs, damaged ones included; when a listing is done twice
"""
