/* SPDX-License-Identifier: Apache-2.0
 * src/store/lease.h - rows of the ledger: pure access, no policy. */
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
    BERTH_PLACE_NONE, /* nothing was made, or another row answers for it now */
    BERTH_PLACE_LIVE,
    BERTH_PLACE_PARKED, /* stopped, to be claimed by a later lease */
    BERTH_PLACE_GONE,
    BERTH_PLACE_UNKNOWN, /* something may have been made, under an id nobody told us */
};

enum berth_lease_cleanup {
    BERTH_CLEANUP_NULL, /* no clean-up was ever due */
    BERTH_CLEANUP_PENDING,
    BERTH_CLEANUP_SUCCESS,
    BERTH_CLEANUP_FAILED, /* tried without success; still owed while the row stands */
};

/* What the provider is still to be told. */
enum berth_lease_duty {
    BERTH_DUTY_NULL,
    BERTH_DUTY_PARK,    /* stop it and keep it */
    BERTH_DUTY_RELEASE, /* the provider's own way of letting go */
    BERTH_DUTY_DESTROY,
};

extern const struct berth_enum berth_lease_statuses, berth_lease_policies, berth_lease_places,
    berth_lease_cleanups, berth_lease_duties;

struct berth_lease {
    const char *id, *company_id, *environment_id;
    const char *execution_workspace_id, *issue_id, *heartbeat_run_id; /* or NULL, all three */
    enum berth_lease_status status;
    enum berth_lease_policy policy;
    const char *provider, *provider_lease_id;
    int64_t acquired_at_ms, last_used_at_ms, expires_at_ms, released_at_ms;
    const char *failure_reason;
    enum berth_lease_cleanup cleanup;
    const char *metadata_json; /* the reference's merged view; ours and the provider's */
    int64_t created_at_ms, updated_at_ms;

    int64_t version; /* one more with every change: what a save compares */
    enum berth_lease_place place;
    const char *driver;                 /* of the environment when it was leased */
    const char *config_json;            /* captured as stored; NULL in rows of others */
    const char *fingerprint;            /* of driver and config; NULL in rows of others */
    const char *provider_metadata_json; /* the provider's own words */
    const char *owner;                  /* node that is at work on it, or NULL */
    enum berth_lease_duty duty;
    enum berth_lease_status final_status; /* what `releasing` ends in */
    int64_t cleanup_attempts;
    const char *cleanup_error;
    int64_t acknowledged_at_ms;
    int64_t due_at_ms;   /* when the sweep looks; 0: never again */
    const char *trouble; /* in lists: what makes the row unreadable, or NULL */
};

int berth_lease_insert(struct berth_db *db, const struct berth_lease *lease,
                       struct berth_error *err);
/* *out is NULL when there is none; an unreadable row is INTERNAL. */
int berth_lease_load(struct berth_db *db, struct berth_arena *arena, const char *id,
                     struct berth_lease **out, struct berth_error *err);
/* The same, and nobody else changes the row until the commit. */
int berth_lease_load_locked(struct berth_db *db, struct berth_arena *arena, const char *id,
                            struct berth_lease **out, struct berth_error *err);
/* Writes what changes in a lease's life, if nobody else did since it was loaded; *won says whether,
 * and then lease->version is the new one. */
int berth_lease_save(struct berth_db *db, struct berth_lease *lease, bool *won,
                     struct berth_error *err);
/* It is in use; no change of state, so the version stays. */
int berth_lease_touch(struct berth_db *db, const char *id, int64_t now_ms, struct berth_error *err);
/* Lists of struct berth_lease; last used first. One unreadable row does not hide the others: it
 * carries its trouble along. */
int berth_lease_select(struct berth_db *db, struct berth_arena *arena,
                       const struct berth_lease_filter *filter, struct berth_list *out,
                       struct berth_error *err);
/* Parked places of an environment that nobody is at work on, last used first: the first of that
 * fingerprint, and all that have none. They are locked until the commit; those that another
 * transaction has locked are left out. */
int berth_lease_select_parked(struct berth_db *db, struct berth_arena *arena,
                              const char *environment_id, const char *fingerprint,
                              struct berth_list *out, struct berth_error *err);
/* How many rows of the environment stand. */
int berth_lease_count_standing(struct berth_db *db, const char *environment_id, int64_t *out,
                               struct berth_error *err);
/* How many stand that a provider made places for, in all environments. */
int berth_lease_count_of_provider(struct berth_db *db, const char *driver, const char *provider,
                                  int64_t *out, struct berth_error *err);
/* Standing rows by status, driver, provider and place: a list of struct berth_lease_tally. */
struct berth_lease_tally {
    const char *status, *driver, *provider, *place; /* provider: or NULL */
    int64_t count, owed;                            /* of these, so many owe clean-up */
};
int berth_lease_tally(struct berth_db *db, struct berth_arena *arena, struct berth_list *out,
                      struct berth_error *err);
/* Rows whose place is to be cleaned up, of all environments. */
int berth_lease_count_owed(struct berth_db *db, int64_t *out, struct berth_error *err);
/* Does a standing row other than `but` answer for the place? */
int berth_lease_place_holder(struct berth_db *db, const char *environment_id,
                             const char *provider_lease_id, const char *but, bool *held,
                             struct berth_error *err);

/* run_status of a lease without a run, and of one whose run has no row any more. */
#define BERTH_RUN_STATUS_NONE (-1)
#define BERTH_RUN_STATUS_GONE (-2)

/* A standing row as the sweep sees it, with the state of its run and environment. */
struct berth_standing {
    const char *id, *environment_id, *owner, *driver, *provider;
    enum berth_lease_status status;
    enum berth_lease_place place;
    int64_t due_at_ms, version;
    int run_status;      /* enum berth_run_status, or one of the two above */
    bool outdated;       /* its environment is gone, archived or configured otherwise */
    const char *trouble; /* what makes the row unreadable, or NULL */
};
int berth_lease_select_standing(struct berth_db *db, struct berth_arena *arena,
                                struct berth_list *out, struct berth_error *err);
#endif
