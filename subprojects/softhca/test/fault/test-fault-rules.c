/* SPDX-License-Identifier: MIT */
/* The text of fault rules is read, refused if wrong, and written back. */
#include <errno.h>

#include "../check.h"
#include "abi/wire.h"
#include "fault/fault.h"

static struct fault_rule rules[FAULT_RULES];
static char err[256];

static int parse(const char *text)
{
	memset(rules, 0, sizeof(rules));
	err[0] = '\0';
	return fault_parse(text, "F", rules, err, sizeof(err));
}

TEST(every_key)
{
	CHECK_EQ(parse("action=partial device=mlx5_3 qpn=0x41 pid=77 opcode=write opcode=read "
		       "nth=3 count=0 percent=10 seed=5 syndrome=remote_op bytes=12"),
		0);
	CHECK_EQ(rules[0].action, FAULT_PARTIAL);
	CHECK_STR(rules[0].device, "mlx5_3");
	CHECK_EQ(rules[0].qpn, 0x41);
	CHECK_EQ(rules[0].pid, 77);
	CHECK_EQ(rules[0].opcodes, 1 << OP_WRITE | 1 << OP_READ);
	CHECK_EQ(rules[0].nth, 3);
	CHECK_EQ(rules[0].count, 0);
	CHECK_EQ(rules[0].percent, 10);
	CHECK_EQ(rules[0].random, 5);
	CHECK_EQ(rules[0].syndrome, SYN_REMOTE_OP);
	CHECK_EQ(rules[0].bytes, 12);
	CHECK_EQ(rules[1].action, FAULT_NONE);
}

TEST(defaults)
{
	CHECK_EQ(parse("# nothing; here\n action=error ; action=delay delay_ns=9\n;\n"), 0);
	CHECK_EQ(rules[0].syndrome, SYN_RETRY_EXC);
	CHECK_EQ(rules[0].nth, 1);
	CHECK_EQ(rules[0].count, 1);
	CHECK_EQ(rules[0].percent, 100);
	CHECK_EQ(rules[1].action, FAULT_DELAY);
	CHECK_EQ(rules[1].delay_ns, 9);
	CHECK_EQ(rules[2].action, FAULT_NONE);
	CHECK_EQ(parse(""), 0);
	CHECK_EQ(rules[0].action, FAULT_NONE);
}

/* A leading 0 does not make a number octal. */
TEST(leading_zeros)
{
	CHECK_EQ(parse("action=error pid=0123 nth=09 qpn=0X1f"), 0);
	CHECK_EQ(rules[0].pid, 123);
	CHECK_EQ(rules[0].nth, 9);
	CHECK_EQ(rules[0].qpn, 0x1f);
	CHECK_EQ(parse("action=error qpn=0x"), -EINVAL);
	CHECK_EQ(parse("action=error qpn=1f"), -EINVAL);
}

TEST(wrong_texts)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"qpn=1", "F:1: no action: give error"},
		{"action=duplicate", "action=duplicate: give error, rnr"},
		{"action=error\naction=delay", "F:2: action=delay: give delay_ns, too"},
		{"action=late", "F:1: action=late: give delay_ns, too"},
		{"action=packet_lost opcode=send", "not for packets"},
		{"action=packet_late peer=mlx5_1", "not for packets"},
		{"action=error peer=", "name of an adapter"},
		{"action=rnr delay_ns=5", "leave it out"},
		{"action=rnr syndrome=flush", "leave it out"},
		{"action=delay delay_ns=5 bytes=1", "leave it out"},
		{"action=error syndrome=21", "local_length"},
		{"action=error opcode=nop", "send, send_imm"},
		{"action=error qpn=0", "1 to 0xffffff"},
		{"action=error nth=0", "1 or more"},
		{"action=error percent=101", "1 to 100"},
		{"action=error count=-1", "0 for all"},
		{"action=error device=", "name of an adapter"},
		{"action=error; acton=rnr", "'acton': give key=value"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(parse(cases[i].text), -EINVAL);
		CHECK_EQ(rules[0].action, FAULT_NONE);
		CHECK(!strchr(err, '\n'));
		printf("%s: %s\n", cases[i].text, err);
		fflush(stdout);
		CHECK(strstr(err, cases[i].says));
	}
}

/* Rules are added to free entries; rules that do not fit are refused, and change nothing. */
TEST(full)
{
	CHECK_EQ(parse(""), 0);
	for (int i = 0; i < FAULT_RULES - 1; i++)
		CHECK_EQ(fault_parse("action=error", "F", rules, err, sizeof(err)), 0);
	CHECK_EQ(fault_parse("action=rnr;action=rnr", "F", rules, err, sizeof(err)), -ENOSPC);
	CHECK_EQ(rules[FAULT_RULES - 1].action, FAULT_NONE);
	rules[5].action = FAULT_NONE;
	CHECK_EQ(fault_parse("action=rnr;action=rnr", "F", rules, err, sizeof(err)), 0);
	CHECK_EQ(rules[5].action, FAULT_RNR);
	CHECK_EQ(rules[FAULT_RULES - 1].action, FAULT_RNR);
}

TEST(written_back)
{
	static const char *const texts[] = {
		"action=kill device=abcdefghijklmno peer=abcdefghijklmno qpn=0xffffff pid=2147483647 opcode=write "
		"opcode=write_imm opcode=send opcode=send_imm opcode=read opcode=cmp_swap "
		"opcode=fetch_add nth=1844674407370955161 count=1 percent=99 bytes=3",
		"action=partial device=abcdefghijklmno peer=abcdefghijklmno qpn=0xffffff "
		"pid=2147483647 opcode=send opcode=send_imm opcode=write opcode=write_imm "
		"opcode=read opcode=cmp_swap opcode=fetch_add nth=18446744073709551615 "
		"count=18446744073709551615 percent=99 syndrome=local_protection "
		"bytes=18446744073709551615",
		"action=error nth=1 count=1 syndrome=local_qp_op",
		"action=delay nth=2 count=0 delay_ns=1000",
		"action=late peer=abcdefghijklmno nth=1 count=1 delay_ns=7 syndrome=remote_op",
		"action=packet_lost device=mlx5_0 qpn=0x41 pid=3 nth=1 count=0 percent=10",
		"action=packet_twice nth=7 count=1",
		"action=packet_late nth=1 count=2",
		"action=link_down device=mlx5_0 nth=1 count=1",
	};
	char text[FAULT_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct fault_rule first;

		CHECK_EQ(parse(texts[i]), 0);
		first = rules[0];
		fault_format(&first, text);
		CHECK_EQ(parse(text), 0);
		CHECK(!memcmp(&first, &rules[0], sizeof(first)));
	}
	CHECK_STR(text, texts[ARRAY_SIZE(texts) - 1]);
}

TEST(environment)
{
	memset(rules, 0, sizeof(rules));
	setenv("SOFTHCA_FAULTS", "action=rnr; action=no_answer", 1);
	CHECK_EQ(fault_load_env(rules, err, sizeof(err)), 0);
	CHECK_EQ(rules[1].action, FAULT_NO_ANSWER);
	setenv("SOFTHCA_FAULT_FILE", "/nonexistent", 1);
	CHECK_EQ(fault_load_env(rules, err, sizeof(err)), -ENOENT);
	CHECK(strstr(err, "/nonexistent"));
}
