# SPDX-License-Identifier: MIT
"""Large amounts of memory moved between two processes over several rails: libtent.

    lender                                      mover
    with Engine(address="10.0.0.1") as engine:  with Engine() as engine:
        engine.register(array)                      engine.register(mine)
        send(engine.export())                       segment = engine.connect(receive())
        engine.wait_notice()                        there = segment.remotes()[0]
        use(array)                                  engine.write(mine, segment, there.addr, notify=1).wait()

tent.h is the manual; names and errors are the same. Memory is any object whose memory is contiguous and writable, and that has

- the buffer protocol (bytearray, array, mmap, arrays of numpy): memory of the CPU
- `__dlpack__`, or `data_ptr` as tensors of torch: memory of the CPU or of a GPU.

Register the object first; the engine then moves bytes from and to the object itself. Requests may use a part of the object,
such as a slice of an array.
With copying threads (shm_rails) copies are much faster if the memory of both sides is from `engine.alloc()`.
Times are in seconds, None means for ever. While a function waits, other threads run, and a signal handler runs within a
tenth of a second. All functions may be called from any thread, but not while or after another thread closes the object. In a
program with asyncio, `await` the batch, `engine.next_notice()` and `segment.next_version()`.

A request on memory of a GPU begins when a stream has finished the work that was in the stream at the submission. The stream
is the CUstream `stream`, or CUDA's legacy default stream if `stream` is None. An object with `__dlpack__` first makes this
stream wait for the object's own pending work. If other streams of the program use the memory, the program must make this
stream wait for the other streams. With stream=0 the request begins at once.
"""
import asyncio
import ctypes
import enum
import errno
import itertools
import json
import os
import select
import time
import weakref
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint8, c_uint16, c_uint32, \
    c_uint64, c_void_p
from typing import Any, Iterable, NamedTuple

from ._clib import STATUS, Attributes, Handle, error, fits, library, milliseconds, name_of

_NAME_LEN = 64
_SIGNALS_MS = 100  # the longest wait in C, after which Python handles signals


class _Attr(Attributes):
    _fields_ = [("size", c_size_t), ("config", c_char_p), ("config_file", c_char_p), ("address", c_char_p),
                ("port", c_uint16), ("shm_rails", c_uint32), ("max_registration", c_uint64), ("max_tasks", c_uint32),
                ("rail_wait_ms", c_int), ("tcp_rails", c_uint32), ("gpu_rails", c_uint32),
                ("adapters", c_uint32)]


class _Directory(Attributes):
    _fields_ = [("size", c_size_t), ("file", c_char_p), ("put", c_void_p), ("get", c_void_p), ("arg", c_void_p)]


class _Why(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 400)]


class _Remote(ctypes.Structure):
    _fields_ = [("addr", c_uint64), ("len", c_uint64), ("location", ctypes.c_char * _NAME_LEN)]


class _Request(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("op", c_int), ("local", c_void_p), ("segment", c_void_p), ("remote", c_uint64),
                ("len", c_uint64), ("notify", c_uint16), ("priority", c_uint8), ("stream", c_void_p),
                ("note", ctypes.c_char_p), ("note_len", c_size_t)]


class _Note(ctypes.Structure):
    _fields_ = [("peer", c_uint64), ("notify", c_uint16), ("len", c_uint8), ("bytes", c_uint8 * 64)]


class _Status(ctypes.Structure):
    _fields_ = [("state", c_int), ("err", c_int), ("bytes", c_uint64)]


class _RailStats(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * _NAME_LEN), ("remote", ctypes.c_char * _NAME_LEN), ("up", c_bool),
                ("bytes", c_uint64), ("slices", c_uint64), ("inflight", c_uint64), ("exclusions", c_uint64),
                ("fault", c_int), ("link_gbps", c_double), ("rate_gbps", c_double)]


