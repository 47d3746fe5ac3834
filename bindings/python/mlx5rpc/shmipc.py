# SPDX-License-Identifier: MIT
"""Requests and responses between processes of one machine, through shared memory: libshmipc.

    server                                  client
    with Server("job7") as s:               with Client("job7") as c:
        while True:                             c.call(b"ping", token)
            for request in s.requests():        while not (done := c.poll()):
                request.reply(b"pong")              c.wait()
            s.wait()                            c.request(b"ping", timeout=1)

shmipc.h is the manual; names and errors are the same. Times are in seconds, None means for ever. The
errno determines the type of an exception:

- Client(): FileNotFoundError or ConnectionRefusedError while there is no server
- call(): BlockingIOError if `depth` calls are in flight
- request(): TimeoutError
- functions of a client: BrokenPipeError if the server has ended; then call abort() and reconnect().

Only one thread at a time may use a server or client.
If a signal handler raises an exception while poll() runs, a response can be lost.
"""
import collections
import ctypes
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p, string_at

from ._clib import STATUS, Attributes, Handle, counters, error, library, name_of, nanoseconds, payload

CAME, LEFT, DIED = range(3)  # the kinds of events

_RESPONSE = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_void_p, c_uint32)
_PUSH = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint32)
_POST = 2 ** 32 - 1


class _Attr(Attributes):
    _fields_ = [("size", c_size_t)] + [(name, c_uint32) for name in (
        "max_clients", "depth", "req_size", "resp_size", "extra_size", "mode", "gid", "set", "connect_ms", "events",
        "pushes", "loans", "loan_req_size", "loan_resp_size")]
    _bits_ = {"gid": 1}


class Event(ctypes.Structure):
    """The client with this index came, left or died (kind: CAME, LEFT, DIED). Its pid, uid and gid are reported by the
    kernel. If its process is not known, pid is 0, and uid and gid are 2**32 - 1."""
    _fields_ = [(name, c_uint32) for name in ("kind", "index", "pid", "uid", "gid")]


class _Req(ctypes.Structure):
    _fields_ = [("client", c_uint64), ("id", c_uint32), ("len", c_uint32)]


_SERVE = ctypes.CFUNCTYPE(None, c_void_p, POINTER(_Req), c_void_p)

class _ServerStats(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in (
        "requests", "replies", "bad_requests", "clients", "connects", "departures", "reclaimed",
        "sleeps", "wakes", "yields", "posts", "pushes", "refused_pushes")]


class _ClientStats(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("calls", "responses", "sleeps", "wakes", "posts", "pushes")]


_BOTH = {  # functions of servers and of clients
    "flush": (None, c_void_p),
    "wait": (STATUS, c_void_p, c_uint64),
    "fd": (STATUS, c_void_p),
    "arm": (STATUS, c_void_p),
    "get_attr": (None, c_void_p, POINTER(_Attr), c_size_t),
}

