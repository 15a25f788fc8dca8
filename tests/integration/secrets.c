/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/secrets.c - secrets as operators, environments and leases use them: made,
 * bound, resolved at the last moment, ended; and never where they should not be. */
#include "secrets.h"

#include <pthread.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "scripted.h"

#define CANARY "canary-8c1f-Zq7"
#define TOKEN "token-canary-5d02"
#define WITH_KEY "{\"provider\":\"scripted\",\"template\":\"t1\",\"apiKey\":\"%s\"}"
#define WITH_BOTH "{\"provider\":\"scripted\",\"apiKey\":\"%s\",\"auth\":{\"token\":\"%s\"}}"

static const enum scripted_op config_ops[] = {SCRIPTED_PROBE, SCRIPTED_ACQUIRE, SCRIPTED_REALIZE,
                                              SCRIPTED_RELEASE};

/* The text at a path of the config of the newest call of that kind. */
static const char *told(struct fixture *f, enum scripted_op op, const char *path)
{
    auto_free char *config = scripted_config(f->world, op);
    assert_non_null(config);
    return json_text(f, config, path);
}

static void probe(struct fixture *f, const struct berth_environment *e, struct berth_probe *out)
{
    assert_ok(f, berth_environment_probe(f->b, &f->arena, e->id, NULL, out, &f->err));
}

static void realize(struct fixture *f, const struct berth_lease *lease, struct berth_realized *out)
{
    struct berth_workspace workspace = {.local_path = "/tmp"};
    assert_ok(f, berth_lease_realize(f->b, &f->arena, lease->id, &workspace, out, &f->err));
}

/* The secret that the environment made for the path, or NULL. */
static const struct berth_secret *made_for(struct fixture *f, const struct berth_environment *e,
                                           const char *path)
{
    const char *id = json_text(f, e->config_json, path);
    if (!id || !berth_id_valid(id))
        return NULL;
    return look_at_secret(f, id);
}

static int count_of(struct fixture *f, const char *table, const char *condition)
{
    return count_rows(f, text(f, "SELECT count(*) FROM %s WHERE %s", table, condition));
}

/* --- R9 --- */

static void R9_lease_keeps_the_id_and_every_call_gets_the_value(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY);
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, s->id));
    assert_string_equal(json_text(f, e->config_json, "apiKey"), s->id);
    assert_string_equal(told(f, SCRIPTED_VALIDATE, "apiKey"), s->id); /* no value is needed yet */

    struct berth_probe answer;
    probe(f, e, &answer);
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.metadata = "{\"apiKey\":\"" CANARY "\",\"size\":\"xl\"}"});
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct berth_realized realized;
    realize(f, lease, &realized);
    assert_string_equal(json_text(f, lease->metadata_json, "provider"), "scripted");
    assert_string_equal(json_text(f, lease->metadata_json, "template"), "t1");
    assert_string_equal(json_text(f, lease->metadata_json, "apiKey"), s->id);
    assert_string_equal(json_text(f, lease->config_json, "apiKey"), s->id);
    assert_non_null(strstr(lease->provider_metadata_json, "xl"));
    assert_null(strstr(lease->provider_metadata_json, "apiKey"));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    for (size_t i = 0; i < sizeof config_ops / sizeof *config_ops; i++) {
        assert_string_equal(told(f, config_ops[i], "apiKey"), CANARY);
        assert_string_equal(told(f, config_ops[i], "template"), "t1");
    }
    assert_true(count_in_tables(f, s->id) > 0);
    assert_int_equal(count_in_tables(f, CANARY), 0);
}

static void R9_release_resolves_what_was_captured(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY);
    run_sql(f, "DELETE FROM secret_bindings WHERE secret_id = $1", s->id); /* only e's, then */
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, s->id));
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    make_local(f, e);
    assert_int_equal(count_of(f, "secret_bindings", "1 = 1"), 0);
    /* It is needed, so it cannot go. */
    struct berth_secret *gone;
    assert_fails(f, BERTH_E_CONFLICT,
                 "Secret \"key\" is needed by 1 lease: release it, and let the clean-up finish",
                 berth_secret_delete(f->b, &f->arena, s->id, NULL, &gone, &f->err));
    rotate(f, s->id, TOKEN);
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_string_equal(told(f, SCRIPTED_RELEASE, "apiKey"), TOKEN); /* the latest, at that time */
    assert_int_equal(scripted_count(f->world), 0);
    assert_done(f, lease, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(count_in_tables(f, TOKEN), 0);

    /* Closed, it has no right any more. */
    struct berth_resolve_request request = {.company_id = lease->company_id,
                                            .secret_id = s->id,
                                            .consumer_type = "environment",
                                            .consumer_id = e->id,
                                            .config_path = "apiKey",
                                            .lease_id = lease->id};
    auto_locked value = BERTH_LOCKED_INIT;
    assert_fails(f, BERTH_E_UNPROCESSABLE,
                 text(f, "Secret is not bound to environment:%s at apiKey", e->id),
                 berth_secret_resolve(f->b, &request, &value, &f->err));
    assert_ok(f, berth_secret_delete(f->b, &f->arena, s->id, NULL, &gone, &f->err));
}

