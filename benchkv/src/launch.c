/* SPDX-License-Identifier: MIT */
#include "launch.h"

#include <ctype.h>
#include <errno.h>
#include <pmix.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "stop.h"

#define LOOK_NS (20 * NSEC_PER_MSEC) /* interval at which the stop flag is read */
#define KEY_MAX 64
#define ABSENT_NAMED 4 /* a message names at most this number of missing ranks */
#define ABSENT_NS (100 * NSEC_PER_MSEC) /* time limit to get the data of a rank that is present */

static pmix_proc_t me; /* this process */

enum { WAITING, ENDED, ABANDONED };

/*
 * A request to the launcher. A thread of PMIx handles the answer, perhaps after our thread has
 * stopped waiting for it. The later of the two threads frees the request.
 */
struct request {
	_Atomic uint32_t state;
	pmix_status_t status;
	char key[KEY_MAX]; /* PMIx may read it until it has answered */
	void *data;
	size_t len;
};

static void request_free(struct request *r)
{
	free(r->data);
	free(r);
}

/* Called on a thread of PMIx when the answer has come. */
static void request_end(struct request *r, pmix_status_t status, void *data, size_t len)
{
	r->status = status;
	r->data = data;
	r->len = len;
	/* acq_rel, like the exchange in request_wait(): the thread that frees sees all writes. */
	if (atomic_exchange_explicit(&r->state, ENDED, memory_order_acq_rel) == ABANDONED)
		request_free(r);
	else /* the other thread may have freed *r: futex_wake() uses only the address */
		futex_wake((const uint32_t *)&r->state, 1);
}

static void on_fence(pmix_status_t status, void *arg)
{
	request_end(arg, status, NULL, 0);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
	void *data = NULL;
	size_t len = 0;

	if (status == PMIX_SUCCESS && (!value || value->type != PMIX_BYTE_OBJECT))
		status = PMIX_ERR_TYPE_MISMATCH;
	if (status == PMIX_SUCCESS) {
		len = value->data.bo.size;
		data = malloc(len ? len : 1);
		if (data)
			memcpy(data, value->data.bo.bytes, len);
	}
	request_end(arg, status, data, len);
}

/* Acquire: pairs with the exchange in request_end(). */
static bool is_waiting(const struct request *r)
{
	return atomic_load_explicit(&r->state, memory_order_acquire) == WAITING;
}

/* Waits for the answer. If this returns an error, the caller must not use the request any more. */
static int request_wait(const struct launch *l, struct request *r, uint64_t timeout_ns)
{
	uint64_t now = clock_ns(), deadline = now + timeout_ns;
	int err = 0;

	while (is_waiting(r) && !err) {
		futex_wait((const uint32_t *)&r->state, WAITING,
			now + LOOK_NS < deadline ? LOOK_NS : deadline - now);
		now = clock_ns();
		if (!is_waiting(r))
			break;
		if (l->watch)
			l->watch(l->watch_arg);
		err = stop_requested() ? -EINTR : now >= deadline ? -ETIMEDOUT : 0;
	}
	if (!err && r->status != PMIX_SUCCESS)
		err = r->status == PMIX_ERR_TIMEOUT ? -ETIMEDOUT : -EPROTO;
	if (err && atomic_exchange_explicit(&r->state, ABANDONED, memory_order_acq_rel) == ENDED)
		request_free(r);
	return err;
}

int launch_environment_rank(void)
{
	const char *ns = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");

	return ns && rank ? atoi(rank) : -1;
}

static void name_job(struct launch *l)
{
	if (l->alone)
		snprintf(l->job, sizeof(l->job), "pid%ld", (long)getpid());
	else
		snprintf(l->job, sizeof(l->job), "%.*s", LAUNCH_NAME_MAX - 1, me.nspace);
	for (char *c = l->job; *c; c++) {
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '_')
			*c = '-';
	}
}

static void name_host(struct launch *l)
{
	pmix_value_t *value = NULL;

	if (!l->alone && PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &value) == PMIX_SUCCESS &&
		value->type == PMIX_STRING)
		snprintf(l->host, sizeof(l->host), "%s", value->data.string);
	else
		gethostname(l->host, sizeof(l->host) - 1);
	if (value)
		PMIX_VALUE_RELEASE(value);
}

/* Called on a thread of PMIx when the launcher has ended. */
static void on_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
	size_t n, pmix_info_t results[], size_t n_results, pmix_event_notification_cbfunc_fn_t done,
	void *arg)
{
	fprintf(stderr, "benchkv: rank %s: the launcher has ended\n", getenv("PMIX_RANK"));
	stop_raise(SIGHUP);
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

static int get_job_size(struct launch *l)
{
	pmix_proc_t all;
	pmix_value_t *value = NULL;

	PMIX_PROC_LOAD(&all, me.nspace, PMIX_RANK_WILDCARD);
	if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS)
		return -EPROTO;
	l->size = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
	PMIX_VALUE_RELEASE(value);
	return l->size > me.rank ? 0 : -EPROTO;
}

