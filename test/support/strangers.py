# SPDX-License-Identifier: MIT
"""Strangers at a port, for tests of programs: see support/stranger.h. They stay until leave().

    strangers.py PORT MESSAGE COMMAND...      runs the command while strangers of all kinds are there
"""
import resource
import socket
import subprocess
import sys
import threading

KINDS = ["silent", "half", "slow", "garbage", "many"]
MANY = 1000


class Strangers:
    """message: the first message of an honest peer. A slow stranger sends its bytes one by one, and never all."""

    def __init__(self, kind, port, message):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 2 * MANY:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * MANY), hard))
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(MANY if kind == "many" else 1)]
        self.end = threading.Event()
        self.thread = threading.Thread(target=self._drip, args=(message,))
        if kind == "half":
            self._say(message[:len(message) // 2])
        elif kind == "garbage":
            self._say(b"\xa5" * 4096)
        elif kind == "slow":
            self.thread.start()

    def _say(self, data):
        try:
            self.sockets[0].sendall(data)
        except OSError:  # the listener has closed the connection
            pass

    def _drip(self, message):
        for byte in message[:-1]:
            self._say(bytes([byte]))
            if self.end.wait(.01):
                return

    def leave(self):
        self.end.set()
        if self.thread.ident:
            self.thread.join()
        for s in self.sockets:
            s.close()


def main(port, message, *command):
    crowds = [Strangers(kind, int(port), message.encode()) for kind in KINDS]
    status = subprocess.run(command).returncode
    for crowd in crowds:
        crowd.leave()
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
