/* SPDX-License-Identifier: MIT */
/*
 * A process is killed before and after each system call with which it writes a group of packets.
 * Then the file must contain either the whole group or nothing of it, as the counts in the arena
 * (the fabric's shared memory) say, and no bytes after that.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/capture.h"
#include "check.h"
#include "fabric/fabric.h"
#include "member/member.h"
#include "packet/message.h"
#include "tmpdir.h"

#define PACKETS 40 /* of 4 KiB, so a group takes several writes */

static char path[80];

static void add_group(void)
{
	static uint8_t frame[FRAME_HEAD_MAX + PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_BYTES];
	struct message m = {.kind = MSG_WRITE, .length = PACKETS * 4096, .mtu = 4096};
	struct flow f = {.src_port = 0xc000};
	struct packet p;

	CHECK(capture_begin());
	for (uint32_t i = 0; i < message_packets(&m); i++) {
		size_t n;

		message_request(&m, i, &p);
		n = packet_encode(&p, frame + frame_head_bytes(&f));
		capture_add(0, i, &f, frame, n + p.payload, "a packet");
	}
	capture_commit(1, m.length);
}

static void victim(void)
{
	sigset_t saved;

	member_forget();
	CHECK(!member_attach());
	fabric_enter(&saved);
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	raise(SIGSTOP);
	add_group();
	raise(SIGSTOP);
	_exit(1);
}

/*
 * Kills a victim at its @stop-th stop at a system call. Returns true if add_group() had ended
 * before.
 */
static bool run_victim(uint32_t stop)
{
	bool ended = false;
	pid_t pid = test_fork();

	if (!pid)
		victim();
	test_stopped(pid);
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD));
	for (uint32_t i = 0; i < stop && !ended; i++) {
		CHECK(!ptrace(PTRACE_SYSCALL, pid, NULL, NULL));
		ended = test_stopped(pid) == SIGSTOP;
	}
	CHECK(!kill(pid, SIGKILL) && test_reap(pid) == 128 + SIGKILL);
	return ended;
}

/* Returns the number of packets in the file. Each block must have its length at both ends. */
static uint64_t packets_in_file(uint64_t *size)
{
	static uint8_t bytes[64 << 20];
	FILE *f = fopen(path, "re");
	uint64_t packets = 0;
	uint32_t type, len, again;

	CHECK(f);
	*size = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	for (uint64_t at = 0; at < *size; at += len) {
		CHECK(*size - at >= 12);
		memcpy(&type, bytes + at, 4);
		memcpy(&len, bytes + at + 4, 4);
		CHECK(len >= 12 && len <= *size - at);
		memcpy(&again, bytes + at + len - 4, 4);
		CHECK_EQ(len, again);
		packets += type == 6;
	}
	return packets;
}

/* Returns true if the victim's group is in the file. */
static bool one(uint32_t stop, bool *ended)
{
	struct capture before = arena()->capture, after;
	sigset_t saved;
	uint64_t size;

	*ended = run_victim(stop);
	fabric_enter(&saved);
	fabric_reap();
	after = arena()->capture;
	fabric_leave(&saved);
	CHECK_EQ(packets_in_file(&size), after.packets);
	CHECK_EQ(size, after.end);
	CHECK_EQ(after.packets - before.packets, (after.messages - before.messages) * PACKETS);
	CHECK_EQ(after.bytes - before.bytes, (after.messages - before.messages) * PACKETS * 4096);
	CHECK(after.on && !after.error);
	return after.messages != before.messages;
}

TEST(refused)
{
	const struct softhca_topology *t = &arena()->topo;
	struct capture c;

	CHECK_EQ(capture_create("/dev/null", t, &c), -ESPIPE);
	CHECK_EQ(capture_create("/nowhere/file", t, &c), -ENOENT);
	CHECK_EQ(capture_start(arena(), &arena()->capture, NO_SLOT, 0), -EBUSY);
}

TEST(killed_at_each_call)
{
	uint32_t kills = 0, whole = 0;
	bool ended = false;

	for (; !ended; kills++)
		whole += one(kills, &ended);
	fprintf(stderr, "%u kills, %u after the group was written\n", kills, whole);
	CHECK(kills > 10 && whole && whole < kills);
}

/* A file that has been replaced is not written to, and the capture ends. */
TEST(replaced)
{
	FILE *old = fopen(path, "re"), *f; /* keeps the number of its inode from being reused */
	struct stat st;
	sigset_t saved;
	bool begun;

	CHECK(old && !unlink(path));
	f = fopen(path, "we");
	CHECK(f);
	fabric_enter(&saved);
	begun = capture_begin();
	fabric_leave(&saved);
	CHECK(!begun);
	CHECK(!arena()->capture.on && !arena()->attention);
	CHECK_EQ(arena()->capture.error, -ESTALE);
	CHECK(!fstat(fileno(f), &st));
	CHECK_EQ(st.st_size, 0);
	fclose(f);
	fclose(old);
}

int main(int argc, char **argv)
{
	struct capture c;

	test_fabric("capture");
	tmpdir_make();
	snprintf(path, sizeof(path), "%s/pcapng", tmpdir);
	CHECK(!member_attach());
	atexit(member_detach);
	CHECK(!capture_create(path, &arena()->topo, &c));
	CHECK(!capture_start(arena(), &c, NO_SLOT, 0));
	return test_main(argc, argv);
}
