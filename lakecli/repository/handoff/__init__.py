"""Hand data over to people without lakecli, and take in what they send.

::

    links      makes URLs; signing: signs them, in threads or processes
    names      quotes names; documents: writes in one format
    manifest, lists, page, scripts   the formats; partner: what scripts are made of
    check      compares a manifest with the present
    incoming   takes in objects; foreign: records objects elsewhere

`links` signs a URL for every object below a prefix; everything else is a way to write them down:
manifests, lists for other programs, a page, download scripts. ``partner/`` holds what those
scripts are made of. `check` compares a manifest with the present, `incoming` takes in what came by
PUT links, and `foreign` records objects that lie elsewhere.

URLs are secrets: everybody who has one can read its object until it expires. They are written only
where the user asked for them, into files that only their owner can read.
"""
