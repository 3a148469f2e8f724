"""Detection of network file systems, on which LMDB's locks and memory maps do not work."""

from __future__ import annotations

import re
from typing import Final

MOUNT_TABLE: Final = "/proc/mounts"

NETWORK_TYPES: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "coda", "davfs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "beegfs_nodev", "pvfs2", "orangefs"),
        *("ocfs2", "gfs2", "panfs", "wekafs", "vboxsf", "vmhgfs", "prl_fs"),
    }
)
"""File system types; types ``fuse.<helper>`` with a helper in `NETWORK_HELPERS` count too."""

NETWORK_HELPERS: Final = frozenset(
    {
        *("sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "geesefs", "mount-s3", "mountpoint-s3"),
        *("blobfuse", "blobfuse2", "juicefs", "glusterfs", "ceph", "ceph-fuse", "davfs", "davfs2"),
        *("curlftpfs", "smbnetfs", "objectivefs", "cvmfs2", "hdfs", "alluxio-fuse", "seaweedfs"),
        *("vmhgfs-fuse", "dfuse"),
    }
)


def network_type(directory: bytes, mount_table: bytes) -> str | None:
    """Return the file system type under `directory` if it is a network's, else ``None``.

    Args:
        directory: absolute, symbolic links resolved.
        mount_table: the text of ``/proc/mounts``; of two mounts on one path the later one counts.
    """
    best = b""
    found = ""
    for line in mount_table.splitlines():
        fields = line.split(b" ")
        if len(fields) < 3:  # noqa: PLR2004 - device, place and type
            continue
        place = _unescape(fields[1])
        inside = directory == place or directory.startswith(place.rstrip(b"/") + b"/")
        if inside and len(place) >= len(best):
            best, found = place, fields[2].decode("ascii", "replace")
    helper = found.removeprefix("fuse.")
    is_network = found in NETWORK_TYPES or (helper != found and helper in NETWORK_HELPERS)
    return found if is_network else None


def _unescape(place: bytes) -> bytes:
    """Undo the kernel's octal escapes of blanks, tabs, newlines and backslashes."""
    if b"\\" not in place:
        return place
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8) & 0xFF]), place)
