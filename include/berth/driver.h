/* SPDX-License-Identifier: Apache-2.0
 * include/berth/driver.h - for those who write a driver: one contract over every kind of place. */
#ifndef BERTH_DRIVER_H
#define BERTH_DRIVER_H

#include <berth/common.h>
#include <berth/environment.h>
#include <berth/exec.h>
#include <berth/lease.h>
#include <berth/secret.h>

struct berth_driver;
struct berth_engine;
struct berth_place;

/* The circumstances of one call. A driver returns TIMEOUT soon after the deadline and CANCELLED
 * soon after cancel_fd became readable, and then owes nothing: the ledger asks again. */
struct berth_call {
    int64_t deadline_ms;         /* by base/time's monotonic clock; INT64_MAX: none */
    int cancel_fd;               /* becomes readable when the caller gives up; -1: never */
    struct berth_arena *arena;   /* what the call answers lives here */
    struct berth_engine *engine; /* runs what a driver starts on this machine */
};

/* Who asks for a place, and with what. Borrowed for the call. */
struct berth_place_request {
    const char *lease_id, *company_id, *environment_id;
    const char *run_id, *issue_id, *workspace_mode; /* or NULL */
    const char *config_json;                        /* secrets resolved; never stored */
    const struct berth_locked *secrets;             /* those, each by itself */
    int secret_count;
    bool sole; /* acquire: no other lease of this environment is open, parked or owing */
    /* acquire: takes the place of an answer that came after the call had returned, from any thread,
     * as long as the driver lives. NULL: nobody does. */
    void (*on_late)(void *ctx, const char *lease_id, const struct berth_place *place);
    void *late_ctx;
};

/* What the ledger keeps of it, and hands back to every later call. */
struct berth_place {
    const char *id;            /* the providerLeaseId, or NULL */
    const char *metadata_json; /* the driver's own object, or NULL; cannot override the ledger's */
    const char *shown_json;    /* for later calls: the lease's metadata as everybody sees it */
    int64_t expires_at_ms;     /* by the wall clock; 0: never */
    bool untouched; /* of a failed acquire or resume: nobody was asked to make or wake one */
};

/* What is to be run. Borrowed for the call that starts it. */
struct berth_command {
    const char *id; /* of the exec; BERTH_EXEC_ID in env says it, too */
    /* What was named for it; the driver adds PATH, HOME and TERM of the place where env has none.
     * Both are closed by NULL. */
    const char *const *argv, *const *env;
    const char *cwd; /* or NULL */
    bool with_stdin, terminal;
    unsigned short rows, columns;
    int64_t timeout_ms, grace_ms; /* the driver keeps them, or asks the place to; 0: no time-out */
};

/* One running command, as its driver sees it. An implementation embeds this as its first member.
 * All but free may be called from any thread, at any moment before free. */
struct berth_running {
    const struct berth_running_ops *ops;
};
struct berth_running_ops {
    void (*cancel)(struct berth_running *r);
    int (*write)(struct berth_running *r, const void *bytes, size_t len, struct berth_error *err);
    void (*close_stdin)(struct berth_running *r);
    void (*pause)(struct berth_running *r, bool paused);
    void (*resize)(struct berth_running *r, unsigned short rows, unsigned short columns);
    void (*free)(struct berth_running *r); /* after on_end */
    bool quick_free; /* it waits for nobody, and may be called on the engine's thread */
};

/* Told of each place that carries a lease id of ours as its label. < 0 ends the search. */
typedef int berth_found_fn(void *ctx, const char *lease_id, const char *place_id,
                           struct berth_error *err);

/* A driver keeps its configuration and nothing else between calls. Calls block, may overlap, and
 * honour `call`. */
