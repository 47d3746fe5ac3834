# SPDX-License-Identifier: MIT
"""Many small calls in few RDMA WRITEs, between machines: libcopyrpc.

    server                                      client
    with Context() as ctx, \\                    with Context() as ctx:
            socket.create_server(("", 4711)) as s:  ep = ctx.connect("server", 4711)
        ctx.accept(s)                               for i in range(64):
        while True:                                     ep.call(b"ping", 64, token=i)
            ctx.poll()                              while ctx.pending:
            for request in ctx.requests():              for response in ctx.poll():
                request.reply(b"pong")                      use(response.token, response.result())

copyrpc.h and copyrpc_tcp.h are the manual; names and errors are the same. Messages are received only inside
poll(), which also sends the messages collected since the last poll(), in one WRITE to each peer. Times are
in seconds, None means for ever. The errno determines the type of an exception: call() raises BlockingIOError
if there is no room or credit (poll, then call again); result() raises TimeoutError or ConnectionResetError if
the peer has ended. Only one thread at a time may use a context and its objects.
accept() and connect() block. A program that must not block lets poll() make the connections:

    ctx.listen(s, token="a client")             ctx.dial("server", 4711, token="the server")
    while True:                                 while True:
        use(ctx.poll(), ctx.requests())             use(ctx.poll(), ctx.requests())
        for event in ctx.events():                  for event in ctx.events():
            handle(event.kind, event.endpoint)          handle(event.kind, event.endpoint)

Messages can describe memory instead of containing it: its owner exports the memory, the other side moves the bytes.

    bulk = ctx.bulk(bytearray(1 << 26))         remote = request.endpoint.remote(request.data)
    ep.call(bulk.export(ep), 0)                 request.endpoint.pull(remote, ctx.bulk(mine), token=request)
                                                ...     # poll() returns a Response with the token

If a signal handler raises an exception while poll() runs, a response can be lost.
"""
import contextlib
import ctypes
import errno
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, \
    c_void_p, string_at
from typing import Any, NamedTuple

from ._clib import STATUS, Attributes, Handle, counters, error, fits, library, milliseconds, \
    name_of, payload

INFO_SIZE = 96  # bytes of Endpoint.info()
AGAIN_SIZE = 144  # bytes of Endpoint.again_info()
UP, DOWN, GONE, BACK = 1, 2, 3, 4  # kinds of Event
READ, WRITE = 1, 2  # accesses that peers are permitted
_BULK_SIZE = 32  # bytes of Bulk.export()

_RESPONSE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint64, c_int, c_void_p, c_uint32)
_MOVED = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int)


class Path(Attributes):
    """Service level, MTU, time-outs and so on: struct copyrpc_path."""

    _fields_ = [("size", c_size_t), ("sl", c_uint8), ("traffic_class", c_uint8), ("flow_label", c_uint32),
                ("mtu", c_uint8), ("timeout", c_uint8), ("retry_cnt", c_uint8), ("rnr_retry", c_uint8),
                ("min_rnr_timer", c_uint8), ("set", c_uint32)]
    _bits_ = {"timeout": 1, "retry_cnt": 2, "rnr_retry": 4, "min_rnr_timer": 8}


class _CtxAttr(Attributes):
    _fields_ = [("size", c_size_t), ("device", c_char_p), ("port", c_uint8), ("set", c_uint32), ("gid_index", c_int),
                ("pkey_index", c_uint16), ("srq_depth", c_uint32), ("cq_depth", c_uint32),
                ("max_endpoints", c_uint32), ("sq_depth", c_uint32), ("ring_size", c_uint32),
                ("max_pending", c_uint32), ("nested", ctypes.c_bool), ("path", POINTER(Path)), ("probe_ms", c_uint32),
                ("reconnect_ms", c_uint64), ("vector", c_uint32), ("event_count", c_uint16),
                ("event_period_us", c_uint16)]
    _bits_ = {"gid_index": 1, "pkey_index": 2, "vector": 4}


class _EpAttr(Attributes):
    _fields_ = [("size", c_size_t), ("ring_size", c_uint32), ("max_pending", c_uint32), ("user", c_void_p),
                ("path", POINTER(Path)), ("name", c_char_p), ("by_hand", ctypes.c_bool), ("event_token", c_uint64)]


class _ListenAttr(Attributes):
    _fields_ = [("size", c_size_t), ("ep", POINTER(_EpAttr)), ("max_guests", c_uint32), ("patience_ms", c_uint32)]