/* A place is owed after a failed clean-up: what opens it stays at hand. */
static void owed_cleanup_resolves_what_was_captured(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, CANARY));
    struct berth_secret s = *made_for(f, e, "apiKey");
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    scripted_set(f->world, SCRIPTED_RELEASE,
                 (struct scripted_act){.mode = SCRIPTED_FAIL, .code = BERTH_E_UNAVAILABLE});
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    make_local(f, e);
    struct berth_secret *gone;
    assert_fails(f, BERTH_E_CONFLICT, "is needed by 1 lease",
                 berth_secret_delete(f->b, &f->arena, s.id, NULL, &gone, &f->err));
    scripted_go_on(f->world);
    move_clock(INT64_C(3600000));
    (void)sweep(f);
    assert_int_equal(scripted_count(f->world), 0);
    assert_string_equal(told(f, SCRIPTED_RELEASE, "apiKey"), CANARY);
    assert_ok(f, berth_secret_delete(f->b, &f->arena, s.id, NULL, &gone, &f->err));
}

/* --- X6 --- */

static void X6_saving_twice_binds_once(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *key = make_text_secret(f, "key", CANARY),
                        *token = make_text_secret(f, "token", TOKEN);
    const char *config = text(f, WITH_BOTH, key->id, token->id);
    struct berth_environment *e = save(f, NULL, config);
    const char *bound = text(f, "target_type = 'environment' AND target_id = '%s'", e->id);
    for (int i = 0; i < 3; i++) {
        e = save(f, e, config);
        assert_int_equal(count_of(f, "secret_bindings", bound), 2);
        for (int k = 0; k < 2; k++)
            assert_int_equal(
                count_of(f, "secret_bindings",
                         text(f, "%s AND config_path = '%s' AND secret_id = '%s'", bound,
                              k ? "auth.token" : "apiKey", k ? token->id : key->id)),
                1);
    }
    struct berth_list usage;
    assert_ok(f, berth_secret_usage(f->b, &f->arena, key->id, &usage, &f->err));
    assert_int_equal(usage.count, 2); /* the other is make_secret's own */
    /* They change places, and one goes. */
    e = save(f, e, text(f, WITH_BOTH, token->id, key->id));
    assert_int_equal(
        count_of(f, "secret_bindings",
                 text(f, "%s AND config_path = 'apiKey' AND secret_id = '%s'", bound, token->id)),
        1);
    e = save(f, e, "{\"apiKey\":\"\"}");
    assert_int_equal(count_of(f, "secret_bindings", bound), 1);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    assert_null(told(f, SCRIPTED_ACQUIRE, "apiKey"));
    assert_string_equal(told(f, SCRIPTED_ACQUIRE, "auth.token"), CANARY);
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    /* Without a config nothing is bound anew. */
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    input.fields = BERTH_FIELD_NAME;
    input.name = "other";
    assert_ok(f, berth_environment_update(f->b, &f->arena, e->id, &input, &issues, &e, &f->err));
    assert_int_equal(count_of(f, "secret_bindings", bound), 1);
}

static void config_names_only_secrets_of_its_company(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e;
    make_company(f, NOBODY);
    struct berth_secret *theirs = make_secret_of(f, NOBODY, "theirs", CANARY);
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 try_save(f, NULL, text(f, WITH_KEY, theirs->id), &e));
    assert_non_null(strstr(f->err.where, "config.apiKey"));
    struct berth_id unknown = berth_id_new();
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 try_save(f, NULL, text(f, WITH_KEY, unknown.text), &e));
    assert_fails(f, BERTH_E_UNPROCESSABLE,
                 "Refusing to persist redacted placeholder for key: apiKey",
                 try_save(f, NULL, text(f, WITH_KEY, "***REDACTED***"), &e));
    assert_int_equal(count_of(f, "environments", "1 = 1"), 0);
    /* A failed change changes nothing. */
    struct berth_secret *ours = make_text_secret(f, "ours", CANARY);
    e = save(f, NULL, text(f, WITH_KEY, ours->id));
    struct berth_environment *same;
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 try_save(f, e, text(f, WITH_KEY, theirs->id), &same));
    assert_ok(f, berth_environment_get(f->b, &f->arena, e->id, &same, &f->err));
    assert_string_equal(same->config_json, e->config_json);
    assert_int_equal(count_of(f, "secret_bindings", text(f, "target_id = '%s'", e->id)), 1);
}

