/* SPDX-License-Identifier: Apache-2.0
 * src/base/failpoint.h - the steps at which a test may kill the process or make a call fail.
 * The crash matrix is generated from this list: a step added here is tested without more ado, and
 * fails the suite when no scenario reaches it. */
#ifndef BERTH_BASE_FAILPOINT_H
#define BERTH_BASE_FAILPOINT_H

#include <stdbool.h>

/* "before" and "after" stand around what others can see: a commit, or a call to a place. */
#define BERTH_FAILPOINT_MAP(X)                                                                     \
    X(acquire_before_intent)                                                                       \
    X(acquire_after_intent)                                                                        \
    X(acquire_after_place)                                                                         \
    X(acquire_after_outcome)                                                                       \
    X(acquire_failed_after_intent)                                                                 \
    X(acquire_failed_after_place)                                                                  \
    X(acquire_failed_after_outcome)                                                                \
    X(claim_after_intent)                                                                          \
    X(resume_after_place)                                                                          \
    X(resume_gone_recorded)                                                                        \
    X(resume_failed_recorded)                                                                      \
    X(release_before_intent)                                                                       \
    X(release_after_intent)                                                                        \
    X(release_after_place)                                                                         \
    X(release_after_outcome)                                                                       \
    X(park_after_place)                                                                            \
    X(park_after_outcome)                                                                          \
    X(destroy_before_intent)                                                                       \
    X(destroy_after_intent)                                                                        \
    X(destroy_after_place)                                                                         \
    X(destroy_after_outcome)                                                                       \
    X(sweep_before_claim)                                                                          \
    X(sweep_after_claim)                                                                           \
    X(sweep_after_place)                                                                           \
    X(sweep_after_outcome)                                                                         \
    X(sweep_after_found)                                                                           \
    X(run_after_end)                                                                               \
    X(perform_after_run)                                                                           \
    X(perform_running)                                                                             \
    X(perform_before_release)                                                                      \
    X(ssh_after_key)                                                                               \
    X(ssh_after_session)                                                                           \
    X(worker_before_call)                                                                          \
    X(worker_after_call)                                                                           \
    X(probe_after_draft)                                                                           \
    X(probe_after_intent)                                                                          \
    X(probe_after_place)                                                                           \
    X(probe_failed_after_place)                                                                    \
    X(probe_after_outcome)                                                                         \
    X(delete_before_intent)                                                                        \
    X(delete_after_intent)                                                                         \
    X(delete_after_drain)                                                                          \
    X(delete_after_outcome)                                                                        \
    X(key_before_link)                                                                             \
    X(key_before_rename)                                                                           \
    X(key_after_file)                                                                              \
    X(key_after_switch)                                                                            \
    X(key_after_batch)                                                                             \
    X(key_after_drop)

enum berth_failpoint {
#define X(name) BERTH_FP_##name,
    BERTH_FAILPOINT_MAP(X)
#undef X
        BERTH_FP_COUNT
};

const char *berth_failpoint_name(enum berth_failpoint point);
/* The point of that name, or BERTH_FP_COUNT. */
enum berth_failpoint berth_failpoint_find(const char *name);

/* At the point, after `skip` passes, the process kills itself with SIGKILL. One point at a time;
 * BERTH_FP_COUNT disarms. Meant for tests and for the tour; nothing in the library arms one. */
void berth_failpoint_arm(enum berth_failpoint point, int skip);
void berth_failpoint_pass(enum berth_failpoint point);
/* From now on, instead, every point that is passed is noted. */
void berth_failpoint_trace(_Atomic bool seen[BERTH_FP_COUNT]);

/* From now on, instead, `fn` is called at every point; from any thread. */
void berth_failpoint_watch(void (*fn)(enum berth_failpoint point));

#define BERTH_FAILPOINT(name) berth_failpoint_pass(BERTH_FP_##name)

/* Makes the n-th query from now fail, once; 0 disarms. */
void berth_failpoint_arm_query(int nth);
bool berth_failpoint_query_fails(void); /* asked by the store before each query */
bool berth_failpoint_query_armed(void); /* still waiting to happen */
#endif
