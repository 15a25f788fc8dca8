/* SPDX-License-Identifier: Apache-2.0
 * src/cli/other.c - berth activity, sweep and version. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/cli.h"
#include "core/secret.h"
#include "core/sweep.h"
#include "store/migrate.h"

static void activity_json(struct berth_json_writer *w, const void *item)
{
    berth_activity_json(w, item);
}

static void activity_row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_activity *a = item;
    cells[0] = berth_arena_printf(&cli->arena, "%lld", (long long)a->id);
    cells[1] = cli_when(cli, a->created_at_ms);
    cells[2] = a->actor_id ? a->actor_id : a->actor_type;
    cells[3] = a->action;
    cells[4] = a->entity_id;
}

/* Anything that has an id can have a history; by name where it has one. */
static int find_entity(struct cli *cli, const char *text, const char **id)
{
    static const enum berth_kind kinds[] = {BERTH_KIND_LEASE, BERTH_KIND_ENVIRONMENT,
                                            BERTH_KIND_SECRET, BERTH_KIND_RUN, BERTH_KIND_COMPANY};
    *id = text;
    if (berth_id_valid(text))
        return BERTH_OK; /* also of what is no more */
    int rc = BERTH_E_NOT_FOUND;
    for (size_t i = 0; rc == BERTH_E_NOT_FOUND && i < sizeof kinds / sizeof kinds[0]; i++)
        rc = cli_find_id(cli, kinds[i], text, id);
    struct berth_environment *e;
    struct berth_secret *s;
    if (rc == BERTH_E_NOT_FOUND && (rc = cli_find_environment(cli, text, &e)) == BERTH_OK)
        *id = e->id;
    else if (rc == BERTH_E_NOT_FOUND && (rc = cli_find_secret(cli, text, &s)) == BERTH_OK)
        *id = s->id;
    else if (rc == BERTH_E_NOT_FOUND)
        rc = cli_find_company(cli, text, id);
    return rc == BERTH_E_NOT_FOUND
               ? berth_fail(&cli->err, rc, "Nothing is called \"%.200s\".", text)
               : rc;
}

static int activity(struct cli *cli, int argc, char **argv)
{
    static const struct cli_column columns[] = {
        {"ID", CLI_NUMBER}, {"WHEN", 0}, {"ACTOR", 0}, {"ACTION", 0}, {"ENTITY", CLI_ID}, {0}};
    static const struct cli_view view = {columns, activity_row, activity_json};
    const char *entity = NULL, *limit = NULL, *before = NULL;
    const struct cli_option options[] = {
        {"entity", &entity}, {"limit", &limit}, {"before", &before}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    struct berth_activity_filter filter = {0};
    if (cli_limit(cli, limit, &filter.limit) != CLI_OK)
        return CLI_USAGE;
    if (before && !cli_number(before, 1, INT64_MAX, &filter.before))
        return cli_usage(cli, "--before is the id of an entry");
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_list found;
    filter.company_id = cli->company_id;
    if ((entity && find_entity(cli, entity, &filter.entity_id) < 0) ||
        berth_activity_list(cli->b, &cli->arena, &filter, &found, &cli->err) < 0)
        return cli_fail(cli);
    cli_say_cut(cli, found.count, filter.limit);
    return cli_print_list(cli, &found, &view);
}

/* X(field): the report's numbers, by the names they have everywhere. */
#define REPORT_FIELDS(X)                                                                           \
    X(lost)                                                                                        \
    X(released)                                                                                    \
    X(expired)                                                                                     \
    X(adopted)                                                                                     \
    X(unparked)                                                                                    \
    X(cleaned)                                                                                     \
    X(found)                                                                                       \
    X(foreign)                                                                                     \
    X(deleted)                                                                                     \
    X(quarantined)                                                                                 \
    X(failed)                                                                                      \
    X(owed)                                                                                        \
    X(unfinished)

static int print_report(struct cli *cli, const struct berth_sweep_report *r)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->json) {
        berth_json_open(&w, '{');
#define X(field) berth_json_put_int(&w, #field, r->field);
        REPORT_FIELDS(X)
#undef X
        berth_json_close(&w, '}');
        return cli_print(cli, &buf);
    }
    const char *comma = "";
