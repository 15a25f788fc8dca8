/* SPDX-License-Identifier: Apache-2.0
 * sdk/berth_plugin.h - for those who write a provider in C: fill in a struct of handlers and call
 * berth_plugin_main from main. It speaks the worker protocol (docs/plugin-protocol.md) on stdin and
 * stdout; whatever else you print belongs on stderr. */
#ifndef BERTH_PLUGIN_SDK_H
#define BERTH_PLUGIN_SDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From libberth; they are part of libberth-plugin, too. */
#include <berth/error.h>

#include "base/buf.h"
#include "base/json.h"

/* One request. Everything lives until the handler returns. */
struct berth_plugin_call {
    const char *method;
    const struct berth_json *params; /* an object, as it came */
    const struct berth_json *config; /* params.config; never NULL */
    /* "" where the request has none. */
    const char *driver_key, *company_id, *environment_id, *run_id, *lease_id;
    const char *provider_lease_id;       /* params.providerLeaseId, or params.lease's */
    const struct berth_json *metadata;   /* params.leaseMetadata, or params.lease.metadata */
    const struct berth_json *invocation; /* whom streamed output belongs to, or NULL */
};

/* Writes the members of the answer, which is an object, or fails: the text goes to the user.
 * Handlers run at the same time, each on a thread of its own. */
typedef int berth_plugin_fn(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                            struct berth_error *err);

/* What is NULL is not offered. */
struct berth_plugin {
    const char *name;                                                       /* for the log */
    int (*setup)(const struct berth_json *config, struct berth_error *err); /* the first of all */
    void (*shutdown)(void); /* the last; also when our host is gone */
    berth_plugin_fn *config_changed, *health;
    berth_plugin_fn *validate_config, *probe;
    /* Labels what it makes with call->lease_id; the same lease_id again gives the same place. */
    berth_plugin_fn *acquire;
    /* A place that is gone is an answer: providerLeaseId null. */
    berth_plugin_fn *resume, *realize;
    berth_plugin_fn *release, *destroy; /* an unknown place is success */
    berth_plugin_fn *execute;
    /* berth_plugin_put_found for each place that carries a label of ours. */
    berth_plugin_fn *find;
};

/* Until stdin ends or the host says so; what main returns. */
int berth_plugin_main(const struct berth_plugin *plugin);

/* To the host's log; level is info, warn, error or debug. Any thread. */
void berth_plugin_log(const char *level, const char *fmt, ...) BERTH_PRINTF(2, 3);
/* Output of an execute that is still running, if the host wants it; else nothing happens. The
 * answer has it all the same. Answers how many bytes are done with: a character that has only begun
 * at the end is not, and is handed in again with what follows. */
size_t berth_plugin_output(const struct berth_plugin_call *call, const char *stream,
                           const char *bytes, size_t len);
void berth_plugin_put_found(struct berth_json_writer *answer, const char *lease_id,
                            const char *provider_lease_id);

/* Config as the providers of Paperclip read it: texts are trimmed and blank means absent, numbers
 * may be written as texts, and what is not of the type is absent. Texts go to `out`. */
const char *berth_plugin_text(const struct berth_json *object, const char *key, const char *absent,
                              char *out, size_t size);
int64_t berth_plugin_int(const struct berth_json *object, const char *key, int64_t absent);
bool berth_plugin_bool(const struct berth_json *object, const char *key, bool absent);
#endif
