# SPDX-License-Identifier: MIT
"""tent from Python, between two processes.

    test_tent.py shm|tcp|adapters      the kind of the rails
"""
import array
import asyncio
import ctypes
import errno
import gc
import os
import resource
import pathlib
import random
import signal
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
import weakref

import moves
from mlx5rpc import tent
from moves import KIND, RAILS, SIZE
from peer import LIMIT, Peer


def lend(pipe):
    """Lends SIZE bytes. Answers "bytes" with the bytes, "notice" with the next notice, "note" with the fields of a note
    that has arrived. "unregister" ends the registration, and is answered with the bytes."""
    memory = bytearray(SIZE)
    with tent.Engine(**RAILS) as engine:
        registered = engine.register(memory)
        pipe.send(engine.export())
        while what := pipe.recv():
            if what == "unregister":
                registered.unregister()
            if what == "notice":
                pipe.send(engine.wait_notice(LIMIT))
            else:
                pipe.send(tuple(engine.note()) if what == "note" else bytes(memory))


def lend_allocated(pipe):
    """Lends memory from alloc(). Answers with its bytes."""
    with tent.Engine(**RAILS) as engine:
        memory = engine.alloc(SIZE)
        pipe.send(engine.export())
        while pipe.recv():
            with memory.view as view:
                pipe.send(bytes(view))


def lend_later(pipe):
    """Receives the name of a file over the pipe, and publishes in this file an engine that has no memory yet. "grow"
    registers SIZE bytes, and is answered with the version and the address; "bytes" is answered with the bytes."""
    memory = bytearray(SIZE)
    with tent.Engine(**RAILS) as engine:
        pipe.send(engine.version)
        engine.publish(pipe.recv(), "late")
        pipe.send("")
        while what := pipe.recv():
            if what == "grow":
                addr = engine.register(memory).addr
                pipe.send((engine.version, addr))
            else:
                pipe.send(bytes(memory))


def mappings():
    """The number of mappings of memory from alloc() in this process, of own memory and of peers' memory."""
    with open("/proc/self/maps") as maps:
        return sum("/memfd:tent " in line for line in maps)


class FromDlpack:
    """An object that gives access to its memory by DLPack only."""

    exported = []  # objects with a capsule that still exists
    release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(lambda _: FromDlpack.exported.pop())

    def __init__(self, nbytes, device=1, strides=None, offset=0):
        self.memory = (ctypes.c_char * (nbytes + offset))()
        self.device = device
        shape = (ctypes.c_int64 * 2)(nbytes // 16, 8)
        self.kept = shape, strides and (ctypes.c_int64 * 2)(*strides)
        self.tensor = tent._Tensor(ctypes.addressof(self.memory), device, 0, 2, 0, 16, 1, shape, self.kept[1], offset)

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self):
        self.exported.append(self)
        return moves.new_capsule(ctypes.addressof(self.tensor), b"dltensor", self.release)


class FromPointer:
    """An object that gives access to its memory by data_ptr only, like a tensor without __dlpack__."""

    def __init__(self, nbytes, device="cpu", contiguous=True):
        self.memory = (ctypes.c_char * nbytes)()
        self.device = types.SimpleNamespace(type=device)
        self.contiguous = contiguous

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def numel(self):
        return len(self.memory) // 4

    def element_size(self):
        return 4

    def is_contiguous(self):
        return self.contiguous


class Test(moves.Test):
    def setUp(self):
        self.memory = bytearray(SIZE)
        self.connect(self.memory)

    def part(self, at, n):
        return memoryview(self.memory)[at:at + n]


