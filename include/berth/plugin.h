/* SPDX-License-Identifier: Apache-2.0
 * include/berth/plugin.h - plugins: packages whose workers make places. A worker is a separate
 * program. Plugins belong to the whole store, not to one company. */
#ifndef BERTH_PLUGIN_H
#define BERTH_PLUGIN_H

#include <berth/common.h>

enum berth_plugin_status {
    BERTH_PLUGIN_INSTALLED,       /* never set by this library */
    BERTH_PLUGIN_READY,           /* in use; the status after the installation */
    BERTH_PLUGIN_DISABLED,        /* disabled by an operator */
    BERTH_PLUGIN_ERROR,           /* never set by this library */
    BERTH_PLUGIN_UPGRADE_PENDING, /* a new version waits until an operator enables it */
    BERTH_PLUGIN_UNINSTALLED,     /* never stored: uninstalling removes the plugin */
};
/* Returns the name of a status in JSON. */
BERTH_API const char *berth_plugin_status_name(enum berth_plugin_status status);

/* An installed plugin. */
struct berth_plugin {
    const char *id;
    const char *plugin_key;   /* the id in its manifest */
    const char *package_name; /* the npm package, or the name of the package in its directory */
    const char *package_path; /* its directory */
    bool in_place;            /* the directory belongs to the user and is never removed */
    const char *version;
    enum berth_plugin_status status;
    const char *manifest_json, *config_json;
    const char *settings_json; /* what the operator allows its worker; see berth_plugin_set */
    const char *last_error;    /* or NULL */
    int64_t install_order;     /* plugins installed later have higher numbers */
    int64_t installed_at_ms, updated_at_ms;
    int64_t row_version; /* increases with each change */
};

/* The worker of a plugin in this process. */
struct berth_worker_status {
    const char *status;          /* stopped, starting, running, stopping, crashed, backoff */
    int pid;                     /* or 0 */
    int64_t uptime_ms;           /* 0 unless it is running */
    int crashes, crashes_in_all; /* since it was last healthy; since this process began */
    int pending;                 /* calls that it has not answered yet */
    int64_t last_crash_at_ms, next_restart_at_ms; /* or 0 */
    const char *methods_json; /* a JSON array of the methods it offers; or NULL */
    const char *confinement;  /* the restrictions that it runs under, as text; or NULL */
    const char *last_error;   /* or NULL */
};

/* A plugin to install. Initialise with BERTH_PLUGIN_INSTALL_INIT. */
struct berth_plugin_install {
    /* A directory or an npm package. A directory is ".", "..", or contains a "/" and does not begin
     * with "@". */
    const char *source;
    const char *version;     /* of an npm package; NULL: the newest */
    const char *config_json; /* the config of the plugin itself; NULL: {} */
    const struct berth_actor *actor;
    int cancel_fd; /* the installation is cancelled when it becomes readable; -1: never */
};
#define BERTH_PLUGIN_INSTALL_INIT                                                                  \
    {                                                                                              \
        .cancel_fd = -1                                                                            \
    }

/* Fetches and checks a package, and installs it with the status `ready`. INVALID: the manifest is
 * not valid; the message lists all faults. CONFLICT: the plugin is already installed, or another
 * plugin or a built-in driver has the same provider key. */
BERTH_API int berth_plugin_install(struct berth *b, struct berth_arena *arena,
                                   const struct berth_plugin_install *request,
                                   struct berth_plugin **out, struct berth_error *err);

/* In all functions below, `name` is the id or key of a plugin, or the beginning of its id.
 * NOT_FOUND: no plugin has this name. CONFLICT: several ids begin with it. */

/* Loads a plugin. */
BERTH_API int berth_plugin_get(struct berth *b, struct berth_arena *arena, const char *name,
                               struct berth_plugin **out, struct berth_error *err);
/* Lists all plugins as struct berth_plugin, in the order of installation. */
BERTH_API int berth_plugin_list(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                                struct berth_error *err);
/* Makes a plugin `ready`. INVALID: its status is not disabled, error or upgrade_pending. */
BERTH_API int berth_plugin_enable(struct berth *b, struct berth_arena *arena, const char *name,
                                  const struct berth_actor *actor, struct berth_plugin **out,
                                  struct berth_error *err);
/* Disables a plugin and stops its worker. `reason` becomes last_error; NULL: none. INVALID: its
 * status is not ready. */
BERTH_API int berth_plugin_disable(struct berth *b, struct berth_arena *arena, const char *name,
                                   const char *reason, const struct berth_actor *actor,
                                   struct berth_plugin **out, struct berth_error *err);
/* Reads the package again: the directory as it is now, or an npm package from the registry.
 * `version` is for npm packages; NULL: the newest. The plugin keeps its id. If the new version asks
 * for more capabilities, drivers or secrets, its status becomes `upgrade_pending` until it is
 * enabled. INVALID: the status is not ready or upgrade_pending, or the new manifest has another id.
 * CONFLICT: the new version lacks a driver that leases still use. */
BERTH_API int berth_plugin_upgrade(struct berth *b, struct berth_arena *arena, const char *name,
                                   const char *version, const struct berth_actor *actor,
                                   struct berth_plugin **out, struct berth_error *err);
/* Removes a plugin with its state, its log, and its package unless that is in_place. CONFLICT: a
 * lease of its places is open or parked, or owes clean-up; or its state could not be removed, and
 * the plugin is disabled until it is uninstalled again. */
BERTH_API int berth_plugin_uninstall(struct berth *b, struct berth_arena *arena, const char *name,
                                     const struct berth_actor *actor, struct berth_error *err);
/* Replaces the config of the plugin itself, and tells its worker. config_json NULL: {}. */
BERTH_API int berth_plugin_configure(struct berth *b, struct berth_arena *arena, const char *name,
                                     const char *config_json, const struct berth_actor *actor,
                                     struct berth_plugin **out, struct berth_error *err);
/* Changes what the worker is allowed. `change_json` is an object; each of its members replaces that
 * of the settings. `env` is an object of variables for the worker: a text is the value, null takes
 * the variable from the process that starts the worker. `unixSockets` is null, or a list of the
 * paths of Unix sockets that the worker may use besides its own. A worker that runs is started
 * anew. INVALID: a member is not known, a name is not allowed, or a value looks like a secret. */
BERTH_API int berth_plugin_set(struct berth *b, struct berth_arena *arena, const char *name,
                               const char *change_json, const struct berth_actor *actor,
                               struct berth_plugin **out, struct berth_error *err);
/* Stops the worker in this process if it runs, and starts it. A failed start is not an error:
 * out->last_error tells it. CONFLICT: the plugin is not ready. */
BERTH_API int berth_plugin_restart(struct berth *b, struct berth_arena *arena, const char *name,
                                   struct berth_worker_status *out, struct berth_error *err);
/* Reads the status of the worker in this process. Does not start it. */
BERTH_API int berth_plugin_worker(struct berth *b, struct berth_arena *arena, const char *name,
                                  struct berth_worker_status *out, struct berth_error *err);
/* Returns the path of the log of the plugin's workers. The previous log has the same name with ".1"
 * appended. The file exists only after a worker wrote to it. */
BERTH_API int berth_plugin_log(struct berth *b, struct berth_arena *arena, const char *name,
                               const char **out, struct berth_error *err);
#endif
