/* SPDX-License-Identifier: Apache-2.0
 * src/cli/logs.c - berth logs: prints what the commands of a run wrote, also while it runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/follow.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "core/run/exec_rows.h"
#include "core/run/run.h"
#include "core/sweep/sweep.h"
#include "os/file_watch.h"
#include "os/framelog.h"
#include "os/fs.h"

#define LOOK_MS 50      /* between two looks at rows, and at a log that cannot be watched */
#define WATCHED_MS 1000 /* between two looks at rows while a log is watched */
#define SWEEP_MS 1000   /* between two sweeps, which notice dead processes */

struct following {
    struct cli *cli;
    const char *run_id;
    bool follow;
    uint64_t skip;            /* bytes of output to leave out, of both streams */
    uint64_t at;              /* bytes of output so far, of both streams */
    int64_t swept_at_ms;      /* by the monotonic clock */
    struct berth_buf half[2]; /* --json: an incomplete UTF-8 sequence at the end */
    struct berth_frame last[2];
    char exec_id[BERTH_ID_SIZE]; /* the exec whose output the daemon sends */
    int trouble;
};

/* Prints one object: the first `whole` bytes of the text that waits in the frame's stream. */
static int print_line(struct following *f, const char *exec_id, const struct berth_frame *frame,
                      size_t whole)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    struct berth_buf *text = &f->half[frame->kind];
    size_t left = text->len - whole;
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "execId", exec_id);
    berth_json_put_str(&w, "stream", frame->kind == BERTH_FRAME_STDOUT ? "stdout" : "stderr");
    berth_json_put_int(&w, "offset", (int64_t)(frame->offset + frame->len - text->len));
    berth_json_put_time(&w, "at", frame->at_ms);
    berth_json_put_bytes(&w, "data", text->data, whole);
    berth_json_close(&w, '}');
    berth_buf_puts(&buf, "\n");
    memmove(text->data, text->data + whole, left);
    berth_buf_truncate(text, left);
    return buf.failed ? berth_buf_check(&buf, "Output", &f->cli->err)
                      : berth_fs_write_all(STDOUT_FILENO, buf.data, buf.len, &f->cli->err);
}

/* Prints the frame up to its last whole character: none is split between two objects. */
static int print_frame_json(struct following *f, const char *exec_id,
                            const struct berth_frame *frame, const char *bytes, size_t len)
{
    struct berth_buf *text = &f->half[frame->kind];
    berth_buf_append(text, bytes, len);
    if (text->failed)
        return berth_buf_check(text, "Output", &f->cli->err);
    f->last[frame->kind] = *frame;
    size_t whole = berth_utf8_whole(text->data, text->len);
    return whole ? print_line(f, exec_id, frame, whole) : BERTH_OK;
}

/* Prints incomplete sequences, since no more output comes. */
static int print_halves(struct following *f, const char *exec_id)
{
    int rc = BERTH_OK;
    for (int i = 0; i < 2 && rc == BERTH_OK; i++)
        if (f->half[i].len)
            rc = print_line(f, exec_id, &f->last[i], f->half[i].len);
    return rc;
}

static int print_frame(struct following *f, const char *exec_id, const struct berth_frame *frame)
{
    if (frame->kind == BERTH_FRAME_CUT && !f->cli->quiet)
        (void)fprintf(stderr, "berth: the rest of %s was not kept\n",
                      frame->len && frame->bytes[0] == '1' ? "stderr" : "stdout");
    if (frame->kind > BERTH_FRAME_STDERR)
        return BERTH_OK;
    uint64_t from = f->at;
    f->at += frame->len;
    if (f->at <= f->skip)
        return BERTH_OK;
    size_t drop = from < f->skip ? (size_t)(f->skip - from) : 0;
    const char *bytes = frame->bytes + drop;
    size_t len = frame->len - drop;
    if (f->cli->json)
        return print_frame_json(f, exec_id, frame, bytes, len);
    return berth_fs_write_all(frame->kind == BERTH_FRAME_STDOUT ? STDOUT_FILENO : STDERR_FILENO,
                              bytes, len, &f->cli->err);
}

