/* SPDX-License-Identifier: Apache-2.0
 * include/berth/driver.h - the contract of a driver, for programs that bring their own kind of
 * place. Programs that only use places want lease.h. */
#ifndef BERTH_DRIVER_H
#define BERTH_DRIVER_H

#include <berth/common.h>
#include <berth/environment.h>
#include <berth/exec.h>
#include <berth/lease.h>
#include <berth/secret.h>

struct berth_driver;
struct berth_place;

/* The circumstances of one call. A driver returns TIMEOUT soon after the deadline and CANCELLED
 * soon after cancel_fd became readable. It then owes nothing: the ledger asks again. */
struct berth_call {
    int64_t deadline_ms;       /* CLOCK_BOOTTIME in milliseconds; INT64_MAX: no deadline */
    int cancel_fd;             /* becomes readable when the caller gives up; -1: never */
    struct berth_arena *arena; /* holds what the call returns */
};

/* Who asks for a place, and with which config. Valid during the call. */
struct berth_place_request {
    const char *lease_id, *company_id, *environment_id;
    const char *run_id, *issue_id, *execution_workspace_id; /* or NULL */
    const char *workspace_mode, *agent_id; /* acquire and the resume before it; or NULL */
    /* A driver with in_place: the lease's own directory on this machine, which the driver makes
     * with mode 0700 when it needs it. */
    const char *own_directory;
    const char *config_json;            /* with secret values; never store it */
    const struct berth_locked *secrets; /* the same secret values, one by one */
    int secret_count;
    bool sole; /* acquire: no other lease of this environment is open, parked or owed */
    /* acquire: receives the place when the provider answers after the call has returned. May be
     * called from any thread while the driver exists. NULL: late places are not wanted. */
    void (*on_late)(void *ctx, const char *lease_id, const struct berth_place *place);
    void *late_ctx;
};

/* A place, as the ledger keeps it and hands it to later calls. */
struct berth_place {
    const char *id;            /* the providerLeaseId, or NULL */
    const char *metadata_json; /* the driver's own object, or NULL; the ledger's keys win over it */
    const char *shown_json;    /* later calls: the lease's metadata as the API shows it */
    int64_t expires_at_ms;     /* wall clock; 0: never */
    bool untouched; /* set by a failed acquire or resume: the provider was not asked for anything */
};

/* A command to run. Valid during exec_start. */
struct berth_command {
    const char *id; /* of the exec; env holds it as BERTH_EXEC_ID */
    /* Both are closed by NULL. The driver adds the place's PATH, HOME and TERM where env lacks
     * them. */
    const char *const *argv, *const *env;
    const char *cwd; /* or NULL */
    bool with_stdin, terminal;
    unsigned short rows, columns;
    int64_t timeout_ms, grace_ms; /* kept by the driver, or by the place; timeout 0: none */
};

/* One running command. An implementation embeds this as its first member. All functions but free
 * may be called from any thread, at any moment before free. */
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
    bool quick_free; /* free does not block, and may be called on the thread of the handlers */
};

/* What a release does with the place. */
enum berth_release_mode {
    BERTH_RELEASE_KEEP,    /* parks the place if its config says reuseLease, else ends it */
    BERTH_RELEASE_DESTROY, /* ends the place */
};

/* The functions of a driver. A driver keeps its own configuration between calls, and nothing else.
 * Calls block, may overlap, and obey `call`. */
struct berth_driver_ops {
    /* Checks a config and normalises it. *normalised is the given config at first. Adds an issue
     * for each fault; setting *normalised to NULL without an issue refuses the config without a
     * reason. NULL: every config is accepted as it is. */
    int (*validate)(struct berth_driver *d, struct berth_call *call, const char *config_json,
                    enum berth_config_use use, struct berth_issues *issues, const char **normalised,
                    struct berth_error *err);
    /* Tries the real place and leaves nothing behind. A place that fails the probe is an answer,
     * not an error. NULL: probing is not supported. */
    int (*probe)(struct berth_driver *d, struct berth_call *call,
                 const struct berth_place_request *who, struct berth_probe *out,
                 struct berth_error *err);
    /* Makes a place and labels it with lease_id. The same lease_id again gives the same place. When
     * it fails with TIMEOUT, CANCELLED, UNAVAILABLE, UPSTREAM, INTERNAL or NO_MEMORY, a place may
     * exist. Any other code, or out->untouched, says that none does. */
    int (*acquire)(struct berth_driver *d, struct berth_call *call,
                   const struct berth_place_request *who, struct berth_place *out,
                   struct berth_error *err);
    /* Wakes a parked place. When the place is gone, or cannot be used again, it returns OK with
     * out->id NULL; the place is then released with BERTH_RELEASE_DESTROY. NULL: places are never
     * parked. */
    int (*resume)(struct berth_driver *d, struct berth_call *call,
                  const struct berth_place_request *who, const struct berth_place *place,
                  struct berth_place *out, struct berth_error *err);
    /* Makes the workspace directory ready and returns its path. NULL: not supported. */
    int (*realize)(struct berth_driver *d, struct berth_call *call,
                   const struct berth_place_request *who, const struct berth_place *place,
                   const struct berth_workspace *workspace, struct berth_realized *out,
                   struct berth_error *err);
    /* Starts a command and returns without waiting for its end. The handlers may be called before
     * it returns. NULL: the place cannot run commands. */
    int (*exec_start)(struct berth_driver *d, struct berth_call *call,
                      const struct berth_place_request *who, const struct berth_place *place,
                      const struct berth_command *command,
                      const struct berth_exec_handlers *handlers, struct berth_running **out,
                      struct berth_error *err);
    /* Ends what is left of a command whose end did not arrive (BERTH_END_LOST), and fills *end if
     * the place kept it. NULL: there is nothing to ask. */
    int (*exec_settle)(struct berth_driver *d, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const char *exec_id, struct berth_exec_end *end, struct berth_error *err);
    /* Gives the place back. Releasing twice, or releasing an unknown place, succeeds. A place
     * without id is looked for by its label. */
    int (*release)(struct berth_driver *d, struct berth_call *call,
                   const struct berth_place_request *who, const struct berth_place *place,
                   enum berth_release_mode mode, struct berth_error *err);
    void (*free)(struct berth_driver *d);
};

