/* SPDX-License-Identifier: Apache-2.0
 * src/os/file_watch.h - tells when a file that another process writes has changed, by inotify.
 * Where inotify is not available, callers look at the file at intervals. */
#ifndef BERTH_OS_FILE_WATCH_H
#define BERTH_OS_FILE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct berth_engine;

/* --- for a thread that waits --- */

/* Returns a descriptor for berth_file_watch_wait, which the caller closes. -1: the file does not
 * exist, or cannot be watched. Changes before this call are not reported: read the file after it.
 */
int berth_file_watch_open(const char *path);
/* Waits until the file changes, for up to wait_ms. Returns whether it has changed since the last
 * call. With fd -1 it waits for wait_ms. */
bool berth_file_watch_wait(int fd, int64_t wait_ms);

/* --- on the engine's thread --- */

struct berth_file_watch;
/* Calls on_change on the engine's thread after each change. Several changes may cause one call.
 * Returns NULL when the file cannot be watched. Read the file after this call, as above. */
struct berth_file_watch *berth_file_watch_new(struct berth_engine *engine, const char *path,
                                              void (*on_change)(void *ctx), void *ctx);
/* Ends the watch; on_change is not called any more. Call it before the engine is freed. NULL is
 * fine. */
void berth_file_watch_free(struct berth_file_watch *watch);
#endif