class _DialAttr(Attributes):
    _fields_ = [("size", c_size_t), ("ep", POINTER(_EpAttr)), ("single", ctypes.c_bool)]


class _LargeAttr(Attributes):
    _fields_ = [("size", c_size_t), ("message_max", c_uint32), ("memory_max", c_uint64)]


class _Remote(ctypes.Structure):
    _fields_ = [("addr", c_uint64), ("len", c_uint64), ("rkey", c_uint32), ("access", c_int)]


class _Event(ctypes.Structure):
    _fields_ = [("kind", c_int), ("status", c_int), ("ep", c_void_p), ("token", c_uint64)]


class _Stats(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in (
        "calls", "replies", "requests", "responses", "failed_calls", "timeouts", "batches", "bytes", "wqes",
        "doorbells", "wraps", "credit_only", "reads", "ring_stalls", "credit_stalls", "sq_stalls",
        "batches_received", "refills", "port_downs", "returns", "resent", "grown", "moved")]


_lib = library("libcopyrpc.so.1", {
    "copyrpc_ctx_create": (STATUS, POINTER(_CtxAttr), POINTER(c_void_p)),
    "copyrpc_ctx_destroy": (None, c_void_p),
    "copyrpc_ctx_fd": (STATUS, c_void_p),
    "copyrpc_ctx_arm": (STATUS, c_void_p),
    "copyrpc_ctx_timeout": (c_int, c_void_p),
    "copyrpc_ctx_get_stats": (None, c_void_p, POINTER(_Stats), c_size_t),
    "copyrpc_poll": (STATUS, c_void_p, _RESPONSE, c_void_p),
    "copyrpc_flush": (STATUS, c_void_p),
    "copyrpc_recv": (STATUS, c_void_p, POINTER(c_void_p)),
    "copyrpc_accept": (STATUS, c_void_p, POINTER(_EpAttr), c_int, c_int, POINTER(c_void_p)),
    "copyrpc_connect": (STATUS, c_void_p, POINTER(_EpAttr), c_char_p, c_uint16, c_int, POINTER(c_void_p)),
    "copyrpc_listen": (STATUS, c_void_p, POINTER(_ListenAttr), c_int, c_uint64),
    "copyrpc_unlisten": (STATUS, c_void_p, c_int),
    "copyrpc_dial": (STATUS, c_void_p, POINTER(_DialAttr), c_char_p, c_uint16, c_int, c_uint64),
    "copyrpc_dial_cancel": (STATUS, c_void_p, c_uint64),
    "copyrpc_event_recv": (STATUS, c_void_p, POINTER(_Event), c_size_t),
    "copyrpc_ep_create": (STATUS, c_void_p, POINTER(_EpAttr), POINTER(c_void_p)),
    "copyrpc_ep_destroy": (None, c_void_p),
    "copyrpc_ep_info": (None, c_void_p, c_void_p),
    "copyrpc_ep_connect": (STATUS, c_void_p, c_char_p, c_size_t),
    "copyrpc_ep_again_info": (STATUS, c_void_p, c_void_p),
    "copyrpc_ep_again": (STATUS, c_void_p, c_char_p, c_size_t),
    "copyrpc_redial": (STATUS, c_void_p, c_char_p, c_uint16),
    "copyrpc_ep_status": (c_int, c_void_p),
    "copyrpc_ep_describe": (STATUS, c_void_p, c_void_p, c_size_t),
    "copyrpc_ctx_versions": (STATUS, c_void_p, c_void_p, c_size_t),
    "copyrpc_ep_get_stats": (None, c_void_p, POINTER(_Stats), c_size_t),
    "copyrpc_call_timed": (STATUS, c_void_p, c_char_p, c_uint32, c_uint32, c_uint64, c_uint32),
    "copyrpc_call_large": (STATUS, c_void_p, c_char_p, c_uint32, c_void_p, c_uint32, c_uint64),
    "copyrpc_cancel": (STATUS, c_void_p, c_uint64),
    "copyrpc_large_accept": (STATUS, c_void_p, POINTER(_LargeAttr)),
    "copyrpc_call": (STATUS, c_void_p, c_char_p, c_uint32, c_uint32, c_uint64),
    "copyrpc_bulk_create": (STATUS, c_void_p, c_void_p, c_size_t, c_int, POINTER(c_void_p)),
    "copyrpc_bulk_free": (None, c_void_p),
    "copyrpc_bulk_export": (STATUS, c_void_p, c_void_p, c_uint64, c_uint64, c_void_p),
    "copyrpc_bulk_import": (STATUS, c_void_p, c_char_p, c_size_t, POINTER(_Remote)),
    "copyrpc_bulk_pull": (STATUS, c_void_p, POINTER(_Remote), c_uint64, c_void_p, c_uint64, c_uint64, _MOVED, c_void_p),
    "copyrpc_bulk_push": (STATUS, c_void_p, c_void_p, c_uint64, POINTER(_Remote), c_uint64, c_uint64, _MOVED, c_void_p),
    "copyrpc_req_data": (c_void_p, c_void_p),
    "copyrpc_req_len": (c_uint32, c_void_p),
    "copyrpc_req_allowance": (c_uint32, c_void_p),
    "copyrpc_req_ep": (c_void_p, c_void_p),
    "copyrpc_reply": (STATUS, c_void_p, c_char_p, c_uint32),
}, needs=["libmlx5dv-lite.so.1"])


