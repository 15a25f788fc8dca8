/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_shell.c - see place_shell.h. */
#include "core/workspace/place_shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/hex.h"
#include "base/id.h"
#include "base/json.h"
#include "core/driver.h"
#include "core/lease/lease.h"
#include "core/workspace/place_command.h"

#define SILENCE_MS 300000
#define ARGS_MAX 32
/* Text in one argument: Linux allows 128 KiB, and some providers less in all. */
#define PART_BYTES ((size_t)96 * 1024)
#define PART_BYTES_MIN ((size_t)3 * 1024)
#define PARTS_MAX 10 /* arguments of this size in one command: below 1 MiB */
#define PARTS_FILES_MAX 999999
#define TAKEN_BYTES ((size_t)3 << 20) /* of a file that one command reads */
#define TEXT_BYTES_MAX (2 * TAKEN_BYTES)

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
    *shell = (struct berth_place_shell){.b = b,
                                        .lease_id = lease_id,
                                        .program = wants_bash(lease) ? "bash" : "sh",
                                        .directory = directory,
                                        .cancel_fd = cancel_fd,
                                        .streams = !berth_route_traits(route)->whole_stdin,
                                        .part_bytes = PART_BYTES,
                                        .part_count = 1};
    return BERTH_OK;
}

/* --- one command --- */

static int shell_start(struct berth_place_shell *shell, const char *text, const char *const *args,
                       bool with_stdin, struct berth_place_command **out, struct berth_error *err)
{
    const char *argv[ARGS_MAX + 5] = {shell->program, "-c", text, shell->program};
    for (int i = 0; args && args[i] && i < ARGS_MAX; i++)
        argv[4 + i] = args[i];
    struct berth_place_command_options options = {.lease_id = shell->lease_id,
                                                  .argv = argv,
                                                  .with_stdin = with_stdin,
                                                  .silence_ms = SILENCE_MS,
                                                  .cancel_fd = shell->cancel_fd};
    shell->calls++;
    return berth_place_command_start(shell->b, &options, out, err);
}

static int script_failed(const char *what, int exit_code, const char *words,
                         struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UPSTREAM, "Cannot %s in the place: %s (exit status %d).", what,
                      *words ? words : "the command gave no reason", exit_code);
}

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
    int rc = shell_start(shell, s->text, s->args, s->feed != NULL, &c, err);
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
        return script_failed(s->what, *exit_code, words, err);
    return rc;
}

/* --- places that only run commands --- */

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

/* Runs a command without input. `out` receives its output, or is NULL. */
static int run_plain(struct berth_place_shell *shell, const char *what, const char *text,
                     const char *const *args, struct berth_buf *out, int *exit_code,
                     struct berth_error *err)
{
    struct berth_place_command *c;
    struct berth_error trouble;
    char words[256];
    *exit_code = -1;
    int rc = shell_start(shell, text, args, false, &c, err);
    if (rc < 0)
        return rc;
    rc = read_text(c, out, err);
    int ended = berth_place_command_finish(c, rc < 0, exit_code, words, &trouble);
    if (rc == BERTH_OK && ended < 0) {
        *err = trouble;
        rc = ended;
    }
    return rc == BERTH_OK && *exit_code != 0 ? script_failed(what, *exit_code, words, err) : rc;
}

/* Bytes on their way to a file in the place. */
struct upload {
    struct berth_place_shell *shell;
    const char *path; /* PATH.paperclip-upload.b64.NUMBER are the parts */
    char *bytes;      /* not sent yet */
    size_t len, cap;
    int parts;
    struct berth_sha256_stream *digest;
};

/* Sends `len` bytes as one part: as base64, in several arguments. A part that is sent again
 * replaces the first one, so a command may be repeated. */
static int send_part(struct upload *u, const char *bytes, size_t len, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    const char *args[PARTS_MAX + 2] = {0};
    size_t step = u->shell->part_bytes / 4 * 3;
    int count = 0, exit_code;
    args[count++] = berth_arena_printf(&arena, "%s.paperclip-upload.b64.%06d", u->path, u->parts);
    for (size_t at = 0; at < len; at += step) {
        size_t n = len - at < step ? len - at : step;
        char *text = berth_arena_alloc(&arena, BERTH_BASE64_SIZE(n));
        if (text)
            berth_base64_encode(bytes + at, n, text);
        args[count++] = text;
    }
    int rc = berth_arena_check(&arena, err);
    return rc < 0 ? rc
                  : run_plain(u->shell, "write files", "f=$1; shift; printf %s \"$@\" > \"$f\"",
                              args, NULL, &exit_code, err);
}

/* Sends one part from the beginning of the bytes. Commands become longer while that works, and
 * shorter when the place refuses one. */
