/* SPDX-License-Identifier: Apache-2.0
 * src/base/time.c - see time.h. */
#include "base/time.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"

static _Atomic int64_t wall_shift_ms, mono_shift_ms, jump_ms;
static _Atomic int64_t anchor_ms = BERTH_TIME_NO_ANCHOR;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct berth_time_watch *watches;

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t berth_time_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME) + atomic_load(&wall_shift_ms) + atomic_load(&jump_ms);
}

int64_t berth_time_mono_ms(void)
{
    return clock_ms(CLOCK_BOOTTIME) + atomic_load(&mono_shift_ms);
}

int64_t berth_time_since_boot_ms(void)
{
    return clock_ms(CLOCK_BOOTTIME);
}

int64_t berth_time_offset_ms(void)
{
    return clock_ms(CLOCK_REALTIME) + atomic_load(&jump_ms) - clock_ms(CLOCK_BOOTTIME);
}

void berth_time_anchor(int64_t offset_ms)
{
    atomic_store(&anchor_ms, offset_ms);
}

int64_t berth_time_jumped_ms(void)
{
    int64_t anchor = atomic_load(&anchor_ms);
    int64_t jumped = anchor == BERTH_TIME_NO_ANCHOR ? 0 : berth_time_offset_ms() - anchor;
    return jumped > BERTH_CLOCK_JUMP_MS || jumped < -BERTH_CLOCK_JUMP_MS ? jumped : 0;
}

int64_t berth_time_steady_ms(void)
{
    return berth_time_wall_ms() - berth_time_jumped_ms();
}

int64_t berth_time_steady_to_wall(int64_t steady_ms)
{
    return steady_ms ? steady_ms + berth_time_jumped_ms() : 0;
}

int64_t berth_time_wall_to_steady(int64_t wall_ms)
{
    return wall_ms ? wall_ms - berth_time_jumped_ms() : 0;
}

struct timespec berth_time_until(int64_t wait_ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += wait_ms / 1000;
    at.tv_nsec += wait_ms % 1000 * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

void berth_time_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void berth_time_shift(int64_t wall_ms, int64_t mono_ms)
{
    atomic_fetch_add(&wall_shift_ms, wall_ms);
    atomic_fetch_add(&mono_shift_ms, mono_ms);
    pthread_mutex_lock(&watch_lock);
    for (struct berth_time_watch *w = watches; w; w = w->next)
        w->on_shift(w->ctx);
    pthread_mutex_unlock(&watch_lock);
}

void berth_time_jump(int64_t wall_ms)
{
    atomic_fetch_add(&jump_ms, wall_ms);
}

void berth_time_watch_add(struct berth_time_watch *watch)
{
    pthread_mutex_lock(&watch_lock);
    watch->next = watches;
    watches = watch;
    pthread_mutex_unlock(&watch_lock);
}

void berth_time_watch_remove(struct berth_time_watch *watch)
{
    pthread_mutex_lock(&watch_lock);
    for (struct berth_time_watch **at = &watches; *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            break;
        }
    }
    pthread_mutex_unlock(&watch_lock);
}

void berth_time_iso(int64_t wall_ms, char out[BERTH_TIME_ISO_SIZE])
{
    int64_t rest = wall_ms % 1000;
    if (rest < 0)
        rest += 1000;
    time_t seconds = (time_t)(wall_ms / 1000 - (wall_ms % 1000 < 0)); /* rounds down */
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || tm.tm_year + 1900 > 9999 || tm.tm_year + 1900 < 0) {
        out[0] = '\0';
        return;
    }
    char date[64]; /* larger than needed: the compiler does not know the ranges */
    (void)snprintf(date, sizeof date, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)rest);
    (void)memcpy(out, date, strlen(date) + 1);
}

/* Says whether `text` begins like the pattern, in which 0 stands for any digit. */
static bool looks_like(const char *text, const char *pattern)
{
    for (; *pattern; text++, pattern++)
        if (*pattern == '0' ? *text < '0' || *text > '9' : *text != *pattern)
            return false;
    return true;
}

