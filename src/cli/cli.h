/* SPDX-License-Identifier: Apache-2.0
 * src/cli/cli.h - one call of the program: its options, and the runtime or daemon that it uses. */
#ifndef BERTH_CLI_CLI_H
#define BERTH_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/issues.h"
#include "core/activity.h"
#include "core/berth.h"

/* Exit statuses. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
};
/* Those of berth run and berth exec beside the command's own, as timeout(1) and shells have them.
 */
enum {
    CLI_TIMED_OUT = 124,
    CLI_BERTH_FAILED = 125,
    CLI_NOT_EXECUTABLE = 126,
    CLI_NOT_FOUND = 127,
    CLI_BY_SIGNAL = 128, /* plus the signal's number */
};

struct cli {
    const struct cli_command *command;
    const char *store;    /* --store, else BERTH_STORE, else the user's own */
    const char *company;  /* --company, else BERTH_COMPANY, else `default` */
    const char *key_file; /* --key-file, else BERTH_KEY_FILE, else beside the store */
    const char *url;      /* --url, else BERTH_URL; NULL: the daemon of the store, if one runs */
    bool json, quiet;
    bool stdin_read;           /* standard input has been read, which works once */
    struct cli_daemon *daemon; /* the daemon that answers the calls, or NULL */
    struct berth *b;           /* without a daemon: the runtime in this process */
    const char *company_id;
    int cancel_fd;         /* readable: the call in progress is given up; -1: never */
    struct cli_kept *kept; /* the answers so far */
    const char *not_text;  /* the member of a body that is not UTF-8, or NULL */
    _Atomic int unwritten; /* the errno of the first output that could not be written; 0: none */
    bool ran_command;      /* then it was output of a command, and the exit status is its own */
    const char *run_id;    /* the run whose log has that output, or NULL */
    struct berth_arena arena;
    struct berth_issues issues;
    struct berth_actor actor;
    struct berth_error err; /* of the last call that failed */
};
#endif
