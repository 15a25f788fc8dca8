/* SPDX-License-Identifier: Apache-2.0
 * src/core/lease.h - the life of a lease: acquire, use, give back.
 * Every answer lives in the arena that is handed in. What nobody releases, the sweep reclaims. */
#ifndef BERTH_CORE_LEASE_H
#define BERTH_CORE_LEASE_H

#include "core/activity.h"
#include "core/berth.h"
#include "store/lease.h"

struct berth_lease_request {
    const char *company_id;                        /* NULL: whichever the environment belongs to */
    const char *environment_id;                    /* required */
    const char *run_id;                            /* NULL: ad hoc, never reused */
    const char *issue_id, *execution_workspace_id; /* opaque; or NULL */
    const char *workspace_mode;                    /* or NULL */
    int64_t ttl_ms;                                /* 0: by the settings */
    int64_t timeout_ms;                            /* for the provider; 0: by the settings */
    int cancel_fd;                                 /* -1: cannot be cancelled */
    bool retain_on_failure; /* released as failed, the place is kept for a look */
    const struct berth_actor *actor;
};
#define BERTH_LEASE_REQUEST_INIT                                                                   \
    {                                                                                              \
        .cancel_fd = -1                                                                            \
    }

/* Answers after the commit that says "active".
 * NOT_FOUND: no such environment or run. UNPROCESSABLE: it cannot serve this. */
int berth_lease_acquire(struct berth *b, struct berth_arena *arena,
                        const struct berth_lease_request *request, struct berth_lease **out,
                        struct berth_error *err);

struct berth_release_request {
    const char *lease_id;
    int64_t if_version;             /* only this version of the row; 0: any */
    enum berth_lease_status status; /* released, failed or expired */
    const char *reason;             /* what failureReason says; NULL: by the reference's rule */
    const struct berth_actor *actor;
};

/* Gives the place back; twice is fine. What the provider could not confirm is owed: the lease
 * closes, cleanupStatus says failed, and the sweep tries again. */
int berth_lease_release(struct berth *b, struct berth_arena *arena,
                        const struct berth_release_request *request, struct berth_lease **out,
                        struct berth_error *err);
/* The same for all open leases of a run, each by itself: one that fails keeps none of the others.
 * *out lists the released ones; the first failure is the error. request->lease_id is not read. */
int berth_lease_release_run(struct berth *b, struct berth_arena *arena, const char *run_id,
                            const struct berth_release_request *request, struct berth_list *out,
                            struct berth_error *err);
/* Ends the place, never parks it. An open lease ends as failed; a parked one is unparked. */
int berth_lease_destroy(struct berth *b, struct berth_arena *arena, const char *lease_id,
                        const struct berth_actor *actor, struct berth_lease **out,
                        struct berth_error *err);
/* The operator has looked after a place nobody can ask about: nothing is owed any more. */
int berth_lease_acknowledge(struct berth *b, struct berth_arena *arena, const char *lease_id,
                            const struct berth_actor *actor, struct berth_lease **out,
                            struct berth_error *err);
/* Makes the workspace ready in the place and answers where it is. */
int berth_lease_realize(struct berth *b, struct berth_arena *arena, const char *lease_id,
                        const struct berth_workspace *workspace, struct berth_realized *out,
                        struct berth_error *err);

int berth_lease_get(struct berth *b, struct berth_arena *arena, const char *lease_id,
                    struct berth_lease **out, struct berth_error *err);
/* A list of struct berth_lease. */
int berth_lease_list(struct berth *b, struct berth_arena *arena,
                     const struct berth_lease_filter *filter, struct berth_list *out,
                     struct berth_error *err);
void berth_lease_json(struct berth_json_writer *w, const struct berth_lease *lease);
#endif
