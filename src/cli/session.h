/* SPDX-License-Identifier: Apache-2.0
 * src/cli/session.h - a command in the foreground: its output, its input, the terminal, and the
 * status line. */
#ifndef BERTH_CLI_SESSION_H
#define BERTH_CLI_SESSION_H

#include <pthread.h>
#include <semaphore.h>
#include <termios.h>

#include <berth/exec.h>

#include "base/id.h"
#include "cli/cli.h"

struct piece; /* output that is not written yet */

/* One command in the foreground. */
struct cli_session {
    struct cli *cli;
    bool gives_terminal;   /* the command has a terminal of its own */
    bool on_terminal;      /* our terminal is in raw mode */
    struct termios before; /* its mode before that */
    int cancel_fd;         /* a signal makes it readable */
    int stop_fd;           /* readable when the command has ended: stdin is not read any more */
    pthread_t reader, writer;
    bool reads;

    char exec_id[BERTH_ID_SIZE]; /* of a command that a daemon runs */
    struct berth_error unsent;   /* why input did not reach that command; code 0: it did */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* output was queued, or the command is over */
    pthread_cond_t written; /* no output is queued any more */
    struct berth_exec *exec;
    struct piece *head, **tail;
    size_t queued;
    bool over;   /* the command has ended: nothing more is queued */
    bool closed; /* stdout or stderr cannot be written any more */
    sem_t room;  /* posted when the command's stdin has room */
    struct cli_run_socket *control;

    bool has_status;             /* stderr is a terminal, and may show it */
    pthread_mutex_t status_lock; /* also held while output is written */
    bool status_shown, at_line_start;
};

/* Returns CLI_OK, or the exit status after the error has been printed. */
int cli_session_open(struct cli_session *s, struct cli *cli);
void cli_session_close(struct cli_session *s); /* writes all output first */

/* Gives the command a terminal of the size of ours. */
void cli_session_copy_terminal(struct cli_session *s, struct berth_exec_request *command);
/* Returns the handlers of a command that this process runs. */
struct berth_exec_handlers cli_session_handlers(struct cli_session *s);
/* Called when the command runs: starts to pass it our input, and that of the run's socket. */
void cli_session_start(void *session, struct berth_exec *exec);
/* Called when the command has ended. The session does not use the exec after it returns. */
void cli_session_stop(void *session);
/* Passes our input to the command, s->exec or s->exec_id, until s->stop_fd is readable. */
void cli_session_start_input(struct cli_session *s);
void cli_session_stop_input(struct cli_session *s); /* waits until it is */
/* Queues output; pauses s->exec when too much is queued. May be called on any thread. */
void cli_session_output(struct cli_session *s, int fd, const char *bytes, size_t len);
/* Writes output now. Returns false when that failed. */
bool cli_session_write(struct cli_session *s, int fd, const char *bytes, size_t len);
/* Shows the word in the status line, which the next output erases. */
void cli_session_say(struct cli_session *s, const char *word);
#endif
