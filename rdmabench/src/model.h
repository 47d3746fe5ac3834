/* SPDX-License-Identifier: MIT */
/*
 * Landscapes for tests of the search: models of an adapter whose throughput depends on six
 * parameters of the first traffic in a known way. In each landscape about one point in a few
 * hundred has an anomaly (pauses). The landscapes, and where their throughput falls:
 *
 *	corner		falls towards the largest values of all six, where the anomaly is
 *	interior	falls towards the middle of all six, where the anomaly is
 *	deceptive	falls towards the smallest values, where there is no anomaly;
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

/* Returns the dimension of parameter i of the six. */
#define MODEL_DIMS 6
unsigned model_dim(unsigned i);

#endif