class Moves(Test, moves.Moves):
    @classmethod
    def setUpClass(cls):
        cls.lender = Peer(lend)
        cls.addClassCleanup(cls.lender.end)

    def set(self, data):
        self.memory[:] = data

    def get(self):
        return self.memory

    def request(self, _rand, op, at, n):
        return tent.Request(op, self.part(at, n), self.segment, self.there.addr + at)

    def test_memory_of_all_kinds(self):
        kinds = [array.array("d", bytes(4096)), memoryview(bytearray(4096)).cast("B", (64, 64)), FromDlpack(4096),
                 FromDlpack(4096, strides=(8, 1), offset=64), FromPointer(4096), (ctypes.c_int * 1024)()]
        for obj in kinds:
            data = os.urandom(4096)
            registered = self.engine.register(obj)
            self.assertEqual(registered.nbytes, 4096)
            ctypes.memmove(registered.addr, data, 4096)
            self.engine.write(obj, self.segment, self.there.addr).wait(LIMIT)
            ctypes.memset(registered.addr, 0, 4096)
            self.engine.read(registered, self.segment, self.there.addr).wait(LIMIT)
            self.assertEqual(ctypes.string_at(registered.addr, 4096), data)
            registered.unregister()
        late = FromDlpack(4096, offset=64)
        self.assertEqual(self.engine.register(late).addr, ctypes.addressof(late.memory) + 64)

    def test_memory_that_is_refused(self):
        bad = [bytes(64), memoryview(bytearray(64))[::2], FromDlpack(64, device=4), FromDlpack(64, strides=(16, 1)),
               FromPointer(64, device="xpu"), FromPointer(64, contiguous=False), memoryview(bytearray(64)).toreadonly()]
        for obj in bad:
            with self.assertRaises(BufferError):
                self.engine.register(obj)
        for obj in 64, "text", None:
            with self.assertRaises(TypeError):
                self.engine.register(obj)
        with self.assertRaisesRegex(OSError, rf"Errno {errno.EFAULT}\]"):
            self.engine.write(bytearray(64), self.segment, self.there.addr)  # not registered
        for more in {"notify": 1 << 16}, {"priority": 256}:
            with self.assertRaises(OverflowError):
                self.engine.write(self.memory, self.segment, self.there.addr, **more)
        with self.assertRaises(OverflowError):
            self.engine.write(self.memory, self.segment, -1)

    def test_registered_memory_stays(self):
        buffer = bytearray(4096)
        registered, other = self.engine.register(buffer), self.engine.register(FromDlpack(4096))
        gc.collect()
        self.assertEqual(len(FromDlpack.exported), 1)
        with self.assertRaises(BufferError):
            buffer.extend(b"1")  # this would move the memory
        with self.assertRaisesRegex(OSError, rf"Errno {errno.EEXIST}\].*registered"):
            self.engine.register(buffer)
        for memory in registered, other:
            memory.unregister()
            with self.assertRaises(ValueError):
                memory.unregister()
            with self.assertRaises(ValueError):
                self.engine.write(memory, self.segment, self.there.addr)
        self.assertEqual(FromDlpack.exported, [])
        buffer.extend(b"1")

    def test_allocated_memory(self):
        memory, fresh = self.engine.alloc(SIZE), tent.Engine(**RAILS)
        self.assertEqual((memory.nbytes, bytes(memory.view)), (SIZE, bytes(SIZE)))
        view = memory.view[1000:3000]
        view[:] = data = os.urandom(2000)
        self.engine.write(view, self.segment, self.there.addr).wait(LIMIT)
        memory.view[:2000] = bytes(2000)
        self.engine.read(memory, self.segment, self.there.addr).wait(LIMIT)
        self.assertEqual(memory.view[:2000], data)
        other = memory.view
        for _ in range(2):
            gc.collect()
            for end in memory.unregister, self.engine.close:
                with self.assertRaises(BufferError):
                    end()
            view.release()
            view = other
        other.release()
        del view, other
        memory.unregister()
        for use in lambda: memory.view, memory.unregister:
            with self.assertRaises(ValueError):
                use()
        view = fresh.alloc(64).view
        fresh = weakref.ref(fresh)
        gc.collect()
        view[:] = bytes(64)  # the view keeps the engine alive
        del view
        gc.collect()
        self.assertIsNone(fresh())
        with self.assertRaises(OverflowError):
            self.engine.alloc(-1)
        with self.assertRaisesRegex(OSError, rf"Errno {errno.EINVAL}\]"):
            self.engine.alloc(0)

    def test_asyncio(self):
        async def move(i, n=SIZE // 64):
            part = self.part(i * n, n)
            part[:] = bytes([i]) * n
            self.assertEqual(await self.engine.write(part, self.segment, self.there.addr + i * n), n)
            batch = self.engine.read(part, self.segment, self.there.addr + i * n)
            self.assertEqual(await asyncio.gather(wait(batch), wait(batch)), [n, n])
            self.assertEqual(part, bytes([i]) * n)

        async def wait(batch):
            return await batch

        async def move_all():
            async with asyncio.timeout(LIMIT):
                await asyncio.gather(*(move(i) for i in range(64)))

        asyncio.run(move_all())
        self.assertEqual(self.lender.ask("bytes"), b"".join(bytes([i]) * (SIZE // 64) for i in range(64)))

    def test_notices(self):
        for value in 7, 65535:
            self.engine.write(self.part(0, 64), self.segment, self.there.addr, notify=value).wait(LIMIT)
            self.assertEqual(self.lender.ask("notice"), value)
        self.assertIsNone(self.engine.notice())
        with self.assertRaises(TimeoutError):
            self.engine.wait_notice(0)

    def test_a_notice_with_a_large_descriptor(self):
        """More descriptors are open than fit into an fd_set."""
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1024):
            self.addCleanup(os.close, os.dup(0))
        with tent.Engine(**RAILS) as engine:
            self.assertGreaterEqual(engine.notice_fileno(), 1024)
            with self.assertRaises(TimeoutError):
                engine.wait_notice(0)

    def test_notes(self):
        for value, note in (7, b"\0 of 64 bytes".ljust(64, b".")), (0, b"x"):
            self.engine.write(self.part(0, 64), self.segment, self.there.addr, notify=value, note=note).wait(LIMIT)
            peer, *said = self.lender.ask("note")
            self.assertGreater(peer, 0)
            self.assertEqual(said, [value, note])
        with self.assertRaisesRegex(OSError, "Invalid argument"):
            self.engine.write(self.part(0, 64), self.segment, self.there.addr, note=bytes(65))

    def test_a_notice_in_asyncio(self):
        own = self.engine.connect(self.engine.export())
        there = next(r for r in own.remotes() if r.addr == self.registered.addr).addr

        async def move():
            async with asyncio.timeout(LIMIT):
                notice = asyncio.create_task(self.engine.next_notice())
                await asyncio.sleep(0)
                await self.engine.write(self.part(0, 64), own, there + 64, notify=5)
                return await notice

        self.memory[:64] = os.urandom(64)
        self.assertEqual(asyncio.run(move()), 5)
        self.assertEqual(self.part(64, 64), self.part(0, 64))

    def test_statistics(self):
        self.engine.write(self.memory, self.segment, self.there.addr).wait(LIMIT)
        rails = self.segment.stats()
        self.assertEqual(sum(r.bytes for r in rails), SIZE)
        self.assertTrue(all(r.up and r.fault == "none" for r in rails), rails)
        [segment] = self.engine.stats()["segments"]
        self.assertEqual([r["rail"] for r in segment["rails"]], [r.name for r in rails])
        self.assertIn("tent_rail_bytes_total{", self.engine.prometheus())

    def test_who_ends_what(self):
        batch = self.engine.write(self.memory, self.segment, self.there.addr)
        batch.wait(LIMIT)
        with self.assertRaises(ValueError):
            tent.Engine(**RAILS).submit([tent.Request(tent.Op.READ, self.memory, self.segment, self.there.addr)])
        self.segment.close()
        self.segment.close()
        with self.assertRaises(ValueError):
            self.engine.write(self.memory, self.segment, self.there.addr)
        self.engine.close()
        for use in self.segment.remotes, batch.status, batch.cancel, self.engine.export, self.registered.unregister:
            with self.assertRaises(ValueError):
                use()
        batch.close()
        self.memory.extend(b"1")  # no longer refused, because nothing uses the memory


@unittest.skipUnless(KIND == "shm", "only copying threads map memory")
class Mapped(unittest.TestCase):
    def test_it_is_mapped(self):
        lender = Peer(lend_allocated)
        self.addCleanup(lender.end)
        with tent.Engine(**RAILS) as engine:
            memory, before = engine.alloc(SIZE), mappings()
            with engine.connect(lender.first) as segment, memory.view as view:
                self.assertEqual(mappings(), before + 1)
                view[:] = data = os.urandom(SIZE)
                self.assertEqual(engine.write(view, segment, segment.remotes()[0].addr).wait(LIMIT), SIZE)
                self.assertEqual(lender.ask(True), data)


class Directories(unittest.TestCase):
    def test_memory_that_comes_later(self):
        with tempfile.TemporaryDirectory() as tmp, tent.Engine(**RAILS) as engine:
            file = pathlib.Path(tmp, "directory")
            for name, number in ("late", errno.ENOENT), ("a name", errno.EINVAL), ("", errno.EINVAL):
                with self.assertRaisesRegex(OSError, rf"Errno {number}\]"):
                    engine.find(file, name)
            lender = Peer(lend_later)
            lender.ask(file)
            with self.assertRaises(FileNotFoundError):
                engine.find(file, "early")
            segment = engine.find(file, "late")
            self.assertEqual(segment.remotes(), [])
            with self.assertRaises(TimeoutError):
                segment.wait_version(lender.first + 1, timeout=.01)
            version, addr = asyncio.run(self.grow(segment, lender))
            self.assertEqual(version, lender.first + 1)
            segment.wait_version(version, timeout=LIMIT)
            self.assertEqual([(r.addr, r.len) for r in segment.remotes()], [(addr, SIZE)])
            mine = bytearray(random.randbytes(SIZE))
            engine.register(mine)
            engine.write(mine, segment, addr).wait(LIMIT)
            self.assertEqual(lender.ask("bytes"), mine)
            lender.end()
            with self.assertRaises(ConnectionResetError):
                segment.wait_version(version + 1)
            with self.assertRaises(ConnectionResetError):
                asyncio.run(segment.next_version(version + 1))

    async def grow(self, segment, lender):
        async with asyncio.timeout(LIMIT):
            known = asyncio.create_task(segment.next_version(lender.first + 1))
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(known), .02)
            grown = await asyncio.to_thread(lender.ask, "grow")
            await known
            return grown


class LateEnds(Test):
    """Each of these tests has a lender of its own."""

    def setUp(self):
        self.lender = Peer(lend)
        self.addCleanup(self.lender.end)
        super().setUp()

    def test_the_memory_is_gone(self):
        self.lender.ask("unregister")
        with self.assertRaises(OSError) as caught:
            self.engine.write(self.memory, self.segment, self.there.addr).wait(LIMIT)
        self.assertIn(caught.exception.errno, (errno.EFAULT, errno.EACCES))

    def test_the_peer_is_gone(self):
        self.lender.end()
        with self.assertRaises(OSError):
            while True:
                self.engine.write(self.memory, self.segment, self.there.addr).wait(LIMIT)

    @unittest.skipUnless(KIND == "tcp", "a stopped peer delays the bytes only of TCP")
    def test_others_run_during_a_wait(self):
        self.lender.stop()
        batch = self.engine.write(self.memory, self.segment, self.there.addr)
        with self.assertRaises(TimeoutError):
            batch.wait(0)
        self.assertFalse(batch.done)
        with self.assertRaises(BlockingIOError):
            batch.result()
        with self.assertRaisesRegex(OSError, rf"Errno {errno.EBUSY}\]"):
            self.segment.close()

        def interrupt(_, frame):
            if frame.f_code.co_filename == tent.__file__:  # the wait has begun
                self.lender.go_on()

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, .01, .01)
        self.assertEqual(batch.wait(), SIZE)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.lender.stop()
        canceled = self.engine.write(self.memory, self.segment, self.there.addr)
        canceled.cancel()
        self.lender.go_on()
        with self.assertRaisesRegex(OSError, rf"Errno {errno.ECANCELED}\]"):
            canceled.wait(LIMIT)


    @unittest.skipUnless(KIND == "tcp", "a stopped peer delays the bytes only of TCP")
    def test_the_wait_releases_the_gil(self):
        """During one wait in C without a time limit, another thread counts and then lets the stopped peer continue."""
        self.lender.stop()
        batch = self.engine.write(self.memory, self.segment, self.there.addr)
        counted = []

        def count():
            counted.extend(range(100000))
            counted.append(batch.done)
            self.lender.go_on()

        other = threading.Thread(target=count)
        with unittest.mock.patch.object(tent, "_SIGNALS_MS", -1):
            other.start()
            self.assertEqual(batch.wait(), SIZE)
        other.join()
        self.assertEqual(counted, [*range(100000), False])


class Attributes(unittest.TestCase):
    def test_errors_have_a_reason(self):
        with self.assertRaisesRegex(OSError, rf"Errno {errno.EINVAL}\].*scheduler"):
            tent.Engine(**RAILS, config={"scheduler": "best"})
        with self.assertRaisesRegex(TypeError, "^no attribute 'rails'; give some of config, .*shm_rails"):
            tent.Engine(rails=3)
        with tent.Engine(**RAILS, config={"scheduler": "smart"}) as engine:
            with self.assertRaisesRegex(OSError, rf"Errno {errno.EINVAL}\]"):
                engine.connect("{}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
