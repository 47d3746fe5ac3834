# SPDX-License-Identifier: MIT
"""Commands for gdb that show the state of the layers' objects, in a stopped process or in a core:

    gdb -x layers.py -p PID
    (gdb) info copyrpc | delegrpc | shmipc | flux | tent | softhca    [EXPRESSION]

EXPRESSION is the address of an object (docs/observability.md names the types). Without EXPRESSION the command shows the
objects that it finds: it follows the variables of all frames of all threads, and the static variables of their files.
The libraries need debug information. No function of the process is called.
"""
import gdb

MEMBERS_FOLLOWED = 2  # a variable may point to a struct whose member points to the object
ARRAY_FOLLOWED = 64  # elements


def table(head, rows):
    """Prints rows, if there are any, under the words of `head`, in columns as wide as their longest cell."""
    if not rows:
        return
    rows = [head.split()] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def linked(first, member):
    """The elements of a list that ends with NULL; in damaged memory the list may be a cycle."""
    seen = set()
    while first and int(first) not in seen:
        seen.add(int(first))
        yield first.dereference()
        first = first[member]


def text(array):
    return array.string(errors="replace")


def enum(value):
    """The last word of the name of an enum's value, in lower case."""
    return str(value).split("_")[-1].lower()


def pointer(name):
    return gdb.lookup_type(name).pointer()


def struct_of(kind):
    return kind.strip_typedefs().tag if kind.strip_typedefs().code == gdb.TYPE_CODE_STRUCT else None


class Search:
    """Finds structs of the given names by the variables of a process."""

    def __init__(self, names):
        self.names = names
        self.found = {}  # address: name of the struct
        self.visited = set()

    def follow(self, value, depth):
        kind = value.type.strip_typedefs()
        if kind.code == gdb.TYPE_CODE_PTR:
            self.follow_pointer(value, kind.target(), depth)
        elif kind.code == gdb.TYPE_CODE_ARRAY and kind.range()[1] < ARRAY_FOLLOWED:
            for i in range(kind.range()[1] + 1):
                self.follow(value[i], depth)
        elif kind.code == gdb.TYPE_CODE_STRUCT:
            self.follow_struct(value, kind, depth)

    def follow_pointer(self, value, target, depth):
        tag, address = struct_of(target), int(value)
        if tag in self.names:
            self.found.setdefault(address, tag)
        elif tag and address and depth and (tag, address) not in self.visited:
            self.visited.add((tag, address))
            self.follow(value.dereference(), depth - 1)

    def follow_struct(self, value, kind, depth):
        if kind.tag in self.names and value.address is not None:
            self.found.setdefault(int(value.address), kind.tag)
            return
        for member in kind.fields():
            if hasattr(member, "bitpos") and member.bitsize == 0:
                self.attempt(value[member], depth)

    def attempt(self, value, depth):
        """Follows a value that may be optimized out, not yet set, or no longer mapped."""
        try:
            if not value.is_optimized_out:
                self.follow(value, depth)
        except (gdb.MemoryError, gdb.error):
            pass

    def frame(self, frame):
        try:
            block = frame.block()
        except RuntimeError:  # a function without debug information
            return
        while block:
            for symbol in block:
                if symbol.is_variable or symbol.is_argument:
                    try:
                        value = symbol.value(frame)
                    except (gdb.error, RuntimeError, TypeError):
                        continue
                    self.attempt(value, MEMBERS_FOLLOWED)
            block = None if block.is_global else block.superblock

    def run(self):
        before = gdb.selected_thread()
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            frame = gdb.newest_frame()
            while frame:
                self.frame(frame)
                try:
                    frame = frame.older()
                except gdb.error:  # the stack ends in damaged or foreign memory
                    break
        if before:
            before.switch()
        return self.found


