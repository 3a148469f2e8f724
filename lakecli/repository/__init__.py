"""The operations: one module per verb, named as its command.

The only package where committed trees, refs and staging meet. May import everything below it;
re-exports nothing. Start at `lakecli.repository.core.lake`. Which module is about what::

    repositories    repo
    refs            branch, tag, rev_parse
    history         commit, merge, pick (revert and cherry-pick), log, diff, reflog
    objects         objects, rearrange (rm, cp, mv), deposit; presign
    transfers       upload with upload_plan, download; transfer: what both are made of
    collaboration   clone, fetch, push, pull, follow, sync, status; sharing: what they are made of;
                    handoff: for people who have no lakecli
    undo            the operation log, and taking operations back
    check           fsck, doctor; repair: healing
    core            what every verb stands on
"""
