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

/* --- a part of the test --- */

/* Runs the tests of the group that BERTH_TEST_SHARD asks for: "i/n" is every n-th test, beginning
 * with the i-th, 1 <= i <= n. Without it, all of them. */
#define run_shard(name, tests) run_shard_of((name), (tests), sizeof(tests) / sizeof(tests)[0])
int run_shard_of(const char *name, const struct CMUnitTest *tests, size_t count);

/* Returns the number that BERTH_TEST_SEED gives, or a new one. */
unsigned test_seed(void);

/* A part of a matrix that a seed chooses. It is wanted when BERTH_TEST_SAMPLE is set, as in builds
 * that are too slow for the whole matrix. */
struct sample {
    bool wanted;
    unsigned seed;
};
/* Uses test_seed, and prints it when a sample is wanted. */
struct sample sample_new(void);
/* Whether cell `at` is in part `part` of `parts`; each cell is in one of them. */
bool sample_has(const struct sample *sample, int at, int part, int parts);
#endif
