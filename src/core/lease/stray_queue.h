/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease/stray_queue.h - ends the processes that finished commands left on this machine.
 * A stray is found by the label in its environment. One search of /proc serves many labels, so a
 * label waits a moment for others. */
#ifndef BERTH_CORE_LEASE_STRAY_QUEUE_H
#define BERTH_CORE_LEASE_STRAY_QUEUE_H

#include <berth/error.h>

struct berth_pool;
struct berth_stray_queue; /* safe to share between threads */

int berth_stray_queue_new(struct berth_pool *pool, struct berth_stray_queue **out,
                          struct berth_error *err);
/* Ends the strays of all queued labels first. The pool is gone by then. NULL is fine. */
void berth_stray_queue_free(struct berth_stray_queue *queue);
/* Ends processes that carry the label ("BERTH_EXEC_ID=..."), within moments. */
void berth_stray_queue_add(struct berth_stray_queue *queue, const char *label);
/* Ends the strays of all queued labels before it returns. */
void berth_stray_queue_flush(struct berth_stray_queue *queue);
#endif
