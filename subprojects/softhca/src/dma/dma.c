/* SPDX-License-Identifier: MIT */
#include "dma/dma.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "dma/forbidden.h"
#include "dma/pool.h"
#include "dma/view.h"
#include "dma/window.h"
#include "fabric/fabric.h"
#include "sys/sys.h"

/*
 * Accesses to user memory of this process. They are in assembly for two reasons. Each access
 * can fault at known instructions only, so dma_fixup() knows where to continue. And sanitizers do
 * not instrument assembly: they would report a device's DMA as a race of the program's threads.
 *
 * softhca_copy() copies from the first byte to the last one. Up to COPY_SHORT bytes it uses plain
 * stores, except for at most 7 bytes at the end, because starting a string instruction takes
 * longer.
 *
 * Each entry of softhca_fixups is a pair {instruction that may fault, continuation}.
 */
#define FIXUPS 8
#define COPY_SHORT "256"

int softhca_copy(void *dst, const void *src, size_t len);
int softhca_load32(const void *src, uint32_t *value);
int softhca_store32(void *dst, uint32_t value);
int softhca_store64(void *dst, uint64_t value);
extern const uint64_t softhca_fixups[FIXUPS][2];

__asm__(".text\n"
	".hidden softhca_copy\n"
	".type softhca_copy,@function\n"
	"softhca_copy:\n"
	"	mov %rdx, %rcx\n"
	"	cmp $" COPY_SHORT ", %rdx\n"
	"	ja 15f\n"
	"	sub $16, %rcx\n"
	"	jb 13f\n"
	"1:	movups (%rsi), %xmm0\n"
	"2:	movups %xmm0, (%rdi)\n"
	"	add $16, %rsi\n"
	"	add $16, %rdi\n"
	"	sub $16, %rcx\n"
	"	jae 1b\n"
	"13:	add $16, %rcx\n"
	"	cmp $8, %rcx\n"
	"	jb 14f\n"
	"3:	mov (%rsi), %rax\n"
	"4:	mov %rax, (%rdi)\n"
	"	add $8, %rsi\n"
	"	add $8, %rdi\n"
	"	sub $8, %rcx\n"
	"14:	test %rcx, %rcx\n"
	"	jz 16f\n"
	"15:\n"
	"5:	rep movsb\n"
	"16:	xor %eax, %eax\n"
	"	ret\n"
	".size softhca_copy, .-softhca_copy\n"
	".hidden softhca_load32\n"
	".type softhca_load32,@function\n"
	"softhca_load32:\n"
	"6:	mov (%rdi), %ecx\n"
	"	mov %ecx, (%rsi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size softhca_load32, .-softhca_load32\n"
	".hidden softhca_store32\n"
	".type softhca_store32,@function\n"
	"softhca_store32:\n"
	"7:	mov %esi, (%rdi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size softhca_store32, .-softhca_store32\n"
	".hidden softhca_store64\n"
	".type softhca_store64,@function\n"
	"softhca_store64:\n"
	"8:	mov %rsi, (%rdi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	"9:	mov $1, %eax\n"
	"	ret\n"
	".size softhca_store64, .-softhca_store64\n"
	".section .data.rel.ro.softhca_fixups,\"aw\"\n"
	".balign 8\n"
	".hidden softhca_fixups\n"
	".type softhca_fixups,@object\n"
	"softhca_fixups:\n"
	"	.quad 1b, 9b\n"
	"	.quad 2b, 9b\n"
	"	.quad 3b, 9b\n"
	"	.quad 4b, 9b\n"
	"	.quad 5b, 9b\n"
	"	.quad 6b, 9b\n"
	"	.quad 7b, 9b\n"
	"	.quad 8b, 9b\n"
	".size softhca_fixups, .-softhca_fixups\n"
	".previous\n");

/* Address of this thread's last fault; read after a copy that was cut short. */
static __thread uint64_t last_fault __attribute__((tls_model("initial-exec")));

