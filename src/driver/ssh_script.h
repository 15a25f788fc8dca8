/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_script.h - scripts for the POSIX shell at the far end. A script travels on the
 * channel as one line; the command lines, on both machines, have only a short constant text. */
#ifndef BERTH_DRIVER_SSH_SCRIPT_H
#define BERTH_DRIVER_SSH_SCRIPT_H

#include "base/buf.h"

#define BERTH_SSH_LINE_BYTES_MAX (4 * 1024 * 1024)

/* The command that every session runs: it reads one line and evaluates it. The second is
 * for login shells that are POSIX shells themselves, which saves a program. */
#define BERTH_SSH_READ_LINE "exec /bin/sh -c 'IFS= read -r l && eval \"$l\"'"
#define BERTH_SSH_READ_LINE_POSIX "IFS= read -r l && eval \"$l\""
/* The same on a terminal, which must let the line through unchanged first; it says so by READY. */
#define BERTH_SSH_READ_LINE_TTY                                                                    \
    "exec /bin/sh -c 'o=$(stty -g); stty raw -echo; printf \"\\036ready;\";"                       \
    " IFS= read -r l && eval \"$l\"'"
#define BERTH_SSH_READY "\036ready;"

/* Comes before our own output, since login shells print texts of their own first. */
#define BERTH_SSH_MARK_SIZE 34
struct berth_ssh_mark {
    char text[BERTH_SSH_MARK_SIZE]; /* begins with \036, which it contains only once */
};
struct berth_ssh_mark berth_ssh_mark_new(void);

/* A line that is being written. */
struct berth_ssh_line {
    struct berth_buf buf;
    bool has_newline;
};
#define BERTH_SSH_LINE_INIT                                                                        \
    {                                                                                              \
        .buf = BERTH_BUF_INIT(BERTH_SSH_LINE_BYTES_MAX)                                            \
    }
/* Wipes and frees the line, which may hold secrets. */
void berth_ssh_line_clear(struct berth_ssh_line *line);
#define auto_ssh_line __attribute__((cleanup(berth_ssh_line_clear))) struct berth_ssh_line

/* Adds NAME='value'; the value may have any bytes but NUL. */
void berth_ssh_line_set(struct berth_ssh_line *line, const char *name, const char *value);
/* Adds the shell function z, which exports the variables ("NAME=value", closed by NULL). */
void berth_ssh_line_env(struct berth_ssh_line *line, const char *const *env);
void berth_ssh_line_args(struct berth_ssh_line *line, const char *const *argv);
/* Adds one of the scripts below, which use the variables that were set, and ends the line. */
int berth_ssh_line_end(struct berth_ssh_line *line, const char *script, struct berth_error *err);

/* Holds the connection: prints mark, the login shell, ":", its PATH, ";", then runs further lines
 * (berth_ssh_cancel) until its input ends, and ends all processes that were started over it.
 * m: mark, k: label of those processes. */
extern const char berth_ssh_keep[];
/* A command, which is its arguments; z exports its variables. m: mark, d: directory of the lease,
 * x: exec id, h: cwd, p: PATH or "". Says the mark on both streams first, and again
 * behind all that the command wrote; on stderr status, blank, cause, ";" follow. On a terminal all
 * is on stdout. Timed ones also take t: seconds until its time-out, g: tenths of a second of grace.
 */
extern const char berth_ssh_run[], berth_ssh_run_timed[];
extern const char berth_ssh_run_tty[], berth_ssh_run_tty_timed[];
/* Ends a command that still runs: d, x, g as above, c: the cause to be told. */
extern const char berth_ssh_cancel[];
/* Ends the processes that are left of a command and prints mark, status, blank, cause, ";": m, d, x
 * as above. */
extern const char berth_ssh_settle[];
/* Makes the directory of a lease. m, h: workspace, l: lease id; i and j: how the place's id
 * begins and ends, with the real path between them. Says mark, the place's id, newline, the
 * workspace's path, newline, ";". */
extern const char berth_ssh_acquire[];
extern const char berth_ssh_release[]; /* m, h, l: says mark, ";" */
extern const char berth_ssh_realize[]; /* m, h: says mark, path, newline, ";" */
extern const char berth_ssh_find[];    /* m, h: says mark, (lease, blank, place, newline)*, ";" */
extern const char berth_ssh_probe[];   /* m, h: says mark, path, newline, ";" */
#endif
