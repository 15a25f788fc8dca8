/* SPDX-License-Identifier: Apache-2.0
 * src/cli/prompt.c - see prompt.h. */
#include "cli/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"

#define LINE_BYTES_MAX 4096

bool cli_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* --- without echo --- */

static struct termios saved;
static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define ENDINGS (sizeof ending / sizeof ending[0])

/* Turns the echo on again, then raises the signal with its default action. */
static void on_signal(int number)
{
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    (void)!write(STDERR_FILENO, "\n", 1);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Blocks Ctrl-Z until the answer is given: after `fg` the echo would be on. */
static void hold_stops(bool hold)
{
    sigset_t stops;
    (void)sigemptyset(&stops);
    (void)sigaddset(&stops, SIGTSTP);
    (void)sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &stops, NULL);
}

static void set_handlers(struct sigaction before[ENDINGS], bool set)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < ENDINGS; i++)
        (void)sigaction(ending[i], set ? &action : &before[i], set ? &before[i] : NULL);
}

/* Reads a line without its newline. */
static int read_line(struct berth_locked *out, struct berth_error *err)
{
    for (;;) {
        char c;
        ssize_t got = read(STDIN_FILENO, &c, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return berth_fail_errno(err, "Cannot read the answer");
        if (got == 0 && out->len == 0)
            return berth_fail(err, BERTH_E_CANCELLED, "No answer was given.");
        if (got == 0 || c == '\n')
            return BERTH_OK;
        if (out->len == out->cap)
            return berth_fail(err, BERTH_E_TOO_LARGE, "The answer is longer than %zu bytes.",
                              out->cap);
        berth_locked_append(out, &c, 1);
    }
}

static int ask_hidden(const char *label, struct berth_locked *out, struct berth_error *err)
{
    int rc = berth_locked_new(LINE_BYTES_MAX, out, err);
    if (rc < 0)
        return rc;
    if (tcgetattr(STDIN_FILENO, &saved) < 0)
        return berth_fail_errno(err, "Cannot turn the echo off");
    struct sigaction before[ENDINGS];
    set_handlers(before, true);
    hold_stops(true);
    struct termios hidden = saved;
    hidden.c_lflag &= ~(tcflag_t)ECHO;
    hidden.c_lflag |= ECHONL;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) < 0)
        rc = berth_fail_errno(err, "Cannot turn the echo off");
    if (rc == BERTH_OK) { /* asked only when the echo is off */
        (void)fprintf(stderr, "%s: ", label);
        (void)fflush(stderr);
        rc = read_line(out, err);
    }
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    set_handlers(before, false);
    hold_stops(false);
    return rc;
}

int cli_ask_secret(struct cli *cli, const char *label, bool again, struct berth_locked *out)
{
    auto_locked first = BERTH_LOCKED_INIT, second = BERTH_LOCKED_INIT;
    int rc = ask_hidden(label, &first, &cli->err);
    if (rc == BERTH_OK && again)
        rc = ask_hidden("The same again", &second, &cli->err);
    if (rc == BERTH_OK && again &&
        !berth_same_bytes(first.bytes, first.len, second.bytes, second.len))
        rc =
            berth_fail(&cli->err, BERTH_E_INVALID, "The two are not the same: nothing was stored.");
    if (rc == BERTH_OK) {
        *out = first;
        first = (struct berth_locked)BERTH_LOCKED_INIT;
    }
    return rc;
}

int cli_ask(struct cli *cli, const char *label, const char **out)
{
    auto_locked line = BERTH_LOCKED_INIT;
    (void)fprintf(stderr, "%s: ", label);
    (void)fflush(stderr);
    int rc = berth_locked_new(LINE_BYTES_MAX, &line, &cli->err);
    if (rc == BERTH_OK)
        rc = read_line(&line, &cli->err);
    if (rc < 0)
        return rc;
    *out = berth_arena_copy(&cli->arena, line.bytes, line.len);
    return berth_arena_check(&cli->arena, &cli->err);
}

/* Warns when a value ends with a newline, which an editor may have added. */
static void say_newline(const struct cli *cli, const struct berth_locked *value)
{
    const char *end = memchr(value->bytes, '\n', value->len);
    if (end && end == value->bytes + value->len - 1 && !cli->quiet)
        (void)fputs(
            "berth: the value ends with a newline, which is kept; printf '%s' writes none\n",
            stderr);
}

int cli_read_secret(struct cli *cli, const char *path, const char *label, struct berth_locked *out)
{
    bool std_in = !path || strcmp(path, "-") == 0;
    if (std_in && isatty(STDIN_FILENO)) /* typed: without echo, even if stderr is not a terminal */
        return cli_ask_secret(cli, label, true, out);
    auto_close int file = std_in ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!std_in && file < 0)
        return berth_fail_errno(&cli->err, "Cannot read %s", path);
    if (std_in && cli->stdin_read)
        return berth_fail(&cli->err, BERTH_E_INVALID, "Standard input can be read once only.");
    cli->stdin_read |= std_in;
    int rc =
        berth_locked_read(std_in ? STDIN_FILENO : file, BERTH_SECRET_BYTES_MAX, out, &cli->err);
    if (rc == BERTH_OK && out->len)
        say_newline(cli, out);
    return rc;
}