bool dma_fixup(ucontext_t *uc, uint64_t fault_addr)
{
	uint64_t pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];

	for (size_t i = 0; i < FIXUPS; i++) {
		if (pc != softhca_fixups[i][0])
			continue;
		if (pool_moved(fault_addr))
			return true;
		last_fault = fault_addr;
		uc->uc_mcontext.gregs[REG_RIP] = (greg_t)softhca_fixups[i][1];
		return true;
	}
	return false;
}

static void *ptr(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/*
 * Must be called before this thread stores to memory of another process. The thread may have lost
 * its claim without having received the signal (fabric/claim.h).
 */
static inline void check_claim(void)
{
	if (!claim_kept())
		claim_lost();
}

/*
 * Returns the target list for a system call of this thread, copied into the thread's claim. If the
 * thread is stopped and loses the claim before the system call begins, the list is emptied.
 */
static const struct iovec *in_claim(const struct iovec *remote, size_t n)
{
	struct claim *c = claim_held.claim;

	if (!c)
		return remote;
	memcpy(c->to, remote, n * sizeof(*remote));
	/*
	 * The check comes after the list is filled: if the claim was lost before, the list belongs
	 * to the claim's new owner.
	 */
	atomic_signal_fence(memory_order_seq_cst);
	check_claim();
	return c->to;
}

/*
 * Transfers all of @len bytes or returns an error. A write has at most CLAIM_PIECES pieces.
 *
 * fabric_reachable() does not suffice here: a process that calls exec() leaves the fabric but keeps
 * its pid, and the new program has other data at these addresses.
 */
static int vm_transfer(bool write, struct fabric_peer peer, const struct iovec *local,
	size_t nlocal, const struct iovec *remote, size_t nremote, size_t len)
{
	long nr = write ? SYS_process_vm_writev : SYS_process_vm_readv, r;

	if (!fabric_alive(peer.slot))
		return -ESRCH;
	r = SYS(nr, peer.pid, local, nlocal, write ? in_claim(remote, nremote) : remote, nremote,
		0);
	if (r == (long)len)
		return 0;
	if (r == -ESRCH)
		return -ESRCH;
	if (r == -EPERM || r == -ENOSYS) {
		dma_say_forbidden(peer.pid);
		return -EPERM;
	}
	return -EFAULT;
}

int dma_read(uint32_t slot, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = {buf, len}, remote = {ptr(addr), len};

	if (slot == fabric_self.slot)
		return softhca_copy(buf, ptr(addr), len) ? -EFAULT : 0;
	return vm_transfer(false, fabric_peer(slot), &local, 1, &remote, 1, len);
}

int dma_write(uint32_t slot, uint64_t addr, const void *buf, size_t len)
{
	struct iovec local = {(void *)buf, len}, remote = {ptr(addr), len};

	if (slot == fabric_self.slot)
		return softhca_copy(ptr(addr), buf, len) ? -EFAULT : 0;
	return vm_transfer(true, fabric_peer(slot), &local, 1, &remote, 1, len);
}

/* Returns the address of the @len bytes in this process, or NULL if they are not mapped here. */
static inline void *here(uint32_t slot, uint64_t addr, uint64_t shift, size_t len)
{
	if (slot == fabric_self.slot)
		return ptr(addr);
	return shift ? view_find(slot, addr + shift, len) : NULL;
}

int dma_get(uint32_t slot, uint64_t addr, uint64_t shift, void *buf, size_t len)
{
	const void *p = here(slot, addr, shift, len);

	if (p)
		return softhca_copy(buf, p, len) ? -EFAULT : 0;
	return dma_read(slot, addr, buf, len);
}

int dma_put(uint32_t slot, uint64_t addr, uint64_t shift, const void *buf, size_t len)
{
	void *p = here(slot, addr, shift, len);

	if (!p)
		return dma_write(slot, addr, buf, len);
	check_claim();
	return softhca_copy(p, buf, len) ? -EFAULT : 0;
}

/*
 * On some machines the kernel copies another process's memory byte by byte, so a counter may be
 * read torn while its owner stores to it. Therefore the counter is read until two reads agree. The
 * kernel copies the pieces of the list in their order, so @buf is read after the counter.
 */
__attribute__((noinline)) static int counted_by_call(uint32_t slot, uint64_t addr, uint32_t *value,
	uint64_t at, void *buf, size_t len)
{
	uint32_t v[2];
	struct iovec local[2] = {{v, sizeof(v)}, {buf, len}};
	struct iovec remote[3] = {{ptr(addr), 4}, {ptr(addr), 4}, {ptr(at), len}};
	int r;

	do
		r = vm_transfer(false, fabric_peer(slot), local, 2, remote, 3, sizeof(v) + len);
	while (!r && v[0] != v[1]);
	if (!r)
		*value = be32toh(v[0]);
	return r;
}

static inline int load_be32(const void *p, uint32_t *value)
{
	uint32_t v;

	if (softhca_load32(p, &v))
		return -EFAULT;
	*value = be32toh(v);
	return 0;
}

int dma_get_counted(const struct dma_queue *counter, uint32_t *value, const struct dma_queue *from,
	void *buf, size_t len)
{
	const void *p = here(counter->slot, counter->addr, counter->shift, sizeof(*value));
	int r;

	if (!p)
		return counted_by_call(counter->slot, counter->addr, value, from->addr, buf, len);
	r = load_be32(p, value);
	return r ? r : dma_get(from->slot, from->addr, from->shift, buf, len);
}

__attribute__((noinline)) static int be32_of_peer(uint32_t slot, uint64_t addr, uint64_t shift,
	uint32_t *value)
{
	const void *p = here(slot, addr, shift, sizeof(*value));

	return p ? load_be32(p, value) : counted_by_call(slot, addr, value, addr, NULL, 0);
}

int dma_get_be32(uint32_t slot, uint64_t addr, uint64_t shift, uint32_t *value)
{
	if (slot == fabric_self.slot)
		return load_be32(ptr(addr), value);
	return be32_of_peer(slot, addr, shift, value);
}

int dma_write_be32(uint32_t slot, uint64_t addr, uint32_t value)
{
	uint32_t v = htobe32(value);

	if (slot == fabric_self.slot)
		return softhca_store32(ptr(addr), v) ? -EFAULT : 0;
	return dma_write(slot, addr, &v, sizeof(v));
}

__attribute__((noinline)) static int cqe_by_call(uint32_t slot, uint64_t addr, const uint8_t *b)
{
	struct iovec local[2] = {{(void *)b, 63}, {(void *)(b + 63), 1}};
	struct iovec remote[2] = {{ptr(addr), 63}, {ptr(addr + 63), 1}};

	return vm_transfer(true, fabric_peer(slot), local, 2, remote, 2, 64);
}

static inline int store_cqe(uint8_t *to, const uint8_t *b)
{
	uint64_t last;

	/* x86 keeps stores in order. */
	memcpy(&last, b + 56, sizeof(last));
	return softhca_copy(to, b, 56) || softhca_store64(to + 56, last) ? -EFAULT : 0;
}

__attribute__((noinline)) static int cqe_to_peer(uint32_t slot, uint64_t addr, uint64_t shift,
	const uint8_t *b)
{
	uint8_t *p = here(slot, addr, shift, 64);

	if (!p)
		return cqe_by_call(slot, addr, b);
	check_claim();
	return store_cqe(p, b);
}

int dma_write_cqe(uint32_t slot, uint64_t addr, uint64_t shift, const void *bytes)
{
	if (slot == fabric_self.slot)
		return store_cqe(ptr(addr), bytes);
	return cqe_to_peer(slot, addr, shift, bytes);
}

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Gets the next piece of the @len bytes of @segs that begin at byte @offset. Updates @offset and
 * @len to the bytes that remain after the piece. Returns false at the end.
 */
static bool next_part(const struct dma_seg **segs, size_t *n, uint64_t *offset, uint64_t *len,
	struct dma_seg *part)
{
	while (*n && *len) {
		const struct dma_seg *s = (*segs)++;

		(*n)--;
		if (*offset >= s->len) {
			*offset -= s->len;
			continue;
		}
		*part = (struct dma_seg){s->slot, s->region, s->addr + *offset,
			min64(s->len - *offset, *len)};
		*offset = 0;
		*len -= part->len;
		return true;
	}
	return false;
}

int dma_gather(const struct dma_seg *segs, size_t n, uint64_t offset, void *out, uint64_t len)
{
	struct dma_seg part;
	uint8_t *at = (uint8_t *)out;

	for (; next_part(&segs, &n, &offset, &len, &part); at += part.len) {
		int r = dma_read(part.slot, part.addr, at, part.len);

		if (r)
			return r;
	}
	return len ? -EMSGSIZE : 0;
}

int dma_scatter(const struct dma_seg *segs, size_t n, uint64_t offset, const void *bytes,
	uint64_t len)
{
	struct dma_seg part;
	const uint8_t *at = (const uint8_t *)bytes;

	for (; next_part(&segs, &n, &offset, &len, &part); at += part.len) {
		int r = dma_write(part.slot, part.addr, at, part.len);

		if (r)
			return r;
	}
	return len ? -EMSGSIZE : 0;
}

/* Copies within this process's address space. */
static int copy_here(uint64_t d, uint64_t s, uint64_t n, bool *fault_dst)
{
	int r = softhca_copy(ptr(d), ptr(s), n) ? -EFAULT : 0;

	*fault_dst = last_fault - d < n;
	return r;
}

/* Copies between this process and a window (window.h), if the other process's piece has one. */
static int copy_by_window(const struct dma_seg *d, const struct dma_seg *s, uint64_t n,
	bool *fault_dst)
{
	bool here = d->slot == fabric_self.slot;
	const struct dma_seg *far = here ? s : d;
	uint8_t *at;
	int r = far->region ? window_find(far->region, far->addr, n, &at) : -ENOENT;

	if (r)
		return r;
	check_claim();
	return copy_here(here ? d->addr : (uintptr_t)at, here ? (uintptr_t)at : s->addr, n,
		fault_dst);
}

static int copy_by_call(struct fabric_peer peer, bool here, uint64_t d, uint64_t s, uint64_t n)
{
	struct iovec local = {ptr(here ? d : s), n}, remote = {ptr(here ? s : d), n};

	return vm_transfer(!here, peer, &local, 1, &remote, 1, n);
}

/*
 * Copies the first @n bytes of one piece. @peer may be NULL if the caller holds the mutex or a
 * lane, because the slot keeps its owner then.
 */
static int copy_piece(const struct fabric_peer *peer, const struct dma_seg *d,
	const struct dma_seg *s, uint64_t n, bool *fault_dst)
{
	bool here = d->slot == fabric_self.slot;
	int r = -ENOENT;

	if (here && s->slot == d->slot)
		return copy_here(d->addr, s->addr, n, fault_dst);
	if (!peer)
		r = copy_by_window(d, s, n, fault_dst);
	else if (!fabric_is_peer(peer))
		r = -ESRCH;
	if (r == -EFAULT || !r)
		return r;
	*fault_dst = !here;
	if (r != -ENOENT)
		return r;
	return copy_by_call(peer ? *peer : fabric_peer(here ? s->slot : d->slot), here, d->addr,
		s->addr, n);
}

/* Walks both lists; each step copies a piece that is contiguous in both. */
int dma_copy(const struct fabric_peer *peer, const struct dma_seg *dst, size_t ndst,
	const struct dma_seg *src, size_t nsrc, bool *fault_dst)
{
	uint64_t d_off = 0, s_off = 0;

	if (ndst == 1 && nsrc == 1)
		return copy_piece(peer, dst, src, min64(dst->len, src->len), fault_dst);
	while (ndst && nsrc) {
		uint64_t n = min64(dst->len - d_off, src->len - s_off);
		struct dma_seg d = {dst->slot, dst->region, dst->addr + d_off, n};
		struct dma_seg from = {src->slot, src->region, src->addr + s_off, n};
		int r = copy_piece(peer, &d, &from, n, fault_dst);

		if (r)
			return r;
		d_off += n;
		s_off += n;
		if (d_off == dst->len) {
			dst++;
			ndst--;
			d_off = 0;
		}
		if (s_off == src->len) {
			src++;
			nsrc--;
			s_off = 0;
		}
	}
	return 0;
}
