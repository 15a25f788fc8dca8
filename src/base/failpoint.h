/* SPDX-License-Identifier: Apache-2.0
 * src/base/failpoint.h - the points at which a test may kill the process, and queries that fail.
 * The crash matrix is generated from this list: a new point is tested without further code, and the
 * suite fails when no scenario reaches it. */
#ifndef BERTH_BASE_FAILPOINT_H
#define BERTH_BASE_FAILPOINT_H

#include <stdbool.h>

/* "before" and "after" refer to an effect outside this process: a commit, or a driver's call. */
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
    X(resume_gone_after_place)                                                                     \
    X(resume_gone_after_outcome)                                                                   \
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
    X(workspace_after_send)                                                                        \
    X(workspace_after_state)                                                                       \
    X(workspace_after_mark)                                                                        \
    X(workspace_after_merge)                                                                       \
    X(workspace_after_commit)                                                                      \
    X(workspace_git_locked)                                                                        \
    X(workspace_git_after_index)                                                                   \
    X(workspace_git_after_branch)                                                                  \
    X(workspace_after_home)                                                                        \
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
    X(key_after_link)                                                                              \
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
/* Returns the point with this name, or BERTH_FP_COUNT. */
enum berth_failpoint berth_failpoint_find(const char *name);

/* Makes the process kill itself with SIGKILL at the point, after it has passed it `skip` times.
 * Only one point is armed at a time; BERTH_FP_COUNT disarms. The library never arms a point. */
void berth_failpoint_arm(enum berth_failpoint point, int skip);
void berth_failpoint_pass(enum berth_failpoint point);
/* Disarms, and sets seen[point] to true at every point passed from now on. */
void berth_failpoint_trace(_Atomic bool seen[BERTH_FP_COUNT]);

/* Disarms, and calls `fn` at every point passed from now on, on the thread that passes it. */
void berth_failpoint_watch(void (*fn)(enum berth_failpoint point));

#define BERTH_FAILPOINT(name) berth_failpoint_pass(BERTH_FP_##name)

/* Makes the n-th query from now on fail, once; 0 disarms. */
void berth_failpoint_arm_query(int nth);
bool berth_failpoint_query_fails(void); /* called before each query */
bool berth_failpoint_query_armed(void); /* the failure is still to come */

/* Makes the n-th step of a merge from now on fail, once, as on a full disk; 0 disarms. */
void berth_failpoint_arm_step_failure(int nth);
bool berth_failpoint_step_fails(void); /* called before each step */
/* Makes the n-th step of a merge from now on the last one, once, as if the process were killed
 * behind it; 0 disarms. */
void berth_failpoint_arm_step(int nth);
bool berth_failpoint_step_stops(void); /* called behind each step */
bool berth_failpoint_step_armed(void); /* the stop is still to come */
#endif