/* Ids are the same in either case. */
static void ids_in_capitals_are_ids(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY);
    char *capitals = text(f, "%s", s->id);
    for (char *c = capitals; *c; c++)
        if (*c >= 'a' && *c <= 'f')
            *c = (char)(*c - 'a' + 'A');
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, capitals));
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    assert_string_equal(told(f, SCRIPTED_ACQUIRE, "apiKey"), CANARY);
    struct berth_secret *gone;
    assert_fails(f, BERTH_E_CONFLICT, "is needed by 1 lease",
                 berth_secret_delete(f->b, &f->arena, s->id, NULL, &gone, &f->err));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
}

/* --- X12 --- */

struct lines {
    pthread_mutex_t lock;
    int count, canaries;
};

static void count_lines(void *ctx, enum berth_log_level level, const char *line)
{
    (void)level;
    struct lines *lines = ctx;
    pthread_mutex_lock(&lines->lock);
    lines->count++;
    lines->canaries += strstr(line, CANARY) || strstr(line, TOKEN);
    pthread_mutex_unlock(&lines->lock);
}

/* A provider that answers and fails with what it was told, at every call. */
static void repeat_everything(struct fixture *f, enum scripted_mode mode, int code)
{
    struct scripted_act act = {.mode = mode,
                               .code = code,
                               .text = "cannot log in with " CANARY " and " TOKEN,
                               .metadata = "{\"apiKey\":\"" CANARY "\",\"auth\":{\"token\":\"" TOKEN
                                           "\"},\"header\":\"Bearer " CANARY "\"}",
                               .details = "{\"used\":[\"" TOKEN "\"]}"};
    for (int op = SCRIPTED_PROBE; op < SCRIPTED_OPS; op++)
        scripted_set(f->world, (enum scripted_op)op, act);
}

static void assert_error_says_nothing(const struct berth_error *err)
{
    assert_null(strstr(err->message, CANARY));
    assert_null(strstr(err->message, TOKEN));
    assert_null(strstr(err->where, CANARY));
    assert_null(strstr(err->where, TOKEN));
}

/* Tables and files; whoever looks must be able to find. */
static void assert_plain_nowhere(struct fixture *f)
{
    assert_true(count_in_tables(f, "control-name-1f") > 0);
    assert_non_null(find_in_files(f, "control-name-1f"));
    static const char *const values[] = {CANARY, TOKEN};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(count_in_tables(f, values[i]), 0);
        const char *found = find_in_files(f, values[i]);
        if (found)
            fail_msg("%s is in %s", values[i], found);
    }
}

static void X12_plaintext_is_nowhere(void **state)
{
    struct fixture *f = *state;
    struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
    reopen(f, NULL, (struct berth_log){.write = count_lines, .ctx = &lines});
    struct berth_secret *s = make_text_secret(f, "control-name-1f", "old-" CANARY);
    rotate(f, s->id, CANARY);
    struct berth_environment *e = save(f, NULL, text(f, WITH_BOTH, s->id, TOKEN));
    repeat_everything(f, SCRIPTED_SUCCEED, 0);
    struct berth_probe answer;
    probe(f, e, &answer);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct berth_realized realized;
    realize(f, lease, &realized);

    repeat_everything(f, SCRIPTED_FAIL, BERTH_E_UNAVAILABLE);
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UNAVAILABLE);
    assert_error_says_nothing(&f->err);
    assert_non_null(strstr(f->err.message, "cannot log in with ***REDACTED***"));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    (void)sweep(f);
    move_clock(INT64_C(3600000));
    (void)sweep(f);
    struct berth_workspace workspace = {.local_path = "/tmp"};
    struct berth_lease *other = NULL;
    scripted_go_on(f->world);
    other = take_lease(f, e, make_run(f));
    repeat_everything(f, SCRIPTED_FAIL, BERTH_E_UPSTREAM);
    assert_int_equal(
        berth_lease_realize(f->b, &f->arena, other->id, &workspace, &realized, &f->err),
        BERTH_E_UPSTREAM);
    assert_error_says_nothing(&f->err);
    if (berth_environment_probe(f->b, &f->arena, e->id, NULL, &answer, &f->err) < 0)
        assert_error_says_nothing(&f->err);
    else
        assert_null(strstr(answer.summary, CANARY));
    scripted_go_on(f->world);
    (void)give_lease(f, other, BERTH_LEASE_FAILED);
    struct berth_key_change change;
    assert_ok(f, berth_secret_change_key(f->b, NULL, &change, &f->err));

    assert_true(lines.count > 0);
    assert_plain_nowhere(f);
    struct berth_environment *gone;
    assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, true, NULL, &gone, &f->err));
    run_sql(f, "DELETE FROM secret_bindings WHERE secret_id = $1", s->id);
    assert_ok(f, berth_secret_delete(f->b, &f->arena, s->id, NULL, &s, &f->err));
    assert_plain_nowhere(f);
    fixture_close(f); /* the last lines, and SQLite's last pages */
    f->b = open_another(f, NULL, (struct berth_log){0});
    assert_plain_nowhere(f);
    assert_int_equal(lines.canaries, 0);
}

/* --- pasted values --- */

