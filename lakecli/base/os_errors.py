"""Errors of the operating system that concern the machine, such as a full disk, not one file."""

import errno
from typing import Final

_SPACE: Final = "free some space, and repeat the command"
_FILES: Final = "let this process open more files (ulimit -n 4096), and repeat the command"

MACHINE_HINTS: Final = {
    errno.EMFILE: _FILES,
    errno.ENFILE: "close other programs: all files that this machine can open are open",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "use another disk, or let this process write larger files (ulimit -f)",
    errno.EROFS: "mount it writable, or name another directory",
    errno.EIO: "check the disk, and repeat the command",
    errno.ESTALE: "mount it again, and repeat the command",
    errno.ENOMEM: "close other programs, and repeat the command",
}
"""The hint for each error that would also occur with every other file."""

CANNOT_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of file systems that cannot sync directories; callers ignore these errors."""
