"""The protocol of refs and collection, as lakecli carries it out, with a fault at every request.

Two or three clones share a bucket in memory. One of them runs a command, and one of its requests
fails: it does not arrive, its reply is lost, it arrives late, the store refuses it, or the process
is killed. Meanwhile another clone may run commands of its own. An enumerator tries every fault of
every request, with and without the other clone; nothing is random.

`bucket` has the bucket, its faults, and a record of all writes. `model` knows only what the tests
did and what the writes say, as JSON; it imports nothing of lakecli. `scenes` has the commands, and
`mutants` has defects of the protocol that the enumerator finds.

`tests/gc/protocol.py` explores a model of the protocol, with more clones than can be run.
"""
