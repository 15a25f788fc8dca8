/* SPDX-License-Identifier: Apache-2.0
 * src/store/lease.h - rows of leases. A row "stands" while due_at is set: a sweep looks at it. */
#ifndef BERTH_STORE_LEASE_H
#define BERTH_STORE_LEASE_H

#include <berth/lease.h>

#include "store/row.h"

enum berth_lease_policy {
    BERTH_POLICY_EPHEMERAL,
    BERTH_POLICY_REUSE_BY_ENVIRONMENT,
    BERTH_POLICY_REUSE_BY_EXECUTION_WORKSPACE,
    BERTH_POLICY_RETAIN_ON_FAILURE,
};

enum berth_lease_place {
    BERTH_PLACE_NONE, /* nothing was created, or another row is responsible for it */
    BERTH_PLACE_LIVE,
    BERTH_PLACE_PARKED, /* stopped; a later lease may claim it */
    BERTH_PLACE_GONE,
    BERTH_PLACE_UNKNOWN, /* it may have been created; its id is not known */
};

enum berth_lease_cleanup {
    BERTH_CLEANUP_NULL, /* clean-up was never needed */
    BERTH_CLEANUP_PENDING,
    BERTH_CLEANUP_SUCCESS,
    BERTH_CLEANUP_FAILED, /* failed; still to be done while the row stands */
};

/* What is still to be done with the place. */
enum berth_lease_duty {
    BERTH_DUTY_NULL,
    BERTH_DUTY_PARK,    /* stop it and keep it */
    BERTH_DUTY_RELEASE, /* release it as the provider's driver does */
    BERTH_DUTY_DESTROY,
};

extern const struct berth_enum berth_lease_statuses, berth_lease_policies, berth_lease_places,
    berth_lease_cleanups, berth_lease_duties;

/* The value of home_at_ms from the first change of a push until the whole workspace is there. */
#define BERTH_LEASE_SENDING 1

struct berth_lease {
    const char *id, *company_id, *environment_id;
    const char *execution_workspace_id, *issue_id, *heartbeat_run_id; /* each may be NULL */
    enum berth_lease_status status;
    enum berth_lease_policy policy;
    const char *provider, *provider_lease_id;
    int64_t acquired_at_ms, last_used_at_ms, expires_at_ms, released_at_ms;
    const char *failure_reason;
    enum berth_lease_cleanup cleanup;
    const char *metadata_json; /* keys of berth and of the provider, merged as in Paperclip */
    int64_t created_at_ms, updated_at_ms;

    int64_t version; /* incremented by every berth_lease_save, which compares it */
    enum berth_lease_place place;
    const char *driver;      /* of the environment at acquire */
    const char *config_json; /* of the environment at acquire; NULL: a row of Paperclip */
    const char *fingerprint; /* of driver and config; NULL: a row of Paperclip */
    const char *provider_metadata_json; /* as the provider returned it */
    const char *owner;                  /* the node that works on the lease, or NULL */
    enum berth_lease_duty duty;
    enum berth_lease_status final_status; /* the status after `releasing` */
    int64_t cleanup_attempts;
    const char *cleanup_error;
    int64_t acknowledged_at_ms;
    int64_t due_at_ms;   /* when the sweep must look at it; 0: the row is closed */
    int64_t home_at_ms;  /* when its work last came home, BERTH_LEASE_SENDING, or 0: it never did */
    int64_t work_at_ms;  /* when work that is not home may last have begun; 0: there is none */
    const char *trouble; /* in lists: why the row cannot be read, or NULL */
};

int berth_lease_insert(struct berth_db *db, const struct berth_lease *lease,
                       struct berth_error *err);
/* *out is NULL when there is no such row. INTERNAL: the row cannot be read. */
int berth_lease_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                     struct berth_lease **out, struct berth_error *err);
/* Does the same and locks the row until the commit. */
int berth_lease_load_locked(struct berth_db *db, struct berth_arena *arena, const char *id,
                            struct berth_lease **out, struct berth_error *err);
/* Updates the row if its version is still lease->version. *won says whether it was updated; then
 * lease->version is the new version. */
int berth_lease_save(struct berth_db *db, struct berth_lease *lease, bool *won,
                     struct berth_error *err);
/* Sets last_used_at of an active lease. Does not change the version. */
int berth_lease_touch(struct berth_db *db, const char *id, int64_t now_ms, struct berth_error *err);
/* Lists struct berth_lease in the order of berth_lease_list. A row that cannot be read is in the
 * list, with `trouble` set. */
int berth_lease_select(struct berth_db *db, struct berth_arena *arena,
                       const struct berth_lease_filter *filter, struct berth_list *out,
                       struct berth_error *err);
/* Lists parked places of an environment that no node works on: the last used one with that
 * fingerprint, or else all without a fingerprint, last used first. Locks the rows until the commit,
 * and leaves out rows that another transaction has locked. */
int berth_lease_select_parked(struct berth_db *db, struct berth_arena *arena,
                              const char *environment_id, const char *fingerprint,
                              struct berth_list *out, struct berth_error *err);
/* Counts the standing rows of the environment. */
int berth_lease_count_standing(struct berth_db *db, const char *environment_id, int64_t *out,
                               struct berth_error *err);
/* Counts the standing rows of a provider, in all environments. */
int berth_lease_count_of_provider(struct berth_db *db, const char *driver, const char *provider,
                                  int64_t *out, struct berth_error *err);
/* The number of standing rows with the same status, driver, provider and place. */
struct berth_lease_tally {
    const char *status, *driver, *provider, *place; /* provider may be NULL */
    int64_t count, owed;                            /* owed: rows that still need clean-up */
};
/* Lists struct berth_lease_tally. */
int berth_lease_tally(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                      struct berth_error *err);
/* Counts the standing rows that still need clean-up, in all environments. */
int berth_lease_count_owed(struct berth_db *db, int64_t *out, struct berth_error *err);
/* The same for one environment. */
int berth_lease_count_owed_of(struct berth_db *db, const char *environment_id, int64_t *out,
                              struct berth_error *err);
/* Sets *held when a standing row other than `but` has this place. */
int berth_lease_place_holder(struct berth_db *db, const char *environment_id,
                             const char *provider_lease_id, const char *but, bool *held,
                             struct berth_error *err);

/* run_status of a lease without a run, and of a lease whose run has no row. */
#define BERTH_RUN_STATUS_NONE (-1)
#define BERTH_RUN_STATUS_GONE (-2)

/* A standing row for the sweep, with the state of its run and environment. */
struct berth_standing {
    const char *id, *environment_id, *owner, *driver, *provider;
    enum berth_lease_status status;
    enum berth_lease_place place;
    int64_t due_at_ms, version;
    const char *run_id;
    const char *run_owner; /* the node that performs the run, or performed it; or NULL */
    int run_status;        /* enum berth_run_status, or one of the two above */
    bool has_work;         /* work_at is set */
    bool outdated;         /* its environment is deleted, archived or has another config */
    const char *trouble;   /* why the row cannot be read, or NULL */
};
/* Lists struct berth_standing, the earliest due_at first. */
int berth_lease_select_standing(struct berth_db *db, struct berth_arena *arena,
                                struct berth_list *out, struct berth_error *err);
#endif
