/* SPDX-License-Identifier: Apache-2.0
 * src/base/failpoint.c - see failpoint.h. Passing a point while none is armed costs one atomic
 * load. */
#include "base/failpoint.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic int armed = BERTH_FP_COUNT;
static _Atomic int skips;
static _Atomic int query_nth, step_nth, failure_nth;
static _Atomic bool *traced; /* set before `armed` is TRACING */
static void (*watcher)(enum berth_failpoint point);

#define TRACING (BERTH_FP_COUNT + 1)
#define WATCHING (BERTH_FP_COUNT + 2)

static const char *const names[] = {
#define X(name) #name,
    BERTH_FAILPOINT_MAP(X)
#undef X
};

const char *berth_failpoint_name(enum berth_failpoint point)
{
    return names[point];
}

enum berth_failpoint berth_failpoint_find(const char *name)
{
    int i = 0;
    while (i < BERTH_FP_COUNT && strcmp(names[i], name) != 0)
        i++;
    return (enum berth_failpoint)i;
}

void berth_failpoint_arm(enum berth_failpoint point, int skip)
{
    atomic_store(&skips, skip);
    atomic_store(&armed, (int)point);
}

void berth_failpoint_pass(enum berth_failpoint point)
{
    int now = atomic_load_explicit(&armed, memory_order_acquire);
    if (now == TRACING)
        traced[point] = true;
    if (now == WATCHING)
        watcher(point);
    if (now != (int)point)
        return;
    if (atomic_fetch_sub(&skips, 1) > 0)
        return;
    (void)kill(getpid(), SIGKILL);
}

void berth_failpoint_trace(_Atomic bool seen[BERTH_FP_COUNT])
{
    traced = seen;
    atomic_store(&armed, TRACING);
}

void berth_failpoint_watch(void (*fn)(enum berth_failpoint point))
{
    watcher = fn;
    atomic_store(&armed, WATCHING);
}

void berth_failpoint_arm_query(int nth)
{
    atomic_store(&query_nth, nth);
}

/* Counts down to 0. Returns whether this call was the last one. */
static bool count_down(_Atomic int *left)
{
    if (atomic_load_explicit(left, memory_order_relaxed) <= 0)
        return false;
    return atomic_fetch_sub(left, 1) == 1;
}

bool berth_failpoint_query_fails(void)
{
    return count_down(&query_nth);
}

bool berth_failpoint_query_armed(void)
{
    return atomic_load(&query_nth) > 0;
}

void berth_failpoint_arm_step(int nth)
{
    atomic_store(&step_nth, nth);
}

bool berth_failpoint_step_stops(void)
{
    return count_down(&step_nth);
}

bool berth_failpoint_step_armed(void)
{
    return atomic_load(&step_nth) > 0;
}

void berth_failpoint_arm_step_failure(int nth)
{
    atomic_store(&failure_nth, nth);
}

bool berth_failpoint_step_fails(void)
{
    return count_down(&failure_nth);
}
