/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_provision.c - see run_provision.h. */
#include "core/run/run_provision.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include <berth/exec.h>

#include "base/auto.h"
#include "base/buf.h"
#include "core/run/exec_await.h"

#define PROVISION_MS 300000
#define KEPT_BYTES 4096 /* of each stream, for the error */
#define LINE_BYTES 200  /* of the line that the error shows */

/* Copies the first line that is not blank. */
static void first_line(const char *text, char out[LINE_BYTES])
{
    text += strspn(text, "\r\n\t ");
    (void)snprintf(out, LINE_BYTES, "%.*s", (int)strcspn(text, "\r\n"), text);
}

struct provisioning {
    struct berth_buf streams[2]; /* the beginning of each */
    int ended_fd;
};

static int judge_provision(const struct provisioning *v, const struct berth_exec_end *end,
                           struct berth_error *err)
{
    char line[LINE_BYTES] = "", code[16] = "null";
    if (end->cause == BERTH_END_CANCELLED)
        return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
    if (end->cause == BERTH_END_TIMEOUT)
        return berth_fail(err, BERTH_E_TIMEOUT, "provision command timed out");
    if (end->cause == BERTH_END_EXITED && end->exit_code == 0)
        return BERTH_OK;
    for (int i = 1; i >= 0 && !*line; i--) /* stderr first */
        if (v->streams[i].data)
            first_line(v->streams[i].data, line);
    if (end->exit_code >= 0)
        (void)snprintf(code, sizeof code, "%d", end->exit_code);
    return berth_fail(err, BERTH_E_UNPROCESSABLE, "exit code %s%s%s%s%s%s", code,
                      end->signal ? " (signal SIG" : "",
                      end->signal ? sigabbrev_np(end->signal) : "", end->signal ? ")" : "",
                      *line ? ": " : "", line);
}

static void on_provision_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct provisioning *v = ctx;
    struct berth_buf *buf = &v->streams[stream];
    size_t room = buf->max - buf->len - 1;
    berth_buf_append(buf, bytes, len < room ? len : room);
}

static void on_provision_end(void *ctx, const struct berth_exec_end *end)
{
    (void)end;
    const struct provisioning *v = ctx;
    (void)eventfd_write(v->ended_fd, 1);
}

int berth_run_provision(struct berth *b, const struct berth_run_provision *what,
                        struct berth_error *err)
{
    static const char *const env[] = {"SHELL=/bin/bash", NULL};
    const char *const argv[] = {"bash", "-lc", what->script, NULL};
    auto_close int ended_fd = eventfd(0, EFD_CLOEXEC);
    if (ended_fd < 0)
        return berth_fail_errno(err, "Cannot make an event descriptor");
    struct provisioning v = {.streams = {BERTH_BUF_INIT(KEPT_BYTES), BERTH_BUF_INIT(KEPT_BYTES)},
                             .ended_fd = ended_fd};
    struct berth_exec_handlers handlers = {
        .on_output = on_provision_output, .on_end = on_provision_end, .ctx = &v};
    struct berth_exec_request command = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    struct berth_exec *x;
    command.lease_id = what->lease_id;
    command.argv = argv;
    command.env = env;
    command.cwd = what->cwd;
    command.timeout_ms = PROVISION_MS;
    command.secrets = what->secrets;
    command.secret_count = what->secret_count;
    int rc = berth_exec_start(b, &command, &handlers, &x, err);
    if (rc == BERTH_OK) {
        berth_exec_await(b, x, ended_fd, what->cancel_fd);
        berth_exec_wait(x, &end);
        berth_exec_free(x);
        rc = judge_provision(&v, &end, err);
    }
    berth_buf_clear(&v.streams[0]);
    berth_buf_clear(&v.streams[1]);
    return rc;
}
