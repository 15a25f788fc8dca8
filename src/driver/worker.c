/* SPDX-License-Identifier: Apache-2.0
 * src/driver/worker.c - see worker.h. What a worker answers is checked before it is believed. */
#include "driver/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/issues.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "driver/worker_ask.h"

static struct berth_worker_driver *worker_ours(struct berth_driver *d)
{
    return (struct berth_worker_driver *)(void *)d;
}

static int no_memory(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: call.");
}

/* One call about a place: waits for the worker, adds `add`'s members to the params, and asks. */
struct matter {
    const char *method;
    const struct berth_place_request *who;
    const struct berth_place *place;         /* or NULL */
    const struct berth_workspace *workspace; /* or NULL */
    bool unsent;
    bool labelled; /* the worker was told the lease's id, and can be asked by it */
};

static bool is_acquire(const struct matter *m)
{
    return strcmp(m->method, "environmentAcquireLease") == 0;
}

static void put_matter(struct berth_json_writer *w, const struct berth_worker_driver *d,
                       struct matter *m)
{
    struct berth_workers *workers = d->options.workers;
    bool resumes = strcmp(m->method, "environmentResumeLease") == 0;
    if ((is_acquire(m) || resumes) && m->who->agent_id)
        berth_json_put_str(w, "agentId", m->who->agent_id);
    if ((is_acquire(m) || resumes) && m->who->execution_workspace_id)
        berth_json_put_str(w, "executionWorkspaceId", m->who->execution_workspace_id);
    if (is_acquire(m)) {
        berth_json_put_str(w, "runId", m->who->run_id ? m->who->run_id : m->who->lease_id);
        if (m->who->workspace_mode)
            berth_json_put_str(w, "workspaceMode", m->who->workspace_mode);
        m->labelled =
            workers->ops->supports &&
            workers->ops->supports(workers, d->options.plugin_id, "environmentFindLeases");
        if (m->labelled)
            berth_json_put_str(w, "leaseId", m->who->lease_id);
    } else if (m->workspace) {
        berth_worker_put_lease(w, m->place);
        berth_json_open_in(w, "workspace", '{');
        if (m->workspace->local_path)
            berth_json_put_str(w, "localPath", m->workspace->local_path);
        if (m->workspace->remote_path)
            berth_json_put_str(w, "remotePath", m->workspace->remote_path);
        if (m->workspace->mode)
            berth_json_put_str(w, "mode", m->workspace->mode);
        berth_json_close(w, '}');
    } else if (m->place) {
        berth_json_put_str(w, "providerLeaseId", m->place->id);
        berth_json_put_raw(w, "leaseMetadata", m->place->shown_json ? m->place->shown_json : "{}");
    }
}

static int ask_about(struct berth_worker_driver *d, struct berth_call *call, struct matter *m,
                     struct berth_json **out, struct berth_error *err)
{
    m->unsent = true;
    int rc = berth_worker_ready(d, call, err);
    if (rc < 0)
        return rc;
    auto_json *config = berth_worker_config(d, m->who->config_json);
    if (!config)
        return no_memory(err);
    auto_buf params = BERTH_WORKER_PARAMS_INIT;
    struct berth_json_writer w = {.buf = &params};
    berth_worker_begin(&w, d, m->who, config);
    put_matter(&w, d, m);
    berth_json_close(&w, '}');
    struct berth_worker_question question = {.method = m->method,
                                             .params = &params,
                                             .who = m->who,
                                             .acquires = is_acquire(m),
                                             .timeout_ms = berth_worker_place_timeout(d, config)};
    rc = berth_worker_ask(d, call, &question, out, err);
    m->unsent = question.unsent;
    return rc;
}

/* --- config and probe --- */

/* How people call it: the provider, or the plugin and its driver. NULL: no memory. */
static const char *name_of(const struct berth_worker_driver *d, struct berth_arena *arena)
{
    const struct berth_worker_driver_options *o = &d->options;
    return o->sandbox ? o->driver_key
                      : berth_arena_printf(arena, "%s:%s", o->plugin_key, o->driver_key);
}

