"""Send data to people without lakecli, and stage the files that they send.

::

    page             the parts that all web pages share
    links            signed URLs for one object, or for every object below a prefix; escaped names
    manifest         lists of links as JSON, CSV or a page; reading and checking such lists
    download_script  a script that downloads the objects: partner_environment.sh, which chooses the
                     programs to use, partner.sh, and partner_blake3 if b3sum is missing
    link_sets        sets of PUT links, recorded in the namespace; stages the files sent to a set
    upload_documents a page and a script that send files to a set of links
    incoming         stages objects sent to PUT links, and objects in other buckets

URLs are secrets: everybody who has a URL can read its object until the URL expires. URLs are
written only where the user asked for them, into files that only their owner can read. This package
may import `stored_objects` and the layers below.
"""
