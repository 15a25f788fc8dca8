/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check_trial.c - see check_trial.h. */
#include "plugin/check_trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"

#define COMMAND_MS 20000 /* a command's timeoutMs, when the check does not say */

bool berth_trial_wrong(struct berth_trial *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!t->detail[0])
        (void)vsnprintf(t->detail, sizeof t->detail, fmt, args);
    va_end(args);
    return false;
}

bool berth_trial_skip(struct berth_trial *t, const char *why)
{
    t->skipped = true;
    return berth_trial_wrong(t, "%s", why);
}

bool berth_trial_is_error(const struct berth_session_reply *r)
{
    return r->kind == BERTH_REPLY_ERROR;
}

bool berth_trial_answered(struct berth_trial *t, const char *what,
                          const struct berth_session_reply *r)
{
    if (r->kind == BERTH_REPLY_RESULT)
        return true;
    return berth_trial_wrong(t, "%s: %s%s", what, berth_trial_is_error(r) ? "error: " : "",
                             r->text);
}

struct berth_json_writer berth_trial_open_json(struct berth_trial *t)
{
    struct berth_json_writer w = {.buf = &t->json};
    berth_buf_truncate(&t->json, 0);
    berth_json_open(&w, '{');
    return w;
}

const char *berth_trial_close_json(struct berth_trial *t, struct berth_json_writer *w)
{
    berth_json_close(w, '}');
    t->arena.failed |= t->json.failed;
    return berth_arena_strdup(&t->arena, berth_buf_str(&t->json));
}

struct berth_json_writer berth_trial_open_params(struct berth_trial *t)
{
    struct berth_json_writer w = berth_trial_open_json(t);
    berth_json_put_str(&w, "driverKey", t->driver_key);
    berth_json_put_str(&w, "companyId", t->company.text);
    berth_json_put_str(&w, "environmentId", t->environment.text);
    berth_json_put_str(&w, "issueId", NULL);
    berth_json_put_raw(&w, "config", t->config_json);
    return w;
}

const char *berth_trial_params(struct berth_trial *t)
{
    struct berth_json_writer w = berth_trial_open_params(t);
    return berth_trial_close_json(t, &w);
}

void berth_trial_put_ids(struct berth_trial *t, struct berth_json_writer *w)
{
    berth_json_put_str(w, "agentId", "berth-check-agent");
    berth_json_put_str(w, "executionWorkspaceId", t->workspace.text);
}

const char *berth_trial_place_params(struct berth_trial *t, const char *place)
{
    struct berth_json_writer w = berth_trial_open_params(t);
    berth_json_put_str(&w, "providerLeaseId", place);
    berth_json_put_raw(&w, "leaseMetadata", t->metadata ? t->metadata : "{}");
    return berth_trial_close_json(t, &w);
}

void berth_trial_put_lease(struct berth_trial *t, struct berth_json_writer *w)
{
    berth_json_open_in(w, "lease", '{');
    berth_json_put_str(w, "providerLeaseId", t->place);
    berth_json_put_raw(w, "metadata", t->metadata);
    berth_json_put_str(w, "expiresAt", NULL);
    berth_json_close(w, '}');
}

static const char *trial_command_params(struct berth_trial *t, const struct berth_trial_command *c)
{
    struct berth_json_writer w = berth_trial_open_params(t);
    berth_trial_put_lease(t, &w);
    berth_json_put_str(&w, "command", c->script ? "sh" : c->program);
    berth_json_open_in(&w, "args", '[');
    if (c->script) {
        berth_json_put_str(&w, NULL, "-c");
        berth_json_put_str(&w, NULL, c->script);
    }
    berth_json_close(&w, ']');
    berth_json_put_str(&w, "cwd", "/");
    berth_json_open_in(&w, "env", '{');
    if (c->variable)
        berth_json_put_str(&w, c->variable, c->value);
    berth_json_close(&w, '}');
    if (c->input)
        berth_json_put_str(&w, "stdin", c->input);
    berth_json_put_int(&w, "timeoutMs", c->timeout_ms ? c->timeout_ms : COMMAND_MS);
    return berth_trial_close_json(t, &w);
}

struct berth_session_question *berth_trial_begin_execute(struct berth_trial *t,
                                                         const struct berth_trial_command *c,
                                                         const char *invocation_json)
{
    return berth_session_begin(t->s, "environmentExecute", trial_command_params(t, c),
                               invocation_json, BERTH_TRIAL_ASK_MS);
}

struct berth_session_reply berth_trial_execute(struct berth_trial *t,
                                               const struct berth_trial_command *c)
{
    return berth_session_await(berth_trial_begin_execute(t, c, NULL));
}

bool berth_trial_has(const struct berth_trial *t, const char *name)
{
    for (size_t i = 0; i < berth_json_count(t->methods); i++) {
        const char *method = berth_json_str(berth_json_at(t->methods, i));
        if (method && strcmp(method, name) == 0)
            return true;
    }
    return false;
}