_lib = library("libshmipc.so.1", {
    **{f"shmipc_{side}_{name}": types for side in ("server", "client") for name, types in _BOTH.items()},
    "shmipc_server_create": (STATUS, c_char_p, POINTER(_Attr), POINTER(c_void_p)),
    "shmipc_server_unlink": (STATUS, c_void_p),
    "shmipc_server_destroy": (None, c_void_p),
    "shmipc_server_poll": (STATUS, c_void_p),
    "shmipc_server_recv": (STATUS, c_void_p, POINTER(_Req), c_void_p, c_uint32),
    "shmipc_server_serve": (STATUS, c_void_p, _SERVE, c_void_p, c_uint32),
    "shmipc_server_event": (STATUS, c_void_p, POINTER(Event), c_size_t),
    "shmipc_server_reply": (STATUS, c_void_p, c_uint64, c_uint32, c_char_p, c_uint32),
    "shmipc_server_push": (STATUS, c_void_p, c_uint32, c_char_p, c_uint32),
    "shmipc_server_get_stats": (None, c_void_p, POINTER(_ServerStats), c_size_t),
    "shmipc_client_connect": (STATUS, c_char_p, POINTER(_Attr), POINTER(c_void_p)),
    "shmipc_client_disconnect": (None, c_void_p),
    "shmipc_client_call": (STATUS, c_void_p, c_char_p, c_uint32, c_uint64),
    "shmipc_client_post": (STATUS, c_void_p, c_char_p, c_uint32),
    "shmipc_client_posts": (c_uint32, c_void_p),
    "shmipc_client_pushes": (None, c_void_p, _PUSH, c_void_p),
    "shmipc_client_poll": (STATUS, c_void_p, _RESPONSE, c_void_p),
    "shmipc_client_pending": (c_uint32, c_void_p),
    "shmipc_client_call_wait": (STATUS, c_void_p, c_char_p, c_uint32, c_void_p, c_uint32, c_uint64,
                                POINTER(c_uint32)),
    "shmipc_client_abort": (STATUS, c_void_p, _RESPONSE, c_void_p),
    "shmipc_client_reconnect": (STATUS, c_void_p, c_uint64),
    "shmipc_client_others": (None, c_void_p, _RESPONSE, c_void_p),
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
        """Publishes the messages, and wakes peers that sleep. Call it before work other than poll and wait."""
        self._flush(self._open)

    def wait(self, timeout=None):
        """Sleeps until poll() has work, and returns True. Returns False if the time is over or a signal has arrived."""
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
    """A request that a server has received. The program must call reply() once for it, at any later time. A request
    whose is_post is True gets no reply."""

    __slots__ = ("data", "client", "_server", "_id")

    def __init__(self, server, client, number, data):
        self._server, self.client, self._id, self.data = server, client, number, data

    @property
    def index(self):
        """The client's place in the region, which is `index` in the client's events."""
        return self.client & 4095

    @property
    def is_post(self):
        """True if the client has sent the request with post()."""
        return self._id == _POST

    def reply(self, data=b""):
        """Sends the reply. BrokenPipeError: the client has ended."""
        data = payload(data)
        _lib.shmipc_server_reply(self._server._open, self.client, self._id, data, len(data))


class Server(_Side, side="server"):
    """The server of the region with that name. Sizes and access: max_clients, depth, req_size,
    resp_size, extra_size, mode, gid; see struct shmipc_attr. events() requires events=1."""

    _begin, _destroy, _Stats = _lib.shmipc_server_create, _lib.shmipc_server_destroy, _ServerStats

    def __init__(self, name, **attributes):
        super().__init__(name, attributes)
        self._buffer = ctypes.create_string_buffer(self.attr["req_size"])
        self._served = served = collections.deque()  # a reference of the callback to self would be a cycle
        self._on_request = _SERVE(lambda _arg, req, data: served.append(
            (req[0].client, req[0].id, string_at(data, req[0].len))))

    def serve(self, function, most=256):
        """Polls, calls function(request) for each request that has arrived, at most `most` times, and publishes the
        replies. The function may reply at once, or the program later. Returns the number of requests. While there is an
        event that events() has not returned, serve() does not call the function, so call events() before each serve(). If
        the function raises an exception, the next serve() continues with the next request."""
        if not self._served:
            _lib.shmipc_server_serve(self._open, self._on_request, None, most)
        n = 0
        try:
            while self._served and n < most:
                n += 1
                function(Request(self, *self._served.popleft()))
        finally:
            self.flush()
        return n

    def requests(self):
        """Polls, and yields the requests that have arrived, at most eight of each client."""
        req = _Req()
        _lib.shmipc_server_poll(self._open)
        while _lib.shmipc_server_recv(self._open, byref(req), self._buffer, len(self._buffer)):
            yield Request(self, req.client, req.id, string_at(self._buffer, req.len))

    def push(self, index, data=b""):
        """Sends a push (a message that answers no request) to the client with this index. BlockingIOError: the client has
        not taken the last `pushes` pushes."""
        data = payload(data)
        _lib.shmipc_server_push(self._open, index, data, len(data))

    def events(self):
        """Returns the new events of clients as a list; see shmipc_server_event(). OSError (EINVAL): the server was
        created without events=1."""
        taken = [Event()]
        while _lib.shmipc_server_event(self._open, byref(taken[-1]), ctypes.sizeof(Event)):
            taken.append(Event())
        return taken[:-1]

    def unlink(self):
        """Removes the file in /dev/shm: no client can connect any more, and no file is left if all processes are killed."""
        _lib.shmipc_server_unlink(self._open)


class Client(_Side, side="client"):
    """A client of the server with this name. Sizes that are set must equal the server's. connect_ms: the longest time,
    in milliseconds, to wait for a server and a free place."""

    _begin, _destroy, _Stats = _lib.shmipc_client_connect, _lib.shmipc_client_disconnect, _ClientStats

    def __init__(self, name, **attributes):
        super().__init__(name, attributes)
        self._tokens, self._last = {}, 0
        self._buffer = ctypes.create_string_buffer(self.attr["resp_size"])
        self._pushed, self._on_push = [], None
        self._arrived = arrived = []  # the callback refers to this list; a reference to self would be a cycle
        self._on_response = _RESPONSE(lambda _arg, number, data, length: arrived.append(
            (number, string_at(data, length) if data else None)))
        _lib.shmipc_client_others(self._open, self._on_response, None)

    def call(self, data=b"", token=None):
        """Sends a request; poll() returns the token, which may be any object, with the response."""
        data = payload(data)
        _lib.shmipc_client_call(self._open, data, len(data), self._last + 1)
        self._last += 1
        self._tokens[self._last] = token

    def post(self, data=b""):
        """Sends a request that gets no response. BlockingIOError: wait() until there is room."""
        data = payload(data)
        _lib.shmipc_client_post(self._open, data, len(data))

    @property
    def posts(self):
        """The number of posts that the server may not have taken yet. While it is not 0, wait() also ends when the server
        takes posts."""
        return _lib.shmipc_client_posts(self._open)

    def pushes(self):
        """Returns the pushes that poll() has taken. After the first use, wait() waits for pushes, too."""
        if not self._on_push:
            pushed = self._pushed
            self._on_push = _PUSH(lambda _arg, data, length: pushed.append(string_at(data, length)))
            _lib.shmipc_client_pushes(self._open, self._on_push, None)
        taken = self._pushed[:]
        self._pushed.clear()
        return taken

    def poll(self):
        """Returns responses that have arrived, as a list of (token, bytes): all that came during a request() if there were
        any, else at most eight."""
        if not self._arrived:
            _lib.shmipc_client_poll(self._open, self._on_response, None)
        taken = [(self._tokens.pop(number), data) for number, data in self._arrived]
        self._arrived.clear()
        return taken

    def wait(self, timeout=None):
        return bool(self._arrived) or super().wait(timeout)

    def arm(self):
        return not self._arrived and super().arm()

    def request(self, data=b"", timeout=None):
        """Makes a call, waits for its response and returns the response. If responses of other calls come meanwhile, the
        next poll() returns them."""
        data, length = payload(data), c_uint32()
        _lib.shmipc_client_call_wait(self._open, data, len(data), self._buffer, len(self._buffer),
                                     nanoseconds(timeout), byref(length))
        return string_at(self._buffer, length.value)

    def abort(self):
        """Ends the pending calls after BrokenPipeError, and returns their tokens. The server may or may not have executed
        these calls."""
        _lib.shmipc_client_abort(self._open, self._on_response, None)
        ended = [number for number, data in self._arrived if data is None]
        self._arrived[:] = [answer for answer in self._arrived if answer[1] is not None]
        return [self._tokens.pop(number) for number in ended]

    def reconnect(self, timeout=None):
        """Connects, after abort(), to the next server of the same name, sizes and access. The object and its descriptor stay
        valid. FileNotFoundError, ConnectionRefusedError, ...: no such server came in time; reconnect() may be called
        again."""
        _lib.shmipc_client_reconnect(self._open, nanoseconds(timeout))

    @property
    def pending(self):
        """The number of calls whose responses poll() has not returned."""
        return _lib.shmipc_client_pending(self._open) + len(self._arrived)

    @property
    def index(self):
        """The client's place in the region."""
        return _lib.shmipc_client_index(self._open)
