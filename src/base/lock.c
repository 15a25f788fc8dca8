/* SPDX-License-Identifier: Apache-2.0
 * src/base/lock.c - see lock.h. */
#include "base/lock.h"

#include <assert.h>
#include <stdint.h>

/* The ranks that this thread holds, a bit for each. */
static _Thread_local uint32_t held;

static uint32_t rank_bit(const struct berth_lock *lock)
{
    return UINT32_C(1) << lock->rank;
}

void berth_lock_init(struct berth_lock *lock, unsigned rank)
{
    assert(rank < BERTH_LOCK_RANKS);
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
}

void berth_lock_destroy(struct berth_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

void berth_lock_take(struct berth_lock *lock)
{
    assert(held < rank_bit(lock) && "locks are taken in rising rank");
    pthread_mutex_lock(&lock->mutex);
    held |= rank_bit(lock);
}

void berth_lock_drop(struct berth_lock *lock)
{
    assert(held & rank_bit(lock));
    held &= ~rank_bit(lock);
    pthread_mutex_unlock(&lock->mutex);
}

void berth_lock_wait(struct berth_lock *lock, pthread_cond_t *cond)
{
    assert(held == rank_bit(lock) && "a thread that sleeps holds no other lock");
    pthread_cond_wait(cond, &lock->mutex);
}

int berth_lock_wait_until(struct berth_lock *lock, pthread_cond_t *cond,
                          const struct timespec *until)
{
    assert(held == rank_bit(lock) && "a thread that sleeps holds no other lock");
    return pthread_cond_timedwait(cond, &lock->mutex, until);
}