struct berth_driver_ops {
    const char *name;
    /* It makes nothing outside the ledger, so intent and outcome are one transaction and no
     * provider call is made for acquire, release or destroy. */
    bool ledger_only;
    /* acquire reads who->sole; acquires of one environment then take turns. */
    bool wants_sole;
    /* Its config says how long calls may take: only a caller's own time-out is a deadline. */
    bool keeps_time;
    /* A command's input is collected, and the command begins when that ends. */
    bool whole_stdin;
    /* The JSON schema of its config, or NULL; lives as long as the driver. A property of format
     * "secret-ref" holds the id of a secret in the stored config, and its value in
     * who->config_json. */
    const char *(*config_schema)(const struct berth_driver *d);
    /* Collects all that is wrong with the config, or answers the normalised one; *normalised is
     * the given one before, and NULL without an issue refuses it without a reason. */
    int (*validate)(struct berth_driver *d, struct berth_call *call, const char *config_json,
                    struct berth_issues *issues, const char **normalised, struct berth_error *err);
    /* Touches the real place and leaves nothing behind; what fails is an answer. */
    int (*probe)(struct berth_driver *d, struct berth_call *call,
                 const struct berth_place_request *who, struct berth_probe *out,
                 struct berth_error *err);
    /* Labels what it makes with lease_id; the same lease_id again gives the same place. When it
     * fails, a place may exist if the code is TIMEOUT, CANCELLED, UNAVAILABLE, UPSTREAM, INTERNAL
     * or NO_MEMORY; any other code, or out->untouched, says that none does. */
    int (*acquire)(struct berth_driver *d, struct berth_call *call,
                   const struct berth_place_request *who, struct berth_place *out,
                   struct berth_error *err);
    /* Wakes a parked place. A place that is gone is an answer: out->id is NULL. NULL: cannot. */
    int (*resume)(struct berth_driver *d, struct berth_call *call,
                  const struct berth_place_request *who, const struct berth_place *place,
                  struct berth_place *out, struct berth_error *err);
    int (*realize)(struct berth_driver *d, struct berth_call *call,
                   const struct berth_place_request *who, const struct berth_place *place,
                   const struct berth_workspace *workspace, struct berth_realized *out,
                   struct berth_error *err);
    /* Runs a command in the place and does not wait for it, at most for the way there; the
     * handlers are called from then on, also before it returns. NULL: commands cannot be run
     * there. */
    int (*exec_start)(struct berth_driver *d, struct berth_call *call,
                      const struct berth_place_request *who, const struct berth_place *place,
                      const struct berth_command *command,
                      const struct berth_exec_handlers *handlers, struct berth_running **out,
                      struct berth_error *err);
    /* The end of a command did not come through (BERTH_END_LOST): ends what is left of it, and
     * fills *end if the place kept how it ended. NULL: there is nothing to ask. */
    int (*exec_settle)(struct berth_driver *d, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const char *exec_id, struct berth_exec_end *end, struct berth_error *err);
    /* Both are idempotent, an unknown place is success, and a place without id is looked for by
     * its label. release parks a place whose config says reuseLease; destroy never does. */
    int (*release)(struct berth_driver *d, struct berth_call *call,
                   const struct berth_place_request *who, const struct berth_place *place,
                   struct berth_error *err);
    int (*destroy)(struct berth_driver *d, struct berth_call *call,
                   const struct berth_place_request *who, const struct berth_place *place,
                   struct berth_error *err);
    /* Lists the places of an environment by label. NULL: the provider cannot be asked, and an
     * acquire whose answer was lost is shown to the operator instead. */
    int (*find)(struct berth_driver *d, struct berth_call *call,
                const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                struct berth_error *err);
    /* Whether `find` will do, when that is known only while the driver is in use. NULL: always. */
    bool (*can_find)(struct berth_driver *d, struct berth_call *call);
    void (*free)(struct berth_driver *d);
};

struct berth_driver {
    const struct berth_driver_ops *ops; /* an implementation embeds this as its first member */
};

/* Which implementation serves which driver, and for `sandbox` which provider. The built-in ones
 * are there from the start. Handed to berth_open, it belongs to the runtime. */
struct berth_registry;
BERTH_API int berth_registry_new_builtin(struct berth_registry **out, struct berth_error *err);
BERTH_API void berth_registry_free(struct berth_registry *registry); /* and its drivers; or NULL */
/* Takes the implementation over in any case. provider: of a sandbox, else NULL. */
BERTH_API int berth_registry_add(struct berth_registry *registry, const char *driver,
                                 const char *provider, struct berth_driver *implementation,
                                 struct berth_error *err);
#endif
