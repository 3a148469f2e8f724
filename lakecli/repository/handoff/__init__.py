"""Hand data over to people without lakecli, and take in what they send.

::

    page             what all web pages have in common
    links            a signed URL for one object, or for every object below a prefix; names, quoted
    manifest         lists of them as JSON, CSV or a page, read again and checked
    download_script  a script that downloads them: partner_environment.sh, which chooses what may
                     run, partner.sh, and partner_blake3 where b3sum is missing
    link_sets        many PUT links, recorded in the namespace; what came by them, staged together
    upload_documents a page and a script that send files to a set of links
    incoming         objects sent to PUT links, and objects recorded where they lie

URLs are secrets: everybody who has one can read its object until it expires. They are written only
where the user asked for them, into files that only their owner can read. May import
`stored_objects` and what is below.
"""
