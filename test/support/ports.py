# SPDX-License-Identifier: MIT
"""TCP ports for servers of a test."""
import socket

held = []


def free_port():
    """Returns a port on which no program listens. The port stays bound, so that the kernel does not choose it for
    another socket or a connection. A server's socket with SO_REUSEADDR can still be bound to it."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    held.append(s)
    return s.getsockname()[1]