#define X(field)                                                                                   \
    if (r->field) {                                                                                \
        berth_buf_printf(&buf, "%s%d %s", comma, r->field, #field);                                \
        comma = ", ";                                                                              \
    }
    REPORT_FIELDS(X)
#undef X
    if (!buf.len)
        berth_buf_puts(&buf, "nothing to do");
    return cli_print(cli, &buf);
}

#define WATCH_WAIT_MS 2000

static volatile sig_atomic_t stopping;

static void on_stop(int signal)
{
    (void)signal;
    stopping = 1;
}

static int watch(struct cli *cli, int64_t interval_ms)
{
    struct sigaction stop = {.sa_handler = on_stop};
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    struct berth_sweep_options options = BERTH_SWEEP_OPTIONS_INIT;
    options.wait_ms = WATCH_WAIT_MS; /* a provider that hangs goes on by itself */
    while (!stopping) {
        struct berth_sweep_report report;
        int status = CLI_OK;
        if (berth_sweep(cli->b, &options, &report, &cli->err) < 0)
            (void)cli_fail(cli); /* the store may come back */
        else
            status = print_report(cli, &report);
        if (status != CLI_OK)
            return status;
        struct timespec wait = {.tv_sec = interval_ms / 1000,
                                .tv_nsec = interval_ms % 1000 * 1000000};
        (void)nanosleep(&wait, NULL); /* a signal ends it early */
    }
    return CLI_OK;
}

static int sweep(struct cli *cli, int argc, char **argv)
{
    bool watching = false;
    const char *interval = NULL;
    int64_t interval_ms = 30000;
    const struct cli_option options[] = {
        {"watch", .flag = &watching}, {"interval", &interval}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    if (interval && !watching)
        return cli_usage(cli, "--interval goes with --watch");
    if (interval && !berth_time_parse_duration(interval, &interval_ms))
        return cli_usage(cli, "--interval \"%s\" is no time: write 30s or 5m", interval);
    int status = cli_connect(cli);
    if (status != CLI_OK)
        return status;
    if (watching)
        return watch(cli, interval_ms);
    struct berth_sweep_options once = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    if (berth_sweep(cli->b, &once, &report, &cli->err) < 0)
        return cli_fail(cli);
    status = print_report(cli, &report);
    return status == CLI_OK && (report.failed || report.quarantined) ? CLI_FAILED : status;
}

static int version(struct cli *cli, int argc, char **argv)
{
    if (cli_parse(cli, argc, argv, NULL, 0, 0) < 0)
        return CLI_USAGE;
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->json) {
        berth_json_open(&w, '{');
        berth_json_put_str(&w, "version", BERTH_VERSION);
        berth_json_put_int(&w, "schemaVersion", berth_store_version());
        berth_json_close(&w, '}');
    } else {
        berth_buf_puts(&buf, "berth " BERTH_VERSION);
    }
    return cli_print(cli, &buf);
}

const struct cli_command cli_other_commands[] = {
    {"activity", NULL, "[--entity NAME|ID] [--limit N] [--before ID]",
     "what happened, newest first", activity},
    {"sweep", NULL, "[--watch] [--interval 30s]",
     "take back what nobody gave back, and clean up what is owed", sweep},
    {"exec", NULL,
     "LEASE [-C|--cwd DIR] [--env NAME[=VALUE]]... [--timeout 15m] [-t|--tty] -- COMMAND"
     " [ARGUMENT]...",
     "run a command in the place of a lease", cli_exec},
    {"doctor", NULL, "", "what works here, what does not, and the cure", cli_doctor},
    {"completion", NULL, "bash|zsh|fish",
     "a script that completes berth's commands, for your shell to read", cli_completion},
    {"version", NULL, "", "the version of this program", version},
    {0},
};
