"""Servers, builders and helpers for the tests.

::

    parts                        which tests the short run leaves to the long one
    azurite, azure_versions      Azure's emulator, also over TLS; a small Azure that keeps versions
    gcs, gcs_server, gcs_parts   Google Cloud Storage as a server that is as strict as the real one
    servers, moto_server         S3 servers, and a stub that gives any answer
    serving                      `lakecli serve` as a process of its own
    slow_server                  a server that answers byte by byte
    spark, environments          one Spark session for all tests of a process; other Pythons for it
    in_process_spark             Spark without Java, whose only executor is this process
    flaky, proxies               proxies that fail, delay or change requests
    counting, faulty             stores that count requests, and that fail as a test says
    memory_store                 buckets in memory
    stores                       transactions on a local store that are rolled back
    lakes, clones                lakes with clocks and IDs that repeat; clones of one namespace
    demo, golden, terminal       the command line: a repository, recorded runs, a pseudo-terminal
    hints                        runs each command that is printed as advice
    command_lines, schemas       a line for every command; the schemas of its JSON
    crashes                      commands whose process is killed at a named step
    disk                         what a disk holds after a power cut; what a process has open
    blocks                       an encoder of SSTable blocks, for files that lakecli does not write
    forge, forgeries             namespaces written byte for byte by an attacker
    canaries                     files of every name that a program could load, which say so
    script_canaries              files with every name that a program might load
    jail                         buckets in memory, and a record of what a command touched
    git_merges                   trees that are dicts in a Git repository, and its merges of them
    graphs, histories            commit graphs from a line of text; histories of many commits
    collection                   states of garbage collection
    recorded_progress            a `Progress` that adds up what was reported
    partners, signing            a partner with curl; a namespace that signs URLs offline
    sockets                      a file that is no data
    lakefs_files, lakefs_entries files that lakeFS wrote; entries as it writes them
    lakectl                      the commands and options of lakectl
    lakefs_server                a lakeFS server as its dumps show it
    worktrees, exchanges         working directories; one that is exchanged for a link meanwhile
    cores                        the compiled core, and tests with and without it
    tools, waits                 programs that a test needs; waits for a bucket that end at once
    clients                      Python environments of clients that do not fit the tests' own
"""