static void take_errors(const struct berth_worker_driver *d, const struct berth_json *answer,
                        struct berth_issues *issues)
{
    const struct berth_json *errors = berth_json_get(answer, "errors");
    for (size_t i = 0; i < berth_json_count(errors); i++) {
        const char *text = berth_json_str(berth_json_at(errors, i));
        if (text)
            berth_issues_add(issues, "", "%s", text);
    }
    if (issues->list.count == 0)
        berth_issues_add(issues, "",
                         d->options.sandbox
                             ? "Sandbox provider \"%s\" rejected its config."
                             : "Plugin environment driver \"%s\" rejected its config.",
                         name_of(d, issues->arena));
}

/* The answered config in the envelope that the row keeps it in. The keys that are not the worker's
 * are as they were, or missing as before. */
static const char *envelop(const struct berth_worker_driver *d, struct berth_arena *arena,
                           const char *stored_json, const struct berth_json *answered)
{
    auto_json *stored = NULL;
    struct berth_error ignored;
    if (berth_json_parse(stored_json, strlen(stored_json), BERTH_JSON_OURS, &stored, &ignored) < 0)
        return NULL;
    if (!d->options.sandbox) {
        if (!berth_json_set(stored, "driverConfig", berth_json_copy(answered)))
            return NULL;
        return berth_json_canonical_in(arena, stored);
    }
    auto_json *whole = berth_json_copy(answered);
    static const char *const kept[] = {"provider", "idleTtlMs"};
    for (size_t i = 0; whole && i < sizeof kept / sizeof kept[0]; i++) {
        const struct berth_json *value = berth_json_get(stored, kept[i]);
        if (!value)
            berth_json_remove(whole, kept[i]);
        else if (!berth_json_set(whole, kept[i], berth_json_copy(value)))
            return NULL;
    }
    return whole ? berth_json_canonical_in(arena, whole) : NULL;
}

static int worker_validate(struct berth_driver *base, struct berth_call *call,
                           const char *config_json, enum berth_config_use use,
                           struct berth_issues *issues, const char **normalised,
                           struct berth_error *err)
{
    (void)use;
    struct berth_worker_driver *d = worker_ours(base);
    auto_json *config = berth_worker_config(d, config_json), *answer = NULL;
    if (!config)
        return no_memory(err);
    int rc = berth_worker_ready(d, call, err);
    if (rc == BERTH_E_UNAVAILABLE)
        err->code = rc = BERTH_E_UNPROCESSABLE;
    if (rc < 0)
        return rc;
    auto_buf params = BERTH_WORKER_PARAMS_INIT;
    struct berth_json_writer w = {.buf = &params};
    berth_worker_begin(&w, d, NULL, config);
    berth_json_close(&w, '}');
    struct berth_worker_question question = {.method = "environmentValidateConfig",
                                             .params = &params};
    rc = berth_worker_ask(d, call, &question, &answer, err);
    if (rc == BERTH_E_UNSUPPORTED)
        return BERTH_OK; /* it takes what it is given */
    if (rc < 0)
        return rc;
    if (!berth_json_true(berth_json_get(answer, "ok"))) {
        take_errors(d, answer, issues);
        return BERTH_OK;
    }
    const struct berth_json *answered = berth_json_get(answer, "normalizedConfig");
    if (!berth_json_is(answered, BERTH_JSON_OBJECT))
        return BERTH_OK;
    *normalised = envelop(d, call->arena, config_json, answered);
    return *normalised ? BERTH_OK : no_memory(err);
}

static const char *probe_details(const struct berth_worker_driver *d, struct berth_arena *arena,
                                 const struct berth_json *answer)
{
    const struct berth_json *diagnostics = berth_json_get(answer, "diagnostics");
    const char *metadata = berth_worker_object(arena, berth_json_get(answer, "metadata"));
    auto_buf buf = BERTH_BUF_INIT(BERTH_METADATA_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, d->options.sandbox ? "provider" : "driverKey", d->options.driver_key);
    berth_json_put_str(&w, "pluginKey", d->options.plugin_key);
    berth_json_put_raw(&w, "diagnostics",
                       berth_json_is(diagnostics, BERTH_JSON_ARRAY)
                           ? berth_json_canonical_in(arena, diagnostics)
                           : "[]");
    berth_json_put_raw(&w, "metadata", metadata ? metadata : "{}");
    berth_json_close(&w, '}');
    return buf.failed ? "{}" : berth_arena_strdup(arena, berth_buf_str(&buf));
}

