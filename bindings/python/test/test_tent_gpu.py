# SPDX-License-Identifier: MIT
"""Tensors on GPUs from Python, on the software GPU or a real one.

    test_tent_gpu.py gpu|tcp      the kind of the rails
"""
import asyncio
import ctypes
import errno
import multiprocessing
import os
import random
import sys
import types
import unittest
from ctypes import byref, c_size_t, c_uint64, c_void_p

from mlx5rpc import tent

LIMIT = 240  # seconds, so that a test does not hang
KIND = os.environ.setdefault("TENT_RAILS", *sys.argv[1:])  # child processes get it from the environment
RAILS = {f"{KIND}_rails": 2}
SIZE = 1 << 20
spawn = multiprocessing.get_context("spawn")
cuda = None


def open_cuda():
    """Loads the driver, and makes the context of GPU 0 current."""
    global cuda
    if cuda:
        return
    cuda = ctypes.CDLL("libcuda.so.1")
    context = c_void_p()
    cuda.cuMemcpy.argtypes = [c_uint64, c_uint64, c_size_t]
    cuda.cuMemcpyAsync.argtypes = [c_uint64, c_uint64, c_size_t, c_void_p]
    cuda.cuCtxPushCurrent_v2.argtypes = [c_void_p]
    assert not (cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(byref(context), 0) or cuda.cuCtxPushCurrent_v2(context))


class Tensor:
    """Bytes on a GPU, with a __dlpack__ that records the streams that consumers pass."""

    release = ctypes.PYFUNCTYPE(None, c_void_p)(lambda _: None)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]

    def __init__(self, nbytes, base=None, device=0):
        self.base, self.nbytes, self.device, self.streams = base, nbytes, device, []
        if base is None:
            self.base = c_uint64()
            assert not cuda.cuMemAlloc_v2(byref(self.base), c_size_t(nbytes))
            self.base = self.base.value
        self.shape = (ctypes.c_int64 * 1)(nbytes)
        self.tensor = tent._Tensor(self.base, 2, device, 1, 1, 8, 1, self.shape, None, 0)
        self.pending = None  # a function that adds work to a stream, which must end before the consumer may use the bytes

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        if self.pending:
            self.pending(stream)
        return self.new(ctypes.addressof(self.tensor), b"dltensor", self.release)

    def part(self, at, nbytes):
        return Tensor(nbytes, self.base + at)

    def set(self, data):
        source = ctypes.create_string_buffer(bytes(data), len(data))
        assert not cuda.cuMemcpy(self.base, ctypes.addressof(source), len(data))

    def get(self):
        data = ctypes.create_string_buffer(self.nbytes)
        assert not cuda.cuMemcpy(ctypes.addressof(data), self.base, self.nbytes)
        return data.raw


class FromPointer:
    """An object that gives access to its memory by data_ptr only."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.device = types.SimpleNamespace(type="cuda", index=tensor.device)

    def data_ptr(self):
        return self.tensor.base

    def numel(self):
        return self.tensor.nbytes

    def element_size(self):
        return 1

    def is_contiguous(self):
        return True


def lend(pipe):
    """Lends a tensor, and answers with its bytes."""
    open_cuda()
    with tent.Engine(**RAILS) as engine:
        tensor = Tensor(SIZE)
        tensor.set(bytes(SIZE))
        engine.register(tensor)
        pipe.send(engine.export())
        while pipe.recv():
            pipe.send(tensor.get())


class Gpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pipe, theirs = spawn.Pipe()
        process = spawn.Process(target=lend, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        cls.addClassCleanup(process.join, LIMIT)
        cls.addClassCleanup(process.kill)
        cls.text = cls.answer()
        open_cuda()

    @classmethod
    def answer(cls):
        assert cls.pipe.poll(LIMIT)
        return cls.pipe.recv()

    def setUp(self):
        self.tensor = Tensor(SIZE)
        self.tensor.set(bytes(SIZE))
        self.engine = tent.Engine(**RAILS)
        self.addCleanup(self.engine.close)
        self.registered = self.engine.register(self.tensor)
        self.segment = self.engine.connect(self.text)
        [self.there] = self.segment.remotes()

    def theirs(self):
        self.pipe.send(True)
        return self.answer()

    def test_bytes_arrive(self):
        """Requests of random length and position, whose effect a model predicts."""
        rand = random.Random(2)
        model = bytearray(self.theirs())
        self.assertEqual(self.there.location, "cuda:0")
        for _ in range(6):
            here, requests = bytearray(rand.randbytes(SIZE)), []
            self.tensor.set(here)
            cuts = sorted(rand.sample(range(SIZE + 1), 6))
            for at, end in zip(cuts, cuts[1:]):
                op = rand.choice(list(tent.Op))
                part = self.tensor.part(at, end - at)
                part = rand.choice([part, FromPointer(part)])
                requests.append(tent.Request(op, part, self.segment, self.there.addr + at, stream=rand.choice([None, 0])))
                if op == tent.Op.WRITE:
                    model[at:end] = here[at:end]
                else:
                    here[at:end] = model[at:end]
            self.assertEqual(self.engine.submit(requests).wait(LIMIT), cuts[-1] - cuts[0])
            self.assertEqual(self.tensor.get(), here)
        self.assertEqual(self.theirs(), model)

    def test_asyncio(self):
        async def move():
            async with asyncio.timeout(LIMIT):
                await self.engine.write(self.registered, self.segment, self.there.addr)

        self.tensor.set(data := os.urandom(SIZE))
        asyncio.run(move())
        self.assertEqual(self.theirs(), data)

    def test_streams(self):
        """The producer still writes the bytes. The stream that the consumer passes waits for the producer, and the request
        waits for the stream."""
        own = c_void_p()
        self.assertEqual(cuda.cuStreamCreate(byref(own), 1), 0)
        source = Tensor(SIZE)
        for stream, named in (None, 1), (own.value, own.value):
            def write_later(consumer):
                self.assertEqual(cuda.cuMemcpyAsync(self.tensor.base, source.base, SIZE, consumer), 0)

            self.tensor.set(bytes(SIZE))
            source.set(data := os.urandom(SIZE))
            self.tensor.pending = write_later
            self.engine.write(self.tensor, self.segment, self.there.addr, stream=stream).wait(LIMIT)
            self.tensor.pending = None
            self.assertEqual(self.theirs(), data)
            self.assertEqual(self.tensor.streams[-1], named)
        self.engine.write(self.tensor, self.segment, self.there.addr, stream=0).wait(LIMIT)
        self.assertEqual(self.tensor.streams[-1], -1)
        self.assertEqual(self.tensor.streams[0], -1)  # passed by register()

    def test_memory_that_is_refused(self):
        for obj in Tensor(64, self.tensor.base, device=1), Tensor(64, ctypes.addressof(ctypes.create_string_buffer(64))):
            with self.assertRaises(OSError) as caught:
                self.engine.register(obj)
            self.assertEqual(caught.exception.errno, errno.EINVAL)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
