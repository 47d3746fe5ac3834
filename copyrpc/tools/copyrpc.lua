-- SPDX-License-Identifier: MIT
--
-- Wireshark's view of copyrpc: the batches in captures of RoCE packets.
--
--	tshark -X lua_script:copyrpc.lua --disable-protocol rpcordma -r FILE -Y copyrpc -O copyrpc
--
-- A batch is a WRITE with immediate data. A batch that is longer than the path MTU is reassembled
-- from its packets, in the order of their PSNs, and is shown at the last packet; if a packet is
-- missing or doubled, only this batch is not shown. A goodbye has no bytes: Wireshark shows a WRITE with
-- the immediate 0xffffffff. Wireshark's own dissector for RPC over RDMA also accepts payloads that begin
-- with zeros, hence --disable-protocol.

local copyrpc = Proto("copyrpc", "copyrpc")

local BLOCK = 32
local HEADER = 12
local WRAP = 0xffffffff
local RESPONSE = 0x80000000
local LARGE = 0x80000000
local MOVE, NOTE = 0x80000000, 0x40000000 -- bits of the count

local f = copyrpc.fields
f.blocks = ProtoField.uint32("copyrpc.blocks", "Blocks of the ring", base.DEC)
f.consumer = ProtoField.uint64("copyrpc.consumer", "Consumer position", base.DEC, nil, nil,
	"What the sender has consumed of its receive ring, in bytes")
f.credit = ProtoField.uint64("copyrpc.credit", "Credit", base.DEC, nil, nil,
	"Further bytes of responses that the receiver may ask for")
f.count = ProtoField.uint32("copyrpc.count", "Messages", base.DEC)
f.move = ProtoField.bool("copyrpc.move", "Last batch in the old ring")
f.key = ProtoField.uint32("copyrpc.key", "Key of a larger ring", base.HEX)
f.ring = ProtoField.uint64("copyrpc.ring", "Larger ring: address and sizes", base.HEX)
f.wrap = ProtoField.uint32("copyrpc.wrap", "Wrap marker: blocks up to the ring's end", base.DEC)
f.message = ProtoField.none("copyrpc.message", "Message")
f.id = ProtoField.uint32("copyrpc.message.id", "Call", base.DEC)
f.response = ProtoField.bool("copyrpc.message.response", "Response")
f.large = ProtoField.bool("copyrpc.message.large", "Large call")
f.limit = ProtoField.uint32("copyrpc.message.limit", "Limit of the response", base.DEC)
f.allowance = ProtoField.uint32("copyrpc.message.allowance", "Allowance", base.DEC, nil, nil,
	"Blocks of credit that a response of the limit's length takes")
f.length = ProtoField.uint32("copyrpc.message.length", "Length", base.DEC)
f.payload = ProtoField.bytes("copyrpc.message.payload", "Payload")

local opcode_field = Field.new("infiniband.bth.opcode")
local padding_field = Field.new("infiniband.bth.padcnt")
local psn_field = Field.new("infiniband.bth.psn")
local qp_field = Field.new("infiniband.bth.destqp")
local imm_field = Field.new("infiniband.immdt")

-- The operations of a WRITE, in the lower five bits of the opcode.
local FIRST, MIDDLE, LAST, LAST_IMM, ONLY_IMM = 6, 7, 8, 9, 11

local open = {} -- batches whose last packet has not arrived, by sender and receiver's QP
local whole = {} -- by the frame that ends a batch of several packets: the bytes of the batch

function copyrpc.init()
	open = {}
	whole = {}
end

local function blocks_of(len)
	return math.ceil((len + HEADER) / BLOCK)
end

-- Returns the number of messages, or WRAP, whether the batch has a note, and whether it moves.
local function count_of(tvb)
	local count = tvb(16, 4):le_uint()

	if count == WRAP then
		return WRAP, false, false
	end
	return count % NOTE, count % MOVE >= NOTE, count >= MOVE
end

-- Returns true if the bytes are a batch of n blocks: each message ends where the next one begins, and
-- the last one is not padded.
local function is_batch(tvb, n)
	local size = tvb:len()

	if n < 1 or size < BLOCK then
		return false
	end
	if tvb(0, 8):le_uint64():lower() % BLOCK ~= 0 or tvb(8, 8):le_uint64():lower() % BLOCK ~= 0 then
		return false
	end
	local count, note = count_of(tvb)
	if not note and tvb:bytes(20, 12) ~= ByteArray.new(string.rep("00", 12)) then
		return false
	end
	if count == WRAP then
		return size == BLOCK
	end
	local at, stop = BLOCK, BLOCK
	for _ = 1, count do
		if at + HEADER > size then
			return false
		end
		local len = tvb(at + 8, 4):le_uint()
		stop = at + HEADER + len
		at = at + blocks_of(len) * BLOCK
	end
	return stop == size and at == n * BLOCK