_lib = library("libtent.so.1", {
    "tent_create": (STATUS, POINTER(_Attr), POINTER(_Why), POINTER(c_void_p)),
    "tent_destroy": (None, c_void_p),
    "tent_register": (STATUS, c_void_p, c_void_p, c_size_t, c_char_p, POINTER(_Why)),
    "tent_alloc": (STATUS, c_void_p, c_size_t, c_char_p, POINTER(_Why), POINTER(c_void_p)),
    "tent_unregister": (STATUS, c_void_p, c_void_p),
    "tent_export": (STATUS, c_void_p, POINTER(c_void_p)),
    "tent_import": (STATUS, c_void_p, c_char_p, POINTER(_Why), POINTER(c_void_p)),
    "tent_version": (c_uint64, c_void_p),
    "tent_segment_await": (c_int, c_void_p, c_uint64, c_int),
    "tent_publish": (STATUS, c_void_p, POINTER(_Directory), c_char_p, POINTER(_Why)),
    "tent_find": (STATUS, c_void_p, POINTER(_Directory), c_char_p, POINTER(_Why), POINTER(c_void_p)),
    "tent_release": (STATUS, c_void_p),
    "tent_segment_remote": (c_int, c_void_p, c_uint32, POINTER(_Remote), c_size_t),
    "tent_submit": (STATUS, c_void_p, POINTER(_Request), c_uint32, POINTER(c_void_p)),
    "tent_task_status": (c_int, c_void_p, c_uint32, POINTER(_Status), c_size_t),
    "tent_batch_status": (None, c_void_p, POINTER(_Status), c_size_t),
    "tent_wait": (c_int, c_void_p, c_int),
    "tent_batch_fd": (STATUS, c_void_p),
    "tent_cancel": (None, c_void_p),
    "tent_batch_free": (STATUS, c_void_p),
    "tent_notice": (c_int, c_void_p, POINTER(c_uint16)),
    "tent_note_take": (c_int, c_void_p, POINTER(_Note), c_size_t),
    "tent_notice_fd": (STATUS, c_void_p),
    "tent_fault_name": (c_char_p, c_int),
    "tent_rail_get_stats": (c_int, c_void_p, c_uint32, POINTER(_RailStats), c_size_t),
    "tent_stats_prometheus": (STATUS, c_void_p, c_void_p),
    "tent_stats_json": (STATUS, c_void_p, c_void_p),
}, needs=["libmlx5dv-lite.so.1", "liblatrec.so.1"])
_libc = ctypes.CDLL(None)
_libc.open_memstream.restype = c_void_p
_libc.fclose.argtypes = _libc.free.argtypes = [c_void_p]


# ---- the memory of Python's objects ----


class _Tensor(ctypes.Structure):
    """struct DLTensor of DLPack."""

    _fields_ = [("data", c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(ctypes.c_int64)), ("strides", POINTER(ctypes.c_int64)), ("byte_offset", c_uint64)]


_ON_CPU = (1, 3)  # kDLCPU, kDLCUDAHost
_ON_GPU = 2  # kDLCUDA
_LEGACY = 1  # CU_STREAM_LEGACY, the same number in DLPack
_NO_STREAM = -1  # in DLPack: the producer need not make any stream wait
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]


class _Span(NamedTuple):
    addr: int
    nbytes: int
    owner: Any  # keeps the memory in place
    location: str | None = None  # only for memory of a GPU