static void pasted_values_become_secrets_of_the_environment(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *own = make_text_secret(f, "own", TOKEN);
    struct berth_actor user = {.type = "user", .id = "u1"};
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_environment *e, *gone;
    input.name = "My  \xc3\x89tude #1";
    input.driver = BERTH_DRIVER_SANDBOX;
    input.config_json = text(f, WITH_BOTH, "  " CANARY "\\n", own->id);
    input.actor = &user;
    assert_ok(f, berth_environment_create(f->b, &f->arena, &input, &issues, &e, &f->err));
    const struct berth_secret *s = made_for(f, e, "apiKey");
    assert_string_equal(s->environment_id, e->id);
    assert_string_equal(s->company_id, e->company_id);
    assert_string_equal(s->created_by_id, "u1");
    const char *name = text(f, "environment-sandbox-my-tude-1-apikey-%s", s->id + 28);
    assert_string_equal(s->name, name);
    assert_string_equal(s->key, name);
    assert_non_null(last_activity(f, s->id, "secret.created"));
    assert_string_equal(json_text(f, e->config_json, "auth.token"), own->id);

    struct berth_lease *lease = take_lease(f, e, make_run(f));
    assert_string_equal(told(f, SCRIPTED_ACQUIRE, "apiKey"), CANARY); /* trimmed */
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    struct berth_secret *out;
    assert_fails(f, BERTH_E_CONFLICT, "is used by 1 config: \"berth secret usage\" shows where",
                 berth_secret_delete(f->b, &f->arena, s->id, NULL, &out, &f->err));

    assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err));
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 berth_secret_get(f->b, &f->arena, s->id, &out, &f->err));
    assert_value(f, own->id, 0, TOKEN);
    assert_int_equal(count_of(f, "secret_versions", "1 = 1"), 1);
    assert_int_equal(count_of(f, "secret_bindings", "target_type = 'environment'"), 0);
    assert_true(last_event(f, s->id)->success); /* outlives it */
}

static void replaced_values_go(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, NULL, text(f, WITH_BOTH, CANARY, TOKEN));
    struct berth_secret first = *made_for(f, e, "apiKey"), token = *made_for(f, e, "auth.token");
    e = save(f, e, text(f, WITH_KEY, "another-value"));
    struct berth_secret second = *made_for(f, e, "apiKey");
    assert_string_not_equal(second.id, first.id);
    struct berth_secret *out;
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 berth_secret_get(f->b, &f->arena, first.id, &out, &f->err));
    assert_string_equal(made_for(f, e, "auth.token")->id, token.id); /* merged: it stays */
    /* While a lease needs it, it stays; and is gone after the next change. */
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    e = save(f, e, text(f, WITH_KEY, "third-value"));
    (void)look_at_secret(f, second.id);
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_string_equal(told(f, SCRIPTED_RELEASE, "apiKey"), "another-value");
    e = save(f, e, text(f, WITH_KEY, made_for(f, e, "apiKey")->id));
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 berth_secret_get(f->b, &f->arena, second.id, &out, &f->err));
    make_local(f, e);
    assert_int_equal(count_of(f, "secrets", "1 = 1"), 0);
    assert_int_equal(count_of(f, "secret_versions", "1 = 1"), 0);
}

/* One that somebody else was bound to becomes the operator's when its environment goes. */
static void made_secret_that_others_use_stays(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, CANARY)), *gone;
    struct berth_secret made = *made_for(f, e, "apiKey");
    struct berth_environment *other = save(f, NULL, text(f, WITH_KEY, made.id));
    assert_ok(f, berth_environment_delete(f->b, &f->arena, e->id, false, NULL, &gone, &f->err));
    assert_null(look_at_secret(f, made.id)->environment_id);
    struct berth_lease *lease = take_lease(f, other, make_run(f));
    assert_string_equal(told(f, SCRIPTED_ACQUIRE, "apiKey"), CANARY);
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    assert_ok(f, berth_environment_delete(f->b, &f->arena, other->id, false, NULL, &gone, &f->err));
    (void)look_at_secret(f, made.id);
}

static void failed_create_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e;
    struct berth_id unknown = berth_id_new();
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found", /* the second field */
                 try_save(f, NULL, text(f, WITH_BOTH, CANARY, unknown.text), &e));
    scripted_set(f->world, SCRIPTED_VALIDATE,
                 (struct scripted_act){.mode = SCRIPTED_FAIL, .code = BERTH_E_UNAVAILABLE});
    assert_true(try_save(f, NULL, text(f, WITH_KEY, CANARY), &e) < 0);
    assert_null(strstr(told(f, SCRIPTED_VALIDATE, "apiKey"), CANARY));
    assert_int_equal(count_of(f, "secrets", "1 = 1"), 0);
    assert_int_equal(count_of(f, "secret_versions", "1 = 1"), 0);
    assert_int_equal(count_of(f, "secret_bindings", "1 = 1"), 0);
    assert_int_equal(count_of(f, "environments", "1 = 1"), 0);
    assert_int_equal(count_in_tables(f, CANARY), 0);
}

