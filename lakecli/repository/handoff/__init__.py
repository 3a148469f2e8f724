"""Handing data over to people who have no lakecli, and taking in what they send.

::

    links      signs URLs; names: quotes names; documents: writes in one format
    manifest, lists, page, scripts   the formats; partner: what scripts are made of
    check      compares a manifest with the present
    incoming   takes in objects; foreign: records objects elsewhere

`links` signs a URL for every object below a prefix; everything else is a way to write them down:
manifests, lists for other programs, a page, download scripts. ``partner/`` holds what those
scripts are made of. `check` compares a manifest with the present, `incoming` takes in what came by
PUT links, and `foreign` records objects that lie elsewhere.

URLs are secrets: whoever has one can read its object until it ends. They are written where they
were asked for, into files that only their owner can read, and nowhere else.
"""