static const char *trial_initialize_params(struct berth_trial *t)
{
    auto_free char *manifest = berth_json_canonical(t->manifest);
    struct berth_json_writer w = berth_trial_open_json(t);
    berth_json_put_raw(&w, "manifest", manifest ? manifest : "{}");
    berth_json_put_raw(&w, "config", "{}");
    berth_json_open_in(&w, "instanceInfo", '{');
    berth_json_put_str(&w, "instanceId", "check");
    berth_json_put_str(&w, "hostVersion", BERTH_VERSION);
    berth_json_close(&w, '}');
    berth_json_put_int(&w, "apiVersion", 1);
    berth_json_put_str(&w, "databaseNamespace", NULL);
    return berth_trial_close_json(t, &w);
}

bool berth_trial_start(struct berth_trial *t)
{
    struct berth_error err;
    if (berth_session_open(t->engine, &t->spec, &t->s, &err) < 0)
        return berth_trial_wrong(t, "it does not start: %s", err.message);
    auto_reply r = berth_session_ask(t->s, "initialize", trial_initialize_params(t),
                                     BERTH_WORKER_INITIALIZE_MS);
    if (!berth_trial_answered(t, "initialize", &r))
        return false;
    const struct berth_json *ok = berth_json_get(r.result, "ok");
    const struct berth_json *methods = berth_json_get(r.result, "supportedMethods");
    berth_json_free(t->methods);
    t->methods = methods ? berth_json_copy(methods) : NULL;
    return berth_json_true(ok) ? true : berth_trial_wrong(t, "initialize did not answer ok: true");
}

void berth_trial_stop(struct berth_trial *t)
{
    berth_session_close(t->s);
    t->s = NULL;
}

bool berth_trial_acquire(struct berth_trial *t)
{
    struct berth_json_writer w = berth_trial_open_params(t);
    berth_json_put_str(&w, "runId", t->run.text);
    berth_json_put_str(&w, "leaseId", t->lease.text);
    berth_json_put_str(&w, "workspaceMode", "shared_workspace");
    berth_trial_put_ids(t, &w);
    auto_reply r = berth_session_ask(t->s, "environmentAcquireLease", berth_trial_close_json(t, &w),
                                     BERTH_TRIAL_ASK_MS);
    if (!berth_trial_answered(t, "environmentAcquireLease", &r))
        return false;
    const char *id = berth_json_str(berth_json_get(r.result, "providerLeaseId"));
    const struct berth_json *metadata = berth_json_get(r.result, "metadata");
    if (!id || !*id)
        return berth_trial_wrong(t, "environmentAcquireLease answered without a providerLeaseId");
    if (metadata && !berth_json_is(metadata, BERTH_JSON_OBJECT) &&
        berth_json_type(metadata) != BERTH_JSON_NULL)
        return berth_trial_wrong(
            t, "environmentAcquireLease answered with metadata that is no object");
    t->place = berth_arena_strdup(&t->arena, id);
    t->metadata = berth_json_is(metadata, BERTH_JSON_OBJECT)
                      ? berth_json_canonical_in(&t->arena, metadata)
                      : "{}";
    return true;
}

bool berth_trial_give_back(struct berth_trial *t, const char *method)
{
    auto_reply r =
        berth_session_ask(t->s, method, berth_trial_place_params(t, t->place), BERTH_TRIAL_ASK_MS);
    return berth_trial_answered(t, method, &r);
}

bool berth_trial_begin(struct berth_trial *t)
{
    return berth_trial_start(t) && berth_trial_acquire(t);
}

bool berth_trial_finish(struct berth_trial *t)
{
    return berth_trial_give_back(t, berth_trial_has(t, "environmentDestroyLease")
                                        ? "environmentDestroyLease"
                                        : "environmentReleaseLease");
}

bool berth_trial_find_place(struct berth_trial *t, bool *found)
{
    auto_reply r =
        berth_session_ask(t->s, "environmentFindLeases", berth_trial_params(t), BERTH_TRIAL_ASK_MS);
    if (!berth_trial_answered(t, "environmentFindLeases", &r))
        return false;
    const struct berth_json *leases = berth_json_get(r.result, "leases");
    *found = false;
    for (size_t i = 0; i < berth_json_count(leases); i++) {
        const struct berth_json *l = berth_json_at(leases, i);
        const char *lease = berth_json_str(berth_json_get(l, "leaseId"));
        const char *place = berth_json_str(berth_json_get(l, "providerLeaseId"));
        *found |=
            lease && place && strcmp(lease, t->lease.text) == 0 && strcmp(place, t->place) == 0;
    }
    return true;
}

void berth_trial_clear(struct berth_trial *t)
{
    if (t->s && t->place) {
        auto_reply r = berth_session_ask(
            t->s,
            berth_trial_has(t, "environmentDestroyLease") ? "environmentDestroyLease"
                                                          : "environmentReleaseLease",
            berth_trial_place_params(t, t->place), BERTH_TRIAL_QUICK_MS);
    }
    berth_trial_stop(t);
    berth_json_free(t->methods);
    berth_buf_clear(&t->json);
    berth_arena_clear(&t->arena);
}