/* Returns what the worker said of a probe. A worker that failed may give the reason in
 * metadata.error, apart from its summary. */
static const char *probe_summary(const struct berth_worker_driver *d, struct berth_arena *arena,
                                 const struct berth_json *answer, bool ok)
{
    const char *summary = berth_json_str(berth_json_get(answer, "summary"));
    const char *reason =
        ok ? NULL : berth_json_str(berth_json_get(berth_json_get(answer, "metadata"), "error"));
    if (!summary)
        summary = berth_arena_printf(arena, "%s \"%s\" probe %s.",
                                     d->options.sandbox ? "Sandbox provider"
                                                        : "Plugin environment driver",
                                     name_of(d, arena), ok ? "passed" : "failed");
    if (!summary || !reason || !*reason || strstr(summary, reason))
        return summary ? berth_arena_strdup(arena, summary) : NULL;
    size_t len = strlen(summary);
    while (len && (summary[len - 1] == '.' || summary[len - 1] == ' '))
        len--;
    char *whole =
        berth_arena_printf(arena, "%.*s: %.*s", (int)len, summary, BERTH_REASON_BYTES_MAX, reason);
    if (whole)
        berth_utf8_mend(whole);
    return whole;
}

static int worker_probe(struct berth_driver *base, struct berth_call *call,
                        const struct berth_place_request *who, struct berth_probe *out,
                        struct berth_error *err)
{
    struct berth_worker_driver *d = worker_ours(base);
    auto_json *config = berth_worker_config(d, who->config_json), *answer = NULL;
    if (!config)
        return no_memory(err);
    struct berth_error why;
    if (berth_worker_ready(d, call, &why) < 0) {
        out->ok = false;
        out->summary = berth_arena_strdup(call->arena, why.message);
        out->details_json = berth_arena_printf(call->arena, "{\"%s\":\"%s\"}",
                                               d->options.sandbox ? "provider" : "driverKey",
                                               d->options.driver_key);
        return berth_arena_check(call->arena, err);
    }
    struct berth_place_request nobody = *who;
    nobody.lease_id = NULL;
    auto_buf params = BERTH_WORKER_PARAMS_INIT;
    struct berth_json_writer w = {.buf = &params};
    berth_worker_begin(&w, d, &nobody, config);
    berth_json_close(&w, '}');
    struct berth_worker_question question = {
        .method = "environmentProbe", .params = &params, .who = who};
    if (berth_worker_ask(d, call, &question, &answer, &why) < 0) { /* that, too, is an answer */
        out->summary = berth_arena_strdup(call->arena, why.message);
        out->details_json = probe_details(d, call->arena, NULL);
        return berth_arena_check(call->arena, err);
    }
    out->ok = berth_json_true(berth_json_get(answer, "ok"));
    out->summary = probe_summary(d, call->arena, answer, out->ok);
    out->details_json = probe_details(d, call->arena, answer);
    return berth_arena_check(call->arena, err);
}

/* --- places --- */

static bool worker_can_find(struct berth_driver *base, struct berth_call *call)
{
    struct berth_worker_driver *d = worker_ours(base);
    struct berth_workers *workers = d->options.workers;
    struct berth_error ignored;
    return workers->ops->supports && berth_worker_ready(d, call, &ignored) == BERTH_OK &&
           workers->ops->supports(workers, d->options.plugin_id, "environmentFindLeases");
}

static int worker_acquire(struct berth_driver *base, struct berth_call *call,
                          const struct berth_place_request *who, struct berth_place *out,
                          struct berth_error *err)
{
    struct matter m = {.method = "environmentAcquireLease", .who = who};
    auto_json *answer = NULL;
    int rc = ask_about(worker_ours(base), call, &m, &answer, err);
    if (rc == BERTH_OK)
        return berth_worker_read_lease(call->arena, answer, out, err);
    /* A worker that says no made nothing, as far as it knows; one that can be asked, is. */
    out->untouched =
        m.unsent || rc == BERTH_E_UNSUPPORTED || (rc == BERTH_E_UPSTREAM && !m.labelled);
    return rc;
}