class Layer(gdb.Command):
    """A command `info NAME`. A subclass names its structs and shows one object."""

    structs = {}  # name of the struct: method that shows one

    def __init__(self):
        super().__init__("info " + self.name, gdb.COMMAND_STATUS)
        self.__doc__ = f"Shows the objects of {self.name} that the variables of the process lead to, or the given one."

    def objects(self, argument):
        if not argument:
            return Search(self.structs).run().items()
        try:
            value = gdb.parse_and_eval(argument)
        except gdb.error as error:
            raise gdb.GdbError(f"info {self.name}: {error}")
        kind = value.type.strip_typedefs()
        tag = struct_of(kind.target()) if kind.code == gdb.TYPE_CODE_PTR else None
        if tag not in self.structs:
            raise gdb.GdbError(f"info {self.name}: {argument} is no pointer to {' or '.join(self.structs)}")
        return [(int(value), tag)]

    def invoke(self, argument, from_tty):
        shown = set()
        for address, tag in self.objects(argument):
            try:
                value = gdb.Value(address).cast(pointer("struct " + tag)).dereference()
                address, show = self.root(value, tag)
                if address in shown:
                    continue
                shown.add(address)
                show()
            except gdb.MemoryError as error:
                if argument:
                    raise gdb.GdbError(f"info {self.name}: {error}; in a core, shared memory is missing unless "
                                       "/proc/PID/coredump_filter was 0x7f")
        if not shown:
            print(f"{self.name}: no object was found; give its address")

    def root(self, value, tag):
        """The object to show for a value, as its address and a function that prints it."""
        return int(value.address), lambda: self.structs[tag](self, value)


class Copyrpc(Layer):
    name = "copyrpc"

    def endpoint(self, ep):
        ch = ep["ch"]
        credit, waiting = ch["cr"], int(ch["nclosed"]) + (1 if ch["cr"]["edge"] else 0)
        open_batch = f"{int(ch['open']['count'])}/{int(credit['p'] - ch['open']['start'])}" if credit["edge"] else "-"
        qp = ep["qp"]
        queue = f"{int(qp['pi'] - qp['ci']) & 0xffffffff}/{int(qp['depth'])}" if qp else "destroyed"
        return (hex(int(ep.address)), hex(int(ep["qpn"])), text(ep["name"]) or "-", int(ch["status"]),
                f"{int(ch['ncalls'])}/{int(ch['max_calls'])}", waiting, open_batch,
                f"{int(credit['p'] - credit['rc'])}/{int(credit['c'])}",
                f"{int(credit['spent'])}/{int(credit['kmax'])}", int(credit["owed"]), queue,
                ("READ " if ch["reading"] else "") + ("stalled " if ch["stalled"] else "") or "-")

    def context(self, ctx):
        endpoints = list(linked(ctx["eps"], "next"))
        requests = sum(1 for _ in linked(ctx["queue"]["head"], "queued"))
        print(f"copyrpc context {hex(int(ctx.address))}: {len(endpoints)} endpoints, "
              f"{requests} requests wait for copyrpc_recv(){', broken' if ctx['broken'] else ''}")
        table("endpoint QPN peer status calls batches open(messages/blocks) ring(used/blocks) credit(spent/most) "
              "owed SQ(posted/blocks) waits", [self.endpoint(ep) for ep in endpoints])

    def root(self, value, tag):
        ctx = value["ctx"].dereference() if tag == "copyrpc_ep" else value
        for ep in linked(ctx["eps"], "next"):
            if int(ep["ctx"]) != int(ctx.address):
                raise gdb.MemoryError("not a context")
        int(ctx["dev"].dereference()["port"])  # raises MemoryError if ctx is no context
        return int(ctx.address), lambda: self.context(ctx)

    structs = {"copyrpc_ctx": context, "copyrpc_ep": None}


