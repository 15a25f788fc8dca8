/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_command.c - see place_command.h. The driver calls the handlers on any
 * thread; the caller's thread waits at `changed`. */
#include "core/workspace/place_command.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/time.h"
#include "core/driver.h"
#include "core/lease/lease.h"
#include "core/lease/lease_execs.h"
#include "core/lease/ledger.h"
#include "core/lock_order.h"

#define QUEUED_BYTES_MAX ((size_t)1 << 20) /* of output, before the driver stops reading it */
#define LOOK_MS 200                        /* between two looks at the cancel descriptor */
#define WORDS_BYTES 255

/* Output that the caller has not read yet. */
struct piece {
    struct piece *next;
    size_t len;
    char bytes[];
};

struct berth_place_command {
    struct berth *b;
    struct berth_arena arena;
    struct berth_lease *lease;
    const struct berth_route *route;
    struct berth_lease_exec entry;
    struct berth_id id;
    char label[64], lease_label[64];
    int64_t silence_ms;
    int cancel_fd;

    struct berth_lock lock; /* guards what follows */
    pthread_cond_t changed;
    struct berth_running *running; /* NULL until the driver has started the command */
    struct piece *head, **tail;
    size_t queued;
    bool paused, unwanted, lost_output;
    bool room;            /* standard input has room again */
    bool over;            /* `end` is set */
    int64_t active_at_ms; /* when data last moved */
    struct berth_exec_end end;
    char words[WORDS_BYTES + 1];
    size_t words_len;

    struct piece *reading; /* the piece that the caller looks at; its thread alone */
};

/* --- what the driver says --- */

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct berth_place_command *c = ctx;
    struct piece *piece = stream == BERTH_STDOUT ? malloc(sizeof *piece + len) : NULL;
    berth_lock_take(&c->lock);
    c->active_at_ms = berth_time_mono_ms();
    if (stream == BERTH_STDERR) {
        size_t room = WORDS_BYTES - c->words_len, kept = len < room ? len : room;
        memcpy(c->words + c->words_len, bytes, kept);
        c->words_len += kept;
    } else if (!piece) {
        c->lost_output = true;
    } else {
        piece->next = NULL;
        piece->len = len;
        memcpy(piece->bytes, bytes, len);
        *c->tail = piece;
        c->tail = &piece->next;
        c->queued += len;
        if (c->queued > QUEUED_BYTES_MAX && !c->paused && c->running &&
            !berth_route_traits(c->route)->whole_stdin) {
            c->paused = true;
            c->running->ops->pause(c->running, true);
        }
    }
    pthread_cond_broadcast(&c->changed);
    berth_lock_drop(&c->lock);
}

static void on_stdin_room(void *ctx)
{
    struct berth_place_command *c = ctx;
    berth_lock_take(&c->lock);
    c->room = true;
    c->active_at_ms = berth_time_mono_ms();
    pthread_cond_broadcast(&c->changed);
    berth_lock_drop(&c->lock);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct berth_place_command *c = ctx;
    berth_lock_take(&c->lock);
    c->end = *end;
    c->over = true;
    pthread_cond_broadcast(&c->changed);
    berth_lock_drop(&c->lock);
}

/* The lease ends. Called with the lock of all commands held. */
static void on_lease_end(struct berth_lease_exec *entry)
{
    struct berth_place_command *c = berth_container_of(entry, struct berth_place_command, entry);
    berth_lock_take(&c->lock);
    bool now = c->running && !c->unwanted;
    c->unwanted = true;
    if (now)
        c->running->ops->cancel(c->running);
    berth_lock_drop(&c->lock);
}

/* --- starting --- */

