"""Importing what lies elsewhere: a listing becomes the tree of a branch, without moving bytes.

A *source* (`files`, `listing`, `manifest`, `inventory`) plans parts, each an interval of keys; a
part gives its objects as sorted `rows`. `part` makes ranges of one part wherever a runner puts
it, merging what the branch has there. `stitch` joins the parts on the driver, and copies whatever
the branch has outside of the prefix. `job` holds it together; `journal` lets it go on after a kill.
"""
