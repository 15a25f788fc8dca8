/* SPDX-License-Identifier: Apache-2.0
 * src/base/time.h - the two clocks, which a test can move, and one heap of deadlines over them. */
#ifndef BERTH_BASE_TIME_H
#define BERTH_BASE_TIME_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <berth/error.h>

int64_t berth_time_wall_ms(void); /* since 1970; for what is stored and shown */
int64_t
berth_time_mono_ms(void); /* CLOCK_BOOTTIME, so that a suspended machine ages; for deadlines */

/* So many milliseconds from now, by CLOCK_MONOTONIC as it is: for waiting on a condition. */
struct timespec berth_time_until(int64_t wait_ms);
void berth_time_cond_init(pthread_cond_t *cond); /* such a condition */

/* For tests: moves each clock by so much, for the whole process, and wakes who waits for one. */
void berth_time_shift(int64_t wall_ms, int64_t mono_ms);

/* Who waits for a deadline is told when the clock was moved. on_shift must not block for long. */
struct berth_time_watch {
    void (*on_shift)(void *ctx);
    void *ctx;
    struct berth_time_watch *next;
};
void berth_time_watch_add(struct berth_time_watch *watch);
void berth_time_watch_remove(struct berth_time_watch *watch);

#define BERTH_TIME_ISO_SIZE 28
void berth_time_iso(int64_t wall_ms, char out[BERTH_TIME_ISO_SIZE]); /* 2026-11-15T08:05:00.123Z */
bool berth_time_parse_iso(const char *text, int64_t *wall_ms);       /* the same, or an offset */
/* "250ms", "90s", "15m", "1h", "2d"; longer than nothing, and at most BERTH_TTL_MS_MAX. */
bool berth_time_parse_duration(const char *text, int64_t *ms);

/* A deadline belongs to whoever embeds it; the heap only points at it. */
struct berth_deadline {
    int64_t at_ms; /* monotonic */
    size_t index;  /* in the heap, from 1; 0: in none */
};

struct berth_deadlines {
    struct berth_deadline **heap;
    size_t count, cap;
};

int berth_deadlines_add(struct berth_deadlines *all, struct berth_deadline *d,
                        struct berth_error *err);
void berth_deadlines_remove(struct berth_deadlines *all,
                            struct berth_deadline *d);                           /* twice: fine */
struct berth_deadline *berth_deadlines_first(const struct berth_deadlines *all); /* or NULL */
/* Takes out the first one that is due, or NULL. */
struct berth_deadline *berth_deadlines_pop_due(struct berth_deadlines *all, int64_t now_ms);
void berth_deadlines_clear(struct berth_deadlines *all);
#endif
