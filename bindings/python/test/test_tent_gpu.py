# SPDX-License-Identifier: MIT
"""Tensors on GPUs from Python, on the software GPU or a real one.

    test_tent_gpu.py gpu|tcp      the kind of the rails
"""
import asyncio
import ctypes
import errno
import os
import sys
import unittest
from ctypes import byref, c_size_t, c_uint64, c_void_p

import moves
import tensor_gpu  # the example
from mlx5rpc import tent
from moves import RAILS, SIZE
from peer import LIMIT, Peer

cuda = tensor_gpu.driver()
cuda.cuMemcpyAsync.argtypes = [c_uint64, c_uint64, c_size_t, c_void_p]


class Tensor:
    """Bytes on a GPU, with a __dlpack__ that records the streams that consumers pass."""

    release = ctypes.PYFUNCTYPE(None, c_void_p)(lambda _: None)

    def __init__(self, nbytes, base=None, device=0):
        self.base, self.nbytes, self.device, self.streams = base, nbytes, device, []
        if base is None:
            self.base = c_uint64()
            assert not cuda.cuMemAlloc_v2(byref(self.base), c_size_t(nbytes))
            self.base = self.base.value
        self.shape = (ctypes.c_int64 * 1)(nbytes)
        self.tensor = tent._Tensor(self.base, 2, device, 1, 1, 8, 1, self.shape, None, 0)
        self.pending = None  # a function that adds work to a stream; the consumer may use the bytes after this work

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        if self.pending:
            self.pending(stream)
        return moves.new_capsule(ctypes.addressof(self.tensor), b"dltensor", self.release)

    def part(self, at, nbytes):
        return Tensor(nbytes, self.base + at)

    def set(self, data):
        source = ctypes.create_string_buffer(bytes(data), len(data))
        assert not cuda.cuMemcpy(self.base, ctypes.addressof(source), len(data))

    def get(self):
        data = ctypes.create_string_buffer(self.nbytes)
        assert not cuda.cuMemcpy(ctypes.addressof(data), self.base, self.nbytes)
        return data.raw


class FromPointer(tensor_gpu.Floats):
    """The bytes of a tensor on GPU 0, to which only data_ptr gives access."""

    def __init__(self, tensor):
        self.at, self.count = tensor.base, tensor.nbytes

    def element_size(self):
        return 1


def lend(pipe):
    """Lends a tensor, and answers with its bytes."""
    with tent.Engine(**RAILS) as engine:
        tensor = Tensor(SIZE)
        tensor.set(bytes(SIZE))
        engine.register(tensor)
        pipe.send(engine.export())
        while pipe.recv():
            pipe.send(tensor.get())


class Gpu(moves.Moves):
    @classmethod
    def setUpClass(cls):
        cls.lender = Peer(lend)
        cls.addClassCleanup(cls.lender.end)

    def setUp(self):
        self.tensor = Tensor(SIZE)
        self.tensor.set(bytes(SIZE))
        self.connect(self.tensor)
        self.set, self.get = self.tensor.set, self.tensor.get

    def request(self, rand, op, at, n):
        part = self.tensor.part(at, n)
        return tent.Request(op, rand.choice([part, FromPointer(part)]), self.segment, self.there.addr + at,
                            stream=rand.choice([None, 0]))

    def test_location(self):
        self.assertEqual(self.there.location, "cuda:0")

    def test_asyncio(self):
        async def move():
            async with asyncio.timeout(LIMIT):
                await self.engine.write(self.registered, self.segment, self.there.addr)

        self.tensor.set(data := os.urandom(SIZE))
        asyncio.run(move())
        self.assertEqual(self.lender.ask("bytes"), data)

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
            self.assertEqual(self.lender.ask("bytes"), data)
            self.assertEqual(self.tensor.streams[-1], named)
        self.engine.write(self.tensor, self.segment, self.there.addr, stream=0).wait(LIMIT)
        self.assertEqual(self.tensor.streams[-1], -1)
        self.assertEqual(self.tensor.streams[0], -1)  # passed by register()

    def test_memory_that_is_refused(self):
        for obj in Tensor(64, self.tensor.base, device=1), Tensor(64, ctypes.addressof(ctypes.create_string_buffer(64))):
            with self.assertRaisesRegex(OSError, rf"Errno {errno.EINVAL}\]"):
                self.engine.register(obj)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