class Delegrpc(Layer):
    name = "delegrpc"

    def client(self, c):
        print(f"delegrpc client {hex(int(c.address))}: {int(c['pending'])} of {int(c['resp_depth'])} calls in flight, "
              f"{int(c['staged'])} staged; {int(c['sent'])} sent, {int(c['done'])} done; {int(c['posts'])} posts in flight; idle rounds of this wait {int(c['idle'])}")

    def server(self, s):
        control = s["control"]
        print(f"delegrpc server {hex(int(s.address))}: ring of {int(s['ring_depth'])}: "
              f"reserved to {int(control['head'])}, found to {int(s['found'])}, received to {int(s['cursor'])}, "
              f"given back to {int(s['tail'])}; replied {int(s['replied'])} of {int(s['received'])}; "
              f"{int(s['posts'])} posts; status {int(s['broken'])}")
        rows = []
        for i in range(int(s["max_clients"])):
            unanswered = sum(int(s["open"][i * int(s["resp_depth"]) + j]) for j in range(int(s["resp_depth"])))
            peer = s["peers"][i]
            if peer["next"] or unanswered:
                rows.append((i, int(peer["generation"]), int(peer["next"]), unanswered, int(peer["burst"])))
        table("client generation replies unanswered burst", rows)

    structs = {"delegrpc_client": client, "delegrpc_server": server}


def ring(cursor):
    """A cursor of a cellring: the offset of its slot in the ring, and the lap."""
    return f"{int(cursor['slot'] - cursor['begin'])}/{int(cursor['end'] - cursor['begin'])} lap {int(cursor['lap'])}"


class Shmipc(Layer):
    name = "shmipc"

    def client(self, c):
        posts = f" and {int(c['posts_open'])} posts" if int(c["posts_open"]) else ""
        state = "over" if not int(c["open_max"] + c["posts_open"]) else (
            f"{int(c['called'] - c['answered'])} of {int(c['depth'])} calls{posts} in flight")
        print(f"shmipc client {hex(int(c.address))}: {state}; requests at {ring(c['req'])}, responses at {ring(c['resp'])}; "
              f"{collected(c['burst'])} in the burst")
        if int(c["loans"]):
            loans = c["loans"].dereference()
            print(f"  loans: {int(loans['n_free'])} of {int(loans['layout']['attr']['loans'])} chunks free, "
                  f"{int(loans['out'])} with the user")

    def server(self, s):
        print(f"shmipc server {hex(int(s.address))}: {int(s['n_active'])} of {int(s['max_clients'])} clients, "
              f"{int(s['requests'])} requests, {int(s['replies'])} replies, {collected(s['burst'])} in the burst")
        rows = []
        for i in range(int(s["n_active"])):
            peer = s["active"][i].dereference()
            unanswered = sum(int(peer["open"][j]) != 0 for j in range(int(s["depth"])))
            rows.append((int(peer["index"]), unanswered, ring(peer["req"]), ring(peer["resp"])))
        table("client unanswered requests(bytes) responses(bytes)", rows)

    structs = {"shmipc_client": client, "shmipc_server": server}


def collected(burst):
    """The number of messages in a burst."""
    return int(burst["next"] - burst["stage"].address.cast(burst["next"].type)) // max(int(burst["stride"]), 1) if burst["to"] else 0


class Flux(Layer):
    name = "flux"

    def node(self, n):
        print(f"flux node {int(n['index'])} of {int(n['nodes'])} at {hex(int(n.address))}: "
              f"{int(n['sleeps'])} sleeps, {int(n['wakes'])} wakes, {int(n['aborted'])} calls aborted; "
              f"{sum(collected(n['open'][i]['ring']) for i in range(int(n['n_open'])))} messages in {int(n['n_open'])} open bursts")
        rows = []
        for i in range(int(n["nodes"])):
            out, caller = n["out"][i], n["in"][i]
            flying = int(out["ids_max"]) - (int(out["ids_tail"] - out["ids_head"]) & 0xffffffff) if out["ids_max"] else 0
            held = sum(int(caller["held"][j]) for j in range(int(n["max_inflight"]))) if caller["held"] else 0
            if i != int(n["index"]) and (out["ids_max"] or out["posts_open"] or held):
                rows.append((i, f"{flying}/{int(n['max_inflight'])}", held, ring(out["req"]["at"]), ring(caller["req"])))
        table("peer calls(in-flight/most) unanswered own-calls(bytes) its-calls(bytes)", rows)

    structs = {"flux_node": node}


