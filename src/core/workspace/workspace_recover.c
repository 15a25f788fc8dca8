/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_recover.c - see workspace_recover.h. */
#include "core/workspace/workspace_recover.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/auto.h"
#include "base/id.h"
#include "core/workspace/workspace_git.h"
#include "core/workspace/workspace_site.h"
#include "core/workspace/workspace_state.h"
#include "os/fs.h"
#include "sync/apply.h"

static bool is_empty(const char *directory)
{
    auto_dir *dir = opendir(directory);
    for (const struct dirent *d; dir && (d = readdir(dir));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            return false;
    return true;
}

/* Stores the number of finished steps, for the report of the next pull of the lease. */
static void keep_number(const char *states, const char *lease_id, const char *path, size_t steps)
{
    auto_workspace_state state = {0};
    struct berth_error ignored; /* the number is lost, the merge is not */
    if (berth_workspace_state_load(states, lease_id, &state, &ignored) < 0 ||
        strcmp(state.path, path) != 0)
        return;
    state.lists_kept = true;
    state.recovered =
        berth_arena_printf(&state.arena, "%zu", steps + (size_t)strtoul(state.recovered, NULL, 10));
    if (state.recovered)
        (void)berth_workspace_state_save(states, lease_id, &state, &ignored);
}

/* Finishes the merge in the directory that was sent to a lease, unless a process works in it. */
static void recover_lease(struct berth *b, const char *states, const char *journals,
                          const char *lease_id)
{
    auto_workspace_state state = {0};
    auto_apply_report report = {0};
    struct berth_error err;
    char steps[24];
    if (berth_workspace_state_peek(states, lease_id, &state, &err) < 0)
        return;
    auto_close int fd = open(state.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return; /* it was removed, or its merge is at work */
    if (berth_apply_recover(&(struct berth_apply_root){fd, journals}, &report, &err) < 0) {
        berth_log_line(&b->log, BERTH_LOG_ERROR, "the merge of a killed process is not finished",
                       "path", state.path, "error", err.message, NULL);
        return;
    }
    berth_workspace_git_recover(state.path);
    if (!report.recovered)
        return;
    (void)snprintf(steps, sizeof steps, "%zu", report.recovered);
    berth_log_line(&b->log, BERTH_LOG_WARN, "finished the merge of a killed process", "path",
                   state.path, "steps", steps, NULL);
    keep_number(states, lease_id, state.path, report.recovered);
}

int berth_workspace_recover(struct berth *b, struct berth_error *err)
{
    auto_runtime_site site = {0};
    auto_arena arena = BERTH_ARENA_INIT;
    int rc = berth_runtime_site_init(&site, b, err);
    if (rc < 0)
        return rc;
    const char *journals = berth_workspace_journals(&site.base, &arena);
    if (!journals || is_empty(journals))
        return berth_arena_check(&arena, err);
    auto_dir *dir = opendir(site.base.states);
    for (const struct dirent *d; dir && (d = readdir(dir));)
        if (berth_id_valid(d->d_name))
            recover_lease(b, site.base.states, journals, d->d_name);
    return BERTH_OK;
}
