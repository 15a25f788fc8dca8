/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_trip.c - see workspace_trip.h. */
#include "core/workspace/workspace_trip.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include "base/auto.h"
#include "core/workspace/workspace.h"
#include "core/workspace/workspace_site.h"
#include "core/workspace/workspace_state.h"
#include "os/fs.h"
#include "sync/apply.h"

#define LOCK_LOOK_MS 100

static const char *const policy_words[] = {"keep-both", "remote", "local", "fail", NULL};
const struct berth_enum berth_merge_policies = {"conflict policy", policy_words};

/* Waits for the lock on a directory. It is dropped when the descriptor is closed. */
static int lock_root(int fd, int operation, const char *path, int cancel_fd,
                     struct berth_error *err)
{
    struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};
    while (flock(fd, operation | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return berth_fail_errno(err, "Cannot lock the workspace %s", path);
        if (poll(&cancel, 1, LOCK_LOOK_MS) > 0)
            return berth_fail(err, BERTH_E_CANCELLED, "Waiting for the workspace was cancelled.");
    }
    return BERTH_OK;
}

int berth_workspace_open_root(const struct berth_git_trip *trip, const char *path,
                              size_t *recovered, struct berth_error *err)
{
    auto_apply_report report = {0};
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open the workspace %s", path);
    int rc = lock_root(fd, LOCK_EX, path, trip->cancel_fd, err);
    if (rc == BERTH_OK)
        rc = berth_apply_recover(&(struct berth_apply_root){fd, trip->journals}, &report, err);
    if (rc < 0)
        return rc;
    *recovered = report.recovered;
    int opened = fd;
    fd = -1;
    return opened;
}

static void watched_report(void *ctx, const struct berth_progress_count *count)
{
    const struct berth_workspace_watch *w = ctx;
    struct berth_workspace_progress now = {w->returning, count->files, count->files_total,
                                           count->bytes, count->bytes_total};
    w->fn(w->ctx, &now);
}

struct berth_progress *berth_workspace_watch(struct berth_workspace_watch *w,
                                             berth_workspace_progress_fn *fn, void *ctx,
                                             bool returning)
{
    *w = (struct berth_workspace_watch){.progress = {.report = watched_report, .ctx = w},
                                        .fn = fn,
                                        .ctx = ctx,
                                        .returning = returning};
    return fn ? &w->progress : NULL;
}

int berth_workspace_find_sharers(struct berth_git_trip *trip, struct berth_list *out,
                                 struct berth_error *err)
{
    struct berth_workspace_site *site = trip->site;
    struct berth_list others;
    *out = (struct berth_list){0};
    int rc = berth_workspace_state_others(site->states, trip->arena, trip->state->path,
                                          trip->lease_id, &others, err);
    for (int i = 0; rc == BERTH_OK && i < others.count; i++) {
        struct berth_error ignored; /* the lease is gone, and with it its copy */
        bool has_work;
        if (site->ops->look(site, others.items[i], &has_work, &ignored) == BERTH_OK && has_work)
            (void)berth_list_add(out, trip->arena, others.items[i]);
    }
    return rc < 0 ? rc : berth_arena_check(trip->arena, err);
}

void berth_workspace_put_findings(struct berth_json_writer *w,
                                  const struct berth_workspace_report *report)
{
    const struct berth_list *leases = &report->shared_with;
    if (report->warning)
        berth_json_put_foreign(w, "warning", report->warning);
    if (report->recovered)
        berth_json_put_int(w, "recovered", (int64_t)report->recovered);
    berth_json_open_in(w, "sharedWith", '[');
    for (int i = 0; i < leases->count; i++)
        berth_json_put_str(w, NULL, leases->items[i]);
    berth_json_close(w, ']');
}