class Response(NamedTuple):
    """The end of a call, pull or push. The data of a pull or push is empty."""

    endpoint: "Endpoint"
    token: Any
    status: int  # 0 or -errno
    data: bytes | None

    def result(self):
        """Returns the bytes of the response, or raises the exception."""
        if self.status:
            raise error(self.status)
        return self.data


class Event(NamedTuple):
    """UP: listen() or dial() has connected the endpoint. DOWN: the endpoint has failed; close() it. GONE: a dial has
    ended without an endpoint. With reconnect_ms, DOWN with the status -EAGAIN reports a lost connection, and BACK reports
    that it is restored. If the peer refuses a dial with `single` because the two contexts have a connection already, the
    dial ends with UP, the status -EISCONN and the endpoint of that connection, which had its own UP before."""

    kind: int
    endpoint: "Endpoint | None"  # None if GONE
    token: Any
    status: int  # 0 or -errno

    def result(self):
        """Returns the endpoint, or raises the exception."""
        if self.status and self.kind != UP:
            raise error(self.status)
        return self.endpoint


class Request:
    """A request that has arrived. The program must call reply() once for it, at any later time, also if the program
    cannot execute the request or the endpoint has failed. Until then the request uses its peer's credit, and room in
    the ring."""

    __slots__ = ("endpoint", "data", "allowance", "_pointer")

    def __init__(self, context, pointer):
        self._pointer = pointer
        self.endpoint = context._endpoint(_lib.copyrpc_req_ep(pointer))
        self.data = string_at(_lib.copyrpc_req_data(pointer), _lib.copyrpc_req_len(pointer))
        self.allowance = _lib.copyrpc_req_allowance(pointer)  # maximum bytes of a reply that the caller accepts

    def reply(self, data=b""):
        """Sends the reply. OSError with EMSGSIZE: @data is larger than the allowance; call reply() again with less data.
        Another error: the endpoint has failed, and the reply is lost."""
        data = payload(data)
        self.endpoint.context._open
        if not self._pointer:
            raise ValueError("this Request is answered")
        if len(data) <= self.allowance:
            pointer, self._pointer = self._pointer, None
        else:
            pointer = self._pointer
        _lib.copyrpc_reply(pointer, data, len(data))


class _Child:
    """An object that ends at the latest when its context ends."""

    @property
    def _open(self):
        self.context._open
        if self._pointer is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._pointer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Bulk(_Child):
    """Registered memory of an object with a writable buffer; Context.bulk() creates it. The object is kept alive until
    close() has been called and the pulls and pushes with it have ended, or until the context ends."""

    def __init__(self, context, memory, access):
        view = memoryview(memory)
        if view.readonly or not view.c_contiguous:
            raise BufferError("the memory is read-only, or not contiguous")
        self._memory, self.context, self.nbytes = (c_uint8 * view.nbytes).from_buffer(view), context, view.nbytes
        pointer = c_void_p()
        _lib.copyrpc_bulk_create(context._open, self._memory, self.nbytes, fits(c_int, access), byref(pointer))
        self._pointer = pointer.value
        context._bulks.add(self)

    def export(self, endpoint, offset=0, length=None):
        """Describes a part of the memory for the peer of the endpoint. Returns bytes to send in a request or response."""
        descriptor = ctypes.create_string_buffer(_BULK_SIZE)
        length = self.nbytes - offset if length is None else length
        _lib.copyrpc_bulk_export(self._open, endpoint._open, fits(c_uint64, offset), fits(c_uint64, length), descriptor)
        return descriptor.raw

    def close(self):
        """Ends the registration; see copyrpc_bulk_free() for the peers that still use a descriptor."""
        if self._pointer is not None and not self.context.closed:
            _lib.copyrpc_bulk_free(self._pointer)
        self._pointer = None
        self.context._bulks.discard(self)


