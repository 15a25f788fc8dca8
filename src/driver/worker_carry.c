/* SPDX-License-Identifier: Apache-2.0
 * src/driver/worker_carry.c - files that a worker moves to and from its places by means of its own
 * (environmentSyncIn and environmentSyncOut). They pass through a file that the worker can read and
 * write. What it leaves there is checked and copied; its answer is not believed. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "driver/worker_ask.h"
#include "os/fs.h"

#define SYNC_IN "environmentSyncIn"
#define SYNC_OUT "environmentSyncOut"
#define CARRY_MS 300000        /* for any file */
#define CARRY_BYTES_PER_MS 250 /* the slowest connection that is waited for: 2 Mbit/s */

static bool worker_can_carry(struct berth_driver *base, struct berth_call *call)
{
    struct berth_worker_driver *d = (struct berth_worker_driver *)(void *)base;
    struct berth_workers *workers = d->options.workers;
    const char *plugin = d->options.plugin_id;
    struct berth_error ignored;
    return workers->ops->supports && workers->ops->stage &&
           berth_worker_ready(d, call, &ignored) == BERTH_OK &&
           workers->ops->supports(workers, plugin, SYNC_IN) &&
           workers->ops->supports(workers, plugin, SYNC_OUT);
}

/* One file on its way. */
struct carried {
    const char *method, *source, *target;
    int64_t size;
};

static int64_t carry_timeout(const struct berth_worker_driver *d, const struct berth_json *config,
                             int64_t size)
{
    int64_t asked_ms = berth_worker_place_timeout(d, config);
    int64_t needed_ms = CARRY_MS + size / CARRY_BYTES_PER_MS;
    int64_t ms = asked_ms > needed_ms ? asked_ms : needed_ms;
    return ms < BERTH_PLACE_CALL_MS_MAX ? ms : BERTH_PLACE_CALL_MS_MAX;
}

static int carry(struct berth_worker_driver *d, struct berth_call *call,
                 const struct berth_place_request *who, const struct berth_place *place,
                 const struct carried *file, struct berth_error *err)
{
    struct berth_id id = berth_id_new_random();
    auto_json *config = berth_worker_config(d, who->config_json), *answer = NULL;
    auto_buf params = BERTH_WORKER_PARAMS_INIT;
    struct berth_json_writer w = {.buf = &params};
    if (!config)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: call.");
    berth_worker_begin(&w, d, who, config);
    berth_worker_put_lease(&w, place);
    berth_json_open_in(&w, "operations", '[');
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "operationId", id.text);
    berth_json_open_in(&w, "files", '[');
    berth_json_open(&w, '{');
    berth_json_put_foreign(&w, "sourcePath", file->source);
    berth_json_put_foreign(&w, "targetPath", file->target);
    berth_json_put_str(&w, "kind", "file");
    berth_json_close(&w, '}');
    berth_json_close(&w, ']');
    berth_json_close(&w, '}');
    berth_json_close(&w, ']');
    berth_json_close(&w, '}');
    struct berth_worker_question question = {.method = file->method,
                                             .params = &params,
                                             .who = who,
                                             .timeout_ms = carry_timeout(d, config, file->size)};
    return berth_worker_ask(d, call, &question, &answer, err);
}

static int stage_begin(struct berth_worker_driver *d, struct berth_call *call,
                       struct berth_worker_stage *out, struct berth_error *err)
{
    struct berth_workers *workers = d->options.workers;
    int rc = berth_worker_ready(d, call, err);
    return rc < 0 ? rc : workers->ops->stage(workers, d->options.plugin_id, call->arena, out, err);
}

/* The worker may have put a whole directory there. */
static void stage_end(struct berth_worker_stage *stage)
{
    struct berth_error ignored;
    (void)berth_fs_remove_tree_at(stage->directory_fd, stage->name, &ignored);
    (void)close(stage->directory_fd);
}

static int worker_send(struct berth_driver *base, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const char *path, int fd, struct berth_error *err)
{
    struct berth_worker_driver *d = (struct berth_worker_driver *)(void *)base;
    struct berth_worker_stage stage;
    int rc = stage_begin(d, call, &stage, err);
    if (rc < 0)
        return rc;
    auto_close int to =
        openat(stage.directory_fd, stage.name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int64_t size = to < 0 ? berth_fail_errno(err, "Cannot open %s", stage.path)
                          : berth_fs_copy(fd, to, INT64_MAX, err);
    struct carried file = {.method = SYNC_IN, .source = stage.path, .target = path, .size = size};
    rc = size < 0 ? (int)size : carry(d, call, who, place, &file, err);
    stage_end(&stage);
    return rc;
}

/* Copies what the worker has left. It may be anything, and may be changed meanwhile. */
static int take_staged(const struct berth_worker_stage *stage, int64_t size, int fd,
                       struct berth_error *err)
{
    struct stat st;
    auto_close int from =
        openat(stage->directory_fd, stage->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return berth_fail(err, BERTH_E_UPSTREAM, "The worker did not leave a file at %s.",
                          stage->path);
    int64_t got = st.st_size == size ? berth_fs_copy(from, fd, size, err) : st.st_size;
    if (got >= 0 && got != size)
        return berth_fail(err, BERTH_E_UPSTREAM,
                          "The worker gave %lld bytes of a file that has %lld.", (long long)got,
                          (long long)size);
    return got < 0 ? (int)got : BERTH_OK;
}

static int worker_fetch(struct berth_driver *base, struct berth_call *call,
                        const struct berth_place_request *who, const struct berth_place *place,
                        const char *path, int64_t size, int fd, struct berth_error *err)
{
    struct berth_worker_driver *d = (struct berth_worker_driver *)(void *)base;
    struct berth_worker_stage stage;
    int rc = stage_begin(d, call, &stage, err);
    if (rc < 0)
        return rc;
    struct carried file = {.method = SYNC_OUT, .source = path, .target = stage.path, .size = size};
    rc = carry(d, call, who, place, &file, err);
    if (rc == BERTH_OK)
        rc = take_staged(&stage, size, fd, err);
    stage_end(&stage);
    return rc;
}

const struct berth_driver_carrier berth_worker_carrier = {
    .can_carry = worker_can_carry, .send = worker_send, .fetch = worker_fetch};
