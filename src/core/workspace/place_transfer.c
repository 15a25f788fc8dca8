/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_transfer.c - see place_transfer.h. By commands, bytes travel as base64
 * in arguments and in output. */
#include "core/workspace/place_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/hex.h"
#include "core/workspace/place_carry.h"
#include "core/workspace/place_spool.h"

#define PART_BYTES_MIN ((size_t)3 * 1024)
#define PARTS_MAX 10 /* arguments of this size in one command: below 1 MiB */
#define PARTS_FILES_MAX 999999
#define TAKEN_BYTES ((size_t)3 << 20) /* of a file that one command reads */
#define TEXT_BYTES_MAX (2 * TAKEN_BYTES)

/* Returns whether an error is about the way in which the bytes were moved, so that another way may
 * work. */
static bool is_refusal(int code)
{
    switch (code) {
    case BERTH_OK:
    case BERTH_E_CANCELLED:
    case BERTH_E_TIMEOUT:
    case BERTH_E_NO_MEMORY:
    case BERTH_E_CONFLICT:
    case BERTH_E_NOT_FOUND:
        return false;
    default:
        return true;
    }
}

/* --- to the place --- */

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
                  : berth_place_shell_command(u->shell, "write files",
                                              "f=$1; shift; printf %s \"$@\" > \"$f\"", args, NULL,
                                              &exit_code, err);
}

/* Remembers for later shells how long commands of this provider may be. */
static void remember_parts(const struct berth_place_shell *shell)
{
    if (!shell->route->plugin)
        return;
    shell->route->plugin->part_bytes = shell->part_bytes;
    shell->route->plugin->part_count = shell->part_count;
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
            if (len == most && shell->part_bytes == BERTH_PLACE_PART_BYTES)
                shell->part_count = PARTS_MAX;
            remember_parts(shell);
            return BERTH_OK;
        }
        if (!is_refusal(rc))
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

/* Compares the file $f with the hash $h where the place can. */
#define COMPARE_HASH                                                                               \
    " command -v sha256sum >/dev/null || exit 0;"                                                  \
    " set -- $(sha256sum < \"$f\"); [ \"$1\" = \"$h\" ] ||"                                        \
    " { echo what arrived is not what was sent >&2; exit 3; }"

/* Joins the parts to the file, and checks its hash where the place can. A provider that was asked
 * to move the file may have left anything in its place. */
static int join_parts(struct upload *u, struct berth_error *err)
{
    unsigned char hash[BERTH_SHA256_SIZE];
    char hex[BERTH_SHA256_HEX_SIZE], count[16];
    const char *const args[] = {u->path, hex, count, NULL};
    int exit_code;
    berth_sha256_stream_end(u->digest, hash);
    berth_hex_write(hash, sizeof hash, hex);
    (void)snprintf(count, sizeof count, "%d", u->parts);
    return berth_place_shell_command(
        u->shell, "write files",
        "set -- \"$1\" \"$2\" \"$3\" \"$1\".paperclip-upload.b64.*; f=$1; h=$2; n=$3; shift 3;"
        " command -v base64 >/dev/null || { echo base64 is missing there >&2; exit 3; };"
        " rm -rf \"$f\"; [ \"$n\" = 0 ] && { : > \"$f\"; exit 0; };"
        " [ $# = \"$n\" ] || { echo parts are missing >&2; exit 3; };"
        " cat \"$@\" | base64 -d > \"$f\" || exit; rm -f \"$@\";" COMPARE_HASH,
        args, NULL, &exit_code, err);
}

