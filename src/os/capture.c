/* SPDX-License-Identifier: Apache-2.0
 * src/os/capture.c - see capture.h. */
#include "os/capture.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/time.h"

#define GRACE_MS 500

struct watch {
    struct berth_capture *capture;
    int ended_fd;
};

/* The buffers belong to the loop until the end has been told. */
static void on_capture_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    const struct watch *w = ctx;
    struct berth_buf *buf = &w->capture->streams[stream];
    size_t room = buf->max > buf->len ? buf->max - buf->len - 1 : 0;
    berth_buf_append(buf, bytes, len < room ? len : room);
}

static void on_capture_end(void *ctx, const struct berth_exec_end *end)
{
    const struct watch *w = ctx;
    w->capture->end = *end;
    (void)eventfd_write(w->ended_fd, 1);
}

static void capture_await(const struct watch *w, struct berth_process *p)
{
    struct pollfd fds[] = {{.fd = w->ended_fd, .events = POLLIN},
                           {.fd = w->capture->cancel_fd, .events = POLLIN}};
    while (!fds[0].revents) {
        if (poll(fds, 2, -1) < 0)
            assert(errno == EINTR);
        else if (fds[1].revents) {
            berth_process_cancel(p);
            fds[1].fd = -1; /* now its end is waited for */
            fds[1].revents = 0;
        }
    }
    eventfd_t told;
    (void)eventfd_read(w->ended_fd, &told); /* what on_end wrote is ours from here on */
}

int berth_capture_run(struct berth_engine *engine, struct berth_capture *c, struct berth_error *err)
{
    assert(!berth_engine_is_here(engine));
    auto_close int ended_fd = eventfd(0, EFD_CLOEXEC);
    if (ended_fd < 0)
        return berth_fail_errno(err, "Cannot make an event descriptor");
    struct watch w = {.capture = c, .ended_fd = ended_fd};
    struct berth_exec_handlers handlers = {
        .on_output = on_capture_output, .on_end = on_capture_end, .ctx = &w};
    int64_t left_ms = c->deadline_ms - berth_time_mono_ms();
    if (left_ms <= 0)
        return berth_fail(err, BERTH_E_TIMEOUT, "There was no time left for %s.", c->name);
    c->options.with_stdin = c->input != NULL;
    c->options.timeout_ms = c->deadline_ms == INT64_MAX ? 0 : left_ms;
    c->options.grace_ms = c->grace_ms ? c->grace_ms : GRACE_MS;
    struct berth_process *p;
    int rc = c->start ? c->start(c->ctx, engine, &c->options, &handlers, &p, err)
                      : berth_process_start(engine, &c->options, &handlers, &p, err);
    if (rc < 0)
        return rc;
    if (c->input && berth_process_write(p, c->input, c->input_len, err) == BERTH_E_NO_MEMORY)
        berth_process_cancel(p);
    berth_process_close_stdin(p);
    capture_await(&w, p);
    berth_process_free(p);
    if (c->end.cause == BERTH_END_TIMEOUT)
        return berth_fail(err, BERTH_E_TIMEOUT, "%s took too long.", c->name);
    if (c->end.cause == BERTH_END_CANCELLED)
        return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
    return BERTH_OK;
}

void berth_capture_clear(struct berth_capture *c)
{
    berth_buf_clear(&c->streams[0]);
    berth_buf_clear(&c->streams[1]);
}
