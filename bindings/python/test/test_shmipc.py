# SPDX-License-Identifier: MIT
"""shmipc from Python: a server and a client in two processes."""
import errno
import gc
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import unittest

from mlx5rpc import shmipc
from mlx5rpc._clib import Handle
from peer import LIMIT, Peer, close_in_child

SIZES = {"req_size": 300, "resp_size": 300, "depth": 16}


def region(name):
    return pathlib.Path("/dev/shm") / f"shmipc.{name}"


def serve(pipe, name, unlinked):
    """Answers with the reversed bytes; b"quit" ends the server, b"die" kills it."""
    with shmipc.Server(name, **SIZES) as server:
        pipe.send("ready")
        while True:
            for request in server.requests():
                if request.data == b"die":
                    if unlinked:
                        server.unlink()
                    os.kill(os.getpid(), signal.SIGKILL)
                request.reply(request.data[::-1])
                if request.data == b"quit":
                    return
            server.wait()


class Served(unittest.TestCase):
    """Tests with a server in a separate process and a client of it."""

    unlinked = False

    def setUp(self):
        self.name = f"python-{os.getpid()}"
        self.server = Peer(serve, self.name, self.unlinked)
        self.client = shmipc.Client(self.name)

    def tearDown(self):
        self.client.close()
        self.server.end()
        region(self.name).unlink(missing_ok=True)


class Calls(Served):
    def test_payloads_of_many_calls(self):
        sent = {i: os.urandom(i) for i in range(301)}
        waiting, got = list(sent.items()), {}
        while len(got) < len(sent):
            try:
                while waiting:
                    self.client.call(waiting[-1][1], token=("call", waiting[-1][0]))
                    waiting.pop()
            except BlockingIOError:
                self.assertEqual(self.client.pending, SIZES["depth"])
            responses = self.client.poll()
            got.update((token[1], data) for token, data in responses)
            if not responses:
                self.assertTrue(self.client.wait(LIMIT))
        self.assertEqual(got, {i: data[::-1] for i, data in sent.items()})
        self.assertEqual(self.client.pending, 0)
        self.assertEqual(self.client.stats()["responses"], 301)

    def test_request_and_end(self):
        self.assertEqual(self.client.request(bytearray(b"abc"), LIMIT), b"cba")
        self.assertEqual(self.client.request(b"", LIMIT), b"")
        self.assertEqual(self.client.request(b"quit", LIMIT), b"tiuq")
        self.server.process.join(LIMIT)
        self.assertEqual(self.server.process.exitcode, 0)
        self.assertFalse(region(self.name).exists())
        with self.assertRaises(BrokenPipeError):
            while True:
                self.client.request(b"more", LIMIT)
        with self.assertRaises(FileNotFoundError) as caught:
            shmipc.Client(self.name)
        self.assertEqual(caught.exception.filename, self.name)

    def test_descriptor(self):
        poller = select.poll()
        poller.register(self.client, select.POLLIN)
        self.client.call(b"xy", token=7)
        done = []
        while not done:
            if self.client.arm():
                poller.poll(LIMIT * 1000)
            done = self.client.poll()
        self.assertEqual(done, [(7, b"yx")])

    def test_request_beside_calls(self):
        for token in "ab":
            self.client.call(token.encode() + b"1", token)
        self.assertEqual(self.client.request(b"xyz", LIMIT), b"zyx")  # this server answers in order
        self.assertEqual(self.client.pending, 2)
        self.client.fileno()
        self.assertFalse(self.client.arm())
        self.assertTrue(self.client.wait())
        self.assertEqual(self.client.poll(), [("a", b"1a"), ("b", b"1b")])
        self.assertEqual(self.client.pending, 0)
        self.client.call(b"one", 1)
        with self.assertRaises(BrokenPipeError):
            self.client.request(b"die", LIMIT)
        self.assertEqual(self.client.abort(), [])
        self.assertEqual(self.client.poll(), [(1, b"eno")])

    def test_errors(self):
        with self.assertRaisesRegex(OSError, os.strerror(errno.EMSGSIZE)):
            self.client.call(bytes(301))
        for wrong in ("text", 5, None):
            with self.assertRaises(TypeError):
                self.client.call(wrong)
        self.assertEqual(self.client.pending, 0)
        with self.assertRaisesRegex(OSError, os.strerror(errno.EADDRINUSE)):
            shmipc.Server(self.name)
        with self.assertRaisesRegex(OSError, os.strerror(errno.EPROTO)):
            shmipc.Client(self.name, req_size=8)
        self.client.close()
        self.client.close()
        for use in (self.client.poll, self.client.call, self.client.fileno, self.client.stats):
            with self.assertRaises(ValueError):
                use()


