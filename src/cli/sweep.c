/* SPDX-License-Identifier: Apache-2.0
 * src/cli/sweep.c - berth sweep: takes back leases that were not released, once or with --watch. */
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/limits.h"
#include "base/time.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"

#define INTERVAL_MS 30000  /* between two sweeps of --watch, unless --interval says otherwise */
#define WATCH_WAIT_MS 2000 /* how long one sweep of --watch waits for a slow provider */

/* Asks the operator what to do with work that has waited for longer than workTtl. */
static void ask_about_work(const struct cli *cli, int64_t count)
{
    if (count && !cli->quiet)
        (void)fprintf(
            stderr,
            "berth: %lld lease%s work that did not come home for a long time. See \"berth "
            "lease list\". Fetch it with \"berth workspace pull LEASE\", or give it up "
            "with \"berth lease destroy LEASE --discard-work\".\n",
            (long long)count, count == 1 ? " holds" : "s hold");
}

static int print_report(struct cli *cli, const struct cli_answer *report)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    if (cli->json)
        return cli_print_text(cli, report->text);
    ask_about_work(cli, berth_json_int(berth_json_get(report->json, "work")));
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

static volatile sig_atomic_t stopping;

static void on_stop(int signal)
{
    (void)signal;
    stopping = 1;
}

/* Sweeps until a signal comes. A slow provider is not waited for. */
static int sweep_watch(struct cli *cli, int64_t interval_ms)
{
    struct sigaction stop = {.sa_handler = on_stop};
    struct timespec wait = {.tv_sec = interval_ms / 1000, .tv_nsec = interval_ms % 1000 * 1000000};
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    while (!stopping) {
        struct cli_answer report;
        int status = CLI_OK;
        if (cli_call(cli, &report, "POST", NULL, "/api/sweep?waitMs=%d", WATCH_WAIT_MS) < 0)
            (void)cli_fail(cli); /* goes on: the store may work again later */
        else
            status = print_report(cli, &report);
        cli_forget(cli);
        if (status != CLI_OK)
            return status;
        (void)nanosleep(&wait, NULL); /* a signal ends the wait */
    }
    return CLI_OK;
}

static int sweep_main(struct cli *cli, int argc, char **argv)
{
    bool watching = false;
    const char *interval = NULL;
    int64_t interval_ms = INTERVAL_MS;
    const struct cli_option options[] = {
        {"watch", .flag = &watching}, {"interval", &interval}, {0}};
    if (cli_parse(cli, argc, argv, options, 0, 0) < 0)
        return CLI_USAGE;
    if (interval && !watching)
        return cli_usage(cli, "--interval goes with --watch");
    if (interval && !berth_time_parse_duration(interval, &interval_ms))
        return cli_usage(cli, "--interval \"%s\" is not a duration: write 30s or 5m", interval);
    int status = cli_connect(cli);
    if (status != CLI_OK)
        return status;
    if (watching)
        return sweep_watch(cli, interval_ms);
    struct cli_answer report;
    if (cli_call(cli, &report, "POST", NULL, "/api/sweep") < 0)
        return cli_fail(cli);
    status = print_report(cli, &report);
    bool trouble = berth_json_int(berth_json_get(report.json, "failed")) ||
                   berth_json_int(berth_json_get(report.json, "quarantined"));
    return status == CLI_OK && trouble ? CLI_FAILED : status;
}

const struct cli_command cli_sweep_commands[] = {
    {"sweep", NULL, "[--watch] [--interval 30s]",
     "end expired and abandoned leases, and clean up what is owed", sweep_main},
    {0},
};