/* The config is normalised before it is known whose it is. */
static void value_for_a_provider_with_blanks_around(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e =
        save(f, NULL, "{\"provider\":\" scripted\\t\",\"apiKey\":\"" CANARY "\"}");
    assert_non_null(made_for(f, e, "apiKey"));
    assert_int_equal(count_in_tables(f, CANARY), 0);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    assert_string_equal(told(f, SCRIPTED_ACQUIRE, "apiKey"), CANARY);
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
}

/* What a schema calls a secret and is none as it stands is refused; it is never stored. */
static void value_that_is_no_text_is_not_stored(void **state)
{
    struct fixture *f = *state;
    static const char *const configs[] = {
        "{\"provider\":\"scripted\",\"apiKey\":8675309124}",
        "{\"provider\":\"scripted\",\"apiKey\":[\"8675309124\"]}",
        "{\"provider\":\"scripted\",\"auth\":{\"token\":{\"value\":\"8675309124\"}}}",
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        struct berth_environment *e;
        (void)try_save(f, NULL, configs[i], &e);
        assert_int_equal(count_in_tables(f, "8675309124"), 0);
    }
}

/* --- making, changing, ending --- */

static void create_says_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s;
    static const struct {
        const char *name, *key;
        int code;
        const char *text;
    } wrong[] = {
        {NULL, NULL, BERTH_E_INVALID, "A secret needs a name."},
        {"", NULL, BERTH_E_INVALID, "A secret needs a name."},
        {"  ", NULL, BERTH_E_INVALID, "The name begins or ends with a blank"},
        {"a\x1b[2J", NULL, BERTH_E_INVALID, "The name contains the control character U+001B"},
        {"\xff", NULL, BERTH_E_INVALID, "The name is not UTF-8."},
        {"\xe2\x82\xac", NULL, BERTH_E_UNPROCESSABLE, "Secret key is required"},
        {"fine", "---", BERTH_E_UNPROCESSABLE, "Secret key is required"},
        {"Taken  Name", "other", BERTH_E_CONFLICT, "Secret already exists: Taken  Name"},
        {"taken name", NULL, BERTH_E_CONFLICT, "Secret key already exists: taken-name"},
        {"x", " TAKEN name!", BERTH_E_CONFLICT, "Secret key already exists: taken-name"},
    };
    assert_string_equal(make_text_secret(f, "Taken  Name", "v")->key, "taken-name");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct berth_secret_input input = {.name = wrong[i].name, .key = wrong[i].key};
        assert_fails(f, wrong[i].code, wrong[i].text,
                     berth_secret_create(f->b, &f->arena, &input, "v", 1, &s, &f->err));
    }
    struct berth_secret_input lost = {.name = "n", .company_id = "nonsense"};
    assert_fails(f, BERTH_E_NOT_FOUND, "Company not found",
                 berth_secret_create(f->b, &f->arena, &lost, "v", 1, &s, &f->err));
    lost.company_id = NOBODY; /* a UUID, but nobody's */
    assert_fails(f, BERTH_E_NOT_FOUND, "Company not found",
                 berth_secret_create(f->b, &f->arena, &lost, "v", 1, &s, &f->err));
    assert_int_equal(count_of(f, "secrets", "1 = 1"), 1);
    char name[BERTH_NAME_BYTES_MAX + 1];
    memset(name, 'k', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(strlen(make_text_secret(f, name, "v")->key), BERTH_SECRET_KEY_BYTES_MAX);
    make_company(f, NOBODY);
    (void)make_secret_of(f, NOBODY, "Taken  Name", "v"); /* names are a company's own */
}

