/* SPDX-License-Identifier: MIT */
#include "run/show.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/tally.h"
#include "fault/fault.h"
#include "hca/config.h"
#include "hca/objects.h"

/* The objects of one process. Entries of a table before its first index may have no memory. */
struct census {
	unsigned int ctxs, pds, ahs, mrs, cqs, srqs, qps;
};

#define COUNT(table, kind, slot)                                                                   \
	({                                                                                         \
		unsigned int n_ = 0;                                                               \
		for (uint32_t i_ = obj_tables[kind].first; i_ < arena()->high[kind]; i_++)         \
			n_ += arena()->table[i_].obj.used &&                                       \
			      arena()->table[i_].obj.owner == (slot);                              \
		n_;                                                                                \
	})

static struct census census_of(uint32_t slot)
{
	return (struct census){
		.ctxs = COUNT(ctxs, OBJ_CTX, slot),
		.pds = COUNT(pds, OBJ_PD, slot),
		.ahs = COUNT(ahs, OBJ_AH, slot),
		.mrs = COUNT(mrs, OBJ_MR, slot),
		.cqs = COUNT(cqs, OBJ_CQ, slot),
		.srqs = COUNT(srqs, OBJ_SRQ, slot),
		.qps = COUNT(qps, OBJ_QP, slot),
	};
}

static bool shown(uint32_t slot)
{
	return arena()->procs[slot].used && slot != fabric_self.slot;
}

static unsigned int processes(void)
{
	unsigned int n = 0;

	for (uint32_t slot = 0; slot < arena()->procs_high; slot++)
		n += shown(slot);
	return n;
}

static unsigned int qps(void)
{
	unsigned int n = 0;

	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++)
		n += arena()->qps[i].obj.used;
	return n;
}

static void put_summary(FILE *f, const char *name)
{
	fprintf(f, "%s: %u processes, %u adapters, %u QPs", name, processes(), arena()->topo.nrails,
		qps());
	if (arena()->recoveries)
		fprintf(f, ", %u recoveries", arena()->recoveries);
	fputc('\n', f);
}

static void put_rails(FILE *f)
{
	fprintf(f, "%-16s %-13s %4s %-4s %-6s %9s %8s %5s\n", "adapter", "pci", "numa", "link",
		"state", "Mb/s", "ns", "lid");
	for (uint32_t i = 0; i < arena()->topo.nrails; i++) {
		const struct softhca_rail *r = &arena()->topo.rails[i];

		fprintf(f, "%-16s %04x:%02x:%02x.%x  %4d %-4s %-6s %9" PRIu64 " %8u %5u\n", r->name,
			r->pci.domain, r->pci.bus, r->pci.device, r->pci.function, r->numa,
			r->link == SOFTHCA_LINK_IB ? "ib" : "roce",
			arena()->rails[i].link_down ? "down" : "active", r->rate_mbps,
			r->latency_ns, r->lid);
	}
}

