/* SPDX-License-Identifier: MIT */
/* An engine in the test's process, and control connections that the test itself opens to it. */
#ifndef TENT_TEST_HOST_H
#define TENT_TEST_HOST_H

#include "ctl.h"
#include "desc.h"
#include "duo.h"

#define ANSWER_MS 60000
#define HOST_LEN 4096 /* bytes of the engine's memory */

static struct tent *host;
static struct desc desc; /* of the engine */
static uint8_t *memory;

/* A connection to the engine, closed at the end of its block. */
#define GUEST AT_END(ctl_close) struct ctl

static inline void host_open(void)
{
	AT_END(end_free) char *text;

	host = duo_create(NULL, 0, 0);
	memory = test_shared(HOST_LEN);
	CHECK_EQ(tent_register(host, memory, HOST_LEN, NULL, NULL), 0);
	CHECK_EQ(tent_export(host, &text), 0);
	CHECK_EQ(desc_read(text, &desc, NULL), 0);
}

static inline void host_close(void)
{
	tent_destroy(host);
	desc_fini(&desc);
	munmap(memory, HOST_LEN);
}

/* Opens the engine until the end of the case. */
static inline void host_begin(void)
{
	test_finally(host_close);
	host_open();
}

static inline struct ctl host_call(void)
{
	struct ctl c;

	CHECK_EQ(ctl_connect(desc.host, desc.port, ANSWER_MS, &c, NULL), 0);
	return c;
}

/* Returns the next message, which must be of this type. */
static inline struct ctl_msg host_await(struct ctl *c, uint16_t type)
{
	struct ctl_msg answer;

	CHECK_EQ(ctl_await(c, ANSWER_MS, &answer), 0);
	CHECK_EQ(answer.type, type);
	return answer;
}

static inline void host_send(struct ctl *c, struct ctl_msg m)
{
	CHECK_EQ(ctl_send(c, &m), 0);
}

/* Sends a message. Returns the answer, which must be of this type. */
static inline struct ctl_msg host_exchange(struct ctl *c, struct ctl_msg m, uint16_t type)
{
	host_send(c, m);
	return host_await(c, type);
}

/* Checks that the engine ends the connection without another message. */
static inline void host_disconnects(struct ctl *c)
{
	struct ctl_msg answer;

	CHECK_EQ(ctl_await(c, ANSWER_MS, &answer), -ECONNRESET);
}

static inline struct ctl_msg host_hello(uint32_t pairs)
{
	struct ctl_msg m = {.type = CTL_HELLO, .rail = pairs};

	memcpy(m.key, desc.key, sizeof(m.key));
	return m;
}

/* Connects and presents the key. */
static inline struct ctl host_guest(void)
{
	struct ctl c = host_call();

	CHECK_EQ(host_exchange(&c, host_hello(1), CTL_WELCOME).status, 0);
	return c;
}

/*
 * Checks that the message ends the connection without an answer, and that the engine still works.
 */
static inline void host_sends_away(struct ctl c, struct ctl_msg m)
{
	host_send(&c, m);
	host_disconnects(&c);
	ctl_close(&c);
	c = host_guest();
	ctl_close(&c);
}

/*
 * Requests the description of the registrations after this version, and returns it when all of its
 * parts have come. The caller must free the text.
 */
static inline char *host_memory(struct ctl *c, uint32_t version)
{
	struct ctl_msg m = {.type = CTL_MORE, .epoch = version}, part = {.status = CTL_PART_ASK};
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	CHECK(f);
	while (part.status) {
		part = part.status == CTL_PART_ASK ? host_exchange(c, m, CTL_MEMORY) :
						     host_await(c, CTL_MEMORY);
		CHECK_EQ(fwrite(part.text, part.rail, 1, f), 1);
	}
	fclose(f);
	return text;
}

/* The engine tells the peer that this registration ends. */
static inline void host_is_told(struct ctl *c, uint32_t id)
{
	CHECK_EQ(host_await(c, CTL_UNREGISTER).rail, id);
}

#endif