static void command_free(struct berth_place_command *c)
{
    berth_lease_execs_leave(c->b, &c->entry);
    if (c->running)
        c->running->ops->free(c->running);
    for (struct piece *p = c->head, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(c->reading);
    berth_arena_clear(&c->arena);
    pthread_cond_destroy(&c->changed);
    berth_lock_destroy(&c->lock);
    free(c);
}

static int command_start(struct berth_place_command *c,
                         const struct berth_place_command_options *options, struct berth_error *err)
{
    const char *const env[] = {c->label, c->lease_label, NULL};
    struct berth_command command = {.id = c->id.text,
                                    .argv = options->argv,
                                    .env = env,
                                    .cwd = "/",
                                    .with_stdin = options->with_stdin,
                                    .grace_ms = 2000};
    struct berth_exec_handlers handlers = {
        .on_output = on_output, .on_stdin_room = on_stdin_room, .on_end = on_end, .ctx = c};
    auto_driver_input use = {0};
    struct berth_running *running;
    int rc = berth_lease_begin_use(c->b, &c->arena, options->lease_id, &c->lease, &c->route, err);
    if (rc == BERTH_OK)
        rc = berth_ledger_input(c->b, &c->arena, c->lease, &use, err);
    if (rc < 0)
        return rc;
    if (berth_route_traits(c->route)->whole_stdin)
        command.timeout_ms = options->silence_ms; /* nothing moves before its end */
    struct berth_place place = berth_ledger_place(c->lease);
    struct berth_call call = berth_ledger_call(c->b, c->route, &c->arena, 0, options->cancel_fd);
    c->active_at_ms = berth_time_mono_ms();
    rc = berth_driver_exec_start(c->route, &call, &use.who, &place, &command, &handlers, &running,
                                 err);
    if (rc < 0) {
        berth_driver_input_mask_error(&use, err);
        return rc;
    }
    berth_lock_take(&c->lock);
    c->running = running;
    if (c->unwanted)
        running->ops->cancel(running);
    berth_lock_drop(&c->lock);
    return BERTH_OK;
}

int berth_place_command_start(struct berth *b, const struct berth_place_command_options *options,
                              struct berth_place_command **out, struct berth_error *err)
{
    struct berth_place_command *c = calloc(1, sizeof *c);
    pthread_condattr_t attributes;
    if (!c)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: command.");
    c->b = b;
    c->id = berth_id_new();
    c->tail = &c->head;
    c->silence_ms = options->silence_ms;
    c->cancel_fd = options->cancel_fd;
    (void)snprintf(c->label, sizeof c->label, "BERTH_EXEC_ID=%s", c->id.text);
    (void)snprintf(c->lease_label, sizeof c->lease_label, "BERTH_LEASE_ID=%s", options->lease_id);
    berth_lock_init(&c->lock, BERTH_RANK_EXEC);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    c->entry.end = on_lease_end;
    c->entry.label = c->label;
    c->entry.moves_files = true;
    if (berth_id_parse(options->lease_id, "Lease", &c->entry.lease_id, err) == BERTH_OK)
        berth_lease_execs_enter(b, &c->entry);
    int rc = command_start(c, options, err);
    if (rc < 0)
        command_free(c);
    else
        *out = c;
    return rc;
}

/* --- moving data --- */

static bool is_cancelled(const struct berth_place_command *c)
{
    struct pollfd fds[] = {{.fd = c->cancel_fd, .events = POLLIN},
                           {.fd = c->b->closing_fd, .events = POLLIN}};
    return poll(fds, 2, 0) > 0;
}

/* Lock held. Waits until something changes, for a short time at most. Fails when the caller gives
 * up, or when nothing has moved for too long. */
static int command_wait(struct berth_place_command *c, struct berth_error *err)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    if (berth_lock_wait_until(&c->lock, &c->changed, &until) == 0)
        return BERTH_OK;
    if (is_cancelled(c))
        return berth_fail(err, BERTH_E_CANCELLED, "Moving files was cancelled.");
    if (c->silence_ms && !c->over && berth_time_mono_ms() - c->active_at_ms > c->silence_ms)
        return berth_fail(err, BERTH_E_TIMEOUT, "Moving files made no progress for %lld s.",
                          (long long)(c->silence_ms / 1000));
    return BERTH_OK;
}

