/* SPDX-License-Identifier: MIT */
/* Histograms and recorders that are destroyed at the end of their block: HIST *h = new_hist(...); */
#ifndef LATREC_TEST_ENDS_H
#define LATREC_TEST_ENDS_H

#include "support/test.h"
#include "latrec.h"

static inline void hist_end(struct latrec_hist **h)
{
	latrec_hist_destroy(*h);
}

static inline void recorder_end(struct latrec **r)
{
	latrec_destroy(*r);
}

static inline void end_ep(struct latrec_ep **ep)
{
	latrec_ep_destroy(*ep);
}

#define HIST AT_END(hist_end) struct latrec_hist
#define RECORDER AT_END(recorder_end) struct latrec

#endif
