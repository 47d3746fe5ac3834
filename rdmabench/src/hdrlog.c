/* SPDX-License-Identifier: MIT */
#include "hdrlog.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COOKIE 0x1c849313u
#define COOKIE_COMPRESSED 0x1c849314u
#define DIGITS 2 /* significant */
#define HALF_BITS 7 /* 2^7 buckets per power of two, for two digits: 2^8 > 2 * 10^2 */
#define LEB_BYTES 9 /* maximum number of bytes of a count; the ninth has eight bits */
#define BLOCK_MAX 65535u /* bytes of a stored block of zlib */
#define ADLER 65521u

static_assert(LATREC_PRECISION == 1 << HALF_BITS, "buckets of two significant digits");

static void put_be(uint64_t value, unsigned bytes, FILE *out)
{
	while (bytes--)
		putc((int)(value >> 8 * bytes & 255), out);
}

static void put_le16(uint32_t value, FILE *out)
{
	putc((int)(value & 255), out);
	putc((int)(value >> 8 & 255), out);
}

/* ---- the histogram ---- */

/* Returns the index of the bucket of a value. */
static uint64_t index_of(uint64_t value)
{
	unsigned top = 63 - (unsigned)__builtin_clzll(value | ((2u << HALF_BITS) - 1));
	unsigned shift = top - HALF_BITS;

	return ((uint64_t)shift << HALF_BITS) + (value >> shift);
}

static void put_count(int64_t count, FILE *out)
{
	uint64_t zigzag = (uint64_t)count << 1 ^ (count < 0 ? UINT64_MAX : 0);
	int bytes = 1;

	for (; zigzag > 127 && bytes < LEB_BYTES; bytes++) {
		putc((int)(zigzag & 127) | 128, out);
		zigzag >>= 7;
	}
	putc((int)zigzag, out);
}

static void put_counts(const struct latrec_hist *h, FILE *out)
{
	struct latrec_range range;
	uint64_t next = 0;

	for (uint32_t at = 0; (at = latrec_hist_next(h, at, &range, sizeof(range)));) {
		uint64_t index = index_of(range.low);

		if (index > next)
			put_count(index - next > 1 ? -(int64_t)(index - next) : 0, out);
		put_count((int64_t)range.count, out);
		next = index + 1;
	}
}

/* Bytes in memory that a stream has written. */
struct bytes {
	char *data;
	size_t len;
};

/* Returns 0 or -ENOMEM; the caller frees the data. */
static int counts_of(const struct latrec_hist *h, struct bytes *b_p)
{
	FILE *out = open_memstream(&b_p->data, &b_p->len);

	if (!out)
		return -ENOMEM;
	put_counts(h, out);
	return fclose(out) ? -ENOMEM : 0;
}

static int encode(const struct latrec_hist *h, struct bytes *b_p)
{
	static const double ratio = 1; /* of a value to the integer that is stored */
	uint64_t max = latrec_hist_max(h), bits;
	struct bytes counts = {NULL, 0};
	int err = counts_of(h, &counts);
	FILE *out = err ? NULL : open_memstream(&b_p->data, &b_p->len);

	if (out) {
		memcpy(&bits, &ratio, sizeof(bits));
		put_be(COOKIE, 4, out);
		put_be(counts.len, 4, out);
		put_be(0, 4, out);
		put_be(DIGITS, 4, out);
		put_be(1, 8, out);
		put_be(max < 2 ? 2 : max, 8, out);
		put_be(bits, 8, out);
		fwrite(counts.data, 1, counts.len, out);
	}
	free(counts.data);
	return !out || fclose(out) ? -ENOMEM : 0;
}

/* ---- the zlib stream ---- */

static uint32_t adler32(const struct bytes *b)
{
	uint32_t low = 1, high = 0;

	for (size_t i = 0; i < b->len; i++) {
		low = (low + (unsigned char)b->data[i]) % ADLER;
		high = (high + low) % ADLER;
	}
	return high << 16 | low;
}

/*
 * One stored block is enough: there are at most 7424 counts, and fewer than 256 of them need nine
 * bytes. Such a count is at least 2^55, and the sum of all counts is less than 2^63.
 */
static void put_zlib(const struct bytes *b, FILE *out)
{
	put_be(0x7801, 2, out);
	putc(1, out); /* the last block */
	put_le16((uint32_t)b->len, out);
	put_le16(~(uint32_t)b->len, out);
	fwrite(b->data, 1, b->len, out);
	put_be(adler32(b), 4, out);
}

static int compress(const struct bytes *b, struct bytes *c_p)
{
	FILE *out = b->len > BLOCK_MAX ? NULL : open_memstream(&c_p->data, &c_p->len);

	if (!out)
		return b->len > BLOCK_MAX ? -ERANGE : -ENOMEM;
	put_be(COOKIE_COMPRESSED, 4, out);
	put_be(2 + 5 + b->len + 4, 4, out);
	put_zlib(b, out);
	return fclose(out) ? -ENOMEM : 0;
}

/* ---- the log ---- */

static void put_base64(const struct bytes *b, FILE *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < b->len; i += 3) {
		size_t n = b->len - i < 3 ? b->len - i : 3;
		unsigned char in[3] = {0};
		uint32_t bits;

		memcpy(in, b->data + i, n);
		bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
		for (size_t k = 0; k < 4; k++)
			putc(k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=', out);
	}
}

void hdrlog_head(const char *program, double now_s, FILE *out)
{
	time_t now = (time_t)now_s;
	struct tm tm;
	char date[40] = "";

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	fprintf(out, "#[Logged with %s, values in nanoseconds]\n", program);
	fprintf(out, "#[Histogram log format version 1.3]\n");
	fprintf(out, "#[StartTime: %.3f (seconds since epoch), %s]\n", now_s, date);
	fprintf(out, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
		     "\"HdrHistogram\"\n");
}

int hdrlog_line(const char *tag, double start_s, double seconds, const struct latrec_hist *h,
	FILE *out)
{
	struct bytes plain = {NULL, 0}, packed = {NULL, 0};
	int err = latrec_hist_max(h) > INT64_MAX ? -ERANGE : encode(h, &plain);

	if (!err)
		err = compress(&plain, &packed);
	if (!err) {
		fprintf(out, "Tag=%s,%.3f,%.3f,%.3f,", tag, start_s, seconds,
			(double)latrec_hist_max(h) / 1e6); /* in ms, as HdrHistogram expects */
		put_base64(&packed, out);
		putc('\n', out);
	}
	free(plain.data);
	free(packed.data);
	return err;
}