static int run_has_ended(struct following *f, bool *ended)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_run *run;
    int rc = BERTH_OK;
    if (berth_time_mono_ms() - f->swept_at_ms >= SWEEP_MS) {
        rc = berth_sweep_ledger(f->cli->b, &f->cli->err);
        f->swept_at_ms = berth_time_mono_ms();
    }
    if (rc == BERTH_OK)
        rc = berth_run_get(f->cli->b, &arena, f->run_id, &run, &f->cli->err);
    if (rc == BERTH_OK)
        *ended = berth_run_ended((int)run->status);
    return rc;
}

/* Says whether the command or its run has ended. `silent`: the command has no log whose end would
 * tell, so its row is read. */
static int command_has_ended(struct following *f, const char *exec_id, bool silent, bool *ended)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_exec_record *record;
    int rc =
        silent ? berth_exec_rows_get(f->cli->b, &arena, exec_id, &record, &f->cli->err) : BERTH_OK;
    *ended = silent && rc == BERTH_OK && record->ended;
    return rc < 0 || *ended ? rc : run_has_ended(f, ended);
}

/* Warns about output that was written although the command has no log, as a daemon does. */
static int say_missing(struct following *f, const char *exec_id)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_exec_record *record;
    int rc = berth_exec_rows_get(f->cli->b, &arena, exec_id, &record, &f->cli->err);
    for (int i = BERTH_STDOUT; rc == BERTH_OK && i <= BERTH_STDERR; i++) {
        struct berth_frame cut = {.kind = BERTH_FRAME_CUT, .bytes = i ? "1" : "0", .len = 1};
        if (record->end.bytes[i])
            rc = print_frame(f, exec_id, &cut);
    }
    return rc;
}

/* Reads the next frame. *more is false at the end, and before the log exists. */
static int next_frame(const char *path, struct berth_framereader **reader,
                      struct berth_frame *frame, bool *more, struct berth_error *err)
{
    *more = false;
    int rc = *reader ? BERTH_OK : berth_framereader_open(path, reader, err);
    if (rc < 0)
        return rc == BERTH_E_NOT_FOUND ? BERTH_OK : rc;
    return berth_framereader_next(*reader, frame, more, err);
}

/* Prints the log of a command; follows it to its end with --follow. */
static int print_log(struct following *f, const char *exec_id)
{
    auto_free char *path = NULL;
    struct berth_framereader *reader = NULL;
    struct berth_frame frame = {.kind = BERTH_FRAME_STDOUT};
    auto_close int watch_fd = -1;
    bool more, watched = false, over = false;
    int rc = berth_exec_rows_log(f->cli->b, exec_id, &path, &f->cli->err);
    while (rc == BERTH_OK && frame.kind != BERTH_FRAME_END) {
        rc = next_frame(path, &reader, &frame, &more, &f->cli->err);
        if (rc == BERTH_OK && more)
            rc = print_frame(f, exec_id, &frame);
        if (rc < 0 || more)
            continue;
        if (!f->follow || over)
            break;
        if (reader && !watched) {
            watched = true;
            watch_fd = berth_file_watch_open(path);
            continue; /* what was written before is read first */
        }
        if (!berth_file_watch_wait(watch_fd, watch_fd >= 0 ? WATCHED_MS : LOOK_MS))
            rc = command_has_ended(f, exec_id, reader == NULL, &over); /* then it is read again */
    }
    if (rc == BERTH_OK && !reader)
        rc = say_missing(f, exec_id);
    berth_framereader_close(reader);
    return rc == BERTH_OK && (f->follow || frame.kind == BERTH_FRAME_END) ? print_halves(f, exec_id)
                                                                          : rc;
}

/* Prints the logs of the run's commands in order; with --follow also those of later commands. */
static int print_logs(struct following *f)
{
    char last_id[BERTH_ID_SIZE] = "";
    bool over = !f->follow;
    for (;;) {
        auto_arena arena = BERTH_ARENA_INIT;
        struct berth_exec_record *next;
        int rc = berth_exec_rows_next(f->cli->b, &arena, f->run_id, last_id, &next, &f->cli->err);
        if (rc == BERTH_OK && next) {
            (void)snprintf(last_id, sizeof last_id, "%s", next->id);
            rc = print_log(f, last_id);
            if (rc == BERTH_OK)
                continue;
        }
        if (rc < 0 || over)
            return rc;
        rc = run_has_ended(f, &over);
        if (rc < 0)
            return rc;
        (void)berth_file_watch_wait(-1, LOOK_MS); /* rows: nothing tells of their changes */
    }
}