static int worker_resume(struct berth_driver *base, struct berth_call *call,
                         const struct berth_place_request *who, const struct berth_place *place,
                         struct berth_place *out, struct berth_error *err)
{
    struct matter m = {.method = "environmentResumeLease", .who = who, .place = place};
    auto_json *answer = NULL;
    int rc = ask_about(worker_ours(base), call, &m, &answer, err);
    if (rc == BERTH_OK)
        return berth_worker_read_lease(call->arena, answer, out, err);
    out->untouched = m.unsent;
    return rc;
}

static int worker_realize(struct berth_driver *base, struct berth_call *call,
                          const struct berth_place_request *who, const struct berth_place *place,
                          const struct berth_workspace *workspace, struct berth_realized *out,
                          struct berth_error *err)
{
    struct matter m = {.method = "environmentRealizeWorkspace",
                       .who = who,
                       .place = place,
                       .workspace = workspace};
    auto_json *answer = NULL;
    int rc = ask_about(worker_ours(base), call, &m, &answer, err);
    if (rc < 0)
        return rc;
    const char *cwd = berth_json_str(berth_json_get(answer, "cwd"));
    if (!cwd || !*cwd)
        return berth_fail(err, BERTH_E_UPSTREAM,
                          "Plugin \"%s\" answered environmentRealizeWorkspace without a cwd.",
                          worker_ours(base)->options.plugin_key);
    out->cwd = berth_arena_strdup(call->arena, cwd);
    out->metadata_json = berth_worker_object(call->arena, berth_json_get(answer, "metadata"));
    return berth_arena_check(call->arena, err);
}

static int worker_tell(struct berth_driver *base, struct berth_call *call,
                       const struct berth_place_request *who, const struct berth_place *place,
                       const char *method, struct berth_error *err)
{
    struct matter m = {.method = method, .who = who, .place = place};
    auto_json *answer = NULL;
    return ask_about(worker_ours(base), call, &m, &answer, err);
}

/* A provider that only ever releases is told that the place is not to be kept. */
static int release_for_good(struct berth_driver *base, struct berth_call *call,
                            const struct berth_place_request *who, const struct berth_place *place,
                            struct berth_error *err)
{
    auto_json *config = NULL;
    struct berth_place_request once = *who;
    int rc =
        berth_json_parse(who->config_json, strlen(who->config_json), BERTH_JSON_OURS, &config, err);
    if (rc < 0)
        return rc;
    if (berth_json_get(config, "reuseLease") &&
        !berth_json_set(config, "reuseLease", berth_json_new_bool(false)))
        return no_memory(err);
    char *text = berth_json_canonical(config);
    if (!text)
        return no_memory(err);
    once.config_json = text;
    rc = worker_tell(base, call, &once, place, "environmentReleaseLease", err);
    explicit_bzero(text, strlen(text));
    free(text);
    return rc;
}

static int end_place(struct berth_driver *base, struct berth_call *call,
                     const struct berth_place_request *who, const struct berth_place *place,
                     bool destroy, struct berth_error *err)
{
    int rc = worker_tell(base, call, who, place,
                         destroy ? "environmentDestroyLease" : "environmentReleaseLease", err);
    return destroy && rc == BERTH_E_UNSUPPORTED ? release_for_good(base, call, who, place, err)
                                                : rc;
}

/* --- looking for places --- */

static int worker_find(struct berth_driver *base, struct berth_call *call,
                       const struct berth_place_request *who, berth_found_fn *each, void *ctx,
                       struct berth_error *err)
{
    struct matter m = {.method = "environmentFindLeases", .who = who};
    auto_json *answer = NULL;
    int rc = ask_about(worker_ours(base), call, &m, &answer, err);
    const struct berth_json *leases = berth_json_get(answer, "leases");
    if (rc == BERTH_OK && !berth_json_is(leases, BERTH_JSON_ARRAY))
        rc = berth_fail(err, BERTH_E_UPSTREAM,
                        "Plugin \"%s\" answered environmentFindLeases without a list.",
                        worker_ours(base)->options.plugin_key);
    for (size_t i = 0; rc == BERTH_OK && i < berth_json_count(leases); i++) {
        const struct berth_json *lease = berth_json_at(leases, i);
        const char *lease_id = berth_json_str(berth_json_get(lease, "leaseId"));
        const char *place_id = berth_json_str(berth_json_get(lease, "providerLeaseId"));
        if (lease_id && place_id && *place_id)
            rc = each(ctx, lease_id, place_id, err);
    }
    return rc;
}

