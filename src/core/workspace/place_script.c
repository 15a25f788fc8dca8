/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_script.c - see place_script.h. */
#include "core/workspace/place_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/id.h"
#include "core/workspace/place_command.h"
#include "core/workspace/place_transfer.h"

/* --- places with byte streams --- */

static int put_stdin(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    return berth_place_command_write(ctx, bytes, len, err);
}

static bool stdin_is_over(void *ctx)
{
    return berth_place_command_is_over(ctx);
}

static ssize_t get_stdout(void *ctx, const void **bytes, struct berth_error *err)
{
    return berth_place_command_read(ctx, bytes, err);
}

static int run_streaming(struct berth_place_shell *shell, const struct berth_place_script *s,
                         int *exit_code, struct berth_error *err)
{
    struct berth_place_command *c;
    struct berth_error trouble;
    char words[256];
    int rc = berth_place_shell_start(shell, s->text, s->args, s->feed != NULL, &c, err);
    if (rc < 0)
        return rc;
    if (s->feed) {
        rc = s->feed(s->ctx, &(struct berth_pack_sink){put_stdin, c, stdin_is_over}, err);
        if (rc == BERTH_OK)
            berth_place_command_close_stdin(c);
    }
    if (rc == BERTH_OK && s->take)
        rc = s->take(s->ctx, &(struct berth_unpack_source){get_stdout, c}, err);
    /* When the place gave up, its own words say more than the broken pipe. */
    bool abandon = rc < 0 && rc != BERTH_E_UPSTREAM && rc != BERTH_E_INVALID;
    int ended = berth_place_command_finish(c, abandon, exit_code, words, &trouble);
    if (!abandon && ended < 0) {
        *err = trouble;
        return ended;
    }
    if (!abandon && *exit_code != 0)
        return berth_place_shell_failed(s->what, *exit_code, words, err);
    return rc;
}

/* --- places that only run commands --- */

/* Reads "SIZE", which the hash may follow. */
static int parse_output(const struct berth_buf *text, const char *what,
                        struct berth_place_output *out, struct berth_error *err)
{
    char *end;
    long long n = strtoll(berth_buf_str(text), &end, 10);
    if (end == berth_buf_str(text) || n < 0)
        return berth_fail(err, BERTH_E_UPSTREAM, "Cannot %s in the place: its answer is cut.",
                          what);
    *out = (struct berth_place_output){.size = n};
    end += strspn(end, "\r\n\t ");
    if (strspn(end, "0123456789abcdef") == BERTH_SHA256_HEX_SIZE - 1)
        memcpy(out->hex, end, BERTH_SHA256_HEX_SIZE - 1);
    return BERTH_OK;
}

/* Refuses a link in the place of the directory above $1, which a command may have put there. */
#define NO_LINK                                                                                    \
    "[ ! -h \"${1%/*}\" ] || { echo \"${1%/*} is a symbolic link: remove it\" >&2; exit 47; }; "

/* Runs the script with the file PATH as its input and PATH.out as its output. */
static int run_on_files(struct berth_place_shell *shell, const struct berth_place_script *s,
                        const char *path, struct berth_place_output *output, int *exit_code,
                        struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_buf out = BERTH_BUF_INIT(4096);
    const char *args[BERTH_PLACE_SHELL_ARGS_MAX + 1] = {path, s->feed ? path : "/dev/null"};
    for (int i = 0; s->args && s->args[i] && i < BERTH_PLACE_SHELL_ARGS_MAX - 2; i++)
        args[i + 2] = s->args[i];
    static const char hash_script[] =
        " ! command -v sha256sum >/dev/null || sha256sum < \"$f.out\"";
    /* The script has "$@" as its caller gave it. A subshell: it may exit. */
    const char *text =
        berth_arena_printf(&arena,
                           "f=$1; i=$2; shift 2; ( %s\n) < \"$i\" > \"$f.out\"; r=$?;"
                           " [ $r = 0 ] || exit $r; wc -c < \"$f.out\" || exit;%s",
                           s->text, shell->carries ? hash_script : "");
    if (!text)
        return berth_arena_check(&arena, err);
    int rc = berth_place_shell_command(shell, s->what, text, args, &out, exit_code, err);
    if (rc < 0)
        return rc;
    return parse_output(&out, s->what, output, err);
}

static int run_by_files(struct berth_place_shell *shell, const struct berth_place_script *s,
                        int *exit_code, struct berth_error *err)
{
    struct berth_id id = berth_id_new_random();
    char path[4352];
    const char *const make[] = {shell->directory, NULL}, *const left[] = {path, NULL};
    struct berth_place_output output = {0};
    int ignored;
    struct berth_error none;
    (void)snprintf(path, sizeof path, "%s/%s", shell->directory, id.text);
    int rc = berth_place_shell_command(
        shell, "make a directory",
        shell->has_leftovers ? NO_LINK "rm -rf \"$1\"; mkdir -p \"$1\"" : NO_LINK "mkdir -p \"$1\"",
        make, NULL, &ignored, err);
    if (rc == BERTH_OK)
        shell->has_leftovers = false;
    if (rc == BERTH_OK && s->feed)
        rc = berth_place_upload(shell, s, path, err);
    if (rc == BERTH_OK)
        rc = run_on_files(shell, s, path, &output, exit_code, err);
    if (rc == BERTH_OK && s->take)
        rc = berth_place_download(shell, s, path, &output, err);
    int cancel_fd = shell->cancel_fd;
    shell->cancel_fd = -1; /* also after the caller has given up */
    (void)berth_place_shell_command(shell, "remove files", "rm -f \"$1\" \"$1\".*", left, NULL,
                                    &ignored, &none);
    shell->cancel_fd = cancel_fd;
    return rc;
}

int berth_place_script_run(struct berth_place_shell *shell, const struct berth_place_script *script,
                           int *exit_code, struct berth_error *err)
{
    *exit_code = -1;
    if (shell->run)
        return shell->run(shell, script, exit_code, err);
    return shell->streams ? run_streaming(shell, script, exit_code, err)
                          : run_by_files(shell, script, exit_code, err);
}

int berth_place_script_take_text(void *ctx, const struct berth_unpack_source *source,
                                 struct berth_error *err)
{
    struct berth_buf *out = ctx;
    const void *bytes;
    for (ssize_t got; (got = source->get(source->ctx, &bytes, err)) != 0;) {
        if (got < 0)
            return (int)got;
        berth_buf_append(out, bytes, (size_t)got);
    }
    return berth_buf_check(out, "The text that the place sent", err);
}
