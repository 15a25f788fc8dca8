/* SPDX-License-Identifier: Apache-2.0
 * bench/samples.c - see samples.h. */
#include "samples.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

int samples_add(struct samples *s, int64_t ns, struct berth_error *err)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4096;
        int64_t *bigger = realloc(s->ns, cap * sizeof *bigger);
        if (!bigger)
            return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: samples.");
        s->ns = bigger;
        s->cap = cap;
    }
    s->ns[s->count++] = ns;
    return BERTH_OK;
}

int samples_add_all(struct samples *s, const struct samples *more, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < more->count; i++)
        rc = samples_add(s, more->ns[i], err);
    return rc;
}

static int by_length(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

double samples_us(struct samples *s, int percent)
{
    if (!s->count)
        return 0;
    qsort(s->ns, s->count, sizeof *s->ns, by_length);
    return (double)s->ns[(s->count - 1) * (size_t)percent / 100] / 1000;
}

double samples_mean_us(const struct samples *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++)
        sum += (double)s->ns[i];
    return s->count ? sum / (double)s->count / 1e3 : 0;
}

void samples_clear(struct samples *s)
{
    free(s->ns);
    *s = (struct samples){0};
}
