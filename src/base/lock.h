/* SPDX-License-Identifier: Apache-2.0
 * src/base/lock.h - a mutex that knows its place in the lock order.
 * A thread takes ranked locks in rising rank only. Builds with assertions check that. */
#ifndef BERTH_BASE_LOCK_H
#define BERTH_BASE_LOCK_H

#include <pthread.h>
#include <time.h>

#define BERTH_LOCK_RANKS 32 /* ranks are 0 to 31 */

struct berth_lock {
    pthread_mutex_t mutex;
    unsigned rank;
};

void berth_lock_init(struct berth_lock *lock, unsigned rank);
void berth_lock_destroy(struct berth_lock *lock);
/* Asserts that this thread holds no lock of the same or a higher rank. */
void berth_lock_take(struct berth_lock *lock);
void berth_lock_drop(struct berth_lock *lock);
/* Waits for `cond` as pthread_cond_wait does. Asserts that this thread holds no other ranked lock,
 * since that one would stay locked while this thread sleeps. */
void berth_lock_wait(struct berth_lock *lock, pthread_cond_t *cond);
/* Returns 0, or ETIMEDOUT when `until` has passed by the clock of `cond`. */
int berth_lock_wait_until(struct berth_lock *lock, pthread_cond_t *cond,
                          const struct timespec *until);
#endif
