/* SPDX-License-Identifier: Apache-2.0
 * src/driver/worker.h - places that the worker of a plugin makes: one driver of one plugin. */
#ifndef BERTH_DRIVER_WORKER_H
#define BERTH_DRIVER_WORKER_H

#include <berth/driver.h>

struct berth_workers;

/* Texts are copied. */
struct berth_worker_driver_options {
    struct berth_workers *workers;
    const char *plugin_id, *plugin_key, *driver_key;
    const char *schema_json;   /* of the config */
    bool sandbox;              /* reached as a provider of `sandbox`; else by the driver `plugin` */
    int64_t ready_ms, poll_ms; /* how long one that is starting is waited for, and how often */
};

int berth_driver_worker_new(const struct berth_worker_driver_options *options,
                            struct berth_driver **out, struct berth_error *err);
#endif
