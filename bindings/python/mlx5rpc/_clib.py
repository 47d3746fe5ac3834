# SPDX-License-Identifier: MIT
"""Common parts of shmipc, copyrpc and tent: loading a library, errors, attributes, ownership of C objects."""
import ctypes
import errno
import os
import pathlib
import weakref

try:
    from ._where import LIBDIR
except ImportError:  # in the source tree, which contains no built libraries
    LIBDIR = None

FOREVER_NS = 2**64 - 1
STATUS = object()  # the result of a function that returns 0 or a count, or -errno
RETRY = (errno.EAGAIN, errno.ENOBUFS)  # poll, then call again


def error(code, filename=None):
    """Returns the exception for -errno: BlockingIOError if a retry can succeed, else the type that OSError chooses."""
    kind = BlockingIOError if -code in RETRY else OSError
    return kind(-code, os.strerror(-code), *([filename] if filename else []))


def _checked(result, _function, _arguments):
    if result < 0:
        raise error(result)
    return result


def _beside(soname):
    """Returns the path of the library below this module's prefix if there is such a file, else the library's name, which
    ld.so looks up."""
    for prefix in pathlib.Path(__file__).absolute().parents:
        if LIBDIR and (prefix / LIBDIR / soname).exists():
            return str(prefix / LIBDIR / soname)
    return soname


def library(soname, functions, needs=()):
    """Loads first the libraries that a library needs, so that ld.so finds them by their names, then the library itself.
    `functions`: {name: (type of the result, or STATUS; types of the arguments)}."""
    for needed in needs:
        ctypes.CDLL(_beside(needed))
    lib = ctypes.CDLL(_beside(soname))
    for name, (result, *arguments) in functions.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int if result is STATUS else result
        if result is STATUS:
            function.errcheck = _checked
    return lib


def fits(ctype, value):
    """Checks that the value fits the type, and returns it: ctypes would truncate it silently."""
    if ctype(value).value != value:
        raise OverflowError(f"{value} does not fit into {ctype.__name__}")
    return value


def payload(data):
    """Returns the bytes of an object with the buffer protocol. Does not call bytes(data), because bytes(5) is five zeros."""
    return data if isinstance(data, bytes) else memoryview(data).tobytes()


def name_of(text):
    """Encodes a string for C, and refuses a zero byte, which would end it."""
    if "\0" in text:
        raise ValueError("a name with a zero byte")
    return text.encode()


class Attributes(ctypes.Structure):
    """A struct of attributes. Zero is the default; `_bits_` has the bits of `set` for the fields in which
    0 is a valid value."""

    _bits_ = {}

    def __init__(self, **given):
        super().__init__()
        types = dict(self._fields_)
        if types.pop("size", None):
            self.size = ctypes.sizeof(self)
        types.pop("set", None)
        for name, value in given.items():
            if name not in types:
                raise TypeError(f"no attribute {name!r}; give some of {', '.join(types)}")
            if isinstance(value, str):
                value = name_of(value)
            elif isinstance(value, int):
                fits(types[name], value)
            setattr(self, name, value)
            if name in self._bits_:
                self.set |= self._bits_[name]


def as_dict(struct):
    """Returns the fields of a struct of numbers as a dict."""
    return {name: getattr(struct, name) for name, _ in struct._fields_ if name not in ("set", "size")}


def counters(read, pointer, kind):
    """Returns the fields of a struct, which the C function fills in, as a dict."""
    struct = kind()
    read(pointer, ctypes.byref(struct), ctypes.sizeof(struct))
    return as_dict(struct)


def nanoseconds(seconds):
    """Converts a timeout to nanoseconds; None: for ever."""
    return FOREVER_NS if seconds is None else min(max(int(seconds * 1e9), 0), FOREVER_NS - 1)


def milliseconds(seconds):
    """Converts a timeout to milliseconds in a C int; None: for ever."""
    return -1 if seconds is None else min(max(int(seconds * 1e3), 0), 2**31 - 1)


class Handle:
    """Owns a C object. close(), the end of a `with` block, the loss of the last reference and the end of the program
    destroy it. A forked child does not destroy its parent's objects."""

    def _own(self, pointer, destroy):
        self._pointer = pointer
        self._end = weakref.finalize(self, self._end_in, os.getpid(), destroy, pointer)

    @staticmethod
    def _end_in(pid, destroy, pointer):
        if os.getpid() == pid:
            destroy(pointer)

    @property
    def _open(self):
        if self.closed:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._pointer

    @property
    def closed(self):
        return not self._end.alive

    def close(self):
        """Destroys the object. A second close() does nothing."""
        self._end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
