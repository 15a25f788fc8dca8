/* SPDX-License-Identifier: Apache-2.0
 * src/cli/logs.c - berth logs, ps and cancel: runs while they are at work, and what they wrote. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "cli/control.h"
#include "core/record.h"
#include "core/run.h"
#include "core/sweep.h"
#include "os/framelog.h"
#include "os/fs.h"

#define LOOK_MS 50         /* at a log that may have grown, or a run that may have ended */
#define LOOKS_OF_A_PASS 20 /* so many, and then one for processes that are gone */

/* --- berth logs --- */

struct following {
    struct cli *cli;
    const char *run_id;
    bool follow;
    uint64_t skip;            /* bytes of output that are not wanted any more */
    uint64_t at;              /* how many have been seen, of both streams */
    int looks;                /* at the run */
    struct berth_buf half[2]; /* JSON: a character that has only begun */
    struct berth_frame last[2];
};

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
}

/* One object a line: the first `whole` bytes of what is held back of the frame's stream. */
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

/* A character is never split between two lines. */
static int print_json(struct following *f, const char *exec_id, const struct berth_frame *frame,
                      const char *bytes, size_t len)
{
    struct berth_buf *text = &f->half[frame->kind];
    berth_buf_append(text, bytes, len);
    if (text->failed)
        return berth_buf_check(text, "Output", &f->cli->err);
    f->last[frame->kind] = *frame;
    size_t whole = berth_utf8_whole(text->data, text->len);
    return whole ? print_line(f, exec_id, frame, whole) : BERTH_OK;
}

/* Nothing more comes: what has only begun stays half. */
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
        return print_json(f, exec_id, frame, bytes, len);
    return berth_fs_write_all(frame->kind == BERTH_FRAME_STDOUT ? STDOUT_FILENO : STDERR_FILENO,
                              bytes, len, &f->cli->err);
}

/* When its process is gone, nobody else may come by to end it. */
static int end_lost(struct cli *cli)
{
    struct berth_sweep_options pass = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report unsaid;
    pass.call_providers = false;
    return berth_sweep(cli->b, &pass, &unsaid, &cli->err);
}

static int run_has_ended(struct following *f, bool *ended)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_run *run;
    int rc = ++f->looks % LOOKS_OF_A_PASS ? BERTH_OK : end_lost(f->cli);
    if (rc == BERTH_OK)
        rc = berth_run_get(f->cli->b, &arena, f->run_id, &run, &f->cli->err);
    if (rc == BERTH_OK)
        *ended = berth_run_ended((int)run->status);
    return rc;
}

/* To its end, or to what there is of it so far. */
static int print_log(struct following *f, const char *exec_id)
{
    auto_free char *path = NULL;
    struct berth_framereader *reader;
    struct berth_frame frame = {.kind = BERTH_FRAME_STDOUT};
    bool more = true, over = false;
    int rc = berth_record_log(f->cli->b, exec_id, &path, &f->cli->err);
    if (rc == BERTH_OK)
        rc = berth_framereader_open(path, &reader, &f->cli->err);
    if (rc < 0)
        return rc;
    while (rc == BERTH_OK && frame.kind != BERTH_FRAME_END) {
        rc = berth_framereader_next(reader, &frame, &more, &f->cli->err);
        if (rc == BERTH_OK && more)
            rc = print_frame(f, exec_id, &frame);
        if (rc < 0 || more)
            continue;
        if (!f->follow || over)
            break;
        rc = run_has_ended(f, &over); /* whose process may have been killed: one more look */
        nap();
    }
    berth_framereader_close(reader);
    return rc == BERTH_OK && (f->follow || frame.kind == BERTH_FRAME_END) ? print_halves(f, exec_id)
                                                                          : rc;
}

/* The commands of the run, one after the other, also those that are still to come. */
static int print_logs(struct following *f)
{
    int done = 0;
    bool over = !f->follow;
    for (;;) {
        auto_arena arena = BERTH_ARENA_INIT;
        struct berth_list execs;
        int rc = berth_record_list(f->cli->b, &arena, f->run_id, &execs, &f->cli->err);
        for (; rc == BERTH_OK && done < execs.count; done++)
            rc = print_log(f, ((const struct berth_exec_record *)execs.items[done])->id);
        if (rc < 0 || over)
            return rc;
        rc = run_has_ended(f, &over);
        if (rc < 0)
            return rc;
        nap();
    }
}

static void write_out(int argc, char **argv)
{
    static char follow[] = "--follow";
    for (int i = 1; i < argc; i++)
        argv[i] = strcmp(argv[i], "-f") == 0 ? follow : argv[i];
}

static int logs(struct cli *cli, int argc, char **argv)
{
    const char *since = NULL;
    struct following f = {.cli = cli,
                          .half = {BERTH_BUF_INIT(2 * BERTH_FRAME_BYTES_MAX),
                                   BERTH_BUF_INIT(2 * BERTH_FRAME_BYTES_MAX)}};
    const struct cli_option options[] = {{"follow", .flag = &f.follow}, {"since", &since}, {0}};
    int64_t skip = 0;
    write_out(argc, argv);
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    if (since && !cli_number(since, 0, INT64_MAX, &skip))
        return cli_usage(cli, "--since \"%s\" is no number of bytes", since);
    f.skip = (uint64_t)skip;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    int rc = cli_find_id(cli, BERTH_KIND_RUN, argv[0], &f.run_id);
    if (rc == BERTH_OK)
        rc = print_logs(&f);
    berth_buf_clear(&f.half[0]);
    berth_buf_clear(&f.half[1]);
    return rc < 0 ? cli_fail(cli) : CLI_OK;
}

