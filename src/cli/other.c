/* SPDX-License-Identifier: Apache-2.0
 * src/cli/other.c - berth activity, sweep and version. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/cli.h"
#include "store/migrate.h"

static const char *actor_of(struct cli *cli, const struct berth_json *entry)
{
    const char *id = cli_text(entry, "actorId");
    (void)cli;
    return id ? id : cli_text(entry, "actorType");
}

/* Anything that has an id can have a history; by name where it has one. */
static int find_entity(struct cli *cli, const char *text, const char **id)
{
    static const char *const kinds[] = {"lease", "environment", "secret", "run", "company"};
    static int (*const by_name[])(struct cli *, const char *, const struct berth_json **) = {
        cli_find_environment, cli_find_secret, cli_find_company};
    const struct berth_json *found;
    *id = text;
    if (berth_id_valid(text))
        return BERTH_OK; /* also of what is no more */
    int rc = BERTH_E_NOT_FOUND;
    for (size_t i = 0; rc == BERTH_E_NOT_FOUND && i < sizeof kinds / sizeof kinds[0]; i++)
        rc = cli_find_id(cli, kinds[i], text, id);
    for (size_t i = 0; rc == BERTH_E_NOT_FOUND && i < sizeof by_name / sizeof by_name[0]; i++)
        if ((rc = by_name[i](cli, text, &found)) == BERTH_OK)
            *id = cli_text(found, "id");
    return rc == BERTH_E_NOT_FOUND
               ? berth_fail(&cli->err, rc, "Nothing is called \"%.200s\".", text)
               : rc;
}

static int activity(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {
        {"ID", "id", CLI_NUMBER}, {"WHEN", "createdAt", CLI_WHEN}, {"ACTOR", .text = actor_of},
        {"ACTION", "action"},     {"ENTITY", "entityId", CLI_ID},  {0}};
    const char *entity = NULL, *limit = NULL, *before = NULL;
    const struct cli_option options[] = {
        {"entity", &entity}, {"limit", &limit}, {"before", &before}, {0}};
    struct cli_answer found;
    int64_t ignored;
    int rows;
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0 || cli_limit(cli, limit, &rows) != CLI_OK)
        return CLI_USAGE;
    if (before && !cli_number(before, 1, INT64_MAX, &ignored))
        return cli_usage(cli, "--before is the id of an entry");
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if ((entity && find_entity(cli, entity, &entity) < 0) ||
        cli_get(cli, &found, "/api/companies/%s/activity?limit=%d%s%s%s%s", cli->company_id, rows,
                entity ? "&entityId=" : "", entity ? entity : "", before ? "&before=" : "",
                before ? before : "") < 0)
        return cli_fail(cli);
    cli_say_cut(cli, &found, rows);
    return cli_print_list(cli, &found, columns);
}

static int print_report(struct cli *cli, const struct cli_answer *report)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    if (cli->json)
        return cli_print_text(cli, report->text);
    berth_json_each (report->json, iter) {
        int64_t count = berth_json_int(berth_json_iter_value(iter));
        if (count)
            berth_buf_printf(&buf, "%s%lld %s", buf.len ? ", " : "", (long long)count,
                             berth_json_iter_key(iter));
    }
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

/* A provider that hangs goes on by itself. */
static int watch(struct cli *cli, int64_t interval_ms)
{
    struct sigaction stop = {.sa_handler = on_stop};
    struct timespec wait = {.tv_sec = interval_ms / 1000, .tv_nsec = interval_ms % 1000 * 1000000};
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    while (!stopping) {
        struct cli_answer report;
        int status = CLI_OK;
        if (cli_call(cli, &report, "POST", NULL, "/api/sweep?waitMs=%d", WATCH_WAIT_MS) < 0)
            (void)cli_fail(cli); /* the store may come back */
        else
            status = print_report(cli, &report);
        cli_forget(cli);
        if (status != CLI_OK)
            return status;
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
    struct cli_answer report;
    if (cli_call(cli, &report, "POST", NULL, "/api/sweep") < 0)
        return cli_fail(cli);
    status = print_report(cli, &report);
    bool trouble = berth_json_int(berth_json_get(report.json, "failed")) ||
                   berth_json_int(berth_json_get(report.json, "quarantined"));
    return status == CLI_OK && trouble ? CLI_FAILED : status;
}

/* --- berth serve --- */

#define SERVE_WORDS_MAX 64

/* berthd is beside us, or where programs are. What stands behind "serve" is for it. */
static int serve(struct cli *cli, int argc, char **argv)
{
    static char store[] = "--store", key_file[] = "--key-file", daemon[] = "berthd";
    char self[4096], *words[SERVE_WORDS_MAX + 6] = {daemon};
    int count = 1;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return cli_parse(cli, argc, argv, NULL, 0, 0) < 0 ? CLI_USAGE : CLI_OK;
    if (argc > SERVE_WORDS_MAX)
        return cli_usage(cli, "that are too many words");
    if (cli->store) {
        words[count++] = store;
        words[count++] = (char *)(uintptr_t)cli->store;
    }
    if (cli->key_file) {
        words[count++] = key_file;
        words[count++] = (char *)(uintptr_t)cli->key_file;
    }
    for (int i = 1; i < argc; i++)
        words[count++] = argv[i];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - sizeof daemon);
    if (len > 0) {
        self[len] = '\0';
        char *name = strrchr(self, '/') + 1;
        memcpy(name, daemon, sizeof daemon);
        (void)execv(self, words);
    }
    (void)execvp(daemon, words);
    (void)berth_fail_errno(&cli->err, "Cannot run berthd");
    return cli_fail(cli);
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
    {"serve", NULL, "[OPTION]...", "run the daemon, berthd, in the foreground", serve},
    {"doctor", NULL, "", "what works here, what does not, and the cure", cli_doctor},
    {"completion", NULL, "bash|zsh|fish",
     "a script that completes berth's commands, for your shell to read", cli_completion},
    {"version", NULL, "", "the version of this program", version},
    {0},
};
