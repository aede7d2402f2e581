/**
 * @file How long the collectives of the last steps ran on this rank's GPU, by row of the policy, as NCCL's profiler interface tells.
 */

#ifndef ORBWEAVER_PROFILER_H
#define ORBWEAVER_PROFILER_H

#include <stddef.h>
#include <stdint.h>

#include "policy.h"

/** Steps whose times are kept: the last ones. */
enum { TIMED_STEPS = 16 };

/** In place of microseconds: some call of the row was not timed to its end. Above every time. */
#define TIME_UNKNOWN (INT64_C(1) << 62)

/** Whether NCCL has loaded the profiler in this process. */
int profiler_is_loaded(void);

/** The calls from here on are of this step. */
void profiler_begin_step(uint64_t step);

/** Microseconds of the calls of a row in a step, of which the tuner counted so many. Zero without calls. */
int64_t profiler_time(uint64_t step, int row, uint32_t calls);

/** Implemented by the tuner: the row of the policy in force, −1 for none. Asked by the thread that starts the collective. */
int tuner_row(size_t nodes, size_t ranks, int collective, size_t bytes);

#endif
