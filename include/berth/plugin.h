/* SPDX-License-Identifier: Apache-2.0
 * include/berth/plugin.h - plugins: packages whose workers, separate programs, make places to work.
 * installed -> ready <-> disabled, error, upgrade_pending; uninstalled. */
#ifndef BERTH_PLUGIN_H
#define BERTH_PLUGIN_H

#include <berth/common.h>

enum berth_plugin_status {
    BERTH_PLUGIN_INSTALLED,
    BERTH_PLUGIN_READY,
    BERTH_PLUGIN_DISABLED,
    BERTH_PLUGIN_ERROR,
    BERTH_PLUGIN_UPGRADE_PENDING,
    BERTH_PLUGIN_UNINSTALLED,
};
BERTH_API const char *berth_plugin_status_name(enum berth_plugin_status status);

struct berth_plugin {
    const char *id;
    const char *plugin_key;   /* the manifest's id */
    const char *package_name; /* of npm, or the directory's own */
    const char *package_path; /* where it is */
    bool in_place;            /* a directory of the user's, which is not ours to remove */
    const char *version;
    enum berth_plugin_status status;
    const char *manifest_json, *config_json;
    const char *last_error; /* or NULL */
    int64_t install_order;
    int64_t installed_at_ms, updated_at_ms;
    int64_t row_version;
};

/* What its worker does in this process. */
struct berth_worker_status {
    const char *status; /* stopped, starting, running, stopping, crashed, backoff */
    int pid;            /* or 0 */
    int64_t uptime_ms;  /* while it runs */
    int crashes, crashes_in_all;
    int pending;                                  /* calls that it has not answered */
    int64_t last_crash_at_ms, next_restart_at_ms; /* or 0 */
    const char *methods_json;                     /* what it says it has; or NULL */
    const char *confinement;                      /* what holds it, and what does not; or NULL */
    const char *last_error;                       /* or NULL */
};

struct berth_plugin_install {
    const char *source;  /* a directory (with a "/" in it, or "."), or the name of an npm package */
    const char *version; /* of an npm package; NULL: the newest */
    const char *config_json; /* the plugin's own; NULL: {} */
    const struct berth_actor *actor;
    int cancel_fd; /* -1: never */
};
#define BERTH_PLUGIN_INSTALL_INIT                                                                  \
    {                                                                                              \
        .cancel_fd = -1                                                                            \
    }

/* Fetches, reads and checks the package, and makes it `ready`. INVALID: the manifest, with all that
 * is wrong with it. CONFLICT: it is installed already, or a provider key is somebody else's. */
BERTH_API int berth_plugin_install(struct berth *b, struct berth_arena *arena,
                                   const struct berth_plugin_install *request,
                                   struct berth_plugin **out, struct berth_error *err);
/* By id or key. NOT_FOUND: "Plugin not found: NAME". */
BERTH_API int berth_plugin_get(struct berth *b, struct berth_arena *arena, const char *name,
                               struct berth_plugin **out, struct berth_error *err);
/* In the order in which they were installed. */
BERTH_API int berth_plugin_list(struct berth *b, struct berth_arena *arena, struct berth_list *out,
                                struct berth_error *err);
BERTH_API int berth_plugin_enable(struct berth *b, struct berth_arena *arena, const char *name,
                                  const struct berth_actor *actor, struct berth_plugin **out,
                                  struct berth_error *err);
BERTH_API int berth_plugin_disable(struct berth *b, struct berth_arena *arena, const char *name,
                                   const char *reason, const struct berth_actor *actor,
                                   struct berth_plugin **out, struct berth_error *err);
/* Reads the package anew: a directory as it is now, an npm package as it is published. The new one
 * has the same id. What asks for more capabilities waits as `upgrade_pending` until it is enabled.
 */
BERTH_API int berth_plugin_upgrade(struct berth *b, struct berth_arena *arena, const char *name,
                                   const char *version, const struct berth_actor *actor,
                                   struct berth_plugin **out, struct berth_error *err);
/* CONFLICT while a lease of its places is open or owes clean-up. */
BERTH_API int berth_plugin_uninstall(struct berth *b, struct berth_arena *arena, const char *name,
                                     const struct berth_actor *actor, struct berth_error *err);
BERTH_API int berth_plugin_configure(struct berth *b, struct berth_arena *arena, const char *name,
                                     const char *config_json, const struct berth_actor *actor,
                                     struct berth_plugin **out, struct berth_error *err);
/* Stops its worker here, if it runs, and starts it; answers how that went. */
BERTH_API int berth_plugin_restart(struct berth *b, struct berth_arena *arena, const char *name,
                                   struct berth_worker_status *out, struct berth_error *err);
/* Starts nothing. */
BERTH_API int berth_plugin_worker(struct berth *b, struct berth_arena *arena, const char *name,
                                  struct berth_worker_status *out, struct berth_error *err);
/* The file that its worker's words are in; the one before it has ".1" behind its name. */
BERTH_API int berth_plugin_log(struct berth *b, struct berth_arena *arena, const char *name,
                               const char **out, struct berth_error *err);
#endif
