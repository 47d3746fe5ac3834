# SPDX-License-Identifier: MIT
"""Requests and responses between processes of one machine, through shared memory: libshmipc.

    server                                  client
    with Server("job7") as s:               with Client("job7") as c:
        while True:                             c.call(b"ping", token)
            for request in s.requests():        while not (done := c.poll()):
                request.reply(b"pong")              c.wait()
            s.wait()                            c.request(b"ping", timeout=1)

shmipc.h is the manual; names and errors are the same. Times are in seconds, None means for ever. The
errno determines the type of an exception: FileNotFoundError and ConnectionRefusedError from Client() while
there is no server, BlockingIOError from call() if `depth` calls are in flight, BrokenPipeError if the
server has ended, TimeoutError from request(). Only one thread at a time may use a server or client.
If a signal handler raises an exception while poll() runs, a response can be lost.
"""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p, string_at

from ._clib import STATUS, Attributes, Handle, counters, error, library, name_of, nanoseconds, payload

_RESPONSE = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_void_p, c_uint32)


class _Attr(Attributes):
    _fields_ = [("size", c_size_t)] + [(name, c_uint32) for name in (
        "max_clients", "depth", "req_size", "resp_size", "extra_size", "mode", "gid", "set")]
    _bits_ = {"gid": 1}


class _Req(ctypes.Structure):
    _fields_ = [("client", c_uint64), ("id", c_uint32), ("len", c_uint32)]


class _ServerStats(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in (
        "requests", "replies", "bad_requests", "clients", "connects", "departures", "reclaimed",
        "sleeps", "wakes", "yields")]


class _ClientStats(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("calls", "responses", "sleeps", "wakes")]


_BOTH = {  # functions of servers and of clients
    "flush": (None, c_void_p),
    "wait": (STATUS, c_void_p, c_uint64),
    "fd": (STATUS, c_void_p),
    "arm": (STATUS, c_void_p),
    "get_attr": (None, c_void_p, POINTER(_Attr), c_size_t),
}

_lib = library("libshmipc.so.0", {
    **{f"shmipc_{side}_{name}": types for side in ("server", "client") for name, types in _BOTH.items()},
    "shmipc_server_create": (STATUS, c_char_p, POINTER(_Attr), POINTER(c_void_p)),
    "shmipc_server_unlink": (STATUS, c_void_p),
    "shmipc_server_destroy": (None, c_void_p),
    "shmipc_server_poll": (STATUS, c_void_p),
    "shmipc_server_recv": (STATUS, c_void_p, POINTER(_Req), c_void_p, c_uint32),
    "shmipc_server_reply": (STATUS, c_void_p, c_uint64, c_uint32, c_char_p, c_uint32),
    "shmipc_server_get_stats": (None, c_void_p, POINTER(_ServerStats), c_size_t),
    "shmipc_client_connect": (STATUS, c_char_p, POINTER(_Attr), POINTER(c_void_p)),
    "shmipc_client_disconnect": (None, c_void_p),
    "shmipc_client_call": (STATUS, c_void_p, c_char_p, c_uint32, c_uint64),
    "shmipc_client_poll": (STATUS, c_void_p, _RESPONSE, c_void_p),
    "shmipc_client_pending": (c_uint32, c_void_p),
    "shmipc_client_call_wait": (STATUS, c_void_p, c_char_p, c_uint32, c_void_p, c_uint32, c_uint64,
                                POINTER(c_uint32)),
    "shmipc_client_abort": (STATUS, c_void_p, _RESPONSE, c_void_p),
    "shmipc_client_index": (c_uint32, c_void_p),
    "shmipc_client_get_stats": (None, c_void_p, POINTER(_ClientStats), c_size_t),
})


