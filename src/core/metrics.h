/* SPDX-License-Identifier: Apache-2.0
 * src/core/metrics.h - how long things took, counted as they happen. */
#ifndef BERTH_CORE_METRICS_H
#define BERTH_CORE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include <berth/common.h>

/* Upper bounds of the buckets in microseconds; what took longer is in the last. */
#define BERTH_HISTOGRAM_BUCKETS 13
extern const int64_t berth_histogram_bounds_us[BERTH_HISTOGRAM_BUCKETS];

struct berth_histogram {
    _Atomic uint64_t counts[BERTH_HISTOGRAM_BUCKETS + 1];
    _Atomic uint64_t sum_us;
};

enum berth_metric {
    BERTH_METRIC_ACQUIRE,
    BERTH_METRIC_EXEC,
    BERTH_METRIC_RELEASE,
    BERTH_METRICS,
};
struct berth_metrics {
    struct berth_histogram all[BERTH_METRICS];
};

int64_t berth_metrics_now_us(void);
void berth_metrics_observe(struct berth_metrics *metrics, enum berth_metric metric,
                           int64_t took_us);
#endif