static int upload_step(struct upload *u, struct berth_error *err)
{
    for (;;) {
        struct berth_place_shell *shell = u->shell;
        size_t most = shell->part_bytes / 4 * 3 * (size_t)shell->part_count;
        size_t len = u->len < most ? u->len : most;
        int rc = send_part(u, u->bytes, len, err);
        if (rc == BERTH_OK) {
            memmove(u->bytes, u->bytes + len, u->len - len);
            u->len -= len;
            u->parts++;
            if (len == most && shell->part_bytes == PART_BYTES)
                shell->part_count = PARTS_MAX;
            return BERTH_OK;
        }
        if (rc == BERTH_E_CANCELLED || rc == BERTH_E_TIMEOUT || rc == BERTH_E_NO_MEMORY ||
            rc == BERTH_E_CONFLICT || rc == BERTH_E_NOT_FOUND)
            return rc;
        if (shell->part_count > 1)
            shell->part_count = 1;
        else if (shell->part_bytes > PART_BYTES_MIN)
            shell->part_bytes /= 2;
        else
            return rc;
    }
}

static int put_upload(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    struct upload *u = ctx;
    const char *at = bytes;
    berth_sha256_stream_put(u->digest, bytes, len);
    while (len) {
        size_t n = u->cap - u->len < len ? u->cap - u->len : len;
        memcpy(u->bytes + u->len, at, n);
        u->len += n;
        at += n;
        len -= n;
        int rc = u->len == u->cap ? upload_step(u, err) : BERTH_OK;
        if (rc < 0)
            return rc;
        if (u->parts > PARTS_FILES_MAX)
            return berth_fail(err, BERTH_E_TOO_LARGE,
                              "There are too many bytes for a place that only runs commands.");
    }
    return BERTH_OK;
}

/* Joins the parts to the file, and checks its hash where the place can. */
static int join_parts(struct upload *u, struct berth_error *err)
{
    unsigned char hash[BERTH_SHA256_SIZE];
    char hex[BERTH_SHA256_HEX_SIZE], count[16];
    const char *const args[] = {u->path, hex, count, NULL};
    int exit_code;
    berth_sha256_stream_end(u->digest, hash);
    berth_hex_write(hash, sizeof hash, hex);
    (void)snprintf(count, sizeof count, "%d", u->parts);
    return run_plain(
        u->shell, "write files",
        "set -- \"$1\" \"$2\" \"$3\" \"$1\".paperclip-upload.b64.*; f=$1; h=$2; n=$3; shift 3;"
        " command -v base64 >/dev/null || { echo base64 is missing there >&2; exit 3; };"
        " [ \"$n\" = 0 ] && { : > \"$f\"; exit 0; };"
        " [ $# = \"$n\" ] || { echo parts are missing >&2; exit 3; };"
        " cat \"$@\" | base64 -d > \"$f\" || exit; rm -f \"$@\";"
        " command -v sha256sum >/dev/null || exit 0;"
        " set -- $(sha256sum < \"$f\"); [ \"$1\" = \"$h\" ] ||"
        " { echo what arrived is not what was sent >&2; exit 3; }",
        args, NULL, &exit_code, err);
}

/* Stores what `feed` gives in a file of the place. */
static int upload_file(struct berth_place_shell *shell, const struct berth_place_script *s,
                       const char *path, struct berth_error *err)
{
    struct upload u = {.shell = shell, .path = path, .cap = PART_BYTES / 4 * 3 * PARTS_MAX};
    auto_free char *bytes = malloc(u.cap);
    u.bytes = bytes;
    if (!bytes)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: sending files.");
    int rc = berth_sha256_stream_new(&u.digest, err);
    if (rc < 0)
        return rc;
    berth_sha256_stream_begin(u.digest);
    rc = s->feed(s->ctx, &(struct berth_pack_sink){put_upload, &u}, err);
    while (rc == BERTH_OK && u.len)
        rc = upload_step(&u, err);
    if (rc == BERTH_OK)
        rc = join_parts(&u, err);
    berth_sha256_stream_free(u.digest);
    return rc;
}

/* Bytes on their way from a file in the place. */
struct download {
    struct berth_place_shell *shell;
    const char *path; /* without ".out" */
    int64_t at, size;
    struct berth_buf text;
    char *bytes;
};

/* Decodes base64 that may be broken into lines, in place. */
static int decode_text(struct berth_buf *text, char *out, size_t *len, struct berth_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < text->len; i++)
        if (!strchr("\r\n\t ", text->data[i]))
            text->data[n++] = text->data[i];
    berth_buf_truncate(text, n);
    if (!berth_base64_length(berth_buf_str(text), n, len) || *len > TAKEN_BYTES ||
        !berth_base64_decode(berth_buf_str(text), n, out))
        return berth_fail(err, BERTH_E_UPSTREAM, "The place sent output that is not base64.");
    return BERTH_OK;
}

