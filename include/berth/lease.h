/* SPDX-License-Identifier: Apache-2.0
 * include/berth/lease.h - leases: the right to use a place of an environment until a deadline.
 * Acquire a lease, realize a workspace in its place, run commands there, release the lease. The
 * sweep releases leases that have expired or whose run has ended. */
#ifndef BERTH_LEASE_H
#define BERTH_LEASE_H

#include <berth/common.h>

enum berth_lease_status {
    BERTH_LEASE_ACQUIRING, /* the provider is making the place */
    BERTH_LEASE_ACTIVE,
    BERTH_LEASE_RELEASING, /* the provider is parking or destroying the place */
    BERTH_LEASE_RELEASED,
    BERTH_LEASE_EXPIRED,
    BERTH_LEASE_FAILED,
    BERTH_LEASE_RETAINED, /* released as failed; the place is kept for a while, for inspection */
};

struct berth_lease;
/* The getters return text that lives as long as the lease. */
BERTH_API const char *berth_lease_id(const struct berth_lease *lease);
BERTH_API const char *berth_lease_company_id(const struct berth_lease *lease);
BERTH_API const char *berth_lease_environment_id(const struct berth_lease *lease);
BERTH_API const char *berth_lease_run_id(const struct berth_lease *lease);            /* or NULL */
BERTH_API const char *berth_lease_provider_lease_id(const struct berth_lease *lease); /* or NULL */
BERTH_API enum berth_lease_status berth_lease_status(const struct berth_lease *lease);
/* Returns the name of a status in JSON. */
BERTH_API const char *berth_lease_status_name(enum berth_lease_status status);
BERTH_API const char *berth_lease_failure_reason(const struct berth_lease *lease); /* or NULL */
BERTH_API int64_t berth_lease_expires_at_ms(const struct berth_lease *lease);
/* Returns true while work remains for the lease: it is open or retained, its place is parked, or
 * its clean-up is owed. */
BERTH_API bool berth_lease_stands(const struct berth_lease *lease);
/* Returns the lease as a JSON object with the field names of the HTTP API. NULL: out of memory. */
BERTH_API const char *berth_lease_to_json(struct berth_arena *arena,
                                          const struct berth_lease *lease);

/* A lease to acquire. Initialise with BERTH_LEASE_REQUEST_INIT. */
struct berth_lease_request {
    const char *id;             /* a new UUID chosen by the caller; NULL: the library chooses */
    const char *company_id;     /* the company the environment must belong to; NULL: any */
    const char *environment_id; /* required */
    const char *run_id;         /* NULL: a lease without a run, whose place is never reused */
    const char *issue_id, *execution_workspace_id; /* UUIDs to record with the lease; or NULL */
    const char *workspace_mode, *agent_id;         /* texts to pass to the driver; or NULL */
    int64_t ttl_ms;     /* the lifetime, up to 366 days; 0: as in the settings */
    int64_t timeout_ms; /* for the provider; 0: as in the settings or the config */
    int cancel_fd;      /* acquire gives up when it becomes readable; -1: never */
    /* Keep the place for inspection when the lease is released as failed. Drivers that make
     * nothing, such as local, ignore it. */
    bool retain_on_failure;
    const struct berth_actor *actor;
};
#define BERTH_LEASE_REQUEST_INIT                                                                   \
    {                                                                                              \
        .cancel_fd = -1                                                                            \
    }

/* Acquires a lease. Returns after the store has committed its status `active`. After a failure the
 * library destroys the place if the provider may have made one; the sweep retries that.
 * NOT_FOUND: the environment or the run does not exist. UNPROCESSABLE: the environment is archived,
 * the run has ended, or no driver serves the environment. CONFLICT: a lease with this id exists, or
 * the provider returned a place that another lease holds. Other codes come from the driver. */
BERTH_API int berth_lease_acquire(struct berth *b, struct berth_arena *arena,
                                  const struct berth_lease_request *request,
                                  struct berth_lease **out, struct berth_error *err);

/* How to release a lease. Initialise with BERTH_RELEASE_REQUEST_INIT. */
struct berth_release_request {
    const char *lease_id;
    int64_t if_version;             /* do nothing if the row has another version; 0: any version */
    enum berth_lease_status status; /* released, failed or expired */
    /* The failureReason. NULL: "adapter_or_run_failure" when a sandbox lease is released as failed,
     * as in Paperclip; otherwise it stays unchanged. */
    const char *reason;
    const struct berth_actor *actor;
};
#define BERTH_RELEASE_REQUEST_INIT                                                                 \
    {                                                                                              \
        .status = BERTH_LEASE_RELEASED                                                             \
    }