int berth_place_command_write(struct berth_place_command *c, const void *bytes, size_t len,
                              struct berth_error *err)
{
    for (;;) {
        berth_lock_take(&c->lock);
        bool over = c->over;
        c->room = false;
        berth_lock_drop(&c->lock);
        if (over)
            return berth_fail(err, BERTH_E_UPSTREAM,
                              "The place ended the transfer before all was sent.");
        if (is_cancelled(c))
            return berth_fail(err, BERTH_E_CANCELLED, "Moving files was cancelled.");
        int rc = c->running->ops->write(c->running, bytes, len, err);
        if (rc == BERTH_E_CONFLICT) /* it has closed its input: its end says why */
            return berth_fail(err, BERTH_E_UPSTREAM,
                              "The place ended the transfer before all was sent.");
        if (rc != BERTH_E_UNAVAILABLE)
            return rc;
        rc = BERTH_OK;
        berth_lock_take(&c->lock);
        while (rc == BERTH_OK && !c->room && !c->over)
            rc = command_wait(c, err);
        berth_lock_drop(&c->lock);
        if (rc < 0)
            return rc;
    }
}

bool berth_place_command_is_over(struct berth_place_command *c)
{
    berth_lock_take(&c->lock);
    bool over = c->over || c->unwanted;
    berth_lock_drop(&c->lock);
    return over || is_cancelled(c);
}

void berth_place_command_close_stdin(struct berth_place_command *c)
{
    c->running->ops->close_stdin(c->running);
}

ssize_t berth_place_command_read(struct berth_place_command *c, const void **bytes,
                                 struct berth_error *err)
{
    int rc = BERTH_OK;
    bool resume = false;
    free(take_ptr(c->reading));
    berth_lock_take(&c->lock);
    while (rc == BERTH_OK && !c->head && !c->over)
        rc = command_wait(c, err);
    struct piece *piece = rc == BERTH_OK ? c->head : NULL;
    if (piece) {
        c->head = piece->next;
        if (!c->head)
            c->tail = &c->head;
        c->queued -= piece->len;
        resume = c->paused && c->queued < QUEUED_BYTES_MAX / 4;
        if (resume)
            c->paused = false;
    } else if (rc == BERTH_OK && c->lost_output) {
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: output of the place.");
    }
    if (resume)
        c->running->ops->pause(c->running, false);
    berth_lock_drop(&c->lock);
    if (!piece)
        return rc;
    c->reading = piece;
    *bytes = piece->bytes;
    return (ssize_t)piece->len;
}

/* --- the end --- */

static void copy_words(const struct berth_place_command *c, char out[256])
{
    const char *begin = c->words + strspn(c->words, " \t\r\n");
    size_t len = strlen(begin);
    while (len && strchr(" \t\r\n", begin[len - 1]))
        len--;
    (void)snprintf(out, 256, "%.*s", (int)len, begin);
}

int berth_place_command_finish(struct berth_place_command *c, bool abandon, int *exit_code,
                               char words[256], struct berth_error *err)
{
    struct berth_error ignored;
    if (abandon)
        c->running->ops->cancel(c->running);
    for (const void *bytes; !abandon;) { /* what the caller did not read */
        ssize_t got = berth_place_command_read(c, &bytes, &ignored);
        abandon = got < 0;
        if (abandon)
            c->running->ops->cancel(c->running);
        if (got <= 0)
            break;
    }
    berth_lock_take(&c->lock);
    if (c->paused)
        c->running->ops->pause(c->running, false);
    c->paused = true; /* from now on output is only dropped; never pause again */
    while (!c->over)
        berth_lock_wait(&c->lock, &c->changed);
    struct berth_exec_end end = c->end;
    copy_words(c, words);
    berth_lock_drop(&c->lock);
    command_free(c);
    *exit_code = abandon || end.cause != BERTH_END_EXITED ? -1 : end.exit_code;
    if (end.cause == BERTH_END_LOST && !abandon)
        return berth_fail(err, BERTH_E_UPSTREAM, "The connection to the place was lost%s%s.",
                          *words ? ": " : "", words);
    if (end.cause == BERTH_END_TIMEOUT)
        return berth_fail(err, BERTH_E_TIMEOUT, "A command in the place ran out of time.");
    return BERTH_OK;
}
