/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_shell.c - see place_shell.h. */
#include "core/workspace/place_shell.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "core/lease/lease.h"
#include "core/workspace/place_carry.h"
#include "core/workspace/place_command.h"

#define SILENCE_MS 300000

/* Returns whether the provider names bash as its shell, in the metadata of its place. */
static bool wants_bash(const struct berth_lease *lease)
{
    auto_json *metadata = NULL;
    struct berth_error ignored;
    const char *text = lease->metadata_json;
    if (!text || berth_json_parse(text, strlen(text), BERTH_JSON_FOREIGN, &metadata, &ignored) < 0)
        return false;
    const char *program = berth_json_str(berth_json_get(metadata, "shellCommand"));
    return program && strcmp(program, "bash") == 0;
}

int berth_place_shell_init(struct berth_place_shell *shell, struct berth *b,
                           struct berth_arena *arena, const char *lease_id, const char *directory,
                           int cancel_fd, struct berth_error *err)
{
    struct berth_lease *lease;
    const struct berth_route *route;
    int rc = berth_lease_begin_use(b, arena, lease_id, &lease, &route, err);
    if (rc < 0)
        return rc;
    const struct berth_route_plugin *plugin = route->plugin;
    size_t part_bytes = plugin ? plugin->part_bytes : 0;
    int part_count = plugin ? plugin->part_count : 0;
    *shell =
        (struct berth_place_shell){.b = b,
                                   .lease_id = lease_id,
                                   .program = wants_bash(lease) ? "bash" : "sh",
                                   .directory = directory,
                                   .cancel_fd = cancel_fd,
                                   .route = route,
                                   .streams = !berth_route_traits(route)->whole_stdin,
                                   .part_bytes = part_bytes ? part_bytes : BERTH_PLACE_PART_BYTES,
                                   .part_count = part_count ? part_count : 1};
    shell->carries = !shell->streams && berth_place_can_carry(b, route, cancel_fd);
    return BERTH_OK;
}

int berth_place_shell_start(struct berth_place_shell *shell, const char *text,
                            const char *const *args, bool with_stdin,
                            struct berth_place_command **out, struct berth_error *err)
{
    const char *argv[BERTH_PLACE_SHELL_ARGS_MAX + 5] = {shell->program, "-c", text, shell->program};
    for (int i = 0; args && args[i] && i < BERTH_PLACE_SHELL_ARGS_MAX; i++)
        argv[4 + i] = args[i];
    struct berth_place_command_options options = {.lease_id = shell->lease_id,
                                                  .argv = argv,
                                                  .with_stdin = with_stdin,
                                                  .silence_ms = SILENCE_MS,
                                                  .cancel_fd = shell->cancel_fd};
    shell->calls++;
    return berth_place_command_start(shell->b, &options, out, err);
}

int berth_place_shell_failed(const char *what, int exit_code, const char *words,
                             struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UPSTREAM, "Cannot %s in the place: %s (exit status %d).", what,
                      *words ? words : "the command gave no reason", exit_code);
}

static int read_text(struct berth_place_command *c, struct berth_buf *out, struct berth_error *err)
{
    const void *bytes;
    for (ssize_t got; (got = berth_place_command_read(c, &bytes, err)) != 0;) {
        if (got < 0)
            return (int)got;
        if (out)
            berth_buf_append(out, bytes, (size_t)got);
    }
    return out ? berth_buf_check(out, "Output of the place", err) : BERTH_OK;
}

int berth_place_shell_command(struct berth_place_shell *shell, const char *what, const char *text,
                              const char *const *args, struct berth_buf *out, int *exit_code,
                              struct berth_error *err)
{
    struct berth_place_command *c;
    struct berth_error trouble;
    char words[256];
    *exit_code = -1;
    int rc = berth_place_shell_start(shell, text, args, false, &c, err);
    if (rc < 0)
        return rc;
    rc = read_text(c, out, err);
    int ended = berth_place_command_finish(c, rc < 0, exit_code, words, &trouble);
    if (rc == BERTH_OK && ended < 0) {
        *err = trouble;
        rc = ended;
    }
    return rc == BERTH_OK && *exit_code != 0
               ? berth_place_shell_failed(what, *exit_code, words, err)
               : rc;
}