static void values_are_any_bytes(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s;
    struct berth_secret_input input = {.name = "empty"};
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Managed secrets require value",
                 berth_secret_create(f->b, &f->arena, &input, "", 0, &s, &f->err));
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Managed secrets require value",
                 berth_secret_create(f->b, &f->arena, &input, NULL, 0, &s, &f->err));
    auto_free char *big = malloc(BERTH_SECRET_BYTES_MAX + 1);
    for (size_t i = 0; i <= BERTH_SECRET_BYTES_MAX; i++)
        big[i] = (char)(i * 37 + i / 256);
    assert_fails(
        f, BERTH_E_TOO_LARGE, "The value is longer than 65536 bytes.",
        berth_secret_create(f->b, &f->arena, &input, big, BERTH_SECRET_BYTES_MAX + 1, &s, &f->err));
    static const size_t sizes[] = {1, 2, 15, 16, 17, 255, 4096, BERTH_SECRET_BYTES_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        s = make_secret(f, text(f, "s%zu", sizes[i]), big, sizes[i]); /* starts with a NUL */
        auto_locked got = BERTH_LOCKED_INIT;
        assert_ok(f, resolve(f, f->b, s->id, 0, &got));
        assert_int_equal(got.len, sizes[i]);
        assert_memory_equal(got.bytes, big, sizes[i]);
    }
    s = make_secret(f, "lines", "\n\0a\r\n\0", 6);
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Managed secrets require value",
                 berth_secret_rotate(f->b, &f->arena, s->id, "", 0, NULL, &s, &f->err));
    assert_fails(f, BERTH_E_TOO_LARGE, "The value is longer than 65536 bytes.",
                 berth_secret_rotate(f->b, &f->arena, s->id, big, BERTH_SECRET_BYTES_MAX + 1, NULL,
                                     &s, &f->err));
    auto_locked got = BERTH_LOCKED_INIT;
    assert_ok(f, resolve(f, f->b, s->id, 0, &got));
    assert_int_equal(got.len, 6);
    assert_memory_equal(got.bytes, "\n\0a\r\n\0", 6);
    /* In a config only text can stand. */
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, s->id));
    struct berth_secret *binary = make_secret(f, "binary", "\xff\xfe", 2);
    e = save(f, e, text(f, WITH_KEY, binary->id));
    assert_fails(f, BERTH_E_UNPROCESSABLE, "The secret at apiKey is not UTF-8 text",
                 try_lease(f, e, make_run(f)));
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), 0);
}

static void versions_are_kept(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", "one");
    rotate(f, s->id, "two");
    rotate(f, s->id, "three");
    s = look_at_secret(f, s->id);
    assert_int_equal(s->latest_version, 3);
    assert_int_equal(count_activity(f, s->id, "secret.rotated"), 2);
    assert_int_equal(count_of(f, "secret_versions", "status = 'current' AND version = 3"), 1);
    assert_int_equal(count_of(f, "secret_versions", "status = 'previous'"), 2);
    assert_value(f, s->id, 0, "three");
    assert_value(f, s->id, 1, "one");
    assert_value(f, s->id, 2, "two");
    assert_value(f, s->id, 3, "three");
    assert_int_equal(last_event(f, s->id)->version, 3);
    auto_locked got = BERTH_LOCKED_INIT;
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret version not found",
                 resolve(f, f->b, s->id, 4, &got));
    run_sql(f,
            "UPDATE secret_versions SET status = 'disabled' WHERE secret_id = $1 AND version = 2",
            s->id);
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Secret version is not active",
                 resolve(f, f->b, s->id, 2, &got));
    run_sql(f,
            "UPDATE secret_versions SET status = 'destroyed' WHERE secret_id = $1 AND version = 1",
            s->id);
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Secret version is not active",
                 resolve(f, f->b, s->id, 1, &got));
    rotate(f, s->id, "four"); /* revives neither */
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Secret version is not active",
                 resolve(f, f->b, s->id, 2, &got));
    assert_value(f, s->id, 3, "three");
    assert_value(f, s->id, 0, "four");
}

static int update(struct fixture *f, const char *id, const struct berth_secret_input *input)
{
    struct berth_secret *s;
    return berth_secret_update(f->b, &f->arena, id, input, &s, &f->err);
}

static void updates_change_what_was_given(void **state)
{
    struct fixture *f = *state;
    const char *id = make_text_secret(f, "One", CANARY)->id;
    (void)make_text_secret(f, "two", "v");
    struct berth_secret_input input = {.fields = BERTH_SECRET_NAME, .name = "two"};
    assert_fails(f, BERTH_E_CONFLICT, "Secret already exists: two", update(f, id, &input));
    input.name = "";
    assert_fails(f, BERTH_E_INVALID, "A secret needs a name.", update(f, id, &input));
    input.name = "Renamed";
    assert_ok(f, update(f, id, &input));
    input = (struct berth_secret_input){.fields = BERTH_SECRET_DESCRIPTION, .description = "why"};
    assert_ok(f, update(f, id, &input));
    struct berth_secret *s = look_at_secret(f, id);
    assert_string_equal(s->name, "Renamed");
    assert_string_equal(s->key, "one");
    assert_string_equal(s->description, "why");
    assert_int_equal(s->status, BERTH_SECRET_ACTIVE);
    assert_value(f, id, 0, CANARY);
    assert_fails(f, BERTH_E_INVALID, "Nothing to change was given.",
                 update(f, id, &(struct berth_secret_input){0}));
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found", update(f, NOBODY, &input));
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found", update(f, "nonsense", &input));

    static const enum berth_secret_status off[] = {BERTH_SECRET_DISABLED, BERTH_SECRET_ARCHIVED};
    for (size_t i = 0; i < 2; i++) {
        input = (struct berth_secret_input){.fields = BERTH_SECRET_STATUS, .status = off[i]};
        assert_ok(f, update(f, id, &input));
        auto_locked got = BERTH_LOCKED_INIT;
        assert_fails(f, BERTH_E_UNPROCESSABLE, "Secret is not active",
                     resolve(f, f->b, id, 0, &got));
        assert_fails(f, BERTH_E_UNPROCESSABLE, "Cannot rotate a non-active secret",
                     berth_secret_rotate(f->b, &f->arena, id, "v", 1, NULL, &s, &f->err));
    }
    input.status = BERTH_SECRET_ACTIVE;
    assert_ok(f, update(f, id, &input));
    assert_value(f, id, 0, CANARY);
    assert_int_equal(count_activity(f, id, "secret.updated"), 5);
}

