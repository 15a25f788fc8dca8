/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check.c - the list of checks, and how they are run. Each starts a worker of its own,
 * and gives back the places that it acquires. See check.h and check_trial.h. */
#include "plugin/check.h"

#include <string.h>

#include "base/limits.h"
#include "plugin/check_trial.h"

static const struct {
    const char *name, *about;
    berth_trial_fn *run;
} checks[] = {
    {"initialize", "starts, says what it offers, refuses to start twice", berth_check_initialize},
    {"health", "answers health", berth_check_health},
    {"unknown-method", "refuses what it does not know, at once", berth_check_unknown_method},
    {"garbage", "survives lines that are no messages", berth_check_garbage},
    {"long-line", "reads a request of 4 MiB", berth_check_long_line},
    {"validate", "accepts the config", berth_check_validate},
    {"unknown-keys", "ignores config keys and params that it does not know",
     berth_check_unknown_keys},
    {"probe", "probes", berth_check_probe},
    {"lease", "acquires, releases, destroys", berth_check_lease},
    {"double-release", "takes a second release for a success", berth_check_double_release},
    {"double-destroy", "takes a second destroy for a success", berth_check_double_destroy},
    {"resume", "resumes a live place under its own id", berth_check_resume},
    {"stale-resume", "says of a place that is gone that it is", berth_check_stale_resume},
    {"realize", "makes a workspace", berth_check_realize},
    {"execute", "runs a command: status, streams, stdin, env, cwd", berth_check_execute},
    {"text", "hands on any output", berth_check_text},
    {"stream", "streams output as its answer has it, or none", berth_check_stream},
    {"timeout", "ends a command at its timeoutMs", berth_check_timeout},
    {"missing-program", "says that a program is not there", berth_check_missing_program},
    {"unknown-lease", "survives a place that it does not know", berth_check_unknown_lease},
    {"concurrency", "answers while a slow command runs", berth_check_concurrency},
    {"cancel", "lets a command be ended by another", berth_check_cancel},
    {"find", "finds its places by their labels", berth_check_find},
    {"same-lease", "makes one place for one lease, however often it is asked",
     berth_check_same_lease},
    {"kill", "gives back what a killed worker had made", berth_check_kill},
    {"shutdown", "ends when it is told to", berth_check_shutdown},
    {"hang-up", "ends when its host is gone", berth_check_hang_up},
    {"clean-stdout", "prints nothing but messages on stdout", berth_check_clean_stdout},
};
#define CHECKS (sizeof checks / sizeof checks[0])

static bool check_is_wanted(const char *const *only, const char *name)
{
    if (!only || !*only)
        return true;
    for (; *only; only++)
        if (strcmp(*only, name) == 0)
            return true;
    return false;
}

static int check_names(const char *const *only, struct berth_error *err)
{
    for (; only && *only; only++) {
        size_t i = 0;
        while (i < CHECKS && strcmp(checks[i].name, *only) != 0)
            i++;
        if (i == CHECKS)
            return berth_fail(err, BERTH_E_INVALID, "There is no check \"%s\".", *only);
    }
    return BERTH_OK;
}

static void trial_run(size_t i, const struct berth_trial *like,
                      void (*each)(void *ctx, const struct berth_check_result *result), void *ctx)
{
    struct berth_trial t = *like;
    t.company = berth_id_new();
    t.environment = berth_id_new();
    t.run = berth_id_new_random();
    t.lease = berth_id_new_random();
    t.workspace = berth_id_new_random();
    bool ok = checks[i].run(&t) && !t.arena.failed;
    struct berth_check_result result = {.name = checks[i].name,
                                        .about = checks[i].about,
                                        .outcome = ok          ? BERTH_CHECK_PASSED
                                                   : t.skipped ? BERTH_CHECK_SKIPPED
                                                               : BERTH_CHECK_FAILED,
                                        .detail = ok ? "" : t.detail};
    each(ctx, &result);
    berth_trial_clear(&t);
}

int berth_plugin_check(struct berth_engine *engine, const struct berth_check_request *request,
                       void (*each)(void *ctx, const struct berth_check_result *result), void *ctx,
                       struct berth_error *err)
{
    const struct berth_json *m = request->manifest;
    const struct berth_json *driver = berth_json_at(berth_json_get(m, "environmentDrivers"), 0);
    const char *key = berth_json_str(berth_json_get(driver, "driverKey"));
    const char *worker = berth_json_str(berth_json_get(berth_json_get(m, "entrypoints"), "worker"));
    int rc = check_names(request->only, err);
    if (rc == BERTH_OK && (!key || !worker))
        rc = berth_fail(err, BERTH_E_INVALID, "The plugin declares no environment driver.");
    if (rc < 0)
        return rc;
    auto_arena arena = BERTH_ARENA_INIT;
    const char *entry =
        worker[0] == '/' ? worker : berth_arena_printf(&arena, "%s/%s", request->package, worker);
    rc = berth_arena_check(&arena, err);
    if (rc < 0)
        return rc;
    struct berth_trial like = {
        .engine = engine,
        .manifest = request->manifest,
        .json = BERTH_BUF_INIT(BERTH_MESSAGE_BYTES_MAX),
        .driver_key = key,
        .config_json = request->config_json,
        .spec = {.plugin_key = berth_json_str(berth_json_get(m, "id")),
                 .package = request->package,
                 .entry = entry,
                 .manifest_json = "{}",
                 .config_json = "{}",
                 .state = request->scratch,
                 .unconfined = request->unconfined},
    };
    for (size_t i = 0; i < CHECKS; i++)
        if (check_is_wanted(request->only, checks[i].name))
            trial_run(i, &like, each, ctx);
    return BERTH_OK;
}