class Remote:
    """Memory of a peer; Endpoint.remote() creates it."""

    __slots__ = ("_struct",)

    def __init__(self, struct):
        self._struct = struct

    def __len__(self):
        return self._struct.len


class Endpoint(_Child):
    """One side of a connection to one peer; connect(), accept(), endpoint() and events() of a context return it."""

    def __init__(self, context, pointer):
        self.context, self._pointer, self._token = context, pointer, None
        context._endpoints[pointer] = self

    def call(self, data, resp_max, token=None, timeout=None):
        """Stores a request, which the next poll() or flush() sends. The response has at most resp_max bytes;
        poll() returns it with the token, which may be any object. If no response comes within `timeout`, its result()
        raises TimeoutError."""
        data, context = payload(data), self.context
        number = context._last + 1
        if timeout is None:
            _lib.copyrpc_call(self._open, data, len(data), fits(c_uint32, resp_max), number)
        else:
            limit = max(milliseconds(timeout), 1)  # 0 means no limit
            _lib.copyrpc_call_timed(self._open, data, len(data), fits(c_uint32, resp_max), number, limit)
        context._last = number
        context._calls[number] = self, token

    def call_large(self, data, resp_max, token=None):
        """Like call(), for messages of up to 1 GiB, if the peer has called accept_large(). The bytes of @data are not copied."""
        data, context = payload(data), self.context
        number, response = context._last + 1, ctypes.create_string_buffer(max(fits(c_uint32, resp_max), 1))
        _lib.copyrpc_call_large(self._open, data, len(data), response, resp_max, number)
        context._last = number
        context._calls[number] = self, token
        context._memory[number] = data, response

    def remote(self, descriptor):
        """Returns the memory that the peer has exported. OSError: the bytes are not a descriptor of this connection."""
        struct, descriptor = _Remote(), payload(descriptor)
        _lib.copyrpc_bulk_import(self._open, descriptor, len(descriptor), byref(struct))
        return Remote(struct)

    def _move(self, function, first, second, length, bulk, token):
        context = self.context
        number = context._last + 1
        function(self._open, first[0], fits(c_uint64, first[1]), second[0], fits(c_uint64, second[1]), fits(c_uint64, length),
                 context._on_moved, number)
        context._last = number
        context._calls[number] = self, token
        context._memory[number] = bulk

    def pull(self, remote, bulk, token=None, length=None, remote_offset=0, offset=0):
        """Reads `length` bytes of the peer into the bulk, by default up to the end of `remote`. poll() then returns a
        Response with the token; do not use these bytes before."""
        length = len(remote) - remote_offset if length is None else length
        self._move(_lib.copyrpc_bulk_pull, (byref(remote._struct), remote_offset), (bulk._open, offset), length, bulk, token)

    def push(self, bulk, remote, token=None, length=None, remote_offset=0, offset=0):
        """Writes bytes of the bulk into the peer's memory. The arguments are those of pull()."""
        length = len(remote) - remote_offset if length is None else length
        self._move(_lib.copyrpc_bulk_push, (bulk._open, offset), (byref(remote._struct), remote_offset), length, bulk, token)

    def cancel(self, token):
        """Cancels the pending calls with this token: they end with ECANCELED. Large calls end when the peer does not use
        their memory any more. Returns the number of calls."""
        count = 0
        for number, call in self.context._calls.items():
            if call == (self, token):
                with contextlib.suppress(FileNotFoundError):  # the call was canceled before
                    _lib.copyrpc_cancel(self._open, number)
                    count += 1
        return count

    def info(self):
        """Returns the bytes that the peer's join() needs. Send them over any channel."""
        blob = ctypes.create_string_buffer(INFO_SIZE)
        _lib.copyrpc_ep_info(self._open, blob)
        return blob.raw

    def join(self, blob):
        """Connects to the endpoint whose info() returned @blob: copyrpc_ep_connect()."""
        blob = payload(blob)
        _lib.copyrpc_ep_connect(self._open, blob, len(blob))

    def again_info(self):
        """Returns the bytes that the peer's again() needs after a lost connection, for an endpoint(by_hand=True) of a
        context with reconnect_ms: copyrpc_ep_again_info(). BlockingIOError: poll, then call again."""
        message = ctypes.create_string_buffer(AGAIN_SIZE)
        _lib.copyrpc_ep_again_info(self._open, message)
        return message.raw

    def again(self, message):
        """Connects again to the endpoint whose again_info() returned @message: copyrpc_ep_again(). BlockingIOError: send
        again_info(), then call this again. OSError with ESTALE: send again_info()."""
        message = payload(message)
        _lib.copyrpc_ep_again(self._open, message, len(message))

    def redial(self, host, port):
        """Sets the address that the endpoint of a dial() dials again after its connection is lost."""
        _lib.copyrpc_redial(self._open, name_of(host), fits(c_uint16, port))

    def status(self):
        """Returns 0 if connected, else -errno, see copyrpc_ep_status()."""
        return _lib.copyrpc_ep_status(self._open)

    def stats(self):
        """Returns the counters as a dict."""
        return counters(_lib.copyrpc_ep_get_stats, self._open, _Stats)

    def describe(self):
        """Returns a line of text that names the peer and, if the endpoint has failed, the reason."""
        text = ctypes.create_string_buffer(1024)
        _lib.copyrpc_ep_describe(self._open, text, len(text))
        return text.value.decode(errors="replace")

    def close(self):
        """Ends the connection. Pending calls end at the next poll, with ECANCELED, or with the error of a failed endpoint."""
        if self._pointer is not None and not self.context.closed:
            del self.context._endpoints[self._pointer]
            _lib.copyrpc_ep_destroy(self._pointer)
        self._pointer = None


