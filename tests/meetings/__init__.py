"""What happens when two commands meet: the matrix of all that write, and a long-lived team.

- `world`: two machines on one bucket in memory, which can be put back to where a test began.
- `arguments`: a command line for every command of the table, made from what it declares.
- `observe`: what two runs have to agree on.
- `matrix`: one command paused at a step while another one runs, against the serial orders.
"""
