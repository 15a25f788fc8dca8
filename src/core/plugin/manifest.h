/* SPDX-License-Identifier: Apache-2.0
 * src/core/plugin/manifest.h - what a plugin says of itself: read once, checked, and cut down to
 * the keys we know. */
#ifndef BERTH_CORE_PLUGIN_MANIFEST_H
#define BERTH_CORE_PLUGIN_MANIFEST_H

#include "base/issues.h"
#include "base/json.h"

/* One of environmentDrivers. */
struct berth_manifest_driver {
    const char *key, *display_name, *description; /* description or NULL */
    const char *kind;        /* "environment_driver", "sandbox_provider" or NULL */
    const char *schema_json; /* configSchema, canonical */
    bool never_resumes;      /* it says so; without a word it may */
    bool never_carries;      /* it says that its worker does not move files; likewise */
};

struct berth_manifest {
    const char *id, *version, *display_name, *description, *author;
    const char *worker;               /* entrypoints.worker */
    const char *minimum_host_version; /* under either of its two names; or NULL */
    struct berth_list capabilities;   /* of const char *; includes unknown ones */
    struct berth_list drivers;        /* of struct berth_manifest_driver * */
    const char *json;                 /* normalised, canonical */
};

/* Reads a manifest. INVALID: every fault is in `issues` (path and message), and the error is
 * "Invalid plugin manifest: <path>: <message>; <path>: <message>", as far as it fits. `warnings`
 * has the minor faults: unknown capabilities, and keys of later hosts whose value has a type other
 * than there. Everything lives in the arena. */
int berth_manifest_read(struct berth_arena *arena, const struct berth_json *value,
                        struct berth_issues *issues, struct berth_issues *warnings,
                        struct berth_manifest **out, struct berth_error *err);

/* <0, 0, >0 by the rules of semver, prereleases included; the build does not count. Both are
 * versions that a manifest may have. */
int berth_semver_compare(const char *a, const char *b);
#endif
