/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_workspace.c - see run_workspace.h. */
#include "core/run/run_workspace.h"

#include <poll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "core/workspace/workspace.h"

int berth_run_workspace_send(struct berth *b, struct berth_arena *arena,
                             const struct berth_run_way *way, const char *run_id, const char *cwd,
                             const char **warning, struct berth_error *err)
{
    struct berth_workspace_push push = BERTH_WORKSPACE_PUSH_INIT;
    const struct berth_run_sync *sync = &way->request->sync;
    struct berth_workspace_report report;
    push.lease_id = way->lease_id;
    push.label = run_id;
    push.path = sync->path;
    push.exclude = sync->exclude;
    push.on_conflict = sync->on_conflict;
    push.branch = sync->branch;
    push.setup = sync->setup;
    push.hide = way->hide;
    push.hide_ctx = way->hide_ctx;
    push.cancel_fd = way->cancel_fd;
    push.on_progress = way->request->on_progress;
    push.ctx = way->request->handlers.ctx;
    int rc = berth_workspace_send(b, arena, &push, cwd, &report, err);
    *warning = rc == BERTH_OK ? report.warning : NULL;
    return rc;
}

const char *berth_run_workspace_kept(struct berth_arena *arena, const struct berth_run_way *way,
                                     const char *lease_id, const char *path, const char *why,
                                     const char *warning)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {
        .buf = &buf, .hide = way ? way->hide : NULL, .hide_ctx = way ? way->hide_ctx : NULL};
    berth_json_open(&w, '{');
    berth_json_put_foreign(&w, "path", path);
    berth_json_put_str(&w, "state", "kept");
    berth_json_put_str(&w, "leaseId", lease_id);
    berth_json_put_foreign(&w, "error", why);
    if (warning)
        berth_json_put_foreign(&w, "warning", warning);
    berth_json_close(&w, '}');
    return berth_buf_str(&buf) ? berth_arena_copy(arena, berth_buf_str(&buf), buf.len) : NULL;
}

/* Returns the descriptor that shows whether the run is cancelled once more, or -1. */
static int find_second_wish(int cancel_fd)
{
    struct pollfd wish = {.fd = cancel_fd, .events = POLLIN};
    uint64_t first; /* as much as an eventfd has */
    if (poll(&wish, 1, 0) <= 0)
        return cancel_fd;
    bool taken = read(cancel_fd, &first, sizeof first) > 0 && poll(&wish, 1, 0) == 0;
    return taken ? cancel_fd : -1;
}

void berth_run_workspace_return(struct berth *b, struct berth_arena *arena,
                                const struct berth_run_way *way, struct berth_masking *masking,
                                const char *warning, struct berth_run_return *out)
{
    struct berth_workspace_pull pull = BERTH_WORKSPACE_PULL_INIT;
    const struct berth_run_sync *sync = &way->request->sync;
    struct berth_workspace_report report;
    struct berth_error err = {0};
    *out = (struct berth_run_return){0};
    pull.lease_id = way->lease_id;
    pull.cancel_fd = find_second_wish(way->cancel_fd);
    pull.mass_deletion = sync->mass_deletion;
    pull.diff_max = BERTH_RUN_DIFF_BYTES_MAX;
    pull.hide = way->hide;
    pull.hide_ctx = way->hide_ctx;
    pull.on_progress = way->request->on_progress;
    pull.ctx = way->request->handlers.ctx;
    if (!sync->no_restore && berth_workspace_pull(b, arena, &pull, &report, &err) == BERTH_OK) {
        out->json = report.json;
        out->diff = report.diff && *report.diff ? report.diff : NULL;
        return;
    }
    berth_masking_hide_error(masking, &err);
    out->kept = true;
    out->json = berth_run_workspace_kept(arena, way, way->lease_id, sync->path,
                                         sync->no_restore ? NULL : err.message, warning);
    if (sync->no_restore)
        return;
    out->error = berth_arena_printf(
        arena, "The work did not come home, and is kept in the place of lease %s: %.700s",
        way->lease_id, err.message);
}
