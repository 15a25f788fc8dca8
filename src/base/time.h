/* SPDX-License-Identifier: Apache-2.0
 * src/base/time.h - the two clocks, which a test can move, and a heap of deadlines. */
#ifndef BERTH_BASE_TIME_H
#define BERTH_BASE_TIME_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <berth/error.h>

int64_t berth_time_wall_ms(void); /* since 1970; for times that are stored or shown */
int64_t berth_time_mono_ms(void); /* CLOCK_BOOTTIME, which counts suspension; for deadlines */

/* The steady clock: the wall clock, as if nobody had ever set it. For deadlines that are stored. It
 * shows the same as the wall clock until that jumps away by more than BERTH_CLOCK_JUMP_MS; from
 * then on it goes on by the time since boot. It needs an anchor, else it is the wall clock. */
int64_t berth_time_steady_ms(void);
/* Converts times of the steady clock, to show them, and times from outside. 0 stays 0. */
int64_t berth_time_steady_to_wall(int64_t steady_ms);
int64_t berth_time_wall_to_steady(int64_t wall_ms);
/* Returns how far the wall clock has jumped since the anchor; 0: it has not. */
int64_t berth_time_jumped_ms(void);
/* Sets the anchor of the steady clock: its distance from the time since boot. From any thread. */
void berth_time_anchor(int64_t offset_ms);
#define BERTH_TIME_NO_ANCHOR INT64_MIN
int64_t berth_time_offset_ms(void);     /* the anchor by the wall clock as it is now */
int64_t berth_time_since_boot_ms(void); /* not moved by tests */

/* Returns a time of a file in nanoseconds. */
static inline int64_t berth_time_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* Returns the time `wait_ms` from now by CLOCK_MONOTONIC, which tests do not move: for
 * pthread_cond_timedwait. */
struct timespec berth_time_until(int64_t wait_ms);
void berth_time_cond_init(pthread_cond_t *cond); /* uses CLOCK_MONOTONIC */

/* For tests: moves the clocks of the whole process by these amounts and calls the watches. The
 * steady clock moves with the wall clock: time has passed. */
void berth_time_shift(int64_t wall_ms, int64_t mono_ms);
/* For tests: sets the wall clock forward or back. The steady clock does not follow. */
void berth_time_jump(int64_t wall_ms);

/* Code that waits for a deadline adds a watch, whose on_shift is called when a test moves a clock.
 * on_shift runs under a lock and must not block for long. */
struct berth_time_watch {
    void (*on_shift)(void *ctx);
    void *ctx;
    struct berth_time_watch *next;
};
void berth_time_watch_add(struct berth_time_watch *watch);
void berth_time_watch_remove(struct berth_time_watch *watch);

#define BERTH_TIME_ISO_SIZE 28
void berth_time_iso(int64_t wall_ms, char out[BERTH_TIME_ISO_SIZE]); /* 2026-11-15T08:05:00.123Z */
bool berth_time_parse_iso(const char *text, int64_t *wall_ms);       /* Z or an offset */
/* Parses "250ms", "90s", "15m", "1h" or "2d". Returns false for 0 and above BERTH_TTL_MS_MAX. */
bool berth_time_parse_duration(const char *text, int64_t *ms);

/* A deadline. Its owner embeds it; the heap holds a pointer to it. */
struct berth_deadline {
    int64_t at_ms; /* monotonic */
    size_t index;  /* position in the heap plus 1; 0: not in a heap */
};

struct berth_deadlines {
    struct berth_deadline **heap;
    size_t count, cap;
};

int berth_deadlines_add(struct berth_deadlines *all, struct berth_deadline *d,
                        struct berth_error *err);
/* Removes the deadline if it is in the heap. */
void berth_deadlines_remove(struct berth_deadlines *all, struct berth_deadline *d);
/* Returns the earliest deadline, or NULL. */
struct berth_deadline *berth_deadlines_first(const struct berth_deadlines *all);
/* Removes and returns the earliest deadline if it is due, else returns NULL. */
struct berth_deadline *berth_deadlines_pop_due(struct berth_deadlines *all, int64_t now_ms);
void berth_deadlines_clear(struct berth_deadlines *all);
#endif