/* --- abilities that not every driver has --- */

/* Called for each place that carries a lease id as its label. An error ends the search. */
typedef int berth_found_fn(void *ctx, const char *lease_id, const char *place_id,
                           struct berth_error *err);
/* Finds places by label. A driver without it cannot prove that nothing leaked: an acquire whose
 * answer was lost is then shown to the operator. */
struct berth_driver_finder {
    /* Lists the places of an environment. */
    int (*find)(struct berth_driver *d, struct berth_call *call,
                const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                struct berth_error *err);
    /* Returns whether find works, where that is known only at run time. NULL: always. */
    bool (*can_find)(struct berth_driver *d, struct berth_call *call);
};

/* Moves whole files by means of the provider, which are faster than commands. */
struct berth_driver_carrier {
    /* Returns whether files can be moved, as far as that is known without asking the place. */
    bool (*can_carry)(struct berth_driver *d, struct berth_call *call);
    /* Makes the file `path` in the place, with the content of the file `fd` from its beginning. */
    int (*send)(struct berth_driver *d, struct berth_call *call,
                const struct berth_place_request *who, const struct berth_place *place,
                const char *path, int fd, struct berth_error *err);
    /* Copies the file `path` of the place, which has `size` bytes, to the empty file `fd`.
     * UPSTREAM: the provider gave something else. */
    int (*fetch)(struct berth_driver *d, struct berth_call *call,
                 const struct berth_place_request *who, const struct berth_place *place,
                 const char *path, int64_t size, int fd, struct berth_error *err);
};

/* A secret that a config refers to by an object {"type":"secret_ref","secretId","version"}. */
struct berth_driver_secret {
    const char *ref_key;   /* the member that holds the object */
    const char *value_key; /* the member that holds the value in who->config_json */
    const char *name;      /* part of the name of a secret that is made from a pasted value */
    /* Without the secret, the driver uses the credentials of this process, which only an operator
     * of the instance may. This text refuses others. NULL: nothing is used instead. */
    const char *refusal;
};

/* What never changes about a driver. Flags that are not set are false. */
struct berth_driver_traits {
    const char *name; /* as errors name it */
    /* The JSON schema of the config, or NULL. A property of format "secret-ref" holds the id of a
     * secret in the stored config, and its value in who->config_json. */
    const char *config_schema;
    const struct berth_driver_secret *secret;   /* or NULL */
    const struct berth_driver_finder *finder;   /* or NULL */
    const struct berth_driver_carrier *carrier; /* or NULL */
    /* validate judges the whole config, whatever it is used for. Otherwise the keys that every
     * provider has are checked first, and validate is called when the config is saved. */
    bool owns_config;
    /* The driver makes nothing outside the ledger. Acquire and release are one transaction each,
     * and the driver is not called for them. */
    bool ledger_only;
    bool wants_sole;  /* acquire reads who->sole; acquires of one environment take turns */
    bool keeps_time;  /* the config limits calls, so that berth sets no deadline of its own */
    bool whole_stdin; /* a command starts when all of its input is there */
    /* Commands run on this machine as this process's user, in the directory they are given: not a
     * sandbox. Only an operator of the instance may use it, and a company has one environment. */
    bool in_place;
    /* Why an environment of this driver cannot be saved, or NULL. Probes of unsaved configs work.
     */
    const char *unsavable;
};

/* An implementation embeds this as its first member. */
struct berth_driver {
    const struct berth_driver_ops *ops;
    const struct berth_driver_traits *traits;
};

/* Says which implementation serves which driver, and for sandboxes which provider. A new registry
 * holds the built-in drivers. berth_open takes it over. */
struct berth_registry;
BERTH_API int berth_registry_new_builtin(struct berth_registry **out, struct berth_error *err);
/* Frees the registry and its drivers. NULL is fine. */
BERTH_API void berth_registry_free(struct berth_registry *registry);
/* Adds an implementation and takes it over, also on failure. `driver` is a word of enum
 * berth_environment_driver; `provider` names a provider of sandboxes, and is NULL otherwise. */
BERTH_API int berth_registry_add(struct berth_registry *registry, const char *driver,
                                 const char *provider, struct berth_driver *implementation,
                                 struct berth_error *err);
#endif