int launch_init(struct launch *l)
{
	pmix_status_t lost = PMIX_ERR_LOST_CONNECTION;

	*l = (struct launch){.size = 1, .alone = launch_environment_rank() < 0};
	if (!l->alone) {
		if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
			return -EPROTO;
		l->rank = me.rank;
		PMIx_Register_event_handler(&lost, 1, NULL, 0, on_lost, NULL, NULL);
		if (get_job_size(l)) {
			PMIx_Finalize(NULL, 0);
			return -EPROTO;
		}
	}
	name_job(l);
	name_host(l);
	return 0;
}

void launch_fini(const struct launch *l)
{
	/* PMIx_Finalize() waits for the other ranks, which may never come if the job must stop. */
	if (!l->alone && !stop_requested())
		PMIx_Finalize(NULL, 0);
}

static void name_key(char text[KEY_MAX], const char *key, uint32_t number)
{
	snprintf(text, KEY_MAX, "benchkv.%s.%u", key, number);
}

int launch_put(struct launch *l, const char *key, uint32_t number, const void *data, size_t len)
{
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
	char text[KEY_MAX];

	if (l->alone)
		return 0;
	value.data.bo.bytes = (char *)(uintptr_t)data; /* PMIx_Put() copies it */
	value.data.bo.size = len;
	name_key(text, key, number);
	return PMIx_Put(PMIX_GLOBAL, text, &value) == PMIX_SUCCESS ? 0 : -EPROTO;
}

int launch_fence(struct launch *l, uint64_t timeout_ns)
{
	const bool collect = true;
	pmix_status_t status;
	struct request *r;
	pmix_info_t info;
	int err;

	if (l->alone)
		return stop_requested() ? -EINTR : 0;
	/*
	 * A rank publishes this key before it waits, so that the others can see which rank is
	 * missing.
	 */
	if (launch_put(l, "fence", ++l->fences, "", 1) || PMIx_Commit() != PMIX_SUCCESS)
		return -EPROTO;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	status = PMIx_Fence_nb(NULL, 0, &info, 1, on_fence, r);
	if (status == PMIX_OPERATION_SUCCEEDED) { /* at once: PMIx does not call on_fence() */
		on_fence(PMIX_SUCCESS, r);
	} else if (status != PMIX_SUCCESS) {
		request_free(r);
		return -EPROTO;
	}
	err = request_wait(l, r, timeout_ns);
	PMIX_INFO_DESTRUCT(&info);
	if (err)
		return err;
	request_free(r);
	l->met_ns = clock_ns();
	return 0;
}

/* Writes the first ranks that have not come to the last fence, as text. */
static void list_absent(struct launch *l, char *list, size_t size)
{
	uint32_t absent[ABSENT_NAMED], n = 0;
	size_t at = 0, len;
	void *data;

	for (uint32_t rank = 0; rank < l->size && n < ABSENT_NAMED && !stop_requested(); rank++) {
		if (rank != l->rank &&
			launch_get(l, rank, "fence", l->fences, ABSENT_NS, &data, &len))
			absent[n++] = rank;
		else if (rank != l->rank)
			free(data);
	}
	if (!n)
		snprintf(list, size, "a rank");
	for (uint32_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(list + at, size - at, "%s%u",
			i     ? ", " :
			n > 1 ? "ranks " :
				"rank ",
			absent[i]);
	if (n == ABSENT_NAMED && at < size)
		snprintf(list + at, size - at, " and perhaps others");
}

static void explain_absence(struct launch *l, uint64_t timeout_ns, char *why, int size)
{
	char list[100];

	list_absent(l, list, sizeof(list));
	if (l->met_ns)
		snprintf(why, (size_t)size,
			"no answer from %s for %.0f s; to wait longer, give a larger --timeout",
			list, (double)(clock_ns() - l->met_ns) / 1e9);
	else
		snprintf(why, (size_t)size,
			"%s did not come within %g s: does every process of the job run benchkv? "
			"To wait longer, give a larger --timeout",
			list, (double)timeout_ns / 1e9);
}

int launch_meet(struct launch *l, uint64_t timeout_ns, char *why, int size)
{
	int err = launch_fence(l, timeout_ns);

	if (err == -ETIMEDOUT)
		explain_absence(l, timeout_ns, why, size);
	else if (err == -EINTR)
		snprintf(why, (size_t)size, "told to stop");
	else if (err)
		snprintf(why, (size_t)size, "the launcher failed, or a rank has ended");
	return err;
}

int launch_get(struct launch *l, uint32_t rank, const char *key, uint32_t number,
	uint64_t timeout_ns, void **data_p, size_t *len_p)
{
	struct request *r = calloc(1, sizeof(*r));
	pmix_proc_t who;
	int err;

	if (!r)
		return -ENOMEM;
	PMIX_PROC_LOAD(&who, me.nspace, rank);
	name_key(r->key, key, number);
	if (l->alone || PMIx_Get_nb(&who, r->key, NULL, 0, on_value, r) != PMIX_SUCCESS) {
		request_free(r);
		return -EPROTO;
	}
	err = request_wait(l, r, timeout_ns);
	if (err)
		return err;
	*data_p = r->data;
	*len_p = r->len;
	r->data = NULL;
	request_free(r);
	return *data_p ? 0 : -ENOMEM;
}

void launch_abort(const struct launch *l, int status, const char *why)
{
	if (!l->alone)
		PMIx_Abort(status, why, NULL, 0);
}
