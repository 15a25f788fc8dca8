/* SPDX-License-Identifier: Apache-2.0
 * src/cli/exec.c - berth exec: runs a command in the place of a lease, with its streams as if it
 * ran here. */
#include "core/run/exec.h"
#include "core/run/exec_result.h"

#include <poll.h>

#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/command_options.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/exit_status.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/session.h"

/* Waits until the command has ended; a signal cancels it. Returns whether one did. */
static bool exec_wait(struct cli_session *s, struct berth_exec *x)
{
    struct pollfd fds[] = {{.fd = s->cancel_fd, .events = POLLIN},
                           {.fd = s->stop_fd, .events = POLLIN}};
    while (!fds[1].revents)
        if (poll(fds, 2, -1) > 0 && fds[0].revents) {
            berth_exec_cancel(x);
            fds[0].fd = -1;
        }
    return fds[0].fd < 0;
}

static int exec_print_json(struct cli *cli, struct berth_exec *x, const struct berth_exec_end *end)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (berth_exec_result_json(&w, berth_exec_log(x), berth_exec_id(x), end,
                               berth_exec_truncated(x), &cli->err) < 0)
        return cli_run_failed(cli);
    return cli_print(cli, &buf);
}

static int exec_here(struct cli *cli, struct berth_exec_request *request)
{
    struct cli_session s;
    struct berth_exec *x;
    struct berth_exec_end end;
    bool truncated = false, cancelled = false;
    int status = cli_session_open(&s, cli);
    if (status != CLI_OK)
        return status;
    if (request->terminal)
        cli_session_copy_terminal(&s, request);
    struct berth_exec_handlers handlers = cli_session_handlers(&s);
    int rc = berth_exec_start(cli->b, request, &handlers, &x, &cli->err);
    if (rc == BERTH_OK) {
        cli_session_start(&s, x);
        cancelled = exec_wait(&s, x);
        cli_session_stop(&s);
        berth_exec_wait(x, &end);
        truncated = berth_exec_truncated(x);
        if (cli->json)
            status = exec_print_json(cli, x, &end);
        berth_exec_free(x);
    }
    cli_session_close(&s);
    if (rc < 0)
        return cli_not_started(cli, rc == BERTH_E_NOT_FOUND ? "command_not_found"
                                    : rc == BERTH_E_DENIED  ? "command_not_executable"
                                                            : "");
    if (end.cause == BERTH_END_CANCELLED && !cancelled)
        cli_say_lease_over(cli, request->lease_id);
    return status == CLI_OK || cli->unwritten ? cli_exit_status(cli, &end, truncated) : status;
}

static int exec_main(struct cli *cli, int argc, char **argv)
{
    struct cli_command_options given = {0};
    const struct cli_option options[] = {{"cwd", &given.cwd},
                                         {"env", .texts = &given.env},
                                         {"timeout", &given.timeout},
                                         {"tty", .flag = &given.terminal},
                                         {0}};
    int end;
    if (cli_command_split(cli, argc, argv, &end) != CLI_OK)
        return CLI_USAGE;
    char **command = argv + end + 1;
    if (cli_parse(cli, end, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    struct berth_exec_request request = BERTH_EXEC_REQUEST_INIT;
    int status = cli_command_request(cli, &given, command, &request);
    if (status == CLI_OK)
        status = cli_open(cli);
    if (status != CLI_OK)
        return status == CLI_USAGE ? status : CLI_BERTH_FAILED;
    if (cli_find_id(cli, "lease", argv[0], &request.lease_id) < 0)
        return cli_run_failed(cli);
    return cli->daemon ? cli_remote_exec(cli, &request) : exec_here(cli, &request);
}

const struct cli_command cli_exec_commands[] = {
    {"exec", NULL,
     "LEASE [-C|--cwd DIR] [--env NAME[=VALUE]]... [--timeout 15m] [-t|--tty] -- COMMAND"
     " [ARGUMENT]...",
     "run a command in the place of a lease", exec_main},
    {0},
};
