/* SPDX-License-Identifier: MIT */
/*
 * Landscapes for tests of the search: models of an adapter whose throughput depends on six
 * parameters of the first traffic in a known way. In each, one of a few hundred points has an
 * anomaly (pauses).
 *
 *	corner		gets worse towards the largest values of all six, where the anomaly is
 *	interior	gets worse towards the middle of all six, where the anomaly is
 *	deceptive	gets worse towards the smallest values, where there is no anomaly;
 *			the anomaly is where all six are large, and no gradient leads to it
 */
#ifndef RDMABENCH_MODEL_H
#define RDMABENCH_MODEL_H

#include "measure.h"

enum model_kind { MODEL_CORNER, MODEL_INTERIOR, MODEL_DECEPTIVE };

extern const char *const model_names[]; /* by kind, NULL at the end */

/* Measures a point. Returns 0. */
int model_measure(enum model_kind kind, const struct space *s, const struct point *p,
	struct measure *m_p);

/* The parameters that matter. */
#define MODEL_DIMS 6
unsigned model_dim(unsigned i);

#endif
