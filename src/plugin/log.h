/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/log.h - what a worker says, kept in a file of bounded size, with the secrets that it
 * was told taken out. */
#ifndef BERTH_PLUGIN_LOG_H
#define BERTH_PLUGIN_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

struct berth_locked;
struct berth_pool;
struct berth_worker_log;

/* Written on the pool. The file is made with the first line, and at 4 MiB it becomes FILE.1. */
int berth_worker_log_open(const char *path, struct berth_pool *pool, struct berth_worker_log **out,
                          struct berth_error *err);
/* Waits for what is to be written. NULL is fine. */
void berth_worker_log_close(struct berth_worker_log *log);

/* Hides these values, which are copied, from now on: all of one call, and 256 values with 64 KiB
 * together of earlier ones. From one thread at a time, as the functions below. */
void berth_worker_log_hide(struct berth_worker_log *log, const struct berth_locked *values,
                           int count);
/* One line: stream is "stdout", "stderr", "log" or "host"; level as the worker says it. Texts are
 * cut at 10,000 bytes; when the disk cannot follow, lines are dropped and counted. */
void berth_worker_log_write(struct berth_worker_log *log, const char *stream, const char *level,
                            const char *text, size_t len);
/* Is a whole value in it? Of pieces, a text may have some by chance. */
bool berth_worker_log_shows(struct berth_worker_log *log, const char *text, size_t len);
/* The text without what is hidden, as long as it was; the caller's. NULL: no memory. */
char *berth_worker_log_clean(struct berth_worker_log *log, const char *text, size_t len);
#endif
