/* SPDX-License-Identifier: Apache-2.0
 * bench/samples.h - durations, and what lies in their middle and at their end. */
#ifndef BERTH_BENCH_SAMPLES_H
#define BERTH_BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

struct samples {
    int64_t *ns;
    size_t count, cap;
};

int64_t now_ns(void); /* CLOCK_MONOTONIC, never moved by a test */
void sleep_ns(int64_t ns);

int samples_add(struct samples *s, int64_t ns, struct berth_error *err);
int samples_add_all(struct samples *s, const struct samples *more, struct berth_error *err);
/* In microseconds, 0 without samples; sorts them. percent: 50 is the median. */
double samples_us(struct samples *s, int percent);
double samples_mean_us(const struct samples *s); /* 0 without samples */
void samples_clear(struct samples *s);
#define auto_samples __attribute__((cleanup(samples_clear))) struct samples
#endif
