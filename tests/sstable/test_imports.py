"""Commands that never read a block do not pay for the C modules behind one."""

from __future__ import annotations

import subprocess
import sys


def test_the_reader_loads_no_codec_until_a_file_is_open() -> None:
    code = (
        "import sys, lakecli.sstable.reader, lakecli.sstable.writer;"
        "print(sorted({'cramjam', 'google_crc32c', 'hashlib', 'blake3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
