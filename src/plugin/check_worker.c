/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check_worker.c - checks of the worker itself: how it starts, reads messages, judges a
 * config, and ends. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "plugin/check_trial.h"

#define SHUTDOWN_MS 10000
#define EXIT_MS 2000
#define UNDER_WAY_MS 300 /* a command has begun by then */
#define LONG_LINE_BYTES ((size_t)4 * 1024 * 1024)

static const char *trial_validate_params(struct berth_trial *t, const char *padding)
{
    struct berth_json_writer w = berth_trial_open_json(t);
    berth_json_put_str(&w, "driverKey", t->driver_key);
    berth_json_put_raw(&w, "config", t->config_json);
    if (padding)
        berth_json_put_str(&w, "padding", padding);
    return berth_trial_close_json(t, &w);
}

bool berth_check_initialize(struct berth_trial *t)
{
    static const char *const needed[] = {"environmentAcquireLease", "environmentReleaseLease",
                                         "environmentRealizeWorkspace", "environmentExecute"};
    if (!berth_trial_start(t))
        return false;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!berth_trial_has(t, needed[i]))
            return berth_trial_wrong(t, "supportedMethods does not list %s", needed[i]);
    auto_reply again = berth_session_ask(t->s, "initialize", "{\"manifest\":{},\"config\":{}}",
                                         BERTH_TRIAL_QUICK_MS);
    return berth_trial_is_error(&again)
               ? true
               : berth_trial_wrong(t, "a second initialize was not refused");
}

bool berth_check_health(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "health", "{}", BERTH_TRIAL_QUICK_MS);
    if (!berth_trial_answered(t, "health", &r))
        return false;
    const char *status = berth_json_str(berth_json_get(r.result, "status"));
    return status && (strcmp(status, "ok") == 0 || strcmp(status, "degraded") == 0)
               ? true
               : berth_trial_wrong(t, "health answered status %s", status ? status : "(none)");
}

bool berth_check_unknown_method(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "environmentTeleport", "{}", BERTH_TRIAL_QUICK_MS);
    if (r.kind == BERTH_REPLY_TIMEOUT)
        return berth_trial_wrong(t, "an unknown method was never answered");
    return berth_trial_is_error(&r) &&
                   (r.code == BERTH_RPC_NO_METHOD || r.code == BERTH_RPC_NOT_IMPLEMENTED)
               ? true
               : berth_trial_wrong(t, "an unknown method gave code %lld, not -32601",
                                   (long long)r.code);
}

bool berth_check_garbage(struct berth_trial *t)
{
    static const char *const lines[] = {"this is not json\n",
                                        "\n",
                                        "{\"jsonrpc\":\"2.0\"\n",
                                        "[1,2,3]\n",
                                        "null\n",
                                        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"health\"}\n",
                                        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"health\"}\n",
                                        "{\"jsonrpc\":\"2.0\",\"method\":\"no.such.thing\"}\n",
                                        "\xff\xfe\x80\n",
                                        "   \r\n"};
    if (!berth_trial_start(t))
        return false;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        berth_session_write(t->s, lines[i], strlen(lines[i]));
    auto_reply r = berth_session_ask(t->s, "health", "{}", BERTH_TRIAL_QUICK_MS);
    if (r.kind != BERTH_REPLY_RESULT)
        return berth_trial_wrong(t, "after lines that are no messages it is of no more use: %s",
                                 r.text);
    return true;
}

bool berth_check_long_line(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    size_t len = LONG_LINE_BYTES;
    auto_free char *text = malloc(len + 1);
    if (!text)
        return berth_trial_wrong(t, "out of memory");
    memset(text, 'x', len);
    text[len] = '\0';
    auto_reply r = berth_session_ask(t->s, "environmentValidateConfig",
                                     trial_validate_params(t, text), BERTH_TRIAL_ASK_MS);
    if (r.kind == BERTH_REPLY_TIMEOUT || r.kind == BERTH_REPLY_GONE)
        return berth_trial_wrong(t, "a request of 4 MiB: %s", r.text);
    return true;
}

