"""``python -m lakecli.cli.manual.generate [DIRECTORY]``: write ``man/`` and ``completions/``.

Both are generated from the command tree, and the same tree always gives the same files. A test
compares them with the files in the repository.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from lakecli.cli.manual import man
from lakecli.cli.manual.completion import SHELLS, completion_script
from lakecli.cli.manual.describe import describe_all
from lakecli.cli.manual.topics import find_topic, topic_names


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield the path, relative to the repository, and the text of every generated file."""
    commands = describe_all()
    for shell, name in SHELLS.items():
        yield f"completions/{name}", completion_script(shell, commands)
    topics = [topic for name in topic_names() if (topic := find_topic(name)) is not None]
    yield "man/man1/lakecli.1", man.main_page(commands, topics)
    for topic in topics:
        yield f"man/man7/lakecli-{topic.name}.7", man.topic_page(topic)
    for command in commands:
        page = man.command_page(command, man.siblings(command, commands))
        yield f"man/man1/{man.page_name(command.words)}.1", page


def write(directory: Path) -> None:
    """Write all files below a directory, and remove the manual pages that are out of date."""
    files = dict(generated_files())
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for page in (directory / "man").rglob("lakecli*.[17]"):
        if page.relative_to(directory).as_posix() not in files:
            page.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[3])
