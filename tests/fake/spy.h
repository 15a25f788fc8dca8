/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/spy.h - stands where the worker of a plugin would, writes down what it is told, and
 * answers by a script. Two of a kind: one behind struct berth_workers, which sees time-outs and
 * looks, and a real process, which sees what is on the wire. The test asks both in the same way. */
#ifndef BERTH_TESTS_SPY_H
#define BERTH_TESTS_SPY_H

#include "driver/workers.h"

struct spy; /* every function may be called from any thread */

struct spy *spy_new(bool process);
void spy_free(struct spy *s);
/* For the registry, which it outlives; NULL: it is a process. */
struct berth_workers *spy_workers(struct spy *s);
/* A directory to be installed as a plugin, with its worker in Python. */
void spy_make_package(struct spy *s, const char *directory, const char *manifest_json);
/* The state directory of the process, once its plugin is installed. */
void spy_set_state(struct spy *s, const char *directory);

/* What a method answers from now on: a list of acts, the last of which is repeated. An act is
 *   {"result":ANY} or {"error":{"code":N,"message":TEXT}}
 *   {"lost":true}  nothing ever comes back (the spy says at once that time is up, and a "result"
 *                  beside it comes late)
 *   {"exit":N}     the process dies without an answer (the spy says that it did)
 * and a process first does what stands beside that: "pauseMs":N, "stderr":TEXT, "dump":true (its
 * params to stderr), "log":TEXT as a notification, "noise":TEXT as a line that is not a message,
 * "stream":TEXT as output of an execute.
 * In all texts, $KEY is the apiKey that the worker knows, and $LEASE the last leaseId it was told.
 * NULL: it has no such method. */
void spy_script(struct spy *s, const char *method, const char *acts_json);
/* Says that it has environmentFindLeases; of a process, when it is started next. */
void spy_set_finds(struct spy *s, bool finds);
/* A process that is started does this before it answers initialize; NULL: nothing. */
void spy_set_start(struct spy *s, const char *act_json);

/* The looks of is_running so far, and from which on it says yes (1: always, 0: never). */
int spy_looks(struct spy *s);
void spy_run_from(struct spy *s, int look);
/* A process cannot be started as long as its program is away. */
void spy_take_away(struct spy *s, bool away);

struct spy_call {
    const char *plugin_id, *method, *params_json; /* live as long as the spy */
    int64_t timeout_ms;                           /* 0: none was given; -1: it cannot know */
};
int spy_count(struct spy *s, const char *method); /* calls of it; NULL: of all */
/* Fills *out with the n-th call of the method, from 0. NULL: of all methods. Returns false when
 * there were fewer calls. */
bool spy_call_at(struct spy *s, const char *method, int n, struct spy_call *out);
#endif