class Context(Handle):
    """A device and the objects that all endpoints of a thread share. Attributes: device, port, ring_size,
    max_endpoints, path and so on; see struct copyrpc_ctx_attr."""

    def __init__(self, **attributes):
        pointer = c_void_p()
        _lib.copyrpc_ctx_create(byref(self._attr(_CtxAttr, attributes)), byref(pointer))
        self._own(pointer, _lib.copyrpc_ctx_destroy)
        self._endpoints, self._calls, self._last = {}, {}, 0
        self._memory = {}  # memory of large calls, pulls and pushes, until they end
        self._bulks = set()
        self._listeners, self._dials, self._tokens = {}, {}, {}  # keys: descriptor; number of the dial; number of listen()
        self._arrived = arrived = []  # the callback refers to this list; a reference to self would be a cycle
        self._on_response = _RESPONSE(lambda _arg, _ep, number, status, data, length: arrived.append(
            (number, status, None if status else string_at(data, length))))
        self._on_moved = _MOVED(lambda number, _ep, status: arrived.append((number, status, None if status else b"")))

    @staticmethod
    def _attr(struct, attributes):
        if (path := attributes.get("path")) is not None:
            attributes["path"] = ctypes.pointer(path)
        return struct(**attributes)

    def _new(self, create, attributes, *arguments):
        pointer = c_void_p()
        try:
            create(self._open, byref(self._attr(_EpAttr, attributes)), *arguments, byref(pointer))
        except OSError as e:
            if e.errno != errno.EPROTONOSUPPORT:
                raise
            raise OSError(e.errno, self.versions()) from None
        return self._endpoint(pointer.value)

    def versions(self):
        """Returns a line about the last peer that was refused because of its version (EPROTONOSUPPORT); "" if there was
        none."""
        text = ctypes.create_string_buffer(256)
        _lib.copyrpc_ctx_versions(self._open, text, len(text))
        return text.value.decode()

    def _endpoint(self, pointer):
        """Returns the object of an endpoint; a request may arrive before accept() returns the endpoint."""
        return self._endpoints.get(pointer) or Endpoint(self, pointer)

    def connect(self, host, port, timeout=5, **attributes):
        """Returns an endpoint that is connected to a process that calls accept() or listen(). Tries again until the time is
        over."""
        return self._new(_lib.copyrpc_connect, attributes, name_of(host), fits(c_uint16, port), milliseconds(timeout))

    def accept(self, listener, timeout=None, **attributes):
        """Returns an endpoint that is connected to the next client; listener is a listening socket."""
        return self._new(_lib.copyrpc_accept, attributes, listener.fileno(), milliseconds(timeout))

    def listen(self, listener, token=None, max_guests=0, patience=0, **attributes):
        """Lets poll() accept connections, until unlisten(); listener is a listening socket. For each connection events()
        yields UP with the token. `max_guests` limits the number of connections that are being made, `patience` the time
        for each in seconds; 0: the default."""
        attr = _ListenAttr(ep=ctypes.pointer(self._attr(_EpAttr, attributes)), max_guests=max_guests, patience_ms=milliseconds(patience))
        self._last += 1
        _lib.copyrpc_listen(self._open, byref(attr), listener.fileno(), self._last)
        self._listeners[listener.fileno()] = listener  # keeps the socket open
        self._tokens[self._last] = token

    def unlisten(self, listener):
        """Ends listen(). Endpoints that are connected already stay connected."""
        _lib.copyrpc_unlisten(self._open, listener.fileno())
        self._listeners.pop(listener.fileno(), None)

    def dial(self, host, port, token=None, timeout=5, single=False, **attributes):
        """Lets poll() connect to a process that listens or accepts. events() yields either UP or GONE with the token,
        once. If two contexts dial each other with `single`, one connection results."""
        attr = _DialAttr(ep=ctypes.pointer(self._attr(_EpAttr, attributes)), single=single)
        self._last += 1
        _lib.copyrpc_dial(self._open, byref(attr), name_of(host), fits(c_uint16, port), milliseconds(timeout), self._last)
        self._dials[self._last] = token

    def cancel(self, token):
        """Ends the dials in progress with this token: events() yields GONE with ECANCELED. Returns the number of dials."""
        return sum(_lib.copyrpc_dial_cancel(self._open, number)
                   for number, given in self._dials.items() if given == token)

    def events(self):
        """Yields the events of connections that poll() has found and that events() has not yielded yet."""
        event = _Event()
        while _lib.copyrpc_event_recv(self._open, byref(event), ctypes.sizeof(event)):
            endpoint = self._endpoint(event.ep) if event.ep else None
            token = endpoint._token if event.kind in (DOWN, BACK) else \
                self._tokens[event.token] if event.token in self._tokens else self._dials.pop(event.token)
            if event.kind == UP and not event.status:
                endpoint._token = token
            yield Event(event.kind, endpoint, token, event.status)

    def endpoint(self, token=None, **attributes):
        """Returns an endpoint that is not connected yet: see info() and join(). With by_hand=True the program itself
        connects it again when the connection is lost, see again(); the events DOWN and BACK have the token."""
        endpoint = self._new(_lib.copyrpc_ep_create, attributes)
        endpoint._token = token
        return endpoint

    def poll(self):
        """Sends the collected messages, and handles arrived ones. Returns a list of Response."""
        _lib.copyrpc_poll(self._open, self._on_response, None)
        responses = [Response(*self._calls.pop(number), status, data)
                     for number, status, data in self._arrived]
        for number, _, _ in self._arrived:
            self._memory.pop(number, None)
        self._arrived.clear()
        return responses

    def accept_large(self, message_max, memory_max=0):
        """Lets the peers make large calls with messages of at most message_max bytes; see copyrpc_large_accept()."""
        _lib.copyrpc_large_accept(self._open, byref(_LargeAttr(message_max=message_max, memory_max=memory_max)))

    def bulk(self, memory, access=READ | WRITE):
        """Registers the memory of an object with a writable buffer for pulls and pushes of this side. With READ and
        WRITE in @access, peers may read and write it, too. Returns a Bulk."""
        return Bulk(self, memory, access)

    def requests(self):
        """Yields the requests that poll() has received and that requests() has not yielded yet."""
        pointer = c_void_p()
        while _lib.copyrpc_recv(self._open, byref(pointer)):
            yield Request(self, pointer.value)

    def flush(self):
        """Sends the collected messages. Returns the number of batches."""
        return _lib.copyrpc_flush(self._open)

    @property
    def pending(self):
        """The number of calls, pulls and pushes that have not ended."""
        return len(self._calls)

    def fileno(self):
        """The descriptor to sleep on in select or asyncio, after arm() has returned True."""
        return _lib.copyrpc_ctx_fd(self._open)

    def arm(self):
        """Returns True if fileno() will become readable; False: poll again instead."""
        return not _lib.copyrpc_ctx_arm(self._open)

    def timeout(self):
        """The longest time to sleep, in seconds; None: for ever."""
        ms = _lib.copyrpc_ctx_timeout(self._open)
        return None if ms < 0 else ms / 1e3

    def stats(self):
        """Returns the sums of the counters of all endpoints as a dict."""
        return counters(_lib.copyrpc_ctx_get_stats, self._open, _Stats)
