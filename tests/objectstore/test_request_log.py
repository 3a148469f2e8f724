"""The debug message for each response."""

from __future__ import annotations

import subprocess
import sys

WHILE_ANOTHER_THREAD_IMPORTS = """
import sys, threading
from lakecli.objectstore.request_log import log_response

class Slow:  # `logging` needs `string`: importing both takes until it is let go
    asked, go_on = threading.Event(), threading.Event()

    def find_spec(self, name, path=None, target=None):
        if name == "string":
            self.asked.set()
            assert self.go_on.wait(20)

for name in ("logging", "string"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Slow())
first = threading.Thread(target=__import__, args=("logging",))
first.start()
assert Slow.asked.wait(20)
assert "logging" in sys.modules
threading.Timer(0.1, Slow.go_on.set).start()
log_response("GET", "https://bucket.example/key", 200)
first.join()
print(hasattr(sys.modules["logging"], "getLogger"))
"""


def test_a_response_is_logged_while_another_thread_imports_logging() -> None:
    """Workers of one download import different clients, and these import `logging`."""
    ended = subprocess.run(
        [sys.executable, "-c", WHILE_ANOTHER_THREAD_IMPORTS],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("True\n", "")