struct search {
    struct berth_arena *arena;
    const char *lease_id;
    struct berth_list places;
};

static int on_found(void *ctx, const char *lease_id, const char *place_id, struct berth_error *err)
{
    struct search *s = ctx;
    if (strcmp(lease_id, s->lease_id) == 0)
        (void)berth_list_add(&s->places, s->arena, berth_arena_strdup(s->arena, place_id));
    return berth_arena_check(s->arena, err);
}

/* Ends the places that carry the lease's label. One call ends only some of many; the error for the
 * others lets the ledger ask again. */
static int end_by_label(struct berth_driver *base, struct berth_call *call,
                        const struct berth_place_request *who, const struct berth_place *place,
                        bool destroy, struct berth_error *err)
{
    struct search s = {.arena = call->arena, .lease_id = who->lease_id};
    int rc = worker_find(base, call, who, on_found, &s, err);
    int64_t end_ms = berth_time_mono_ms() + BERTH_LABEL_MS_MAX;
    if (call->deadline_ms < end_ms)
        end_ms = call->deadline_ms;
    for (int i = 0; rc == BERTH_OK && i < s.places.count; i++) {
        if (i == BERTH_LABEL_PLACES_MAX || (i > 0 && berth_time_mono_ms() >= end_ms))
            return berth_fail(err, BERTH_E_UPSTREAM,
                              "Plugin \"%s\" lists %d places of one lease. %d of them were ended; "
                              "the others are ended later.",
                              worker_ours(base)->options.plugin_key, s.places.count, i);
        struct berth_place found = *place;
        found.id = s.places.items[i];
        rc = end_place(base, call, who, &found, destroy, err);
    }
    return rc;
}

static int worker_release(struct berth_driver *base, struct berth_call *call,
                          const struct berth_place_request *who, const struct berth_place *place,
                          enum berth_release_mode mode, struct berth_error *err)
{
    bool destroy = mode == BERTH_RELEASE_DESTROY;
    return place->id ? end_place(base, call, who, place, destroy, err)
                     : end_by_label(base, call, who, place, destroy, err);
}

/* --- the driver --- */

static void worker_free(struct berth_driver *base)
{
    struct berth_worker_driver *d = worker_ours(base);
    free((char *)(uintptr_t)d->options.plugin_id);
    free((char *)(uintptr_t)d->options.plugin_key);
    free((char *)(uintptr_t)d->options.driver_key);
    free(d->schema);
    free(d);
}

static const struct berth_driver_ops worker_ops = {
    .validate = worker_validate,
    .probe = worker_probe,
    .acquire = worker_acquire,
    .resume = worker_resume,
    .realize = worker_realize,
    .exec_start = berth_worker_exec_start,
    .exec_settle = berth_worker_exec_settle,
    .release = worker_release,
    .free = worker_free,
};

static const struct berth_driver_finder worker_finder = {.find = worker_find,
                                                         .can_find = worker_can_find};

int berth_driver_worker_new(const struct berth_worker_driver_options *options,
                            struct berth_driver **out, struct berth_error *err)
{
    struct berth_worker_driver *d = calloc(1, sizeof *d);
    if (!d)
        return no_memory(err);
    d->base = (struct berth_driver){.ops = &worker_ops, .traits = &d->traits};
    d->traits = (struct berth_driver_traits){.name = "worker",
                                             .finder = &worker_finder,
                                             .carrier = &berth_worker_carrier,
                                             .keeps_time = true,
                                             .whole_stdin = true};
    d->options = *options;
    d->options.plugin_id = strdup(options->plugin_id);
    d->options.plugin_key = strdup(options->plugin_key);
    d->options.driver_key = strdup(options->driver_key);
    d->options.schema_json = NULL;
    /* The stored config of the driver `plugin` has the worker's own inside of it. */
    if (asprintf(&d->schema, options->sandbox ? "%s" : "{\"properties\":{\"driverConfig\":%s}}",
                 options->schema_json) < 0)
        d->schema = NULL;
    if (!d->options.plugin_id || !d->options.plugin_key || !d->options.driver_key || !d->schema) {
        worker_free(&d->base);
        return no_memory(err);
    }
    d->traits.config_schema = d->schema;
    *out = &d->base;
    return BERTH_OK;
}