class _Side(Handle):
    """The common part of a server and a client."""

    def __init_subclass__(cls, side):
        for name in (*_BOTH, "get_stats"):
            setattr(cls, f"_{name}", getattr(_lib, f"shmipc_{side}_{name}"))

    def __init__(self, name, attributes):
        pointer = c_void_p()
        try:
            self._begin(name_of(name), byref(_Attr(**attributes)), byref(pointer))
        except OSError as e:
            raise error(-e.errno, name) from None
        self._own(pointer, self._destroy)
        self.attr = counters(self._get_attr, pointer, _Attr)  # the sizes in use

    def flush(self):
        """Publishes the messages, and wakes sleepers. Call it before work other than poll and wait."""
        self._flush(self._open)

    def wait(self, timeout=None):
        """Sleeps until poll() has work. Returns False if the time is over or a signal has arrived."""
        return bool(self._wait(self._open, nanoseconds(timeout)))

    def fileno(self):
        """The descriptor to sleep on in select or asyncio, after arm() has returned True."""
        return self._fd(self._open)

    def arm(self):
        """Returns True if fileno() will become readable; False: poll again instead."""
        return not self._arm(self._open)

    def stats(self):
        """Returns the counters as a dict."""
        return counters(self._get_stats, self._open, self._Stats)


class Request:
    """A request that a server has received. The program must answer it with reply(), once, at any later time."""

    __slots__ = ("data", "client", "_server", "_id")

    def __init__(self, server, req, data):
        self._server, self.client, self._id, self.data = server, req.client, req.id, data

    def reply(self, data=b""):
        """Answers. BrokenPipeError: the client has ended."""
        data = payload(data)
        _lib.shmipc_server_reply(self._server._open, self.client, self._id, data, len(data))


class Server(_Side, side="server"):
    """The server of the region with that name. Sizes and access: max_clients, depth, req_size,
    resp_size, extra_size, mode, gid; see struct shmipc_attr."""

    _begin, _destroy, _Stats = _lib.shmipc_server_create, _lib.shmipc_server_destroy, _ServerStats

    def __init__(self, name, **attributes):
        super().__init__(name, attributes)
        self._buffer = ctypes.create_string_buffer(self.attr["req_size"])

    def requests(self):
        """Polls, and yields the requests that have arrived, at most eight of each client."""
        req = _Req()
        _lib.shmipc_server_poll(self._open)
        while _lib.shmipc_server_recv(self._open, byref(req), self._buffer, len(self._buffer)):
            yield Request(self, req, string_at(self._buffer, req.len))

    def unlink(self):
        """Removes the name: no client can connect any more, and no file is left if all processes are killed."""
        _lib.shmipc_server_unlink(self._open)


class Client(_Side, side="client"):
    """A client of the server with this name. Sizes that are set must equal the server's."""

    _begin, _destroy, _Stats = _lib.shmipc_client_connect, _lib.shmipc_client_disconnect, _ClientStats

    def __init__(self, name, **attributes):
        super().__init__(name, attributes)
        self._tokens, self._last = {}, 0
        self._buffer = ctypes.create_string_buffer(self.attr["resp_size"])
        self._arrived = arrived = []  # the callback refers to it, not to self: that would be a cycle
        self._on_response = _RESPONSE(lambda _arg, number, data, length: arrived.append(
            (number, string_at(data, length) if data else None)))

    def call(self, data=b"", token=None):
        """Sends a request; poll() returns the token, which may be any object, with the response."""
        data = payload(data)
        _lib.shmipc_client_call(self._open, data, len(data), self._last + 1)
        self._last += 1
        self._tokens[self._last] = token

    def _taken(self):
        taken = [(self._tokens.pop(number), data) for number, data in self._arrived]
        self._arrived.clear()
        return taken

    def poll(self):
        """Returns the responses that have arrived, at most eight, as a list of (token, bytes)."""
        _lib.shmipc_client_poll(self._open, self._on_response, None)
        return self._taken()

    def request(self, data=b"", timeout=None):
        """Makes a call and waits for its response. No other call may be pending."""
        data, length = payload(data), c_uint32()
        _lib.shmipc_client_call_wait(self._open, data, len(data), self._buffer, len(self._buffer),
                                     nanoseconds(timeout), byref(length))
        return string_at(self._buffer, length.value)

    def abort(self):
        """After BrokenPipeError: ends the pending calls, and returns their tokens."""
        _lib.shmipc_client_abort(self._open, self._on_response, None)
        return [token for token, _ in self._taken()]

    @property
    def pending(self):
        """The number of calls without a response."""
        return _lib.shmipc_client_pending(self._open)

    @property
    def index(self):
        """The client's place in the region."""
        return _lib.shmipc_client_index(self._open)
