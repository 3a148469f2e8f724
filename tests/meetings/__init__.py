"""What happens when two commands meet: the matrix of all that write, and a long-lived team.

- `world`: machines on one bucket in memory, restored to snapshots.
- `hook`: callbacks before each durable step.
- `arguments`: a command line for every command of the table, made from what it declares.
- `spark_write`: a command that writes a table as Spark does; `block_write`: a block of fsspec;
  `serve_put`: a PUT through `lakecli serve`.
- `situations`: where two commands begin.
- `observe`, `outcomes`: what a user can see afterwards, and when two outcomes agree.
- `accesses`, `recorder`: what commands read and write, and when it matters which of two is first.
- `serial`: commands alone, and one after the other.
- `matrix`, `oracle`: one command paused at a step while another one runs, compared with the serial
  orders.
- `model`, `losses`, `effects`: what the team should see, what a bucket may lose, and what is staged
  again when an operation is undone.
- `team`, `life`: commands of three people, chosen at random; `side`: between repositories.
- `mutants`: fixes taken out, each with a story that shows the defect.
"""
