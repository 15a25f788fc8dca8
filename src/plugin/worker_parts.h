/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/worker_parts.h - what the files of a worker share: worker.c is its state machine,
 * worker_start.c brings it up, worker_message.c reads what it says, worker_call.c sends calls to
 * it. Everything here runs on the engine's thread and is called without the lock. */
#ifndef BERTH_PLUGIN_WORKER_PARTS_H
#define BERTH_PLUGIN_WORKER_PARTS_H

#include "plugin/worker.h"

#define BERTH_WORKER_CALL_MS 30000   /* the time-out of a call that does not name one */
#define BERTH_WORKER_HEALTH_MS 60000 /* between two health calls */

/* worker.c */

/* Changes the state and wakes those who wait for it. Asserts that this change may happen. */
void berth_worker_set_state(struct berth_worker *w, enum berth_worker_state state);
/* Kills the process; its end follows as for any other. */
void berth_worker_kill(struct berth_worker *w);
/* Counts a crash and plans the next start. The worker has no process. */
void berth_worker_crash(struct berth_worker *w, const char *text);
/* Completes a stop: releases parked calls, and starts anew if that was asked for. The worker has no
 * process, and may be freed by another thread as soon as this returns. */
void berth_worker_end_stop(struct berth_worker *w);
/* Handles the end of the process (berth_rpc_handlers). */
void berth_worker_on_end(void *ctx, const struct berth_exec_end *end, struct berth_buf *text);
/* Returns a copy of the text, shortened and without any secret that the worker was told. Returns ""
 * rather than a secret when memory ran out, or NULL. The caller frees it. */
char *berth_worker_clean_text(const struct berth_worker *w, const char *text);
/* Logs what happened to the worker, here and in its own log file. */
void berth_worker_report(struct berth_worker *w, enum berth_log_level level, const char *event,
                         const char *text);
/* Sets the error that its status shows. */
void berth_worker_set_error(struct berth_worker *w, const char *text);
void berth_worker_clear_timers(struct berth_worker *w);
/* Replaces *kept by a copy of the text. */
void berth_worker_keep_text(char **kept, const char *text);

/* worker_message.c (berth_rpc_handlers) */

void berth_worker_on_message(void *ctx, const struct berth_message *m);
void berth_worker_on_noise(void *ctx, const char *line, size_t len, const char *why);
void berth_worker_on_stderr(void *ctx, const char *bytes, size_t len);

/* worker_call.c */

/* Lets all parked calls go. */
void berth_worker_release_parked(struct berth_worker *w);
/* Hands streamed output to the call with this invocation id, if there is one. */
void berth_worker_hand_output(struct berth_worker *w, const char *invocation,
                              enum berth_stream stream, const char *bytes, size_t len);
#endif