bool berth_time_parse_iso(const char *text, int64_t *wall_ms)
{
    struct tm tm = {0};
    const char *p =
        looks_like(text, "0000-00-00T00:00:00") ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!p || tm.tm_sec > 59)
        return false;
    int64_t ms = 0;
    if (*p == '.') {
        if (!looks_like(p, ".0"))
            return false;
        int64_t scale = 100;
        for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
            ms += (*p - '0') * scale;
    }
    int64_t offset_s = 0;
    if (*p == '+' || *p == '-') {
        if (!looks_like(p + 1, "00:00"))
            return false;
        int hours = (p[1] - '0') * 10 + p[2] - '0', minutes = (p[4] - '0') * 10 + p[5] - '0';
        if (hours > 23 || minutes > 59)
            return false;
        offset_s = (int64_t)(hours * 3600 + minutes * 60) * (*p == '-' ? -1 : 1);
        p += 6;
    } else if (*p == 'Z') {
        p++;
    } else {
        return false;
    }
    if (*p)
        return false;
    int day = tm.tm_mday;
    int64_t seconds = timegm(&tm);
    if (tm.tm_mday != day)
        return false; /* for example 30 February, which timegm moves into March */
    *wall_ms = (seconds - offset_s) * 1000 + ms;
    return true;
}

bool berth_time_parse_duration(const char *text, int64_t *ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 12)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].unit) != 0)
            continue;
        int64_t number = strtoll(text, NULL, 10);
        if (number == 0 || number > BERTH_TTL_MS_MAX / units[i].ms)
            return false;
        *ms = number * units[i].ms;
        return true;
    }
    return false;
}

static void place(struct berth_deadlines *all, size_t i, struct berth_deadline *d)
{
    all->heap[i] = d;
    d->index = i + 1;
}

static void sift_up(struct berth_deadlines *all, size_t i)
{
    struct berth_deadline *d = all->heap[i];
    for (; i > 0 && all->heap[(i - 1) / 2]->at_ms > d->at_ms; i = (i - 1) / 2)
        place(all, i, all->heap[(i - 1) / 2]);
    place(all, i, d);
}

static void sift_down(struct berth_deadlines *all, size_t i)
{
    struct berth_deadline *d = all->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= all->count)
            break;
        if (child + 1 < all->count && all->heap[child + 1]->at_ms < all->heap[child]->at_ms)
            child++;
        if (all->heap[child]->at_ms >= d->at_ms)
            break;
        place(all, i, all->heap[child]);
        i = child;
    }
    place(all, i, d);
}

int berth_deadlines_add(struct berth_deadlines *all, struct berth_deadline *d,
                        struct berth_error *err)
{
    if (all->count == all->cap) {
        size_t cap = all->cap ? all->cap * 2 : 16;
        struct berth_deadline **heap = realloc(all->heap, cap * sizeof *heap);
        if (!heap)
            return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: deadlines.");
        all->heap = heap;
        all->cap = cap;
    }
    all->heap[all->count++] = d;
    sift_up(all, all->count - 1);
    return BERTH_OK;
}

void berth_deadlines_remove(struct berth_deadlines *all, struct berth_deadline *d)
{
    if (!d->index)
        return;
    size_t i = d->index - 1;
    d->index = 0;
    struct berth_deadline *last = all->heap[--all->count];
    if (last == d)
        return;
    place(all, i, last);
    sift_up(all, i);
    sift_down(all, last->index - 1);
}

struct berth_deadline *berth_deadlines_first(const struct berth_deadlines *all)
{
    return all->count ? all->heap[0] : NULL;
}

struct berth_deadline *berth_deadlines_pop_due(struct berth_deadlines *all, int64_t now_ms)
{
    struct berth_deadline *first = berth_deadlines_first(all);
    if (!first || first->at_ms > now_ms)
        return NULL;
    berth_deadlines_remove(all, first);
    return first;
}

void berth_deadlines_clear(struct berth_deadlines *all)
{
    for (size_t i = 0; i < all->count; i++)
        all->heap[i]->index = 0;
    free(all->heap);
    *all = (struct berth_deadlines){0};
}
