/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_site.h - what surrounds a workspace on its way: the row of the
 * lease, a shell in the place, and a directory here for what has to survive a crash. The runtime is
 * one site; the other one is a client whose leases belong to a daemon on another machine
 * (cli/far_site.c). */
#ifndef BERTH_CORE_WORKSPACE_WORKSPACE_SITE_H
#define BERTH_CORE_WORKSPACE_WORKSPACE_SITE_H

#include <berth/workspace.h>

#include "core/lease/lease_work.h"
#include "core/workspace/place_shell.h"

struct berth_workspace_site;

/* What the place of a lease holds. */
enum berth_work_mark {
    BERTH_WORK_SENDING, /* a part of a workspace */
    BERTH_WORK_AWAY,    /* a workspace, whose changes are not home */
};

struct berth_workspace_site_ops {
    /* Looks at an active lease. *has_work: its place holds work that is not home. */
    int (*look)(struct berth_workspace_site *site, const char *lease_id, bool *has_work,
                struct berth_error *err);
    /* Returns whether directories of the place are directories here. */
    int (*is_near)(struct berth_workspace_site *site, const char *lease_id, bool *near,
                   struct berth_error *err);
    /* As berth_place_shell_init. */
    int (*open_shell)(struct berth_workspace_site *site, struct berth_arena *arena,
                      const char *lease_id, const char *directory, int cancel_fd,
                      struct berth_place_shell *out, struct berth_error *err);
    /* Notes what the place holds. With BERTH_WORK_SENDING, CONFLICT: work that is not home. */
    int (*mark)(struct berth_workspace_site *site, const char *lease_id, enum berth_work_mark mark,
                struct berth_error *err);
    /* As berth_lease_work_reopen. Sweeps leave the lease alone until give_back, or until its
     * deadline. */
    int (*reopen)(struct berth_workspace_site *site, const char *lease_id,
                  struct berth_lease_work_seen *seen, struct berth_error *err);
    /* As berth_lease_work_end. */
    int (*mark_home)(struct berth_workspace_site *site, const char *lease_id, int64_t seen_ms,
                     struct berth_error *err);
    /* Ends what reopen began, and releases a lease that it has reopened. */
    int (*give_back)(struct berth_workspace_site *site, const char *lease_id, bool reopened,
                     struct berth_error *err);
};

/* An implementation embeds this as its first member. */
struct berth_workspace_site {
    const struct berth_workspace_site_ops *ops;
    struct berth_engine *engine; /* for programs on this machine */
    const char *states;          /* an absolute path; it is made when needed */
};

/* The site of a runtime. */
struct berth_runtime_site {
    struct berth_workspace_site base;
    struct berth *b;
    char *states;
};
int berth_runtime_site_init(struct berth_runtime_site *site, struct berth *b,
                            struct berth_error *err);
void berth_runtime_site_clear(struct berth_runtime_site *site);
#define auto_runtime_site                                                                          \
    __attribute__((cleanup(berth_runtime_site_clear))) struct berth_runtime_site

/* Do what berth_workspace_push and berth_workspace_pull do. `cwd` is the directory in the place. */
int berth_workspace_site_push(struct berth_workspace_site *site, struct berth_arena *arena,
                              const struct berth_workspace_push *push, const char *cwd,
                              struct berth_workspace_report *out, struct berth_error *err);
int berth_workspace_site_pull(struct berth_workspace_site *site, struct berth_arena *arena,
                              const struct berth_workspace_pull *pull,
                              struct berth_workspace_report *out, struct berth_error *err);
/* Returns the directory for journals of merges, in the arena; NULL: no memory. */
const char *berth_workspace_journals(const struct berth_workspace_site *site,
                                     struct berth_arena *arena);
#endif
