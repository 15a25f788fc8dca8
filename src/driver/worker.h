/* SPDX-License-Identifier: Apache-2.0
 * src/driver/worker.h - places that the worker of a plugin makes: one driver of one plugin. */
#ifndef BERTH_DRIVER_WORKER_H
#define BERTH_DRIVER_WORKER_H

#include <berth/driver.h>

#include "driver/workers.h"

int berth_driver_worker_new(const struct berth_worker_driver_options *options,
                            struct berth_driver **out, struct berth_error *err);
#endif
