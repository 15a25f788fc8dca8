/* SPDX-License-Identifier: Apache-2.0
 * src/os/file_watch.c - see file_watch.h. libuv shares one inotify descriptor among all watches of
 * a loop, so that thousands of them do not meet the limit of descriptors. */
#include "os/file_watch.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "os/engine.h"
#include "os/loop.h"

#define EVENTS_BYTES 4096 /* read at once */

int berth_file_watch_open(const char *path)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && inotify_add_watch(fd, path, IN_MODIFY) < 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

bool berth_file_watch_wait(int fd, int64_t wait_ms)
{
    _Alignas(struct inotify_event) char events[EVENTS_BYTES];
    struct pollfd changed = {.fd = fd, .events = POLLIN};
    if (poll(&changed, 1, (int)wait_ms) <= 0)
        return false;
    while (read(fd, events, sizeof events) > 0)
        continue;
    return true;
}

struct berth_file_watch {
    uv_fs_event_t handle;
    void (*on_change)(void *ctx);
    void *ctx;
};

static void file_watch_on_event(uv_fs_event_t *handle, const char *name, int events, int status)
{
    (void)name, (void)events, (void)status;
    struct berth_file_watch *watch = handle->data;
    watch->on_change(watch->ctx);
}

static void file_watch_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

struct berth_file_watch *berth_file_watch_new(struct berth_engine *engine, const char *path,
                                              void (*on_change)(void *ctx), void *ctx)
{
    struct berth_file_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->on_change = on_change;
    watch->ctx = ctx;
    if (uv_fs_event_init(berth_engine_loop(engine), &watch->handle) != 0) {
        free(watch);
        return NULL;
    }
    watch->handle.data = watch;
    if (uv_fs_event_start(&watch->handle, file_watch_on_event, path, 0) == 0)
        return watch;
    berth_file_watch_free(watch);
    return NULL;
}

void berth_file_watch_free(struct berth_file_watch *watch)
{
    if (watch)
        uv_close((uv_handle_t *)&watch->handle, file_watch_on_closed);
}
