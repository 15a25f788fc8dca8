/* SPDX-License-Identifier: Apache-2.0
 * tests/support/live.c - see live.h. */
#include "live.h"

#include "fixture.h"

#define OUTPUT_BYTES_MAX (64 * 1024 * 1024)

static void live_append(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct live *live = ctx;
    berth_buf_append(stream == BERTH_STDOUT ? &live->out : &live->err, bytes, len);
    atomic_fetch_add(&live->seen, len);
}

struct berth_exec_handlers live_handlers(struct live *live)
{
    *live = (struct live){.out = BERTH_BUF_INIT(OUTPUT_BYTES_MAX),
                          .err = BERTH_BUF_INIT(OUTPUT_BYTES_MAX)};
    return (struct berth_exec_handlers){.on_output = live_append, .ctx = live};
}

struct berth_exec *live_start(struct fixture *f, const struct berth_exec_request *request,
                              struct live *live)
{
    struct berth_exec_handlers handlers = live_handlers(live);
    struct berth_exec *x;
    assert_ok(f, berth_exec_start(f->b, request, &handlers, &x, &f->err));
    return x;
}

void live_clear(struct live *live)
{
    berth_buf_clear(&live->out);
    berth_buf_clear(&live->err);
}
