"""Hand data over to people without lakecli, and take in what they send.

::

    links             a signed URL for every object below a prefix
    names             their names, quoted
    manifest, script  formats that list them; partner_blake3: how a script verifies
    documents         a file in one of the formats, written while the links stream
    incoming          objects sent to PUT links, and objects recorded where they lie

URLs are secrets: everybody who has one can read its object until it expires. They are written only
where the user asked for them, into files that only their owner can read. The package stands on
`transfer` and the rooms below it.
"""
