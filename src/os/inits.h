/* SPDX-License-Identifier: Apache-2.0
 * src/os/inits.h - the inits of this process: each is the parent of one command and of everything
 * that the command starts (src/init/init.c). An init that has nothing left below it is used again,
 * but only for the same user: a command can change limits and priority of its init, and with that
 * those of the next command. A user is a lease. */
#ifndef BERTH_OS_INITS_H
#define BERTH_OS_INITS_H

#include <stdbool.h>
#include <sys/types.h>

#include <berth/error.h>

#include "os/init_protocol.h"

struct berth_spawn;
struct berth_inits; /* safe to share between threads */
struct berth_init;  /* used by one thread at a time */

int berth_inits_new(struct berth_inits **out, struct berth_error *err);
void berth_inits_free(struct berth_inits *inits); /* ends the spare ones; NULL is fine */

/* Starts a spare init, so that the first command does not wait for one. From then on one is kept
 * for the next user: for a program that serves many. */
int berth_inits_prepare(struct berth_inits *inits, struct berth_error *err);
/* Returns a spare init that has served this user or none, or starts one. The caller gives it back,
 * or drops it. */
int berth_inits_take(struct berth_inits *inits, const char *user, struct berth_init **out,
                     struct berth_error *err);
/* Starts a spare init when one is to be kept, and there is none. */
void berth_inits_replenish(struct berth_inits *inits);
/* Keeps the init for another command of its user. Its tree is empty. */
void berth_inits_give(struct berth_inits *inits, struct berth_init *init);
/* Ends the spare inits that were not needed since the last call, except for one that has served no
 * user. Returns whether there is something left to do. */
bool berth_inits_trim(struct berth_inits *inits);
/* Lets the init end its tree and exit, without waiting for that. */
void berth_init_drop(struct berth_init *init);

/* Runs a program below the init and returns when it runs. Called once after each take. Errors are
 * those of berth_spawn. `file` is what berth_spawn_prepare found, and `what` has no confinement. */
int berth_init_run(struct berth_init *init, const struct berth_spawn *what, const char *file,
                   struct berth_error *err);
/* Returns whether the init can be given back after berth_init_run has failed. */
bool berth_init_is_usable(const struct berth_init *init);
pid_t berth_init_command(const struct berth_init *init); /* the program's process id */
int berth_init_fd(const struct berth_init *init);        /* readable when there is a report */
/* Reads a report without waiting. Returns 1, 0 when no report has come, or -1 when the init is
 * dead.
 */
int berth_init_read(struct berth_init *init, struct berth_init_report *out);
/* Sends a signal to the program's process group. Does nothing after its end. */
void berth_init_signal(struct berth_init *init, int number);
void berth_init_clear(struct berth_init *init); /* kills the whole tree; GONE is reported then */
void berth_init_kill(struct berth_init *init);  /* for one that does not answer any more */
/* Returns whether the init has ended and its children have got another parent. Its socket closes a
 * moment earlier. */
bool berth_init_is_dead(const struct berth_init *init);
#endif
