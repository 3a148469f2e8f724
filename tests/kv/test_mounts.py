from __future__ import annotations

import pytest

from lakecli.kv.lmdb_environment import network_type

LOCAL = b"/dev/vda / ext4 rw,relatime 0 0\n"


@pytest.mark.parametrize(
    ("directory", "mounts", "expected"),
    [
        (b"/home/ann", b"", None),
        (b"/home/ann/.local", b"srv:/home /home nfs4 rw 0 0\n", "nfs4"),
        (b"/home", b"srv:/home /home nfs rw 0 0\n", "nfs"),
        (b"/homes", b"srv:/home /home nfs rw 0 0\n", None),
        (b"/home/ann/x", b"srv:/h /home nfs rw 0 0\n/dev/sdb /home/ann ext4 rw 0 0\n", None),
        (b"/home/ann/x", b"/dev/sdb /home/ann ext4 rw 0 0\nsrv:/h /home nfs rw 0 0\n", None),
        (b"/mnt", b"srv:/a /mnt nfs rw 0 0\n/dev/sdb /mnt xfs rw 0 0\n", None),
        (b"/mnt", b"/dev/sdb /mnt xfs rw 0 0\nsrv:/a /mnt cifs rw 0 0\n", "cifs"),
        (b"/my files/x", b"srv:/a /my\\040files cifs rw 0 0\n", "cifs"),
        (b"/a\\b/x", b"srv:/a /a\\134b 9p rw 0 0\n", "9p"),
        (b"/mnt/bucket", b"rclone: /mnt/bucket fuse.rclone rw 0 0\n", "fuse.rclone"),
        (b"/mnt/disk", b"/dev/sdb /mnt/disk fuseblk rw 0 0\n", None),
        (b"/mnt/o", b"fuse-overlayfs /mnt/o fuse.fuse-overlayfs rw 0 0\n", None),
        (b"/mnt/\xff/x", b"srv:/a /mnt/\xff nfs4 rw 0 0\n", "nfs4"),
        (b"/mnt", b"short line\n\n", None),
    ],
)
def test_the_innermost_mount_decides(directory: bytes, mounts: bytes, expected: str | None) -> None:
    assert network_type(directory, LOCAL + mounts) == expected


def test_a_network_root_covers_everything() -> None:
    assert network_type(b"/anywhere", b"srv:/ / nfs4 rw 0 0\n") == "nfs4"
