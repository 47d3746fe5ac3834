/* SPDX-License-Identifier: MIT */
/*
 * Histograms as a log of HdrHistogram, version 1.3, which HistogramLogAnalyzer can read. A line
 * has a tag, the beginning of the interval, its length, its largest value, and in Base64 the
 * histogram in the compressed encoding V2. The format is that of HistogramLogWriter.java,
 * AbstractHistogram.java (encodeIntoByteBuffer) and ZigZagEncoding.java in
 * github.com/HdrHistogram/HdrHistogram:
 *
 *	be32 0x1c849314, be32 length, a zlib stream (RFC 1950) of:
 *	be32 0x1c849313, be32 bytes of the counts, be32 0, be32 significant digits,
 *	be64 the lowest value, be64 the highest value, be64 the double 1.0, then the counts in the
 *	order of the values, each as ZigZag LEB128 of 1 to 9 bytes; the number -n means n counts
 *	that are 0
 *
 * With two significant digits HdrHistogram has the buckets of latrec, so the log loses nothing. The
 * zlib stream is one stored block: a histogram has a few KiB.
 */
#ifndef RDMABENCH_HDRLOG_H
#define RDMABENCH_HDRLOG_H

#include <latrec.h>
#include <stdio.h>

/* Writes the first lines. @program: name and version; @now_s: seconds since 1970. */
void hdrlog_head(const char *program, double now_s, FILE *out);

/*
 * Writes a histogram of nanoseconds, of at most LATREC_MAX_COUNT values. The tag has no comma and
 * no space. Returns 0; -ERANGE if a value is above INT64_MAX, the highest that HdrHistogram
 * supports; or -ENOMEM. The caller must check the stream for errors.
 */
int hdrlog_line(const char *tag, double start_s, double seconds, const struct latrec_hist *h,
	FILE *out);

#endif