class Tent(Layer):
    name = "tent"

    def pair(self, segment, i):
        pair, rail = segment["pairs"][i], segment["sched"]["rails"][i]
        local = segment["t"]["rails"][int(pair["local"])]
        link = pair["link"]
        return (i, text(local["name"]), text(segment["desc"]["rails"][int(pair["remote"])]["name"]), enum(rail["state"]),
                int(link["posted"]) if link else "-", int(rail["inflight"]), int(rail["bytes"]), int(rail["exclusions"]),
                enum(pair["fault"]) if rail["exclusions"] else "-")

    def engine(self, t):
        print(f"tent engine {hex(int(t.address))} ({text(t['host'])} port {int(t['port'])}): {int(t['n_ports'])} rails ({t['transport']['rails'].string()}), "
              f"{int(t['n_buffers'])} buffers, {int(t['n_conns'])} connections of peers, "
              f"{sum(int(b['open']) for b in linked(t['batches'], 'next'))} requests under way")
        for segment in linked(t["segments"], "next"):
            lost = f", lost: {int(segment['lost'])}" if segment["lost"] else ""
            print(f"  segment {int(segment['number'])} of {text(segment['desc']['host'])} pid {int(segment['desc']['pid'])}: "
                  f"{int(segment['open'])} tasks{lost}")
            table("pair rail peer's state posted in-flight(bytes) done(bytes) exclusions fault",
                  [self.pair(segment, i) for i in range(int(segment["n_pairs"]))])

    def root(self, value, tag):
        engine = value["t"].dereference() if tag != "tent" else value
        if not engine["transport"]["rails"].string().isprintable() or int(engine["n_ports"]) > 64:
            raise gdb.MemoryError("not an engine")
        return int(engine.address), lambda: self.engine(engine)

    structs = {"tent": engine, "tent_segment": None, "tent_batch": None}


class Softhca(Layer):
    name = "softhca"
    structs = {"arena": None}

    def objects(self, argument):
        if argument:
            return super().objects(argument)
        own = gdb.lookup_global_symbol("fabric_self")
        arena = own.value()["arena"] if own else None
        return [(int(arena), "arena")] if arena else []

    def root(self, value, tag):
        return int(value.address), lambda: self.fabric(value)

    def fabric(self, a):
        own = gdb.lookup_global_symbol("fabric_self").value()
        held = ", ".join(f"lane {i}" for i in range(int(a["high"][gdb.parse_and_eval("OBJ_CTX")]))
                         if int(a["lanes"][i]["claim"]["word"]) & 0xffffffff)
        print(f"software HCA {own['dir'].string()}: this process has slot {int(own['slot'])}; "
              f"mutex's word {hex(int(a['whole']['claim']['word']))}; held: {held or 'no lane'}")
        rows = []
        for i in range(int(a["high"][gdb.parse_and_eval("OBJ_QP")])):
            qp = a["qps"][i]
            if qp["obj"]["used"]:
                rows.append((hex(int(qp["qpn"])), int(a["procs"][qp["obj"]["owner"]]["pid"]),
                             {2: "RC", 3: "UC", 4: "UD"}.get(int(qp["type"]), "?"),
                             "RESET INIT RTR RTS SQD SQE ERR".split()[int(qp["state"])],
                             hex(int(qp["attr"]["dest_qpn"])), int(qp["rail"]), int(qp["sq_done"]), int(qp["rung"]),
                             int(qp["rq_taken"]), f"{int(qp['retries'])}/{int(qp['rnr_retries'])}",
                             "yes" if qp["wait_until"] else "-"))
        table("QPN pid type state peer's-QPN rail SQ-done rung RQ-taken retries/RNR waits", rows)


for command in (Copyrpc, Delegrpc, Shmipc, Flux, Tent, Softhca):
    command()