bool berth_check_validate(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    if (!berth_trial_has(t, "environmentValidateConfig"))
        return berth_trial_skip(t, "it does not offer environmentValidateConfig");
    auto_reply r = berth_session_ask(t->s, "environmentValidateConfig",
                                     trial_validate_params(t, NULL), BERTH_TRIAL_ASK_MS);
    if (!berth_trial_answered(t, "environmentValidateConfig", &r))
        return false;
    if (!berth_json_is(berth_json_get(r.result, "ok"), BERTH_JSON_BOOL))
        return berth_trial_wrong(t, "environmentValidateConfig answered without ok: true or false");
    if (!berth_json_true(berth_json_get(r.result, "ok"))) {
        const struct berth_json *errors = berth_json_get(r.result, "errors");
        const char *first = berth_json_str(berth_json_at(errors, 0));
        return berth_trial_wrong(t, "it refuses the config (give a good one by --config): %s",
                                 first ? first : "(no reason)");
    }
    return true;
}

bool berth_check_unknown_keys(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    auto_json *config = NULL;
    struct berth_error err;
    if (berth_json_parse(t->config_json, strlen(t->config_json), BERTH_JSON_OURS, &config, &err) <
            0 ||
        !berth_json_set(config, "berthCheckUnknownKey", berth_json_new_str("x")))
        return berth_trial_wrong(t, "the config cannot be read");
    const char *plain = t->config_json;
    t->config_json = berth_json_canonical_in(&t->arena, config);
    bool ok = berth_trial_acquire(t) && berth_trial_finish(t);
    t->config_json = plain;
    return ok ? true : berth_trial_wrong(t, "unknown config keys and params are not ignored");
}

bool berth_check_probe(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    if (!berth_trial_has(t, "environmentProbe"))
        return berth_trial_skip(t, "it does not offer environmentProbe");
    auto_reply r =
        berth_session_ask(t->s, "environmentProbe", berth_trial_params(t), BERTH_TRIAL_ASK_MS);
    if (!berth_trial_answered(t, "environmentProbe", &r))
        return false;
    return berth_json_is(berth_json_get(r.result, "ok"), BERTH_JSON_BOOL)
               ? true
               : berth_trial_wrong(t, "environmentProbe answered without ok: true or false");
}

bool berth_check_kill(struct berth_trial *t)
{
    if (!berth_trial_begin(t))
        return false;
    struct berth_trial_command c = {.script = "sleep 5", .timeout_ms = 8000};
    struct berth_session_question *busy = berth_trial_begin_execute(t, &c, NULL);
    (void)usleep(UNDER_WAY_MS * 1000);
    berth_session_kill(t->s);
    auto_reply lost = berth_session_await(busy);
    if (lost.kind != BERTH_REPLY_GONE)
        return berth_trial_wrong(t, "a kill in the middle of execute was answered all the same");
    berth_trial_stop(t);
    if (!berth_trial_start(t) || !berth_trial_finish(t)) {
        t->detail[0] = '\0';
        return berth_trial_wrong(t, "a new worker cannot end a place that a killed one made");
    }
    bool found = false;
    if (berth_trial_has(t, "environmentFindLeases") && !berth_trial_find_place(t, &found))
        return false;
    return found ? berth_trial_wrong(
                       t, "a place that a killed worker made is still there when a new one has "
                          "said that it ended it")
                 : true;
}

bool berth_check_shutdown(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    auto_reply r = berth_session_ask(t->s, "shutdown", "{}", SHUTDOWN_MS);
    if (r.kind == BERTH_REPLY_TIMEOUT)
        return berth_trial_wrong(t, "shutdown was not answered within 10 s");
    if (!berth_session_wait_end(t->s, EXIT_MS))
        return berth_trial_wrong(t, "it does not end after shutdown");
    return t->s->end.exit_code == 0 ? true
                                    : berth_trial_wrong(t, "after shutdown it ended with status %d",
                                                        t->s->end.exit_code);
}

bool berth_check_hang_up(struct berth_trial *t)
{
    if (!berth_trial_start(t))
        return false;
    berth_session_hang_up(t->s);
    return berth_session_wait_end(t->s, EXIT_MS)
               ? true
               : berth_trial_wrong(
                     t, "it does not end when its stdin does: it would outlive its host");
}

bool berth_check_clean_stdout(struct berth_trial *t)
{
    if (!berth_trial_begin(t) || !berth_trial_finish(t))
        return false;
    return t->s->noise == 0
               ? true
               : berth_trial_wrong(t, "it prints on stdout what is no message: %s", t->s->odd);
}
