/* SPDX-License-Identifier: Apache-2.0
 * src/cli/session.h - a command in the foreground: its output, our input, the terminal, and the
 * line that says what is going on. */
#ifndef BERTH_CLI_SESSION_H
#define BERTH_CLI_SESSION_H

#include <pthread.h>
#include <semaphore.h>
#include <termios.h>

#include <berth/exec.h>

#include "base/id.h"
#include "cli/cli.h"

struct piece; /* of its output, on its way */

/* One command in the foreground. */
struct cli_session {
    struct cli *cli;
    bool gives_terminal; /* the command has one of its own */
    bool on_terminal;    /* and ours passes every key on */
    struct termios before;
    int cancel_fd; /* a signal makes it readable */
    int stop_fd;   /* readable when the command has ended: stdin is not read any more */
    pthread_t reader, writer;
    bool reads;

    char exec_id[BERTH_ID_SIZE]; /* of a command that a daemon runs */
    struct berth_error unsent;   /* why input did not reach that; its code is 0 when it did */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* output was queued, or the command is over */
    pthread_cond_t written; /* no output is queued any more */
    struct berth_exec *exec;
    struct piece *head, **tail;
    size_t queued;
    bool over, closed; /* nobody reads our output any more */
    sem_t room;        /* in the command's stdin */
    struct cli_run_socket *control;

    bool has_status;             /* there is somebody to see it */
    pthread_mutex_t status_lock; /* held while output is written, too */
    bool status_shown, at_line_start;
};

/* CLI_OK, or what to exit with. */
int cli_session_open(struct cli_session *s, struct cli *cli);
void cli_session_close(struct cli_session *s); /* all output is out when this returns */

/* The command is to have a terminal as large as ours. */
void cli_session_copy_terminal(struct cli_session *s, struct berth_exec_request *command);
/* The handlers of a command that this process runs; the output goes to cli_session_output. */
struct berth_exec_handlers cli_session_handlers(struct cli_session *s);
/* The command runs: it gets our input, and others may write to it. */
void cli_session_start(void *session, struct berth_exec *exec);
/* The command has ended. The session does not use the exec any more when this returns. */
void cli_session_stop(void *session);
/* Our input goes to the command, s->exec or s->exec_id, until s->stop_fd is readable. */
void cli_session_start_input(struct cli_session *s);
void cli_session_stop_input(struct cli_session *s); /* waits for that */
/* Queues it, while s->exec is held up if need be; from any thread. */
void cli_session_output(struct cli_session *s, int fd, const char *bytes, size_t len);
/* Writes it now. false: nobody reads it. */
bool cli_session_write(struct cli_session *s, int fd, const char *bytes, size_t len);
/* One line on a terminal, until something else stands there. */
void cli_session_say(struct cli_session *s, const char *word);
#endif