class Killed(Served):
    unlinked = True

    def test_kill(self):
        for token in "ab":
            self.client.call(b"die", token)
        with self.assertRaises(BrokenPipeError):
            while not self.client.poll():
                self.client.wait(LIMIT)
        self.assertEqual(sorted(self.client.abort()), ["a", "b"])
        self.assertEqual(self.client.pending, 0)
        self.assertFalse(region(self.name).exists())
        self.client.close()
        with shmipc.Server(self.name) as server, shmipc.Client(self.name) as client:
            client.call(b"again")
            while not (requests := list(server.requests())):
                pass
            self.assertEqual([r.data for r in requests], [b"again"])


class Alone(unittest.TestCase):
    name = f"python-alone-{os.getpid()}"

    def test_serve(self):
        with shmipc.Server(self.name) as server, shmipc.Client(self.name) as client:
            kept = []
            for i in range(5):
                client.call(b"%d" % i, i)
            client.flush()
            self.assertEqual(server.serve(kept.append, 2), 2)
            with self.assertRaises(ZeroDivisionError):
                server.serve(lambda request: (request.reply(request.data + b"."), 1 / 0), 3)
            self.assertEqual(client.poll(), [(2, b"2.")])
            while len(kept) < 4:
                self.assertEqual(server.serve(kept.append, 1), 1)
            for request in kept:
                request.reply(request.data)
            self.assertEqual(server.serve(kept.append), 0)
            self.assertEqual(client.poll(), [(i, b"%d" % i) for i in (0, 1, 3, 4)])
            with self.assertRaisesRegex(OSError, os.strerror(errno.EINVAL)):
                server.events()

    def test_events(self):
        with shmipc.Server(self.name, events=1) as server:
            client, seen = shmipc.Client(self.name), []
            client.call(b"x")
            client.flush()
            self.assertEqual(server.serve(seen.append), 0)
            came, = server.events()
            self.assertEqual([came.kind, came.index], [shmipc.CAME, client.index])
            self.assertEqual([came.pid, came.uid, came.gid], [os.getpid(), os.getuid(), os.getgid()])
            self.assertEqual(server.serve(seen.append), 1)
            self.assertEqual(seen[0].index, came.index)
            client.close()
            self.assertTrue(server.wait(LIMIT))
            self.assertEqual([(e.kind, e.index) for e in server.events()], [(shmipc.LEFT, came.index)])
            with self.assertRaises(BrokenPipeError):
                seen[0].reply()

    def test_posts(self):
        with shmipc.Server(self.name, depth=4, req_size=8) as server, shmipc.Client(self.name) as client:
            for i in range(3):
                client.post(b"%d" % i)
            client.call(b"call", 7)
            self.assertEqual(client.posts, 3)
            self.assertEqual(client.pending, 1)
            with self.assertRaises(BlockingIOError):
                client.post(b"fifth")  # a post counts against the limit like a call
            with self.assertRaisesRegex(OSError, os.strerror(errno.EMSGSIZE)):
                client.post(bytes(9))
            with self.assertRaises(TypeError):
                client.post(8)
            client.flush()
            seen = []
            self.assertEqual(server.serve(seen.append), 4)
            self.assertEqual([(r.data, r.is_post) for r in seen],
                             [(b"0", True), (b"1", True), (b"2", True), (b"call", False)])
            self.assertEqual([r.index for r in seen], [client.index] * 4)
            with self.assertRaisesRegex(OSError, os.strerror(errno.EINVAL)):
                seen[0].reply(b"nobody waits")
            seen[3].reply(b"done")
            server.flush()
            self.assertEqual(client.poll(), [(7, b"done")])
            while client.posts:  # until the server has taken them
                self.assertTrue(client.wait(LIMIT))
            client.post()
            client.flush()
            self.assertEqual([r.data for r in server.requests()], [b""])
            self.assertEqual(client.stats()["posts"], 4)
            self.assertEqual(server.stats()["posts"], 4)

    def test_pushes(self):
        with shmipc.Server(self.name, pushes=2, resp_size=8) as server, shmipc.Client(self.name) as client:
            self.assertEqual(client.pushes(), [])  # from now on wait() also waits for pushes
            with self.assertRaises(BrokenPipeError):
                server.push(client.index, b"early")  # the server has not seen the client yet
            server.serve(print)
            for data in (b"1", b""):
                server.push(client.index, data)
            with self.assertRaises(BlockingIOError):
                server.push(client.index, b"3")
            with self.assertRaisesRegex(OSError, os.strerror(errno.EMSGSIZE)):
                server.push(client.index, bytes(9))
            with self.assertRaises(TypeError):
                server.push(client.index, 5)
            server.flush()
            self.assertTrue(client.wait(LIMIT))
            self.assertEqual(client.poll(), [])  # there are no responses
            self.assertEqual(client.pushes(), [b"1", b""])
            self.assertEqual(client.pushes(), [])
            server.push(client.index, b"3")
            server.flush()
            client.call(b"x", 1)
            client.flush()
            server.serve(lambda request: request.reply(b"y"))
            self.assertEqual(client.poll(), [(1, b"y")])
            self.assertEqual(client.pushes(), [b"3"])
            self.assertEqual(client.stats()["pushes"], 3)
            self.assertEqual([server.stats()[name] for name in ("pushes", "refused_pushes")], [3, 1])

    def test_reconnect(self):
        with self.assertRaises(FileNotFoundError):
            shmipc.Client(self.name, connect_ms=3)
        made = []
        thread = threading.Thread(target=lambda: made.append(shmipc.Client(self.name, connect_ms=1000 * LIMIT)))
        thread.start()
        server = shmipc.Server(self.name)
        thread.join(LIMIT)
        client, = made
        descriptor = client.fileno()
        with self.assertRaisesRegex(OSError, os.strerror(errno.EBUSY)):
            client.reconnect(0)
        client.call(b"lost", 1)
        server.close()
        with self.assertRaises(BrokenPipeError):
            while not client.poll():
                client.wait(LIMIT)
        self.assertEqual(client.abort(), [1])
        with self.assertRaises(FileNotFoundError):
            client.reconnect(0.01)
        with client, shmipc.Server(self.name) as server:
            client.reconnect(LIMIT)
            self.assertEqual(client.fileno(), descriptor)
            client.call(b"x", 2)
            client.flush()
            self.assertEqual(server.serve(lambda request: request.reply(b"y")), 1)
            self.assertEqual(client.poll(), [(2, b"y")])

    def test_attributes(self):
        for wrong in ({"deep": 3}, {"set": 1}):
            with self.assertRaises(TypeError):
                shmipc.Server(self.name, **wrong)
        for wrong in ({"depth": -1}, {"depth": 2**32 + 8}):
            with self.assertRaises(OverflowError):
                shmipc.Server(self.name, **wrong)
        for wrong in ("", "a/b", "a\0b"):
            with self.assertRaises((OSError, ValueError)):
                shmipc.Server(wrong)
        self.assertEqual(shmipc._Attr(gid=0).set, 1)  # gid 0 is a valid group; without gid the bit is not set
        with shmipc.Server(self.name, depth=9, req_size=100, gid=os.getgid(), mode=0o660) as server:
            self.assertEqual(server.attr["depth"], 9)
            self.assertEqual(server.attr["req_size"], 100)
            self.assertEqual(server.attr["gid"], os.getgid())

    def test_wait(self):
        with shmipc.Server(self.name) as server:
            self.assertFalse(server.wait(0))
            self.assertFalse(server.wait(0.01))
            self.assertFalse(server.wait(-1))
            with self.assertRaises(ConnectionAbortedError):
                self.interrupt(server)

    def interrupt(self, server):
        def on_alarm(*_):
            raise ConnectionAbortedError

        old = signal.signal(signal.SIGALRM, on_alarm)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            while True:
                server.wait(LIMIT)
        finally:
            signal.signal(signal.SIGALRM, old)

    def test_forgotten(self):
        server = shmipc.Server(self.name)
        client = shmipc.Client(self.name)
        self.assertTrue(region(self.name).exists())
        del server, client
        gc.collect()
        self.assertFalse(region(self.name).exists())

    def test_end_of_the_program(self):
        text = f"from mlx5rpc import shmipc; s = shmipc.Server({self.name!r}); c = shmipc.Client({self.name!r})"
        subprocess.run([sys.executable, "-c", text], check=True, timeout=LIMIT)
        self.assertFalse(region(self.name).exists())

    def test_only_who_made_it_ends_it(self):
        ended, end = os.pipe()
        handle = Handle()
        handle._own(None, lambda _: os.write(end, b"x"))
        close_in_child(handle)
        handle.close()
        handle.close()
        self.assertEqual(os.read(ended, 9), b"x")

    def test_forked_child(self):
        with shmipc.Server(self.name) as server:
            close_in_child(server)
            self.assertTrue(region(self.name).exists())
            with shmipc.Client(self.name) as client:
                client.call(b"x")
                client.flush()
                self.assertEqual(len(list(server.requests())), 1)


if __name__ == "__main__":
    unittest.main()
