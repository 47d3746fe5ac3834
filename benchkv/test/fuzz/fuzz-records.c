/* SPDX-License-Identifier: MIT */
/*
 * A test for libFuzzer. If the first byte is even, the rest of the input is a machine file,
 * otherwise it describes the encoded result of another rank: a byte n, two bytes `at`, and n bytes
 * that are XORed into the fixed part of the result of an empty run, from offset `at` on. After them
 * come the histograms, to which this program adds the check sums. If a result is accepted, its
 * encoding must be the same bytes. If a machine is accepted, its numbers must be in range and
 * possible to simulate.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control.h"
#include "machine.h"
#include "result.h"
#include "support/fuzz.h"
#include "support/histtext.h"

#define TEXT_MAX 8192

/* ---- machine files ---- */

static void use_machine(const struct machine *m)
{
	struct control_spec spec = {.kind = CONTROL_AUTO, .derive = true};
	struct machine_costs costs = machine_costs(m);
	struct control_origin origin;

	for (size_t i = 0; i < machine_nkeys; i++) {
		double x = machine_get(m, &machine_keys[i]);

		must(x >= 0 && x <= 1e9);
	}
	must(costs.poll >= 1 && costs.repoll >= 1 && isfinite(machine_round_trip_ns(m)));
	machine_derive(m, &spec, &origin);
	must(origin.times.write_ns >= 0 && origin.times.message_ns >= 0);
	must(!spec.full || (spec.window >= 2 && spec.full >= 8));
	must(spec.window <= 12 || (spec.window == spec.filling && spec.window <= 128));
}

/*
 * A machine is saved with nine digits, so a value just below an excluded limit can become the
 * limit.
 */
static void save_machine(const struct machine *m, const char *path)
{
	struct machine again;
	char why[160];

	must(!machine_save(m, path));
	if (machine_load(path, &again, why, sizeof(why))) {
		must(m->loop_jitter > .999999);
		return;
	}
	for (size_t i = 0; i < machine_nkeys; i++) {
		double x = machine_get(m, &machine_keys[i]);

		must(fabs(machine_get(&again, &machine_keys[i]) - x) <= 1e-8 * x);
	}
}

static void read_machine(const uint8_t *data, size_t size)
{
	static int fd;
	struct machine m;
	char path[40], why[160] = "";
	int err;

	if (!fd)
		fd = memfd_create("machine", MFD_CLOEXEC);
	must(fd > 0 && !ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = machine_load(path, &m, why, sizeof(why));
	must(!err || (err == -EINVAL && *why));
	if (!err) {
		use_machine(&m);
		save_machine(&m, path);
	}
}

/* ---- results ---- */

/* Writes the part before the histograms, changed by the input. Returns its length. */
static size_t put_fixed(uint8_t *to, const uint8_t **data, size_t *size)
{
	struct result empty;
	size_t fixed = 8 + offsetof(struct result, latency), len, at, n;
	void *bytes;

	must(!result_init(&empty) && !result_encode(NULL, &empty, &bytes, &len) && len > fixed);
	memcpy(to, bytes, fixed);
	free(bytes);
	result_fini(&empty);
	n = (*data)[0] < *size - 3 ? (*data)[0] : *size - 3;
	at = ((*data)[1] | (size_t)(*data)[2] << 8) % fixed;
	for (size_t i = 0; i < n && at + i < fixed; i++)
		to[at + i] ^= (*data)[3 + i];
	*data += 3 + n;
	*size -= 3 + n;
	return fixed;
}

static bool same(const struct result *a, const struct result *b)
{
	size_t len_a, len_b;
	void *bytes_a, *bytes_b;
	bool equal;

	must(!result_encode(NULL, a, &bytes_a, &len_a) &&
		!result_encode(NULL, b, &bytes_b, &len_b));
	equal = len_a == len_b && !memcmp(bytes_a, bytes_b, len_a);
	free(bytes_a);
	free(bytes_b);
	return equal;
}

/* Checks that `views` other than 0, without other errors, are an error of exactly one kind. */
static void compare_views(struct result *r)
{
	struct result plain = {.views = r->views | 1,
		.changes = r->changes,
		.versions = r->versions};

	result_compare_views(&plain);
	must(result_errors(&plain) && !plain.undone + !plain.redone + !plain.unequal == 2);
}

static void use_result(const struct result *r)
{
	struct result sum;
	struct result_kind kinds[RESULT_KINDS];
	struct latrec_hist *all;
	char text[400];

	must(!result_init(&sum));
	result_add(&sum, r);
	must(same(&sum, r));
	result_sequel(&sum, r);
	result_compare_views(&sum);
	all = result_latency(&sum);
	must(all);
	latrec_hist_destroy(all);
	result_kinds(&sum, kinds);
	result_explain(&sum, text, sizeof(text));
	must(strnlen(text, sizeof(text)) < sizeof(text));
	must(result_rate(&sum) >= 0 && result_cpu_per_op(&sum) >= 0);
	must(!result_verified(&sum) || !result_errors(&sum));
	compare_views(&sum);
	result_clear(&sum);
	must(!result_errors(&sum));
	result_fini(&sum);
}

static void read_result(const uint8_t *data, size_t size)
{
	static struct result r;
	static bool made;
	uint8_t *bytes = malloc(8 + sizeof(r) + 8 * TEXT_MAX), *exact;
	void *again = NULL;
	size_t len, n;

	must(bytes && (made || !result_init(&r)));
	made = true;
	len = put_fixed(bytes, &data, &size);
	len += histtext_sign(data, size, (char *)bytes + len);
	exact = malloc(len); /* so that the sanitizer detects overruns */
	must(exact);
	memcpy(exact, bytes, len);
	if (!result_decode(exact, len, &r)) {
		must(!result_encode(NULL, &r, &again, &n) && n == len && !memcmp(again, exact, n));
		use_result(&r);
	}
	free(again);
	free(exact);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4 || size > TEXT_MAX)
		return 0;
	if (data[0] % 2)
		read_result(data + 1, size - 1);
	else
		read_machine(data + 1, size - 1);
	return 0;
}
