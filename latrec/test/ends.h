/* SPDX-License-Identifier: MIT */
/* Histograms and recorders that are destroyed at the end of their block: HIST *h = new_hist(...); */
#ifndef LATREC_TEST_ENDS_H
#define LATREC_TEST_ENDS_H

#include "latrec.h"

static inline void hist_end(struct latrec_hist **h)
{
	latrec_hist_destroy(*h);
}

static inline void recorder_end(struct latrec **r)
{
	latrec_destroy(*r);
}

#define HIST __attribute__((cleanup(hist_end))) struct latrec_hist
#define RECORDER __attribute__((cleanup(recorder_end))) struct latrec

#endif
