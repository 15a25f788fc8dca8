/* SPDX-License-Identifier: Apache-2.0
 * tests/support/children.h - a test program that starts itself again: children that work on the
 * fixture's store, report lines to the test, and may be killed. A child is started with the
 * arguments WHAT WHICH STORE DIRECTORY. */
#ifndef BERTH_TESTS_CHILDREN_H
#define BERTH_TESTS_CHILDREN_H

#include "fixture.h"

#include <sys/types.h>

#define CHILD_ARGC 5 /* main: the arguments of a child */
#define CHILD_WHAT 1
#define CHILD_WHICH 2

/* --- in the child --- */

/* Opens a runtime on the store of the test that started the child. */
void child_open(struct fixture *f, char **argv);
void child_close(struct fixture *f);
/* Sends the line "<what> <text>" to the test. It is not lost when the child dies next. */
void child_report(const char *what, const char *text);

/* --- in the test --- */

struct child {
    pid_t pid;
    int report_fd;
};

struct child child_start(const struct fixture *f, const char *what, const char *which);
/* Waits for its end. Returns all that it reported, owned by the caller; *status is waitpid's. */
char *child_finish(struct child child, int *status);
/* Starts a child and waits for it. Fails the test unless the child exits with 0. */
void child_run(const struct fixture *f, const char *what, const char *which);
/* Copies the text of the next line "<what> <text>" of a report and moves *at behind it. Returns
 * false when there is no such line. */
bool child_line(char **at, const char *what, char text[64]);
/* Fails the test when the report has no line "<what> ...". */
void child_told(char *told, const char *what, char text[64]);

/* Lets a dead node's heartbeat lapse: on a shared store a killed node counts as alive until then.
 */
void lapse_node(struct fixture *f, const char *node_id);
#endif