static void command_of(int32_t pid, char comm[32])
{
	char path[48];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(comm, 32, f))
		strcpy(comm, "?");
	comm[strcspn(comm, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* Prints the latest findings of the process's mode auto (sched/choose.h). */
static void put_look(FILE *f, const struct proc *p)
{
	fprintf(f, " (auto: needs %u cores, has %u", p->needs, p->cores);
	if (p->quota)
		fprintf(f, " with a quota of %u.%03u", p->quota / 1000, p->quota % 1000);
	if (p->slow)
		fputs(", but polling is slower", f);
	fputc(')', f);
}

/* Prints how the doorbells of a process are executed now, and why. */
static void put_mode(FILE *f, const struct proc *p)
{
	static const char *const names[] = {"trap", "poll", "step"};
	static const char *const whys[] = {
		[WHY_STRICT] = "strict mode",
		[WHY_CHAOS] = "chaos mode",
		[WHY_LINK] = "the link model",
		[WHY_LEGACY] = "legacy doorbell pages",
	};
	uint32_t mode = p->mode;

	if (mode > ENGINE_AUTO || p->why > WHY_LEGACY)
		return;
	if (!p->has_thread && mode != ENGINE_STEP) {
		fputc('-', f); /* it has opened no device */
		return;
	}
	if (mode == ENGINE_AUTO && p->needs)
		mode = p->polls ? ENGINE_POLL : ENGINE_TRAP;
	fprintf(f, "%s", mode == ENGINE_AUTO ? "trap" : names[mode]);
	if (p->why == WHY_GIVEN)
		fputs(" (given)", f);
	else if (p->why != WHY_CHOSEN)
		fprintf(f, " (auto: %s)", whys[p->why]);
	else if (!p->needs)
		fputs(" (auto)", f);
	else
		put_look(f, p);
	if (p->awake)
		fputs(", awake", f);
}

static void put_process(FILE *f, uint32_t slot)
{
	const struct proc *p = &arena()->procs[slot];
	struct census n = census_of(slot);
	uint64_t wqes = 0, bytes = 0;
	struct softhca_counters c;
	char comm[32];

	tally_process(slot, &c);
	for (size_t i = 0; i < SOFTHCA_OPCODES; i++) {
		wqes += c.wqes[i];
		bytes += c.bytes[i];
	}
	command_of(p->pid, comm);
	fprintf(f,
		"%-7d %-15s %3u %3u %3u %5u %4u %4u %5u %10" PRIu64 " %10" PRIu64 " %14" PRIu64
		" %6" PRIu64 "  ",
		p->pid, comm, n.ctxs, n.pds, n.ahs, n.mrs, n.cqs, n.srqs, n.qps, c.doorbells, wqes,
		bytes, c.errors);
	put_mode(f, p);
	fputc('\n', f);
}

static void put_processes(FILE *f)
{
	fprintf(f, "%-7s %-15s %3s %3s %3s %5s %4s %4s %5s %10s %10s %14s %6s  %s\n", "process",
		"command", "ctx", "pd", "ah", "mr", "cq", "srq", "qp", "doorbells", "requests",
		"bytes", "errors", "mode");
	for (uint32_t slot = 0; slot < arena()->procs_high; slot++)
		if (shown(slot))
			put_process(f, slot);
}

static const char *type_name(uint32_t type)
{
	switch (type) {
	case QPT_RC:
		return "RC";
	case QPT_UC:
		return "UC";
	case QPT_UD:
		return "UD";
	default:
		return "?";
	}
}

static void put_qps(FILE *f)
{
	static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	if (!qps())
		return;
	fprintf(f, "%-8s %-7s %-16s %-4s %-5s %-8s %s\n", "qp", "process", "adapter", "type",
		"state", "peer", "blocks done");
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++) {
		const struct qp *qp = &arena()->qps[i];

		if (!qp->obj.used)
			continue;
		fprintf(f, "0x%06x %-7d %-16s %-4s %-5s 0x%06x %u\n", qp->qpn,
			arena()->procs[qp->obj.owner].pid,
			arena()->topo.rails[arena()->ctxs[qp->obj.ctx].rail].name,
			type_name(qp->type),
			qp->state < sizeof(states) / sizeof(states[0]) ? states[qp->state] : "?",
			qp->attr.dest_qpn, qp->sq_done);
	}
}

static void put_fabric(FILE *f, const char *name)
{
	put_summary(f, name);
	fputc('\n', f);
	put_rails(f);
	fputc('\n', f);
	put_processes(f);
	fputc('\n', f);
	put_qps(f);
}

static void put_faults(FILE *f, const char *name)
{
	char text[FAULT_TEXT];

	for (size_t i = 0; i < FAULT_RULES; i++) {
		const struct fault_rule *r = &arena()->faults[i];

		if (!r->action)
			continue;
		fault_format(r, text);
		fprintf(f, "%zu: %s  # seen %" PRIu64 ", hit %" PRIu64 "\n", i + 1, text, r->seen,
			r->hits);
	}
}

/* Prints into memory under the mutex: a slow reader of out must not delay the fabric. */
static void print(FILE *out, void (*put)(FILE *f, const char *name), const char *name)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	sigset_t saved;

	if (!f) {
		perror("softhcactl");
		return;
	}
	if (fabric_enter(&saved))
		_exit(1); /* not exit(): the interrupted code may hold a lock of libc */
	fabric_reap();
	put(f, name);
	fabric_leave(&saved);
	fclose(f);
	fwrite(text, 1, size, out);
	free(text);
}

static void put_living(FILE *f, const char *name)
{
	if (processes())
		put_summary(f, name);
}

void show_summary(FILE *out, const char *name)
{
	print(out, put_living, name);
}

void show_fabric(FILE *out, const char *name)
{
	print(out, put_fabric, name);
}

void show_faults(FILE *out)
{
	print(out, put_faults, "");
}
