/* SPDX-License-Identifier: Apache-2.0
 * examples/worker.c - a plugin worker whose places are directories, and whose commands run on this
 * machine. See docs/plugin-protocol.md. berth starts it in a directory of its own, its state. */
#define _GNU_SOURCE 1
#include <berth_plugin.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The parameters of every handler: what is asked, the answer to write, and the error to fill. */
#define ASKED                                                                                      \
    const struct berth_plugin_call *call, struct berth_json_writer *answer, struct berth_error *err

static int validate(ASKED)
{
    int64_t timeout_ms = berth_plugin_int(call->config, "timeoutMs", 300000);
    bool ok = timeout_ms > 0;
    (void)err;
    berth_json_put_bool(answer, "ok", ok);
    berth_json_open_in(answer, ok ? "normalizedConfig" : "errors", ok ? '{' : '[');
    if (ok)
        berth_json_put_int(answer, "timeoutMs", timeout_ms);
    else
        berth_json_put_str(answer, NULL, "timeoutMs must be larger than 0."); /* NULL: in a list */
    berth_json_close(answer, ok ? '}' : ']');
    return BERTH_OK;
}

/* The name of a place is its label, too: mkdir makes both in one step, so that a worker which is
 * killed leaves a place with a label or none. The same lease again gives the same place. */
static int acquire(ASKED)
{
    auto_buf id = BERTH_BUF_INIT(255);
    berth_buf_printf(&id, "%s.%s", call->environment_id, call->lease_id);
    const char *name = berth_buf_str(&id); /* NULL: it became too long */
    if (!name || (mkdir(name, 0700) < 0 && access(name, F_OK) < 0))
        return berth_fail_errno(err, "Cannot create the place");
    berth_json_put_str(answer, "providerLeaseId", name);
    return BERTH_OK;
}

/* Lists the places of the environment, also those that another worker made. */
static int find(ASKED)
{
    DIR *state = opendir(".");
    size_t len = strlen(call->environment_id);
    for (const struct dirent *e; state && (e = readdir(state));)
        if (strncmp(e->d_name, call->environment_id, len) == 0 && e->d_name[len] == '.')
            berth_plugin_put_found(answer, e->d_name + len + 1, e->d_name);
    return state && closedir(state) == 0 ? BERTH_OK : berth_fail_errno(err, "Cannot list places");
}

static int realize(ASKED)
{
    char path[4096], *cwd = realpath(call->provider_lease_id, path);
    berth_json_put_str(answer, "cwd", cwd);
    return cwd ? BERTH_OK : berth_fail_errno(err, "Cannot find the place");
}

static int execute(ASKED)
{
    if (access(call->provider_lease_id, F_OK) < 0)
        return berth_fail_errno(err, "Cannot find the place");
    return berth_plugin_execute(call, call->provider_lease_id, answer, err);
}

/* Succeeds also when the place no longer exists: berth asks again when an answer was lost. */
static int destroy(ASKED)
{
    const char *id = call->provider_lease_id;
    const char *const argv[] = {"rm", "-rf", "--", strchr(id, '/') ? "" : id, NULL};
    struct berth_plugin_command remove = {.argv = argv};
    struct berth_plugin_result result;
    (void)answer;
    int rc = berth_plugin_run(call, &remove, &result, err);
    if (rc == BERTH_OK && result.exit_code != 0)
        rc = berth_fail(err, BERTH_E_INTERNAL, "Cannot remove the place: %s",
                        berth_buf_str(&result.streams[1]));
    berth_plugin_result_clear(&result);
    return rc;
}

int main(void)
{
    static const struct berth_plugin plugin = {.name = "Example",
                                               .validate_config = validate,
                                               .acquire = acquire,
                                               .find = find,
                                               .realize = realize,
                                               .execute = execute,
                                               .release = destroy,
                                               .destroy = destroy};
    return berth_plugin_main(&plugin);
}
