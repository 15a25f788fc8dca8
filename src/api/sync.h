/* SPDX-License-Identifier: Apache-2.0
 * src/api/sync.h - the description of a workspace in a request. */
#ifndef BERTH_API_SYNC_H
#define BERTH_API_SYNC_H

#include <berth/run.h>

#include "api/call.h"

/* The fields as the request has them. */
struct berth_api_sync {
    const char *path, *branch, *adapter, *install_command, *detect_command;
    struct berth_list exclude, assets; /* texts; objects */
    int on_conflict;
    bool no_restore, mass_deletion;
};
/* The rows of a table for a struct that has one as its member `in`. */
#define BERTH_API_SYNC_FIELDS(type, in)                                                            \
    {"path", BERTH_API_TEXT, offsetof(type, in.path), .required = true},                           \
        {"exclude", BERTH_API_TEXTS, offsetof(type, in.exclude)},                                  \
        {"onConflict", BERTH_API_WORD, offsetof(type, in.on_conflict),                             \
         .words = berth_merge_policies.names},                                                     \
        {"branch", BERTH_API_TEXT, offsetof(type, in.branch), .nullable = true},                   \
        {"adapter", BERTH_API_TEXT, offsetof(type, in.adapter), .nullable = true},                 \
        {"assets", BERTH_API_OBJECTS, offsetof(type, in.assets)},                                  \
        {"installCommand", BERTH_API_TEXT, offsetof(type, in.install_command), .nullable = true},  \
    {                                                                                              \
        "detectCommand", BERTH_API_TEXT, offsetof(type, in.detect_command), .nullable = true       \
    }

/* Makes a workspace from the fields, in c->arena. */
int berth_api_sync_build(struct berth_api_call *c, struct berth_api_sync *fields,
                         struct berth_run_sync *out, struct berth_error *err);
/* Reads the member `workspace` of a run. DENIED: the caller may not name directories of the
 * daemon's machine. */
int berth_api_sync_read(struct berth_api_call *c, const char *json, struct berth_run_sync *out,
                        struct berth_error *err);
#endif
