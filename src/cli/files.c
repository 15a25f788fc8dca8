/* SPDX-License-Identifier: Apache-2.0
 * src/cli/files.c - see files.h. */
#include "cli/files.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/client.h"
#include "core/workspace/place_files.h"
#include "os/fs.h"

#define CHUNK_BYTES 65536
#define STALL_MS 300000 /* without a byte in either direction */

/* --- through a daemon --- */

/* An answer on its way to a descriptor. */
struct download {
    int fd;
    struct berth_error err; /* why it could not be written; code 0: it could */
};

static bool write_answer(void *ctx, const char *bytes, size_t len)
{
    struct download *d = ctx;
    return berth_fs_write_all(d->fd, bytes, len, &d->err) == BERTH_OK;
}

/* Reads the next bytes, and no more than were announced: a file may grow. */
static ssize_t input_read(struct cli_input *input, char *out, size_t size)
{
    int64_t left = input->length < 0 ? INT64_MAX : input->length - input->sent;
    ssize_t got = left ? read(input->fd, out, (int64_t)size < left ? size : (size_t)left) : 0;
    input->sent += got > 0 ? got : 0;
    return got;
}

static int64_t read_input(void *ctx, char *out, size_t size)
{
    struct cli_input *input = ctx;
    struct pollfd ready = {.fd = input->fd, .events = POLLIN};
    if (poll(&ready, 1, 0) == 0)
        return BERTH_CLIENT_WAIT;
    ssize_t got = input_read(input, out, size);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? BERTH_CLIENT_WAIT : BERTH_CLIENT_STOP;
    return !got && input->broken && atomic_load(input->broken) ? BERTH_CLIENT_STOP : got;
}

int cli_files_ask(struct cli *cli, const char *method, const char *target, int to,
                  struct cli_input *from)
{
    const char *url = berth_arena_printf(&cli->arena, "%s%s", cli->daemon->url, target);
    struct download down = {.fd = to};
    struct berth_http_client_reply reply;
    struct berth_http_client_source source = {.read = read_input,
                                              .length = from ? from->length : 0,
                                              .ready_fd = from ? from->fd : -1,
                                              .ctx = from};
    if (!url)
        return berth_arena_check(&cli->arena, &cli->err);
    struct berth_http_client_request request = cli_daemon_request(cli, method, url, NULL);
    request.stall_ms = STALL_MS;
    if (to >= 0) {
        request.on_bytes = write_answer;
        request.ctx = &down;
    }
    if (from)
        request.source = &source;
    int rc = berth_http_client_ask(&request, &reply, &cli->err);
    if (down.err.code < 0) {
        cli->err = down.err;
        rc = down.err.code;
    } else if (rc == BERTH_OK && (reply.status < 200 || reply.status >= 300)) {
        rc = cli_daemon_error(cli, reply.status, berth_buf_str(&reply.body), reply.body.len);
    }
    berth_buf_clear(&reply.body);
    return rc;
}

/* --- in this process --- */

static int put_descriptor(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    const int *fd = ctx;
    return berth_fs_write_all(*fd, bytes, len, err);
}

static int feed_input(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    struct cli_input *input = ctx;
    auto_free char *bytes = malloc(CHUNK_BYTES);
    if (!bytes)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: copy.");
    for (;;) {
        ssize_t got = input_read(input, bytes, CHUNK_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return berth_fail_errno(err, "Cannot read what is to be copied");
        if (!got && input->broken && atomic_load(input->broken))
            return berth_fail(err, BERTH_E_CANCELLED, "What is to be copied cannot be read.");
        int rc = got ? sink->put(sink->ctx, bytes, (size_t)got, err) : BERTH_OK;
        if (rc < 0 || !got)
            return rc;
    }
}

static int open_here(struct cli *cli, const char *lease_id, struct berth_place_files *out)
{
    return berth_place_files_open(cli->b, &cli->arena, lease_id, cli->cancel_fd, out, &cli->err);
}

/* --- both --- */

int cli_files_get_archive(struct cli *cli, const char *lease_id, const char *path, int fd)
{
    struct berth_place_files files;
    struct berth_place_listing what = {.path = path};
    struct berth_pack_sink sink = {put_descriptor, &fd};
    if (cli->daemon)
        return cli_files_ask(cli, "GET",
                             berth_arena_printf(&cli->arena,
                                                "/api/environment-leases/%s/archive?path=%s",
                                                lease_id, cli_encode(cli, path)),
                             fd, NULL);
    int rc = open_here(cli, lease_id, &files);
    return rc < 0 ? rc : berth_place_files_pack(&files, &what, &sink, &cli->err);
}

int cli_files_put_archive(struct cli *cli, const char *lease_id, const char *path,
                          struct cli_input *from)
{
    struct berth_place_files files;
    struct berth_place_writing writing = {.length = -1, .feed = feed_input, .ctx = from};
    if (cli->daemon)
        return cli_files_ask(cli, "POST",
                             berth_arena_printf(&cli->arena,
                                                "/api/environment-leases/%s/archive?path=%s",
                                                lease_id, cli_encode(cli, path)),
                             -1, from);
    int rc = open_here(cli, lease_id, &files);
    return rc < 0 ? rc : berth_place_files_unpack(&files, path, &writing, &cli->err);
}

int cli_files_put_file(struct cli *cli, const char *lease_id, const char *path, const char *mode,
                       struct cli_input *from)
{
    struct berth_place_files files;
    struct berth_place_writing writing = {
        .length = from->length, .mode = mode, .feed = feed_input, .ctx = from};
    if (cli->daemon)
        return cli_files_ask(cli, "PUT",
                             berth_arena_printf(&cli->arena,
                                                "/api/environment-leases/%s/files?path=%s&mode=%s",
                                                lease_id, cli_encode(cli, path), mode),
                             -1, from);
    int rc = open_here(cli, lease_id, &files);
    return rc < 0 ? rc : berth_place_files_write(&files, path, &writing, &cli->err);
}