/* Ends the commands of a lease and releases its place: the driver parks or destroys it. If the
 * provider does not confirm this, the lease is closed, its cleanupStatus is `failed`, and the sweep
 * tries again. Releasing a closed lease again is not an error. When the place holds work that did
 * not come home, the lease becomes `retained` instead. CONFLICT: a living process is still
 * acquiring the lease; or it is retained with work: see berth_lease_discard_work. */
BERTH_API int berth_lease_release(struct berth *b, struct berth_arena *arena,
                                  const struct berth_release_request *request,
                                  struct berth_lease **out, struct berth_error *err);
/* Releases all open leases of a run. A lease that fails does not keep the others from being
 * released. Leases past their deadline are released as expired. *out lists the released ones as
 * struct berth_lease, also after a failure; the error is the first failure. request->lease_id is
 * ignored. */
BERTH_API int berth_lease_release_run(struct berth *b, struct berth_arena *arena,
                                      const char *run_id,
                                      const struct berth_release_request *request,
                                      struct berth_list *out, struct berth_error *err);
/* Destroys the place of a lease; never parks it. An open lease ends as failed. A closed lease is
 * affected only while its place is parked or its clean-up is owed. CONFLICT: as in
 * berth_lease_release. */
BERTH_API int berth_lease_destroy(struct berth *b, struct berth_arena *arena, const char *lease_id,
                                  const struct berth_actor *actor, struct berth_lease **out,
                                  struct berth_error *err);
/* Gives up the work in the place of a lease that did not come home: from now on the place may be
 * released and destroyed. Without such work nothing happens. */
BERTH_API int berth_lease_discard_work(struct berth *b, const char *lease_id,
                                       const struct berth_actor *actor, struct berth_error *err);
/* Records that an operator has checked a place whose existence the provider cannot tell. No
 * clean-up is owed for the lease afterwards. CONFLICT: the lease is open, or its place is known. */
BERTH_API int berth_lease_acknowledge(struct berth *b, struct berth_arena *arena,
                                      const char *lease_id, const struct berth_actor *actor,
                                      struct berth_lease **out, struct berth_error *err);

/* The workspace to prepare in a place. */
struct berth_workspace {
    const char *local_path, *remote_path, *mode; /* or NULL */
    /* Without a path: use the directory that the environment's config names, where it names one,
     * instead of an empty directory of the lease's own. */
    bool in_place;
};
/* The workspace as the driver prepared it. */
struct berth_realized {
    const char *cwd;           /* its directory in the place */
    const char *metadata_json; /* or NULL */
};
/* Wakes the place of an active lease and writes the provider's answer to *out; out->id is NULL when
 * the place no longer exists. struct berth_place is defined in <berth/driver.h>.
 * CONFLICT: the lease is not active, or has expired. UNPROCESSABLE: the lease has no provider lease
 * id. UNSUPPORTED: the driver cannot resume. */
struct berth_place;
BERTH_API int berth_lease_resume(struct berth *b, struct berth_arena *arena, const char *lease_id,
                                 struct berth_place *out, struct berth_error *err);
/* Prepares the workspace in the place of an active lease, and writes its directory to *out.
 * CONFLICT: the lease is not active, or has expired. UNSUPPORTED: the driver has no workspaces. */
BERTH_API int berth_lease_realize(struct berth *b, struct berth_arena *arena, const char *lease_id,
                                  const struct berth_workspace *workspace,
                                  struct berth_realized *out, struct berth_error *err);

/* Loads a lease. NOT_FOUND: no lease has this id. */
BERTH_API int berth_lease_get(struct berth *b, struct berth_arena *arena, const char *lease_id,
                              struct berth_lease **out, struct berth_error *err);

/* The leases to list. Initialise with BERTH_LEASE_FILTER_INIT. */
struct berth_lease_filter {
    const char *company_id, *environment_id, *run_id; /* NULL: any */
    int status;                                       /* enum berth_lease_status; -1: any */
    bool standing_only;                               /* only those that berth_lease_stands */
    const char *before; /* the last lease of the previous page; NULL: the first page */
    int limit;          /* the largest number of leases to list */
};
#define BERTH_LEASE_FILTER_INIT                                                                    \
    {                                                                                              \
        .status = -1, .limit = 100                                                                 \
    }
/* Lists leases as struct berth_lease, the most recently created first. With environment_id, but
 * neither company_id nor run_id, the most recently used comes first: such a list changes its order
 * with each use, so its pages may repeat or miss rows. Rows that cannot be read are left out and
 * logged. */
BERTH_API int berth_lease_list(struct berth *b, struct berth_arena *arena,
                               const struct berth_lease_filter *filter, struct berth_list *out,
                               struct berth_error *err);
#endif
