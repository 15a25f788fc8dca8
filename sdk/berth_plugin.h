/* SPDX-License-Identifier: Apache-2.0
 * sdk/berth_plugin.h - libberth-plugin, for plugin workers that are written in C. Fill a struct
 * berth_plugin with handlers and pass it to berth_plugin_main.
 *
 * The library reads requests of the worker protocol from stdin and writes answers to stdout. A
 * worker prints other output to stderr only. Do not include <berth/plugin.h> in the same file: it
 * defines another struct berth_plugin. */
#ifndef BERTH_PLUGIN_SDK_H
#define BERTH_PLUGIN_SDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These headers are installed with the library, and libberth-plugin contains their functions. */
#include <berth/error.h>

#include "base/buf.h"
#include "base/json.h"

/* One request. All of it is valid until the handler returns. */
struct berth_plugin_call {
    const char *method;
    const struct berth_json *params; /* the parameters: an object, empty if none were sent */
    const struct berth_json *config; /* params.config, or an empty object; never NULL */
    /* Members of `params`; "" if absent. */
    const char *driver_key, *company_id, *environment_id, *run_id, *lease_id;
    const char *provider_lease_id;     /* params.lease.providerLeaseId or params.providerLeaseId */
    const struct berth_json *metadata; /* params.lease.metadata or params.leaseMetadata, or NULL */
    const struct berth_json *invocation; /* identifies streamed output; NULL: not wanted */
};

/* Handles one request. Writes the members of the result object to `answer` and returns BERTH_OK, or
 * fills *err and returns its code; the user sees err->message. base/json.h has the functions that
 * read params and write the answer:
 *     berth_json_put_str(answer, "cwd", "/work");              "cwd":"/work"; NULL writes null
 *     berth_json_open_in(answer, "metadata", '{');             "metadata":{
 *     berth_json_put_int(answer, "cpus", 2);                      "cpus":2
 *     berth_json_close(answer, '}');                           }
 *     berth_json_open_in(answer, "errors", '[');               "errors":[
 *     berth_json_put_str(answer, NULL, "cpus is too large.");     "cpus is too large."
 *     berth_json_close(answer, ']');                           ] Each request has its own thread,
 * so handlers run concurrently. */
typedef int berth_plugin_fn(const struct berth_plugin_call *call, struct berth_json_writer *answer,
                            struct berth_error *err);

/* The handlers of a worker. A method whose handler is NULL is not offered. The struct stays valid
 * while berth_plugin_main runs. */
struct berth_plugin {
    const char *name; /* for the log */
    /* Runs before all handlers, with the config of the plugin. */
    int (*setup)(const struct berth_json *config, struct berth_error *err);
    /* Runs before the process exits, while handlers may still run. */
    void (*shutdown)(void);
    berth_plugin_fn *config_changed, *health; /* NULL: the request succeeds */
    berth_plugin_fn *validate_config, *probe;
    /* Makes a place and labels it with call->lease_id. A second call with the same lease_id returns
     * the same place. */
    berth_plugin_fn *acquire;
    /* resume answers `providerLeaseId: null` for a place that no longer exists. */
    berth_plugin_fn *resume, *realize;
    berth_plugin_fn *release, *destroy; /* both succeed for an unknown place and answer nothing */
    berth_plugin_fn *execute;
    /* Calls berth_plugin_put_found for each labelled place of the environment. */
    berth_plugin_fn *find;
};

/* Serves requests until stdin ends or the host sends `shutdown`. Does not return: the process then
 * exits with status 0, even if handlers still run. */
int berth_plugin_main(const struct berth_plugin *plugin);

/* Writes a line to the log of the plugin. `level` is debug, info, warn or error. Any thread may
 * call it. */
void berth_plugin_log(const char *level, const char *fmt, ...) BERTH_PRINTF(2, 3);
/* Streams output of a running `execute` to the host; does nothing if call->invocation is NULL. The
 * answer of `execute` still contains all output. `stream` is stdout or stderr. Returns the number
 * of bytes that were used: an incomplete UTF-8 character at the end is not. Pass the unused bytes
 * again in front of the next output. */
size_t berth_plugin_output(const struct berth_plugin_call *call, const char *stream,
                           const char *bytes, size_t len);
/* A command to run on this machine. */
struct berth_plugin_command {
    const char *const *argv; /* the program and its arguments, closed by NULL */
    const char *const *env;  /* all of its variables as "NAME=value", closed by NULL; NULL: ours */
    const char *cwd;         /* its directory; NULL: ours */
    const char *input;       /* its whole standard input; NULL: none */
    size_t input_len;
    int64_t timeout_ms;      /* it is ended after this time; 0: never */
    size_t output_bytes_max; /* kept of each stream; 0: BERTH_PLUGIN_OUTPUT_BYTES_DEFAULT */
};
#define BERTH_PLUGIN_OUTPUT_BYTES_DEFAULT ((size_t)48 * 1024 * 1024)

/* How a command ended. Call berth_plugin_result_clear, also after a failure. */
struct berth_plugin_result {
    int exit_code; /* or -1 */
    int signal;    /* that ended it; or 0 */
    bool timed_out;
    bool truncated;              /* there was more output than is kept */
    struct berth_buf streams[2]; /* stdout and stderr */
};
void berth_plugin_result_clear(struct berth_plugin_result *result);

/* Runs a command and waits for its end. It has a process group of its own, and ends with the worker
 * and with the thread that calls this. At its time-out the group gets SIGTERM, and SIGKILL 250 ms
 * later; what a command leaves behind in its group is killed when it has ended. Its output is
 * streamed to the host that made the call. UNPROCESSABLE: it could not be started; the message is
 * "spawn NAME ENOENT", or has another errno. */
int berth_plugin_run(const struct berth_plugin_call *call,
                     const struct berth_plugin_command *command, struct berth_plugin_result *out,
                     struct berth_error *err);
/* Writes the result as the members of an answer of `execute`. */
void berth_plugin_put_result(struct berth_json_writer *answer,
                             const struct berth_plugin_result *result);
/* Runs the command of an `execute` request on this machine, and writes its answer: a whole handler
 * for places that are directories. `cwd` is used when the request has none; NULL: ours. Without a
 * timeoutMs, that of the config holds, or else 5 minutes. */
int berth_plugin_execute(const struct berth_plugin_call *call, const char *cwd,
                         struct berth_json_writer *answer, struct berth_error *err);

/* Adds a place to the answer of `find`: its label and its id at the provider. */
void berth_plugin_put_found(struct berth_json_writer *answer, const char *lease_id,
                            const char *provider_lease_id);

/* These read a member of a config in the same way as Paperclip's providers. Each returns `absent`
 * for a missing member and for one of another type. */

/* Returns the text without white space at both ends, copied to `out` and cut to `size`. A blank
 * text counts as missing. */
const char *berth_plugin_text(const struct berth_json *object, const char *key, const char *absent,
                              char *out, size_t size);
/* Returns a number, or a text that is a number, without its fraction. */
int64_t berth_plugin_int(const struct berth_json *object, const char *key, int64_t absent);
/* Returns true or false. */
bool berth_plugin_bool(const struct berth_json *object, const char *key, bool absent);
#endif
