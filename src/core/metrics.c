/* SPDX-License-Identifier: Apache-2.0
 * src/core/metrics.c - see metrics.h. */
#include "core/metrics.h"

#include <time.h>

const int64_t berth_histogram_bounds_us[BERTH_HISTOGRAM_BUCKETS] = {
    500,     1000,    2500,     5000,     10000,     50000,     250000,
    1000000, 5000000, 30000000, 60000000, 300000000, 1800000000};

int64_t berth_metrics_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void berth_metrics_observe(struct berth_metrics *metrics, enum berth_metric metric, int64_t took_us)
{
    struct berth_histogram *h = &metrics->all[metric];
    int bucket = 0;
    while (bucket < BERTH_HISTOGRAM_BUCKETS && took_us > berth_histogram_bounds_us[bucket])
        bucket++;
    atomic_fetch_add_explicit(&h->counts[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_us, took_us > 0 ? (uint64_t)took_us : 0,
                              memory_order_relaxed);
}
