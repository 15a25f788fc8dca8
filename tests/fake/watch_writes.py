#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/fake/watch_writes.py LOG END EXCEPT DIRECTORY... - writes a line to LOG for each change in the
directories, which are watched by inotify, not those below them: "EVENT PATH". Names in EXCEPT,
separated by commas, are left out. The first line is "ready"; when the file END comes into being in
the first directory, the last one is "end"."""
import ctypes
import os
import struct
import sys

EVENTS = {0x002: "modify", 0x004: "attrib", 0x008: "close_write", 0x040: "moved_from", 0x080: "moved_to",
          0x100: "create", 0x200: "delete", 0x4000: "overflow"}


def main():
    log, end, ignored, *directories = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC)
    watched = {}
    for directory in directories:
        number = libc.inotify_add_watch(fd, os.fsencode(directory), 0x3ce)
        if number < 0:
            sys.exit(f"watch_writes.py: {directory}: {os.strerror(ctypes.get_errno())}")
        watched[number] = directory
    with open(log, "w", encoding="utf-8", errors="surrogateescape") as out:
        print("ready", file=out, flush=True)
        while True:
            data, at = os.read(fd, 65536), 0
            while at < len(data):
                number, mask, _, length = struct.unpack_from("iIII", data, at)
                name = os.fsdecode(data[at + 16:at + 16 + length].rstrip(b"\0"))
                at += 16 + length
                if name == end:
                    print("end", file=out, flush=True)
                    return
                if name not in ignored.split(","):
                    words = [word for bit, word in EVENTS.items() if mask & bit]
                    print(" ".join(words), f"{watched.get(number, '')}/{name}", file=out, flush=True)


if __name__ == "__main__":
    main()
