/* SPDX-License-Identifier: MIT */
/*
 * Moves a file between two processes: the receiver lends memory, the sender writes into it.
 *
 *	tent-sendfile receive FILE TICKET    makes TICKET, waits, writes FILE
 *	tent-sendfile send FILE TICKET       on the same host or another that can read TICKET
 *
 * TICKET is a file with the receiver's description. With TENT_SHM=N in the environment, N threads
 * copy instead of adapters; sender and receiver must then be on one host. The receiver's memory has
 * room for 64 MiB. A longer file is sent in pieces. Each piece has a notice, in which bit 0 marks
 * the last piece. The first 8 bytes of the memory are the length of the piece.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tent.h>

#define ROOM (64u << 20)
#define HEAD 4096u /* begins with the length of the piece, or with all ones if it was taken */

static int die(const char *what, const struct tent_why *why)
{
	fprintf(stderr, "tent-sendfile: %s: %s\n", what,
		why && why->text[0] ? why->text : "failed");
	return 1;
}

/* Makes an engine with memory for a piece. */
static struct tent *create(uint8_t **memory_p, struct tent_why *why)
{
	const char *shm = getenv("TENT_SHM");
	const struct tent_attr attr = {.shm_rails = shm ? (uint32_t)atoi(shm) : 0};
	struct tent *t = NULL;

	*memory_p = aligned_alloc(4096, HEAD + ROOM);
	why->text[0] = 0;
	if (!*memory_p || tent_create(&attr, why, &t) ||
		tent_register(t, *memory_p, HEAD + ROOM, NULL, why))
		return NULL;
	return t;
}

/* Writes the text to a new file and renames this file, so no reader sees a part of the ticket. */
static int put_ticket(const char *path, const char *text)
{
	char name[4096];
	FILE *f;

	snprintf(name, sizeof(name), "%s.new", path);
	f = fopen(name, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		return -1;
	return rename(name, path);
}

static char *get_ticket(const char *path)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f;

	while (!(f = fopen(path, "r")))
		usleep(1000);
	if (getdelim(&text, &size, 0, f) < 0)
		text = NULL;
	fclose(f);
	return text;
}

/* Receives pieces until the last one. */
static int take_pieces(struct tent *t, uint8_t *memory, FILE *out)
{
	struct pollfd p = {.fd = tent_notice_fd(t), .events = POLLIN};
	uint16_t notice = 0;
	uint64_t len;

	do {
		while (tent_notice(t, &notice))
			poll(&p, 1, -1);
		memcpy(&len, memory, sizeof(len));
		if (len > ROOM || fwrite(memory + HEAD, 1, len, out) != len)
			return -1;
		memset(memory, 0xff, sizeof(len)); /* shows the sender that the piece was taken */
	} while (!(notice & 1));
	return 0;
}

static int receive(const char *path, const char *ticket)
{
	struct tent_why why;
	uint8_t *memory;
	struct tent *t = create(&memory, &why);
	FILE *out = fopen(path, "w");
	char *text;

	if (!t || !out || tent_export(t, &text))
		return die(path, &why);
	memset(memory, 0, HEAD);
	if (put_ticket(ticket, text))
		return die(ticket, NULL);
	if (take_pieces(t, memory, out) || fclose(out))
		return die(path, NULL);
	tent_destroy(t);
	free(text);
	free(memory);
	return 0;
}

/* Submits one request and waits until it ends. */
static int move(struct tent *t, struct tent_request r)
{
	struct tent_batch *b;
	int err = tent_submit(t, &r, 1, &b);

	if (err)
		return err;
	err = tent_wait(b, -1);
	tent_batch_free(b);
	return err;
}

/*
 * Sends a piece and waits until it is taken. Does not wait for the last piece, because the receiver
 * may end after taking it.
 */
static int send_piece(struct tent *t, struct tent_segment *s, uint8_t *memory, uint64_t len,
	bool last)
{
	struct tent_request r = {.op = TENT_WRITE,
		.local = memory,
		.segment = s,
		.len = HEAD + len,
		.notify = 2};
	struct tent_remote there;
	uint64_t taken = 0;
	int err = tent_segment_remote(s, 0, &there, sizeof(there));

	memcpy(memory, &len, sizeof(len));
	r.remote = there.addr;
	r.notify |= last;
	if (!err)
		err = move(t, r);
	r.op = TENT_READ;
	r.len = sizeof(taken);
	r.notify = 0;
	while (!err && !last && taken != UINT64_MAX) {
		err = move(t, r);
		memcpy(&taken, memory, sizeof(taken));
	}
	return err;
}

static int send_file(const char *path, const char *ticket)
{
	struct tent_why why;
	uint8_t *memory;
	struct tent *t = create(&memory, &why);
	char *text = get_ticket(ticket);
	FILE *in = fopen(path, "r");
	struct tent_segment *s;
	bool last;

	if (!t || !text || !in)
		return die(path, &why);
	if (tent_import(t, text, &why, &s))
		return die("receiver", &why);
	do {
		uint64_t len = fread(memory + HEAD, 1, ROOM, in);

		if (ferror(in))
			return die(path, NULL);
		last = feof(in);
		if (send_piece(t, s, memory, len, last))
			return die("receiver", NULL);
	} while (!last);
	tent_stats_print(t, stdout);
	fclose(in);
	tent_destroy(t);
	free(text);
	free(memory);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "receive"))
		return receive(argv[2], argv[3]);
	if (argc == 4 && !strcmp(argv[1], "send"))
		return send_file(argv[2], argv[3]);
	fprintf(stderr, "tent-sendfile: give 'receive FILE TICKET' or 'send FILE TICKET'\n");
	return 2;
}