static void deleting_waits_for_those_who_need_it(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY), *out;
    run_sql(f, "DELETE FROM secret_bindings WHERE secret_id = $1", s->id);
    struct berth_environment *e = save(f, NULL, text(f, WITH_BOTH, s->id, s->id));
    assert_fails(f, BERTH_E_CONFLICT, "Secret \"key\" is used by 2 configs: \"berth secret usage\"",
                 berth_secret_delete(f->b, &f->arena, s->id, NULL, &out, &f->err));
    struct berth_lease *one = take_lease(f, e, make_run(f)), *two = take_lease(f, e, make_run(f));
    make_local(f, e);
    assert_fails(f, BERTH_E_CONFLICT,
                 "Secret \"key\" is needed by 2 leases: release them, and let the clean-up finish "
                 "(\"berth sweep\").",
                 berth_secret_delete(f->b, &f->arena, s->id, NULL, &out, &f->err));
    (void)give_lease(f, one, BERTH_LEASE_RELEASED);
    assert_fails(f, BERTH_E_CONFLICT, "is needed by 1 lease: release it",
                 berth_secret_delete(f->b, &f->arena, s->id, NULL, &out, &f->err));
    (void)give_lease(f, two, BERTH_LEASE_RELEASED);
    assert_ok(f, berth_secret_delete(f->b, &f->arena, s->id, NULL, &out, &f->err));
    assert_non_null(last_activity(f, s->id, "secret.deleted"));
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 berth_secret_delete(f->b, &f->arena, s->id, NULL, &out, &f->err));
    assert_int_equal(count_of(f, "secret_versions", "1 = 1"), 0);
    (void)make_text_secret(f, "key", "v"); /* the name is free again */
}

/* --- who may have it --- */

static void refusals_are_on_record(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY);
    make_company(f, NOBODY);
    struct berth_actor agent = {.type = "agent", .id = "a1"};
    struct berth_id unknown = berth_id_new();
    struct berth_resolve_request fine = {.company_id = f->b->company_id,
                                         .secret_id = s->id,
                                         .consumer_type = "test",
                                         .consumer_id = s->id,
                                         .config_path = "value",
                                         .issue_id = "issue-1",
                                         .run_id = "run-1",
                                         .actor = &agent};
    struct berth_resolve_request requests[6] = {fine, fine, fine, fine, fine, fine};
    requests[0].config_path = "other";
    requests[1].consumer_id = NOBODY;
    requests[2].consumer_type = "environment";
    requests[3].company_id = NOBODY;
    requests[4].config_path = NULL;
    requests[5].version = 7;
    const struct {
        int code;
        const char *text;
    } answers[6] = {
        {BERTH_E_UNPROCESSABLE, text(f, "Secret is not bound to test:%s at other", s->id)},
        {BERTH_E_UNPROCESSABLE, "Secret is not bound to test:" NOBODY " at value"},
        {BERTH_E_UNPROCESSABLE, text(f, "Secret is not bound to environment:%s at value", s->id)},
        {BERTH_E_NOT_FOUND, "Secret not found"},
        {BERTH_E_UNPROCESSABLE, "Secret resolution requires a binding config path"},
        {BERTH_E_NOT_FOUND, "Secret version not found"},
    };
    for (int i = 0; i < 6; i++) {
        auto_locked got = BERTH_LOCKED_INIT;
        assert_fails(f, answers[i].code, answers[i].text,
                     berth_secret_resolve(f->b, &requests[i], &got, &f->err));
        assert_null(got.bytes);
        const struct berth_secret_event *event = last_event(f, s->id);
        assert_false(event->success);
        assert_string_equal(event->error_code, answers[i].text);
        assert_string_equal(event->actor_type, "agent");
        assert_string_equal(event->actor_id, "a1");
        assert_string_equal(event->issue_id, "issue-1");
        assert_string_equal(event->heartbeat_run_id, "run-1");
        assert_string_equal(event->consumer_id, requests[i].consumer_id);
        assert_string_equal(event->company_id, requests[i].company_id);
    }
    assert_int_equal(look_at_secret(f, s->id)->last_resolved_at_ms, 0);
    requests[0].secret_id = unknown.text;
    auto_locked got = BERTH_LOCKED_INIT;
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 berth_secret_resolve(f->b, &requests[0], &got, &f->err));
    requests[0].secret_id = "nonsense";
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found",
                 berth_secret_resolve(f->b, &requests[0], &got, &f->err));

    assert_ok(f, berth_secret_resolve(f->b, &fine, &got, &f->err));
    const struct berth_secret_event *event = last_event(f, s->id);
    assert_true(event->success);
    assert_null(event->error_code);
    assert_int_equal(event->version, 1);
    assert_true(look_at_secret(f, s->id)->last_resolved_at_ms > 0);
}

