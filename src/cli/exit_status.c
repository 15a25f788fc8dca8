/* SPDX-License-Identifier: Apache-2.0
 * src/cli/exit_status.c - see exit_status.h. */
#include "cli/exit_status.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/client.h"
#include "cli/print.h"

void cli_say_held(const struct cli *cli)
{
    if (!cli->quiet)
        (void)fputs("berth: a background process kept the command's output open after it exited; "
                    "its later output is not recorded\n",
                    stderr);
}

void cli_say_log_cut(const struct cli *cli)
{
    if (!cli->quiet)
        (void)fputs("berth: the log of the command is cut: it has reached its limit, or cannot be "
                    "written\n",
                    stderr);
}

void cli_say_lease_ended(struct cli *cli, const char *code, const char *error)
{
    if (!cli->quiet && code && error && strcmp(code, "lease_ended") == 0)
        (void)fprintf(stderr, "berth: %s\n", cli_clean(cli, error));
}

void cli_say_lease_over(struct cli *cli, const char *lease_id)
{
    struct cli_answer lease;
    if (cli->quiet || cli_get(cli, &lease, "/api/environment-leases/%s", lease_id) < 0)
        return;
    int64_t expires = cli_time(lease.json, "expiresAt");
    if (cli_is(lease.json, "status", "expired") || (expires && expires <= berth_time_wall_ms()))
        (void)fputs("berth: the lease expired before the command ended: acquire one with a longer "
                    "--ttl\n",
                    stderr);
    else if (!cli_is(lease.json, "status", "active"))
        (void)fputs("berth: the lease was released before the command ended\n", stderr);
}

int cli_say_timed_out(const struct cli *cli)
{
    if (!cli->quiet)
        (void)fputs("berth: the command ran longer than its time-out, and was ended\n", stderr);
    return CLI_TIMED_OUT;
}

void cli_say_owed(const struct cli *cli)
{
    if (!cli->quiet)
        (void)fputs("berth: the place is not confirmed to be gone: run \"berth sweep\"\n", stderr);
}

int cli_say_lost(void)
{
    (void)fputs("berth: how the command ended is not known\n", stderr);
    return CLI_BERTH_FAILED;
}

int cli_exit_status(const struct cli *cli, const struct berth_exec_end *end, bool truncated)
{
    if (end->cut[0] || end->cut[1])
        cli_say_held(cli);
    else if (truncated)
        cli_say_log_cut(cli);
    if (end->cause == BERTH_END_TIMEOUT)
        return cli_say_timed_out(cli);
    if (end->cause == BERTH_END_LOST)
        return cli_say_lost();
    return end->signal ? CLI_BY_SIGNAL + end->signal : end->exit_code;
}

int cli_run_failed(struct cli *cli)
{
    (void)cli_fail(cli);
    return CLI_BERTH_FAILED;
}

int cli_not_started(struct cli *cli, const char *code)
{
    (void)cli_fail(cli);
    return strcmp(code, "command_not_found") == 0        ? CLI_NOT_FOUND
           : strcmp(code, "command_not_executable") == 0 ? CLI_NOT_EXECUTABLE
                                                         : CLI_BERTH_FAILED;
}
