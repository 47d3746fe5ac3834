# SPDX-License-Identifier: MIT
"""copyrpc from Python: two processes over the software HCA."""
import contextlib
import ctypes
import errno
import itertools
import os
import select
import signal
import socket
import unittest

from mlx5rpc import copyrpc
from peer import LIMIT, Peer, close_in_child

CALLS = 64
FEW = 16  # calls for which a new endpoint has room


def turn_around(context, request):
    """Pulls the memory that the request describes, and pushes the bytes back in reversed order before the reply."""
    endpoint, mine = request.endpoint, bytearray(1 << 20)
    with contextlib.ExitStack() as stack:
        stack.callback(request.reply)
        try:
            remote = endpoint.remote(request.data[5:])
        except OSError:
            return
        bulk = stack.enter_context(context.bulk(mine, 0))
        endpoint.pull(remote, bulk, "pulled")
        wait_for(context, "pulled")
        mine[:len(remote)] = mine[:len(remote)][::-1]
        endpoint.push(bulk, remote, "pushed")
        wait_for(context, "pushed")


def wait_for(context, token):
    while not (ends := context.poll()):
        pass
    assert [(end.token, end.result()) for end in ends] == [(token, b"")], ends


def serve(pipe):
    """Answers with the reversed bytes; b"die" kills the server, b"hold" gets no answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    with copyrpc.Context(ring_size=65536) as context:
        pipe.send(listener.getsockname()[1])
        context.accept_large(1 << 20)
        context.accept(listener, LIMIT, name="the test")
        while True:
            context.poll()
            for request in context.requests():
                if request.data == b"die":
                    os.kill(os.getpid(), signal.SIGKILL)
                if request.data == b"long":
                    try:
                        request.reply(bytes(request.allowance + 1))
                    except OSError as e:
                        assert e.errno == errno.EMSGSIZE
                if request.data[:5] == b"bulk ":
                    turn_around(context, request)
                elif request.data != b"hold":
                    request.reply(request.data[::-1])
            if context.arm():
                select.select([context], [], [], context.timeout())


class Calls(unittest.TestCase):
    def setUp(self):
        self.server = Peer(serve)
        self.context = copyrpc.Context(ring_size=65536, path=copyrpc.Path(timeout=14))
        self.endpoint = self.context.connect("127.0.0.1", self.server.first, LIMIT, name="server")

    def tearDown(self):
        self.context.close()
        self.server.end()

    def finish(self):
        """Returns all responses, by token."""
        found = {}
        while self.context.pending:
            for response in self.context.poll():
                self.assertIs(response.endpoint, self.endpoint)
                self.assertNotIn(response.token, found)
                found[response.token] = response
            if self.context.pending and self.context.arm():
                select.select([self.context], [], [], self.context.timeout())
        return found

    def test_large_calls(self):
        sent = {size: os.urandom(size) for size in (1, 100_000, 1 << 20)}
        early = {}
        for token, data, size in *((t, d, len(d)) for t, d in sent.items()), ("too large", bytes((1 << 20) + 1), 0):
            while True:
                with contextlib.suppress(BlockingIOError):  # raised until the rings have grown
                    self.endpoint.call_large(data, size, token)
                    break
                early |= {response.token: response for response in self.context.poll()}
        found = early | self.finish()
        with self.assertRaisesRegex(OSError, os.strerror(errno.EMSGSIZE)):
            found.pop("too large").result()
        self.assertEqual({t: r.result() for t, r in found.items()}, {t: d[::-1] for t, d in sent.items()})
        self.assertFalse(self.context._memory)

    def test_bulk(self):
        memory, other = bytearray(os.urandom(700_000)), bytes(700_000)
        sent = bytes(memory)
        with self.assertRaises(BufferError):
            self.context.bulk(other)
        with self.context.bulk(memory) as bulk:
            for token, descriptor in ("bulk", bulk.export(self.endpoint, 100, 600_000)), ("wrong", bytes(32)):
                self.endpoint.call(b"bulk " + descriptor, 0, token)
                self.assertEqual(self.finish()[token].result(), b"")
            with self.assertRaisesRegex(OSError, os.strerror(errno.EINVAL)):
                bulk.export(self.endpoint, 100, 700_000)
        with self.assertRaises(ValueError):
            bulk.export(self.endpoint)
        self.assertTrue(memory == sent[:100] + sent[100:600_100][::-1] + sent[600_100:])

    def test_cancel(self):
        for token, data in ("small", b"hold"), ("held", b"hold"), ("other", b"x"):
            self.endpoint.call(data, 8, token)
        self.assertEqual((self.endpoint.cancel("small"), self.endpoint.cancel("small")), (1, 0))
        self.assertEqual(self.endpoint.cancel("unknown"), 0)
        self.assertEqual(self.endpoint.cancel("held"), 1)
        found = self.finish()
        self.assertEqual([found[token].status for token in ("small", "held", "other")],
                         [-errno.ECANCELED, -errno.ECANCELED, 0])

    def test_batched_calls(self):
        sent = {("call", i): os.urandom(i) for i in range(FEW)}
        for token, data in sent.items():
            self.endpoint.call(data, FEW, token)
        self.assertEqual(self.context.pending, FEW)
        self.assertEqual(self.context.flush(), 1)
        found = self.finish()
        self.assertEqual({t: r.result() for t, r in found.items()}, {t: d[::-1] for t, d in sent.items()})
        stats = self.context.stats()
        self.assertEqual((stats["calls"], stats["responses"]), (FEW, FEW))
        self.assertEqual(self.endpoint.stats()["batches"], 1)

    def test_ping_pong(self):
        for i in range(50):
            self.endpoint.call(b"%d" % i, 8, token=i)
            self.assertEqual(self.finish()[i].result(), (b"%d" % i)[::-1])
        self.assertEqual(self.endpoint.status(), 0)
        self.assertIn("server", self.endpoint.describe())

    def test_errors(self):
        for data, resp_max, error in ((bytes(65536), 8, OSError), (b"x", 65536, OSError),
                                      (b"x", 2**32, OverflowError), ("x", 8, TypeError), (5, 8, TypeError)):
            with self.assertRaises(error):
                self.endpoint.call(data, resp_max)
        self.assertEqual(self.context.pending, 0)
        with self.assertRaises(BlockingIOError):
            for token in itertools.count():
                self.endpoint.call(b"hello", 100, token)
        for response in self.finish().values():
            self.assertEqual(response.result(), b"olleh")

    def test_long_reply(self):
        self.endpoint.call(b"long", 8)
        self.assertEqual(self.finish()[None].result(), b"gnol")

    def test_time_limit(self):
        self.endpoint.call(b"hold", 8, "held", timeout=0.05)
        with self.assertRaises(TimeoutError):
            self.finish()["held"].result()
        self.assertEqual(self.endpoint.status(), 0)

    def test_killed_server(self):
        for token in range(3):
            self.endpoint.call(b"die", 8, token)
        for response in self.finish().values():
            with self.assertRaises(ConnectionResetError):
                response.result()
        self.assertEqual(self.endpoint.status(), -errno.ECONNRESET)
        with self.assertRaises(ConnectionResetError):
            self.endpoint.call(b"more", 8)
        self.assertIn("reset", self.endpoint.describe())

    def test_close(self):
        self.endpoint.call(b"hold", 8, "held")
        self.endpoint.close()
        self.endpoint.close()
        with self.assertRaises(ValueError):
            self.endpoint.call(b"x", 8)
        (response,) = self.context.poll()
        self.assertEqual((response.token, response.status), ("held", -errno.ECANCELED))
        self.context.close()
        for use in (self.context.poll, self.context.fileno, self.endpoint.info):
            with self.assertRaises(ValueError):
                use()


def pair(context, **attributes):
    """Returns two endpoints of a context, connected to each other."""
    a, b = context.endpoint(**attributes), context.endpoint()
    a.join(b.info())
    b.join(a.info())
    return a, b


class Alone(unittest.TestCase):
    def test_two_endpoints_of_a_context(self):
        path = copyrpc.Path(sl=3, retry_cnt=0)
        with copyrpc.Context(max_endpoints=2, path=copyrpc.Path(timeout=0)) as context:
            a, b = pair(context, path=path, name="b")
            a.call(b"ask", 8, "first")
            context.flush()
            while not (requests := list(context.requests())):
                context.poll()
            self.assertIs(requests[0].endpoint, b)
            requests[0].reply(b"answer")
            with self.assertRaises(ValueError):
                requests[0].reply(b"again")
            while not (responses := context.poll()):
                pass
            self.assertEqual([r.result() for r in responses], [b"answer"])

    def test_forked_child(self):
        with copyrpc.Context() as context:
            a, _ = pair(context)
            close_in_child(context)
            a.call(b"ask", 8)
            while not (responses := context.poll()):
                for request in context.requests():
                    request.reply(b"answer")
            self.assertEqual(responses[0].result(), b"answer")

    def test_no_such_device(self):
        with self.assertRaisesRegex(OSError, os.strerror(errno.ENODEV)):
            copyrpc.Context(device="mlx5_99")
        with self.assertRaises(TypeError):
            copyrpc.Context(devices="mlx5_0")

    def test_nobody_listens(self):
        with copyrpc.Context() as context, socket.socket() as refuses:
            refuses.bind(("127.0.0.1", 0))  # keeps the port, and does not listen
            with self.assertRaises(ConnectionRefusedError):
                context.connect("127.0.0.1", refuses.getsockname()[1], 0.05)
            with socket.create_server(("127.0.0.1", 0)) as listener, self.assertRaises(TimeoutError):
                context.accept(listener, 0.05)

    def test_another_version(self):
        with copyrpc.Context() as context, socket.create_server(("127.0.0.1", 0)) as listener:
            self.assertEqual(context.versions(), "")
            with socket.create_connection(listener.getsockname()) as stranger:
                stranger.sendall(b"CPRPCTCP" + bytes([77, 0, 128, 0]))
                with self.assertRaisesRegex(OSError, "has version 77 of the greeting, this library has version"):
                    context.accept(listener, LIMIT)


class ByHand(unittest.TestCase):
    """The program connects two endpoints again after the HCA has ended their connection."""

    def test_again(self):
        contexts = [copyrpc.Context(ring_size=65536, reconnect_ms=60000) for _ in range(2)]
        ends = [context.endpoint(side, by_hand=True) for side, context in enumerate(contexts)]
        with contexts[0], contexts[1]:
            for end, peer in zip(ends, reversed(ends)):
                end.join(peer.info())
            with self.assertRaises(OSError):
                ends[0].redial("127.0.0.1", 1)
            fault_add = ctypes.CDLL(None).softhca_fault_add
            self.assertGreater(fault_add(b"action=error opcode=write_imm syndrome=retry_exceeded"), 0)
            ends[0].call(b"ask", 8, "first")
            kinds, answers, owed, mail = [[], []], [], [False, False], [None, None]
            while not answers or any(copyrpc.BACK not in seen for seen in kinds):
                for side, context in enumerate(contexts):
                    answers += context.poll()
                    for request in context.requests():
                        request.reply(b"answer")
                    for event in context.events():
                        self.assertEqual(event.token, side)
                        kinds[side].append(event.kind)
                        owed[side] |= event.kind == copyrpc.DOWN
                    with contextlib.suppress(BlockingIOError):
                        if owed[side]:
                            mail[not side], owed[side] = ends[side].again_info(), False
                        if mail[side]:
                            owed[side] = True
                            ends[side].again(mail[side])
                            mail[side], owed[side] = None, False
            self.assertEqual(kinds, [[copyrpc.DOWN, copyrpc.BACK]] * 2)
            self.assertEqual([a.result() for a in answers], [b"answer"])


class Dials(unittest.TestCase):
    """Two contexts of this process connect inside their polls."""

    def setUp(self):
        self.contexts = [copyrpc.Context(max_endpoints=8, ring_size=4096, path=copyrpc.Path(timeout=14)) for _ in range(2)]
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.ports = [listener.getsockname()[1] for listener in self.listeners]

    def tearDown(self):
        for context in self.contexts:
            context.close()
        for listener in self.listeners:
            listener.close()

    def until(self, *wanted):
        """Polls until each context has reported the wanted number of events; returns the events."""
        found = [[] for _ in wanted]
        while any(len(f) < w for f, w in zip(found, wanted)):
            for events, context in zip(found, self.contexts):
                context.poll()
                events += context.events()
                for request in context.requests():
                    request.reply(request.data)
        self.assertEqual([len(f) for f in found], list(wanted))
        return found

    def test_up_and_down(self):
        client, server = self.contexts
        server.listen(self.listeners[1], "door", max_guests=4, patience=60)
        client.dial("127.0.0.1", self.ports[1], ("dial", 1), name="the server")
        (here,), (there,) = self.until(1, 1)
        self.assertEqual((here.kind, here.token, here.status), (copyrpc.UP, ("dial", 1), 0))
        self.assertEqual((there.kind, there.token, there.status), (copyrpc.UP, "door", 0))
        self.assertIn("the server", here.endpoint.describe())
        there.result().call(b"ask", 8, "first")
        while not (responses := server.poll()):
            client.poll()
            for request in client.requests():
                self.assertIs(request.endpoint, here.endpoint)
                request.reply(b"answer")
        self.assertEqual(responses[0].result(), b"answer")
        here.endpoint.close()
        there.endpoint.call(b"ask", 8)
        _, (down,) = self.until(0, 1)
        self.assertEqual((down.kind, down.token), (copyrpc.DOWN, "door"))
        self.assertIs(down.endpoint, there.endpoint)
        with self.assertRaises(ConnectionResetError):
            down.result()
        down.endpoint.close()

    def test_gone(self):
        client, server = self.contexts
        client.dial("127.0.0.1", self.ports[1], "nobody accepts", timeout=0.05)
        client.dial("127.0.0.1", self.ports[1], "cancelled", timeout=None)
        self.assertEqual(client.cancel("cancelled"), 1)
        self.assertEqual(client.cancel("cancelled"), 0)
        statuses = {e.token: (e.kind, e.status, e.endpoint) for e in self.until(2)[0]}
        self.assertEqual(statuses, {"nobody accepts": (copyrpc.GONE, -errno.ETIMEDOUT, None),
                                    "cancelled": (copyrpc.GONE, -errno.ECANCELED, None)})
        with self.assertRaises(OSError):
            client.dial("no host.invalid", 1)

    def test_one_connection(self):
        for context, listener, port in zip(self.contexts, self.listeners, reversed(self.ports)):
            context.listen(listener, "listen")
            context.dial("127.0.0.1", port, "dial", timeout=LIMIT, single=True)
            with self.assertRaises(OSError):
                context.listen(listener)
        found = [[], []]
        while any("dial" not in [e.token for e in events] for events in found):
            for events, context in zip(found, self.contexts):
                context.poll()
                events += context.events()
        for events, context, listener in zip(found, self.contexts, self.listeners):
            (up,) = (e for e in events if not e.status)
            for event in events:
                self.assertEqual(event.kind, copyrpc.UP)
                self.assertIs(event.result(), up.endpoint)
                self.assertIn(event.status, (0, -errno.EISCONN))
            context.unlisten(listener)
            with self.assertRaises(FileNotFoundError):
                context.unlisten(listener)


if __name__ == "__main__":
    unittest.main()