static ssize_t get_download(void *ctx, const void **bytes, struct berth_error *err)
{
    struct download *d = ctx;
    char from[32], most[32];
    const char *const args[] = {d->path, from, most, NULL};
    size_t len = 0;
    int exit_code;
    if (d->at >= d->size)
        return 0;
    (void)snprintf(from, sizeof from, "%lld", (long long)d->at + 1);
    (void)snprintf(most, sizeof most, "%zu", TAKEN_BYTES);
    berth_buf_truncate(&d->text, 0);
    int rc = run_plain(d->shell, "read files",
                       "for p in tail head base64; do command -v $p >/dev/null ||"
                       " { echo $p is missing there >&2; exit 3; }; done;"
                       " tail -c +\"$2\" \"$1.out\" | head -c \"$3\" | base64",
                       args, &d->text, &exit_code, err);
    if (rc == BERTH_OK)
        rc = decode_text(&d->text, d->bytes, &len, err);
    if (rc < 0)
        return rc;
    int64_t left = d->size - d->at;
    if ((int64_t)len != (left < (int64_t)TAKEN_BYTES ? left : (int64_t)TAKEN_BYTES))
        return berth_fail(err, BERTH_E_UPSTREAM,
                          "The place sent %zu bytes of a file instead of %lld. Try again.", len,
                          (long long)(left < (int64_t)TAKEN_BYTES ? left : (int64_t)TAKEN_BYTES));
    d->at += (int64_t)len;
    *bytes = d->bytes;
    return (ssize_t)len;
}

/* Hands the file PATH.out of the place, of `size` bytes, to `take`. */
static int download_file(struct berth_place_shell *shell, const struct berth_place_script *s,
                         const char *path, int64_t size, struct berth_error *err)
{
    auto_free char *bytes = malloc(TAKEN_BYTES);
    struct download d = {.shell = shell,
                         .path = path,
                         .size = size,
                         .text = BERTH_BUF_INIT(TEXT_BYTES_MAX),
                         .bytes = bytes};
    if (!bytes)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: reading files.");
    int rc = s->take(s->ctx, &(struct berth_unpack_source){get_download, &d}, err);
    berth_buf_clear(&d.text);
    return rc;
}

/* Runs the script with the file PATH as its input and PATH.out as its output. *size is the length
 * of the output. */
static int run_on_files(struct berth_place_shell *shell, const struct berth_place_script *s,
                        const char *path, int64_t *size, int *exit_code, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_buf out = BERTH_BUF_INIT(4096);
    const char *args[ARGS_MAX + 1] = {path, s->feed ? path : "/dev/null"};
    for (int i = 0; s->args && s->args[i] && i < ARGS_MAX - 2; i++)
        args[i + 2] = s->args[i];
    /* The script has "$@" as its caller gave it. A subshell: it may exit. */
    const char *text =
        berth_arena_printf(&arena,
                           "f=$1; i=$2; shift 2; ( %s\n) < \"$i\" > \"$f.out\"; r=$?;"
                           " [ $r = 0 ] || exit $r; wc -c < \"$f.out\"",
                           s->text);
    if (!text)
        return berth_arena_check(&arena, err);
    int rc = run_plain(shell, s->what, text, args, &out, exit_code, err);
    if (rc < 0)
        return rc;
    char *end;
    long long n = strtoll(berth_buf_str(&out), &end, 10);
    if (end == berth_buf_str(&out) || n < 0)
        return berth_fail(err, BERTH_E_UPSTREAM, "Cannot %s in the place: its answer is cut.",
                          s->what);
    *size = n;
    return BERTH_OK;
}

static int run_by_files(struct berth_place_shell *shell, const struct berth_place_script *s,
                        int *exit_code, struct berth_error *err)
{
    struct berth_id id = berth_id_new_random();
    char path[4352];
    const char *const make[] = {shell->directory, NULL}, *const left[] = {path, NULL};
    int64_t size = 0;
    int ignored;
    struct berth_error none;
    (void)snprintf(path, sizeof path, "%s/%s", shell->directory, id.text);
    int rc = run_plain(shell, "make a directory",
                       shell->has_leftovers ? "rm -rf \"$1\"; mkdir -p \"$1\"" : "mkdir -p \"$1\"",
                       make, NULL, &ignored, err);
    if (rc == BERTH_OK)
        shell->has_leftovers = false;
    if (rc == BERTH_OK && s->feed)
        rc = upload_file(shell, s, path, err);
    if (rc == BERTH_OK)
        rc = run_on_files(shell, s, path, &size, exit_code, err);
    if (rc == BERTH_OK && s->take)
        rc = download_file(shell, s, path, size, err);
    int cancel_fd = shell->cancel_fd;
    shell->cancel_fd = -1; /* also after the caller has given up */
    (void)run_plain(shell, "remove files", "rm -f \"$1\" \"$1\".*", left, NULL, &ignored, &none);
    shell->cancel_fd = cancel_fd;
    return rc;
}

int berth_place_shell_run(struct berth_place_shell *shell, const struct berth_place_script *script,
                          int *exit_code, struct berth_error *err)
{
    *exit_code = -1;
    if (shell->run)
        return shell->run(shell, script, exit_code, err);
    return shell->streams ? run_streaming(shell, script, exit_code, err)
                          : run_by_files(shell, script, exit_code, err);
}

int berth_place_shell_take_text(void *ctx, const struct berth_unpack_source *source,
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