/* Stores what `feed` gives in a file of the place, by commands. */
static int upload_parts(struct berth_place_shell *shell, const struct berth_place_script *s,
                        const char *path, struct berth_error *err)
{
    struct upload u = {
        .shell = shell, .path = path, .cap = BERTH_PLACE_PART_BYTES / 4 * 3 * PARTS_MAX};
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

/* Moves the file by means of the provider, and checks what arrived. */
static int spool_send(struct berth_place_shell *shell, struct berth_place_spool *spool,
                      const char *path, struct berth_error *err)
{
    char size[24];
    const char *const args[] = {path, spool->hex, size, NULL};
    struct berth_place_carry carry = {
        .lease_id = shell->lease_id, .path = path, .fd = spool->fd, .cancel_fd = shell->cancel_fd};
    int exit_code;
    (void)snprintf(size, sizeof size, "%lld", (long long)spool->size);
    int rc = berth_place_carry(shell->b, &carry, err);
    return rc < 0 ? rc
                  : berth_place_shell_command(
                        shell, "write files",
                        "f=$1; h=$2; [ -f \"$f\" ] && [ $(wc -c < \"$f\") = \"$3\" ] || {"
                        " echo the file did not arrive >&2; exit 3; };" COMPARE_HASH,
                        args, NULL, &exit_code, err);
}

/* Lets commands move what the provider does not. */
int berth_place_upload(struct berth_place_shell *shell, const struct berth_place_script *s,
                       const char *path, struct berth_error *err)
{
    auto_place_spool *spool = NULL;
    if (!shell->carries)
        return upload_parts(shell, s, path, err);
    int rc = berth_place_spool_new(shell->b, &spool, err);
    if (rc == BERTH_OK)
        rc = s->feed(s->ctx, &(struct berth_pack_sink){berth_place_spool_put, spool, NULL}, err);
    if (rc < 0)
        return rc;
    berth_place_spool_end_digest(spool);
    rc = spool_send(shell, spool, path, err);
    if (!is_refusal(rc))
        return rc;
    shell->carries = false;
    struct berth_place_script again = *s;
    again.feed = berth_place_spool_feed;
    again.ctx = spool;
    return upload_parts(shell, &again, path, err);
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
    int rc = berth_place_shell_command(d->shell, "read files",
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

/* Hands the file PATH.out of the place, of `size` bytes, to `take`, by commands. */
static int download_parts(struct berth_place_shell *shell, const struct berth_place_script *s,
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

/* Copies the file PATH.out of the place to the spool. */
static int spool_fetch(struct berth_place_shell *shell, struct berth_place_spool *spool,
                       const char *path, const struct berth_place_output *output,
                       struct berth_error *err)
{
    auto_free char *file = NULL;
    if (asprintf(&file, "%s.out", path) < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: moving files.");
    struct berth_place_carry carry = {.lease_id = shell->lease_id,
                                      .path = file,
                                      .fd = spool->fd,
                                      .fetch = true,
                                      .size = output->size,
                                      .cancel_fd = shell->cancel_fd};
    const void *bytes = NULL;
    int rc = berth_place_carry(shell->b, &carry, err);
    if (rc < 0)
        return rc;
    for (ssize_t got; (got = berth_place_spool_get(spool, &bytes, err)) != 0;) {
        if (got < 0)
            return (int)got;
        berth_sha256_stream_put(spool->digest, bytes, (size_t)got);
    }
    berth_place_spool_end_digest(spool);
    spool->at = 0;
    return !output->hex[0] || strcmp(output->hex, spool->hex) == 0
               ? BERTH_OK
               : berth_fail(err, BERTH_E_UPSTREAM,
                            "What the provider gave is not what the place has.");
}

/* Lets commands move what the provider does not. */
int berth_place_download(struct berth_place_shell *shell, const struct berth_place_script *s,
                         const char *path, const struct berth_place_output *output,
                         struct berth_error *err)
{
    auto_place_spool *spool = NULL;
    if (!shell->carries || !output->size)
        return download_parts(shell, s, path, output->size, err);
    int rc = berth_place_spool_new(shell->b, &spool, err);
    if (rc == BERTH_OK)
        rc = spool_fetch(shell, spool, path, output, err);
    if (rc == BERTH_OK)
        return s->take(s->ctx, &(struct berth_unpack_source){berth_place_spool_get, spool}, err);
    if (!is_refusal(rc))
        return rc;
    shell->carries = false;
    return download_parts(shell, s, path, output->size, err);
}