static void expand_logs_options(int argc, char **argv)
{
    static char follow[] = "--follow";
    for (int i = 1; i < argc; i++)
        argv[i] = strcmp(argv[i], "-f") == 0 ? follow : argv[i];
}

/* Takes an event of the daemon. */
static bool logs_on_event(void *ctx, const char *name, const struct berth_json *data)
{
    struct following *f = ctx;
    const char *stream = cli_text(data, "stream");
    bool errors = stream && strcmp(stream, "stderr") == 0;
    struct berth_frame frame = {.kind = errors ? BERTH_FRAME_STDERR : BERTH_FRAME_STDOUT,
                                .offset = (uint64_t)berth_json_int(berth_json_get(data, "offset")),
                                .at_ms = cli_time(data, "at")};
    int rc = BERTH_OK;
    if (strcmp(name, "exec") == 0) {
        const char *id = cli_text(data, "execId");
        (void)snprintf(f->exec_id, sizeof f->exec_id, "%s", id ? id : "");
    } else if (strcmp(name, "output") == 0) {
        auto_free char *bytes = cli_output_of(data, &frame.len);
        frame.bytes = bytes;
        rc = bytes ? print_frame(f, f->exec_id, &frame) : BERTH_OK;
    } else if (strcmp(name, "cut") == 0) {
        frame =
            (struct berth_frame){.kind = BERTH_FRAME_CUT, .bytes = errors ? "1" : "0", .len = 1};
        rc = print_frame(f, f->exec_id, &frame);
    } else if (strcmp(name, "exit") == 0) {
        rc = print_halves(f, f->exec_id);
    }
    f->trouble = rc;
    return rc == BERTH_OK;
}

static int print_told(struct following *f)
{
    char target[CLI_TARGET_SIZE + 32], again[CLI_TARGET_SIZE]; /* `again` and an offset */
    struct cli_follow follow = {
        .method = "GET", .target = target, .again = again, .on_event = logs_on_event, .ctx = f};
    (void)snprintf(again, sizeof again, "/api/runs/%s/log?follow=%s", f->run_id,
                   f->follow ? "true" : "false");
    (void)snprintf(target, sizeof target, "%s&offset=%llu", again, (unsigned long long)f->skip);
    follow.offset = f->skip;
    f->skip = 0; /* the daemon leaves them out */
    int rc = cli_follow(f->cli, &follow);
    return f->trouble < 0 ? f->trouble : rc;
}

static int logs_main(struct cli *cli, int argc, char **argv)
{
    const char *since = NULL;
    struct following f = {.cli = cli,
                          .swept_at_ms = berth_time_mono_ms(),
                          .half = {BERTH_BUF_INIT(2 * BERTH_FRAME_BYTES_MAX),
                                   BERTH_BUF_INIT(2 * BERTH_FRAME_BYTES_MAX)}};
    const struct cli_option options[] = {{"follow", .flag = &f.follow}, {"since", &since}, {0}};
    int64_t skip = 0;
    expand_logs_options(argc, argv);
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    if (since && !cli_number(since, 0, INT64_MAX, &skip))
        return cli_usage(cli, "--since \"%s\" is no number of bytes", since);
    f.skip = (uint64_t)skip;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    int rc = cli_find_id(cli, "run", argv[0], &f.run_id);
    if (rc == BERTH_OK)
        rc = cli->daemon ? print_told(&f) : print_logs(&f);
    berth_buf_clear(&f.half[0]);
    berth_buf_clear(&f.half[1]);
    return rc < 0 ? cli_fail(cli) : CLI_OK;
}

const struct cli_command cli_logs_commands[] = {
    {"logs", NULL, "RUN [-f|--follow] [--since OFFSET]", "what the commands of a run wrote",
     logs_main},
    {0},
};