def _of_dlpack(obj, stream):
    kind, number = obj.__dlpack_device__()
    if kind not in (*_ON_CPU, _ON_GPU):
        raise BufferError("the memory is neither the CPU's nor that of a GPU with CUDA")
    location = f"cuda:{number}" if kind == _ON_GPU else None
    # Nobody consumes the capsule, so its destructor releases the memory.
    capsule = obj.__dlpack__(stream=stream) if location else obj.__dlpack__()
    t = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    n = 1
    for i in reversed(range(t.ndim)):
        if t.strides and t.shape[i] != 1 and t.strides[i] != n:
            raise BufferError("the memory is not contiguous")
        n *= t.shape[i]
    return _Span((t.data or 0) + t.byte_offset, (n * t.bits * t.lanes + 7) // 8, capsule, location)


def _of_pointer(obj, _stream):
    if obj.device.type not in ("cpu", "cuda"):
        raise BufferError("the memory is neither the CPU's nor that of a GPU with CUDA")
    if not obj.is_contiguous():
        raise BufferError("the memory is not contiguous")
    location = f"cuda:{obj.device.index or 0}" if obj.device.type == "cuda" else None
    return _Span(obj.data_ptr(), obj.numel() * obj.element_size(), obj, location)


def _span(obj, stream=_NO_STREAM):
    """Returns where an object's bytes are. An object with __dlpack__ makes the stream wait for the object's own pending
    work on the bytes. BufferError, TypeError: the object has no memory that tent can use."""
    if isinstance(obj, Memory):
        return obj._span()
    try:
        view = memoryview(obj)
    except TypeError:
        for attribute, function in (("__dlpack__", _of_dlpack), ("data_ptr", _of_pointer)):
            if hasattr(obj, attribute):
                return function(obj, stream)
        raise
    if view.readonly or not view.c_contiguous:
        raise BufferError("the memory is read-only, or not contiguous")
    exported = (ctypes.c_char * view.nbytes).from_buffer(view)
    return _Span(ctypes.addressof(exported), view.nbytes, exported)


def _explained(function, *arguments):
    """Calls a function that explains its errors; the explanation becomes the exception's text."""
    why = _Why()
    try:
        function(*(byref(why) if a is _Why else a for a in arguments))
    except OSError as e:
        text = why.text.decode(errors="replace")
        raise type(e)(e.errno, text or e.strerror) from None


# ---- requests ----


class State(enum.IntEnum):
    """The state of a request or batch."""

    WAITING, PENDING, COMPLETED, CANCELED, FAILED = range(5)


class Status(NamedTuple):
    """The status of a request, or of a whole batch."""

    state: State
    err: int  # -errno if it has failed or was canceled, else 0
    bytes: int  # bytes that have been moved


class Op(enum.IntEnum):
    """The direction of a request."""

    READ, WRITE = range(2)  # remote to local; local to remote


class Request(NamedTuple):
    """Moves all bytes of `local`, registered memory or a part of it, from or to the peer's address `remote`."""

    op: Op
    local: Any
    segment: "Segment"
    remote: int
    notify: int = 0  # if not 0, the peer gets it as a notice
    priority: int = 0
    stream: int | None = None  # for memory of a GPU: a CUstream; None: the default stream; 0: no stream
    note: bytes = b""  # up to 64 bytes, which the peer gets as a notice


class Note(NamedTuple):
    """The notice of a request that has ended."""

    peer: int  # the peer's number, from 1, in the order of the imports of this engine's description
    notify: int
    note: bytes


def _left_ms(until):
    """Returns the time of the next wait in C, in milliseconds. until=None: there is no limit."""
    return _SIGNALS_MS if until is None else min(milliseconds(until - time.monotonic()), _SIGNALS_MS)


class _Child(Handle):
    """An object that ends at the latest when its engine ends."""

    def _own(self, engine, pointer, destroy):
        self._engine = engine
        of_engine = engine._end  # a reference to the engine itself would keep it alive
        super()._own(pointer, lambda p: of_engine.alive and destroy(p))

    @property
    def _open(self):
        return self._engine._open and super()._open


def _end_batch(pointer):
    _lib.tent_cancel(pointer)
    _lib.tent_wait(pointer, -1)
    _lib.tent_batch_free(pointer)


class Batch(_Child):
    """Requests that were submitted together. A batch is canceled if it is closed, or its last reference disappears, before
    its requests have ended; close() then waits for the slices in flight. `await batch` waits in asyncio, and raises the same
    exceptions as wait()."""

    def __init__(self, engine, pointer, used):
        self._own(engine, pointer, _end_batch)
        self._used = used  # local memory and segments

    def status(self, i: int | None = None) -> Status:
        """Returns the status of request number i, or of the whole batch."""
        status = _Status()
        if i is None:
            _lib.tent_batch_status(self._open, byref(status), ctypes.sizeof(status))
        elif _lib.tent_task_status(self._open, fits(c_uint32, i), byref(status), ctypes.sizeof(status)):
            raise IndexError(f"the batch has no request {i}")
        return Status(State(status.state), status.err, status.bytes)

    @property
    def done(self) -> bool:
        """True if all requests have ended."""
        return self.status().state != State.PENDING

    def result(self) -> int:
        """Returns the number of bytes that were moved, or raises the first error of a request. BlockingIOError: some
        requests have not ended."""
        status = self.status()
        if status.state == State.PENDING:
            raise BlockingIOError("the batch has not ended")
        if status.err:
            raise error(status.err)
        return status.bytes

    def wait(self, timeout: float | None = None) -> int:
        """Waits until all requests have ended, then returns the value of result() or raises its exception. TimeoutError:
        some requests have not ended; they continue."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _left_ms(until)
            # -ETIMEDOUT may also be the error of a request.
            if _lib.tent_wait(self._open, left) != -errno.ETIMEDOUT or self.done:
                return self.result()
            if not left:
                raise TimeoutError("the batch has not ended")

    def __await__(self):
        if not self.done:
            yield from _readable(self.fileno()).__await__()
        return self.result()

    def fileno(self) -> int:
        """The descriptor that becomes readable when all requests have ended."""
        return _lib.tent_batch_fd(self._open)

    def close(self) -> None:
        super().close()
        self._used = None

    def cancel(self) -> None:
        """Cancels the requests that have not ended; see tent_cancel()."""
        _lib.tent_cancel(self._open)


async def _readable(fd):
    """Waits in asyncio until a descriptor is readable. Several tasks may wait for the same descriptor."""
    copy = os.dup(fd)
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.add_reader(copy, lambda: future.done() or future.set_result(None))
    try:
        await future
    finally:
        loop.remove_reader(copy)
        os.close(copy)


# ---- segments ----


class Remote(NamedTuple):
    """Memory of a peer."""

    addr: int
    len: int
    location: str


class RailStats(NamedTuple):
    """Statistics of a pair of rails; see struct tent_rail_stats."""

    name: str
    remote: str
    up: bool
    bytes: int
    slices: int
    inflight: int
    exclusions: int
    fault: str
    link_gbps: float
    rate_gbps: float


class Segment(_Child):
    """The memory of a peer that has exported it."""

    def __init__(self, engine, pointer):
        self._own(engine, pointer, _lib.tent_release)

    def _rows(self, function, kind):
        row = kind()
        for i in itertools.count():
            if function(self._open, i, byref(row), ctypes.sizeof(row)):
                return
            yield row

    def remotes(self) -> list[Remote]:
        """Returns the peer's registrations in the order of their addresses."""
        return [Remote(r.addr, r.len, r.location.decode()) for r in self._rows(_lib.tent_segment_remote, _Remote)]

    def _knows(self, version, left):
        err = _lib.tent_segment_await(self._open, fits(c_uint64, version), left)
        if err not in (0, -errno.ETIMEDOUT):
            raise error(err)
        return not err

    def wait_version(self, version: int, timeout: float | None = None) -> None:
        """Waits until requests may use the memory that the peer had registered when its Engine.version had this value.
        TimeoutError: the time is over. ConnectionResetError: the peer is gone."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._knows(version, left := _left_ms(until)):
            if not left:
                raise TimeoutError("the peer's memory is not known yet")

    async def next_version(self, version: int) -> None:
        """Like wait_version(), in asyncio. Because no descriptor reports new versions, it checks every few milliseconds."""
        while not self._knows(version, 0):
            await asyncio.sleep(.005)

    def stats(self) -> list[RailStats]:
        """Returns the statistics of each pair of rails."""
        return [RailStats(r.name.decode(), r.remote.decode(), r.up, r.bytes, r.slices, r.inflight, r.exclusions,
                          _lib.tent_fault_name(r.fault).decode(), r.link_gbps, r.rate_gbps)
                for r in self._rows(_lib.tent_rail_get_stats, _RailStats)]

    def close(self) -> None:
        """Disconnects from the peer. OSError with EBUSY: the segment has a request that has not ended."""
        if not self.closed and not self._engine.closed:
            _lib.tent_release(self._open)
        self._end.detach()


# ---- engines ----


class Memory:
    """Registered memory. It stays registered, and the object with the memory stays alive, until unregister() or the end of
    the engine."""

    def __init__(self, engine, span):
        self._engine, self.addr, self.nbytes = engine, span.addr, span.nbytes
        engine._memory[span.addr] = span

    def _span(self):
        if not (span := self._engine._memory.get(self.addr)):
            raise ValueError("the memory is not registered any more")
        return span

    def unregister(self) -> None:
        """Ends the registration: no peer uses the memory any more. See tent_unregister()."""
        _lib.tent_unregister(self._engine._open, self._span().addr)
        del self._engine._memory[self.addr]


class Allocation(Memory):
    """Memory from alloc(). unregister() or the end of the engine frees it; both are refused while a view of it exists."""

    def __init__(self, engine, span):
        super().__init__(engine, span)
        self._bytes = lambda: None  # returns the ctypes object under all views, or None

    @property
    def view(self) -> memoryview:
        """A memoryview of the bytes: use `numpy.frombuffer(memory.view)`, `torch.frombuffer(memory.view)`, or slices."""
        self._span()
        if not (found := self._bytes()):
            found = (ctypes.c_char * self.nbytes).from_address(self.addr)
            found.engine = self._engine  # keeps the engine open
            self._bytes = weakref.ref(found)
        return memoryview(found).cast("B")

    def _free(self):
        if self._bytes():
            raise BufferError("there is a view of the memory")

    def unregister(self) -> None:
        """Frees the memory. BufferError: a view of it exists. See tent_unregister()."""
        self._free()
        super().unregister()


class Engine(Handle):
    """Moves memory from and to peers, over rails. Attributes: config (JSON text, or a dict), config_file, address, port,
    shm_rails, tcp_rails, gpu_rails, adapters, max_tasks and so on; see struct tent_attr. If none of the attributes
    shm_rails, tcp_rails, gpu_rails and adapters is given, the rails are the host's adapters. The end of the engine
    unregisters all memory, and ends all segments and batches."""

    def __init__(self, **attributes):
        if isinstance(attributes.get("config"), dict):
            attributes["config"] = json.dumps(attributes["config"])
        pointer = c_void_p()
        _explained(_lib.tent_create, byref(_Attr(**attributes)), _Why, byref(pointer))
        self._memory = {}  # keeps registered memory in place
        self._allocations = weakref.WeakSet()
        self._own(pointer, _lib.tent_destroy)

    def close(self) -> None:
        """Destroys the engine and all its objects; see tent_destroy(). BufferError: a view of its memory exists."""
        for memory in list(self._allocations):
            memory._free()
        super().close()
        self._memory.clear()

    def register(self, obj: Any, location: str | None = None) -> Memory:
        """Registers the memory of an object, for requests of this engine and of its peers. location: the memory's NUMA
        node as "cpu:N"; not needed for memory of a GPU. BufferError: the memory is read-only, not contiguous, or neither
        of the CPU nor of a CUDA GPU."""
        span = _span(obj)
        location = location or span.location
        _explained(_lib.tent_register, self._open, span.addr, span.nbytes, location and name_of(location), _Why)
        return Memory(self, span)

    def alloc(self, nbytes: int, location: str | None = None) -> Allocation:
        """Allocates memory that is filled with 0, and registers it; see tent_alloc()."""
        pointer = c_void_p()
        _explained(_lib.tent_alloc, self._open, fits(c_size_t, nbytes), location and name_of(location), _Why,
                   byref(pointer))
        memory = Allocation(self, _Span(pointer.value, nbytes, None))
        self._allocations.add(memory)
        return memory

    def export(self) -> str:
        """Returns the description of this engine and of its memory. A process that has the description can read and write the
        memory."""
        text = c_void_p()
        _lib.tent_export(self._open, byref(text))
        try:
            return ctypes.string_at(text.value).decode()
        finally:
            _libc.free(text)

    def connect(self, text: str) -> Segment:
        """Imports the description that a peer has exported, and connects to it."""
        pointer = c_void_p()
        _explained(_lib.tent_import, self._open, name_of(text), _Why, byref(pointer))
        return Segment(self, pointer)

    @property
    def version(self) -> int:
        """The version of this engine's memory. Each register() and alloc() increases the version. A peer passes it to
        Segment.wait_version()."""
        return _lib.tent_version(self._open)

    def publish(self, file: str | os.PathLike[str], name: str) -> None:
        """Exports the engine and appends the description to the directory (a file) under `name`: up to 63 characters
        without blanks. For another store, such as etcd: `store[name] = engine.export()`, `engine.connect(store[name])`."""
        _explained(_lib.tent_publish, self._open, byref(_Directory(file=os.fspath(file))), name_of(name), _Why)

    def find(self, file: str | os.PathLike[str], name: str) -> Segment:
        """Imports the last description of `name` in the directory. FileNotFoundError: there is no such description, or no
        such file."""
        pointer = c_void_p()
        _explained(_lib.tent_find, self._open, byref(_Directory(file=os.fspath(file))), name_of(name), _Why,
                   byref(pointer))
        return Segment(self, pointer)

    def submit(self, requests: Iterable[Request]) -> Batch:
        """Starts all requests, or none if there is an error. BlockingIOError: too many requests have not ended; wait for
        some."""
        requests = list(requests)
        array, used = (_Request * len(requests))(), []
        for r, c in zip(requests, array):
            # _span() must come before tent_submit(): the object that owns the memory makes the stream wait for its work.
            span = _span(r.local, _LEGACY if r.stream is None else r.stream or _NO_STREAM)
            if r.segment._engine is not self:
                raise ValueError("the segment is another engine's")
            used.append((span.owner, r.segment))
            c.size, c.op, c.local, c.segment = ctypes.sizeof(c), Op(r.op), span.addr, r.segment._open
            c.remote, c.len = fits(c_uint64, r.remote), span.nbytes
            c.notify, c.priority = fits(c_uint16, r.notify), fits(c_uint8, r.priority)
            c.note, c.note_len = r.note, len(r.note)
            c.stream = fits(c_size_t, (_LEGACY if span.location else 0) if r.stream is None else r.stream)
        pointer = c_void_p()
        _lib.tent_submit(self._open, array, len(requests), byref(pointer))
        return Batch(self, pointer, used)

    def write(self, local: Any, segment: Segment, remote: int, **more: Any) -> Batch:
        """Submits one request that writes the bytes of `local` to the peer's address. Further arguments: notify, priority,
        stream, note."""
        return self.submit([Request(Op.WRITE, local, segment, remote, **more)])

    def read(self, local: Any, segment: Segment, remote: int, **more: Any) -> Batch:
        """Submits one request that fills `local` from the peer's address. Further arguments: notify, priority, stream,
        note."""
        return self.submit([Request(Op.READ, local, segment, remote, **more)])

    def notice(self) -> int | None:
        """Returns the next notice: the value `notify` of a peer's request whose bytes are in place; None: there is none."""
        value = c_uint16()
        return None if _lib.tent_notice(self._open, byref(value)) else value.value

    def note(self) -> Note | None:
        """Like notice(), with the request's note and the peer's number."""
        note = _Note()
        if _lib.tent_note_take(self._open, byref(note), ctypes.sizeof(note)):
            return None
        return Note(note.peer, note.notify, bytes(note.bytes[:note.len]))

    def notice_fileno(self) -> int:
        """The descriptor that is readable while there is a notice."""
        return _lib.tent_notice_fd(self._open)

    def wait_notice(self, timeout: float | None = None) -> int:
        """Waits for a notice and returns it. TimeoutError: there was none."""
        until = None if timeout is None else time.monotonic() + timeout
        while (value := self.notice()) is None:
            poller = select.poll()  # unlike select(), takes a descriptor of any size
            poller.register(self.notice_fileno(), select.POLLIN)
            if not poller.poll(milliseconds(None if until is None else until - time.monotonic())):
                raise TimeoutError("there is no notice")
        return value

    async def next_notice(self) -> int:
        """Like wait_notice(), in asyncio."""
        while (value := self.notice()) is None:
            await _readable(self.notice_fileno())
        return value

    def _text(self, function):
        text, size = c_char_p(), c_size_t()
        stream = _libc.open_memstream(byref(text), byref(size))
        if not stream:
            raise MemoryError
        try:
            function(self._open, stream)
        finally:
            _libc.fclose(stream)
            written = ctypes.string_at(text, size.value)
            _libc.free(text)
        return written.decode()

    def stats(self) -> dict[str, Any]:
        """Returns the statistics of all segments; see tent_stats_json()."""
        return json.loads(self._text(_lib.tent_stats_json))

    def prometheus(self) -> str:
        """Returns the statistics in Prometheus' text format."""
        return self._text(_lib.tent_stats_prometheus)