static void events_outlive_the_secret(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY), *out;
    assert_value(f, s->id, 0, CANARY);
    run_sql(f, "DELETE FROM secret_bindings WHERE secret_id = $1", s->id);
    auto_locked got = BERTH_LOCKED_INIT;
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Secret is not bound to",
                 resolve(f, f->b, s->id, 0, &got));
    assert_ok(f, berth_secret_delete(f->b, &f->arena, s->id, NULL, &out, &f->err));
    assert_fails(f, BERTH_E_NOT_FOUND, "Secret not found", resolve(f, f->b, s->id, 0, &got));
    struct berth_list events;
    assert_ok(f, berth_secret_events(f->b, &f->arena, s->id, 0, 10, &events, &f->err));
    int all = events.count;
    assert_true(all >= 2);
    const struct berth_secret_event *newest = events.items[0], *oldest = events.items[all - 1];
    assert_true(oldest->success);
    assert_false(newest->success);
    assert_ok(f, berth_secret_events(f->b, &f->arena, s->id, newest->id, 10, &events, &f->err));
    assert_int_equal(events.count, all - 1);
    assert_int_equal(((const struct berth_secret_event *)events.items[all - 2])->id, oldest->id);
    assert_ok(f, berth_secret_events(f->b, &f->arena, s->id, oldest->id, 10, &events, &f->err));
    assert_int_equal(events.count, 0);
}

/* A lease whose secret cannot be had ends without a call, and is told why. */
static void lease_without_its_secret_fails(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY);
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, s->id));
    struct berth_lease *open = take_lease(f, e, make_run(f));
    int calls = scripted_calls(f->world, SCRIPTED_ACQUIRE);
    struct berth_secret_input input = {.fields = BERTH_SECRET_STATUS,
                                       .status = BERTH_SECRET_DISABLED};
    assert_ok(f, update(f, s->id, &input));
    assert_fails(f, BERTH_E_UNPROCESSABLE, "Secret is not active", try_lease(f, e, make_run(f)));
    assert_non_null(strstr(f->err.where, "config.apiKey"));
    assert_int_equal(scripted_calls(f->world, SCRIPTED_ACQUIRE), calls);
    struct berth_lease *failed = newest_lease(f, e);
    assert_int_equal(failed->status, BERTH_LEASE_FAILED);
    assert_int_equal(failed->due_at_ms, 0); /* nothing was made, nothing is owed */
    /* The open one stays owed until it can be paid. */
    struct berth_release_request request = {.lease_id = open->id, .status = BERTH_LEASE_RELEASED};
    struct berth_lease *out;
    (void)berth_lease_release(f->b, &f->arena, &request, &out, &f->err);
    assert_int_equal(scripted_count(f->world), 1);
    check_world(f);
    input.status = BERTH_SECRET_ACTIVE;
    assert_ok(f, update(f, s->id, &input));
    move_clock(INT64_C(3600000));
    (void)sweep(f);
    assert_int_equal(scripted_count(f->world), 0);
    assert_done(f, open, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(R9_lease_keeps_the_id_and_every_call_gets_the_value),
        TEST_ON_BOTH(R9_release_resolves_what_was_captured),
        TEST_ON_BOTH(owed_cleanup_resolves_what_was_captured),
        TEST_ON_BOTH(X6_saving_twice_binds_once),
        TEST_ON_BOTH(config_names_only_secrets_of_its_company),
        TEST_ON_BOTH(ids_in_capitals_are_ids),
        TEST_ON_BOTH(X12_plaintext_is_nowhere),
        TEST_ON_BOTH(pasted_values_become_secrets_of_the_environment),
        TEST_ON_BOTH(replaced_values_go),
        TEST_ON_BOTH(made_secret_that_others_use_stays),
        TEST_ON_BOTH(failed_create_leaves_nothing),
        TEST_ON_BOTH(value_for_a_provider_with_blanks_around),
        TEST_ON_BOTH(value_that_is_no_text_is_not_stored),
        TEST_ON_BOTH(create_says_what_is_wrong),
        TEST_ON_BOTH(values_are_any_bytes),
        TEST_ON_BOTH(versions_are_kept),
        TEST_ON_BOTH(updates_change_what_was_given),
        TEST_ON_BOTH(deleting_waits_for_those_who_need_it),
        TEST_ON_BOTH(refusals_are_on_record),
        TEST_ON_BOTH(events_outlive_the_secret),
        TEST_ON_BOTH(lease_without_its_secret_fails),
    };
    return cmocka_run_group_tests_name("secrets", tests, NULL, NULL);
}
