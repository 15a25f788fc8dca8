/* SPDX-License-Identifier: Apache-2.0
 * src/cli/print.c - see print.h. */
#include "cli/print.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"

#define WIDTH_UNKNOWN 80 /* of a terminal that does not say */
#define MINUTE 60        /* in seconds, as the next two */
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* --- the terminal --- */

bool cli_colours(FILE *out)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(out)) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

int cli_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
        return 0;
    return size.ws_col ? size.ws_col : WIDTH_UNKNOWN;
}

/* --- text from outside --- */

void cli_clean_text(char *text)
{
    size_t step;
    for (char *p = text; *p; p += step)
        if (berth_utf8_is_control(berth_utf8_decode(p, &step)) || !berth_utf8_step(p))
            memset(p, '?', step);
}

const char *cli_clean(struct cli *cli, const char *text)
{
    char *copy = berth_arena_strdup(&cli->arena, text);
    if (copy)
        cli_clean_text(copy);
    return copy ? copy : "?";
}

/* Writes control characters of JSON as \\uXXXX. */
static void escape_json(const char *json, struct berth_buf *out)
{
    size_t step;
    for (const char *p = json; *p; p += step) {
        uint32_t c = berth_utf8_decode(p, &step);
        if (c >= 0x7f && berth_utf8_is_control(c))
            berth_buf_printf(out, "\\u%04x", c);
        else
            berth_buf_append(out, p, step);
    }
}

/* --- errors --- */

void cli_print_prefix(void)
{
    (void)fputs(cli_colours(stderr) ? "\033[31mberth:\033[0m " : "berth: ", stderr);
}

static void print_issues_json(struct berth_json_writer *w, const struct berth_issues *issues)
{
    berth_json_open_in(w, "details", '{');
    berth_issues_json(w, "issues", issues);
    berth_json_close(w, '}');
}

static void print_error_json(const struct cli *cli)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX),
             escaped = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "error", cli->err.message);
    berth_json_put_str(&w, "code", berth_code_wire(cli->err.code));
    if (cli->issues.list.count)
        print_issues_json(&w, &cli->issues);
    berth_json_close(&w, '}');
    if (!buf.failed)
        escape_json(berth_buf_str(&buf), &escaped);
    (void)fprintf(stderr, "%s\n", escaped.failed || !escaped.len ? "{}" : berth_buf_str(&escaped));
}

int cli_fail(struct cli *cli)
{
    static const char in_config[] = "config.";
    if (cli->json) {
        print_error_json(cli);
        return CLI_FAILED;
    }
    cli_print_prefix();
    if (cli->issues.list.count < 2) {
        (void)fprintf(stderr, "%s\n", cli_clean(cli, cli->err.message));
        if (strncmp(cli->err.where, in_config, strlen(in_config)) == 0)
            (void)fprintf(stderr, "  in %s\n", cli_clean(cli, cli->err.where));
        return CLI_FAILED;
    }
    (void)fputs("the config is not right:\n", stderr);
    for (int i = 0; i < cli->issues.list.count; i++) {
        const struct berth_issue *issue = cli->issues.list.items[i];
        (void)fprintf(stderr, "  %s\n", cli_clean(cli, issue->message));
    }
    return CLI_FAILED;
}

/* --- answers --- */

int cli_print(struct cli *cli, struct berth_buf *buf)
{
    auto_buf escaped = BERTH_BUF_INIT(2 * BERTH_JSON_BYTES_MAX);
    if (cli->json && !buf->failed) {
        escape_json(berth_buf_str(buf), &escaped);
        buf = &escaped;
    }
    if (berth_buf_check(buf, "The answer", &cli->err) < 0)
        return cli_fail(cli);
    if (puts(berth_buf_str(buf)) >= 0 && fflush(stdout) == 0)
        return CLI_OK;
    cli->unwritten = errno;
    return CLI_FAILED;
}

/* Explains the exit status of a command whose output could not be written. A reader that is gone is
 * no error of berth: the status is the one that SIGPIPE leaves, and nothing is said. */
static int close_command_output(struct cli *cli, int status)
{
    char why[128];
    if (cli->unwritten == EPIPE)
        return status ? status : CLI_BY_SIGNAL + SIGPIPE;
    (void)berth_fail(&cli->err, BERTH_E_UNAVAILABLE,
                     "Cannot write the output of the command: %s. The exit status of the command "
                     "was %d.%s%s",
                     strerror_r(cli->unwritten, why, sizeof why), status,
                     cli->run_id ? " Its output is in the log: berth logs " : "",
                     cli->run_id ? cli->run_id : "");
    (void)cli_fail(cli);
    return CLI_BERTH_FAILED;
}

int cli_close_output(struct cli *cli, int status)
{
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && !cli->unwritten)
        cli->unwritten = errno ? errno : EIO;
    if (!cli->unwritten)
        return status;
    if (cli->ran_command)
        return close_command_output(cli, status);
    errno = cli->unwritten;
    (void)berth_fail_errno(&cli->err, "Cannot write the answer");
    return cli_fail(cli);
}

const char *cli_when(struct cli *cli, int64_t wall_ms)
{
    if (!wall_ms)
        return "-";
    int64_t away = wall_ms - berth_time_wall_ms();
    int64_t s = ((away < 0 ? -away : away) + 500) / 1000;
    const char *unit = s < MINUTE ? "s" : s < HOUR ? "m" : s < 2 * DAY ? "h" : "d";
    int64_t n = s < MINUTE ? s : s < HOUR ? s / MINUTE : s < 2 * DAY ? s / HOUR : s / DAY;
    bool past = away < 0 || n == 0; /* the clock of the store's machine may be ahead of ours */
    const char *text =
        berth_arena_printf(&cli->arena, past ? "%lld%s ago" : "in %lld%s", (long long)n, unit);
    return text ? text : "?";
}