/* --- berth ps --- */

struct at_work {
    const struct berth_run *run;
    const struct berth_exec_record *exec; /* the newest, or NULL */
    const char *environment;
};

static void ps_json(struct berth_json_writer *w, const void *item)
{
    const struct at_work *a = item;
    auto_buf run = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX),
             exec = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_run_json(&(struct berth_json_writer){.buf = &run}, a->run);
    if (a->exec)
        berth_record_json(&(struct berth_json_writer){.buf = &exec}, a->exec);
    berth_json_open(w, '{');
    berth_json_put_raw(w, "run", berth_buf_str(&run));
    berth_json_put_raw(w, "exec", a->exec ? berth_buf_str(&exec) : NULL);
    berth_json_close(w, '}');
}

static void ps_row(struct cli *cli, const void *item, const char **cells)
{
    const struct at_work *a = item;
    cells[0] = a->run->id;
    cells[1] = a->environment;
    cells[2] = cli_when(cli, a->run->started_at_ms);
    cells[3] = a->exec ? a->exec->command : NULL;
}

static const struct cli_column ps_columns[] = {
    {"RUN", CLI_ID}, {"ENVIRONMENT", 0}, {"STARTED", 0}, {"COMMAND", 0}, {0}};
static const struct cli_view ps_view = {ps_columns, ps_row, ps_json};

static int add_row(struct cli *cli, const struct berth_run *run, struct berth_list *rows)
{
    struct at_work *a = berth_arena_alloc(&cli->arena, sizeof *a);
    struct berth_list execs;
    struct berth_environment *e;
    struct berth_error gone;
    int rc = berth_record_list(cli->b, &cli->arena, run->id, &execs, &cli->err);
    if (rc < 0)
        return rc;
    if (!a || !berth_list_add(rows, &cli->arena, a))
        return berth_arena_check(&cli->arena, &cli->err);
    *a = (struct at_work){.run = run, .environment = run->environment_id};
    if (execs.count)
        a->exec = execs.items[execs.count - 1];
    if (run->environment_id &&
        berth_environment_get(cli->b, &cli->arena, run->environment_id, &e, &gone) == BERTH_OK)
        a->environment = e->name;
    return BERTH_OK;
}

static int ps(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    struct berth_run_filter filter = BERTH_RUN_FILTER_INIT;
    struct berth_list runs, rows = {0};
    filter.company_id = cli->company_id;
    filter.status = BERTH_RUN_RUNNING;
    filter.limit = BERTH_LIST_ROWS_MAX;
    int rc = berth_run_list(cli->b, &cli->arena, &filter, &runs, &cli->err);
    for (int i = 0; rc == BERTH_OK && i < runs.count; i++)
        rc = add_row(cli, runs.items[i], &rows);
    return rc < 0 ? cli_fail(cli) : cli_print_list(cli, &rows, &ps_view);
}

/* --- berth cancel --- */

/* Its process lets go of it, or dies meanwhile; either ends it. */
static int end_run(struct cli *cli, const char *id, struct berth_run **run)
{
    struct berth_error unheard;
    int rc = berth_run_get(cli->b, &cli->arena, id, run, &cli->err);
    if (rc < 0 || berth_run_ended((int)(*run)->status))
        return rc;
    int heard = cli_control_cancel(id, &unheard);
    rc = berth_run_get(cli->b, &cli->arena, id, run, &cli->err);
    for (int i = 0; heard == BERTH_OK && rc == BERTH_OK && i < LOOKS_OF_A_PASS; i++) {
        if (berth_run_ended((int)(*run)->status))
            return rc;
        nap();
        rc = end_lost(cli);
        if (rc == BERTH_OK)
            rc = berth_run_get(cli->b, &cli->arena, id, run, &cli->err);
    }
    if (rc < 0 || berth_run_ended((int)(*run)->status))
        return rc;
    if (heard == BERTH_OK)
        return berth_fail(&cli->err, BERTH_E_UNAVAILABLE,
                          "Run %s has not ended yet, and its process is gone: the next commands "
                          "end it.",
                          id);
    cli->err = unheard;
    return heard;
}

static int cancel(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    const char *id;
    struct berth_run *run;
    int rc = cli_find_id(cli, BERTH_KIND_RUN, argv[0], &id);
    if (rc == BERTH_OK)
        rc = end_run(cli, id, &run);
    if (rc < 0)
        return cli_fail(cli);
    if (cli->json) {
        auto_buf json = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
        berth_run_json(&(struct berth_json_writer){.buf = &json}, run);
        return cli_print(cli, &json);
    }
    (void)printf("%s%s%s\n", run->id, cli->quiet ? "" : " ",
                 cli->quiet ? "" : berth_run_statuses.names[run->status]);
    return CLI_OK;
}

const struct cli_command cli_log_commands[] = {
    {"logs", NULL, "RUN [-f|--follow] [--since OFFSET]", "what the commands of a run wrote", logs},
    {"ps", NULL, "", "the runs at work, and their commands", ps},
    {"cancel", NULL, "RUN", "end a run's command and give its places back", cancel},
    {"supervise", NULL, "RUN", "perform a detached run; berth run --detach starts it",
     cli_supervise},
    {0},
};