end

local function add_message(tvb, at, tree)
	local id, limit = tvb(at, 4):le_uint(), tvb(at + 4, 4):le_uint() % LARGE
	local len = tvb(at + 8, 4):le_uint()
	local response = id >= RESPONSE
	local call = response and id - RESPONSE or id
	local what = string.format("%s %u, %u bytes", response and "Response to call" or "Call", call, len)
	local t = tree:add(f.message, tvb(at, HEADER + len)):set_text(what)

	t:add(f.id, tvb(at, 4), call)
	t:add(f.response, tvb(at + 3, 1), response)
	t:add(f.limit, tvb(at + 4, 4), limit)
	t:add(f.large, tvb(at + 7, 1), tvb(at + 7, 1):uint() >= 0x80)
	t:add(f.allowance, tvb(at + 4, 4), blocks_of(limit) + 1):set_generated()
	t:add_le(f.length, tvb(at + 8, 4))
	if len > 0 then
		t:add(f.payload, tvb(at + HEADER, len))
	end
	return at + blocks_of(len) * BLOCK
end

local function show(tvb, n, pinfo, root)
	local count, note, move = count_of(tvb)
	local tree = root:add(copyrpc, tvb())
	local text

	tree:add(f.blocks, n):set_generated()
	tree:add_le(f.consumer, tvb(0, 8))
	tree:add_le(f.credit, tvb(8, 8))
	if count == WRAP then
		tree:add(f.wrap, tvb(16, 4), n)
		text = string.format("wrap marker, %u blocks", n)
	else
		tree:add(f.count, tvb(16, 4), count)
		local at = BLOCK
		for _ = 1, count do
			at = add_message(tvb, at, tree)
		end
		text = count == 0 and "credit only" or string.format("batch of %u", count)
	end
	if note then
		tree:add_le(f.key, tvb(20, 4))
		tree:add_le(f.ring, tvb(24, 8))
		text = text .. ", note of a ring"
	end
	if move then
		tree:add(f.move, tvb(16, 4), move)
		text = text .. ", last in the old ring"
	end
	tree:append_text(", " .. text)
	pinfo.cols.protocol = "copyrpc"
	pinfo.cols.info:append(" " .. text)
end

-- Keeps the packets of a long WRITE, in the order of the file. At the last packet, returns the bytes.
local function put_together(key, op, psn, tvb)
	local b = open[key]

	if op == FIRST then
		open[key] = { next = (psn + 1) % 0x1000000, parts = { tvb:bytes() } }
		return nil
	end
	if not b or b.next ~= psn then
		open[key] = nil
		return nil
	end
	b.parts[#b.parts + 1] = tvb:bytes()
	b.next = (psn + 1) % 0x1000000
	if op == MIDDLE then
		return nil
	end
	open[key] = nil
	if op == LAST then
		return nil
	end
	local bytes = b.parts[1]
	for i = 2, #b.parts do
		bytes:append(b.parts[i])
	end
	return bytes
end

local function dissect(padded, pinfo, root)
	local opcode = opcode_field()
	local op = opcode and opcode.value
	local size = padded:len() - (op and padding_field().value or 0)

	if op == nil or op < FIRST or op > ONLY_IMM or size < 1 then
		return false -- not a WRITE of an RC QP
	end
	local tvb = padded(0, size):tvb()
	local imm = imm_field()
	local n = imm and tonumber(tostring(imm.range:uint()))
	if op == ONLY_IMM then
		if not is_batch(tvb, n) then
			return false
		end
		show(tvb, n, pinfo, root)
		return true
	end
	if not pinfo.visited then
		local key = tostring(pinfo.src) .. ">" .. tostring(pinfo.dst) .. "#" .. qp_field().value
		whole[pinfo.number] = put_together(key, op, psn_field().value, tvb)
	end
	local bytes = whole[pinfo.number]
	if not bytes then
		return false
	end
	local batch = bytes:tvb("copyrpc batch")
	if not is_batch(batch, n) then
		return false
	end
	show(batch, n, pinfo, root)
	return true
end

copyrpc:register_heuristic("infiniband.payload", dissect)
