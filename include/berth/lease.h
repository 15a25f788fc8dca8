/* SPDX-License-Identifier: Apache-2.0
 * include/berth/lease.h - the right to use an environment until a deadline.
 * acquire -> realize -> release. What nobody releases, the sweep reclaims. */
#ifndef BERTH_LEASE_H
#define BERTH_LEASE_H

#include <berth/common.h>

enum berth_lease_status {
    BERTH_LEASE_ACQUIRING, /* the intent is stored, the place is being made */
    BERTH_LEASE_ACTIVE,
    BERTH_LEASE_RELEASING, /* the intent is stored, the place is being given back */
    BERTH_LEASE_RELEASED,
    BERTH_LEASE_EXPIRED,
    BERTH_LEASE_FAILED,
    BERTH_LEASE_RETAINED, /* failed, and the place is kept for somebody to look at */
};

struct berth_lease;
BERTH_API const char *berth_lease_id(const struct berth_lease *lease);
BERTH_API const char *berth_lease_company_id(const struct berth_lease *lease);
BERTH_API const char *berth_lease_environment_id(const struct berth_lease *lease);
BERTH_API const char *berth_lease_run_id(const struct berth_lease *lease);            /* or NULL */
BERTH_API const char *berth_lease_provider_lease_id(const struct berth_lease *lease); /* or NULL */
BERTH_API enum berth_lease_status berth_lease_status(const struct berth_lease *lease);
BERTH_API const char *berth_lease_status_name(enum berth_lease_status status);
BERTH_API const char *berth_lease_failure_reason(const struct berth_lease *lease); /* or NULL */
BERTH_API int64_t berth_lease_expires_at_ms(const struct berth_lease *lease); /* by wall clock */
/* Is something still to be done for it: open, parked, or its clean-up owed? */
BERTH_API bool berth_lease_stands(const struct berth_lease *lease);
/* Everything, with the field names of the API. */
BERTH_API const char *berth_lease_to_json(struct berth_arena *arena,
                                          const struct berth_lease *lease);

struct berth_lease_request {
    const char *id;                                /* a new UUID of the caller's; NULL: ours */
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
 * NOT_FOUND: no such environment or run. UNPROCESSABLE: it cannot serve this. CONFLICT: there is a
 * lease of that id. */
BERTH_API int berth_lease_acquire(struct berth *b, struct berth_arena *arena,
                                  const struct berth_lease_request *request,
                                  struct berth_lease **out, struct berth_error *err);

struct berth_release_request {
    const char *lease_id;
    int64_t if_version;             /* only this version of the row; 0: any */
    enum berth_lease_status status; /* released, failed or expired */
    const char *reason;             /* what failureReason says; NULL: by the reference's rule */
    const struct berth_actor *actor;
};
#define BERTH_RELEASE_REQUEST_INIT                                                                 \
    {                                                                                              \
        .status = BERTH_LEASE_RELEASED                                                             \
    }

/* Gives the place back; twice is fine. What the provider could not confirm is owed: the lease
 * closes, cleanupStatus says failed, and the sweep tries again. */
BERTH_API int berth_lease_release(struct berth *b, struct berth_arena *arena,
                                  const struct berth_release_request *request,
                                  struct berth_lease **out, struct berth_error *err);
/* The same for all open leases of a run, each by itself: one that fails keeps none of the others.
 * *out lists the released ones; the first failure is the error. request->lease_id is not read. */
BERTH_API int berth_lease_release_run(struct berth *b, struct berth_arena *arena,
                                      const char *run_id,
                                      const struct berth_release_request *request,
                                      struct berth_list *out, struct berth_error *err);
/* Ends the place, never parks it. An open lease ends as failed; a parked one is unparked. */
BERTH_API int berth_lease_destroy(struct berth *b, struct berth_arena *arena, const char *lease_id,
                                  const struct berth_actor *actor, struct berth_lease **out,
                                  struct berth_error *err);
/* The operator has looked after a place nobody can ask about: nothing is owed any more. */
BERTH_API int berth_lease_acknowledge(struct berth *b, struct berth_arena *arena,
                                      const char *lease_id, const struct berth_actor *actor,
                                      struct berth_lease **out, struct berth_error *err);

/* The workspace a run brings, and where it is afterwards. */
struct berth_workspace {
    const char *local_path, *remote_path, *mode; /* or NULL */
};
struct berth_realized {
    const char *cwd;
    const char *metadata_json; /* or NULL */
};
/* Wakes the place of an active lease, and answers what its provider says: out->id is NULL when it
 * is gone. UNSUPPORTED: the driver cannot. */
struct berth_place;
BERTH_API int berth_lease_resume(struct berth *b, struct berth_arena *arena, const char *lease_id,
                                 struct berth_place *out, struct berth_error *err);
/* Makes the workspace ready in the place and answers where it is. */
BERTH_API int berth_lease_realize(struct berth *b, struct berth_arena *arena, const char *lease_id,
                                  const struct berth_workspace *workspace,
                                  struct berth_realized *out, struct berth_error *err);

BERTH_API int berth_lease_get(struct berth *b, struct berth_arena *arena, const char *lease_id,
                              struct berth_lease **out, struct berth_error *err);

struct berth_lease_filter {
    const char *company_id, *environment_id, *run_id; /* NULL: any */
    int status;                                       /* -1: any */
    bool standing_only;                               /* open, parked or owing clean-up */
    const char *before; /* the id of a lease, the cursor of a page; NULL: from the first */
    int limit;
};
#define BERTH_LEASE_FILTER_INIT                                                                    \
    {                                                                                              \
        .status = -1, .limit = 100                                                                 \
    }
/* A list of struct berth_lease, last used first. */
BERTH_API int berth_lease_list(struct berth *b, struct berth_arena *arena,
                               const struct berth_lease_filter *filter, struct berth_list *out,
                               struct berth_error *err);
#endif
