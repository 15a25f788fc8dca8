/* SPDX-License-Identifier: Apache-2.0
 * src/driver/local.h - this machine, in place. It is no sandbox. */
#ifndef BERTH_DRIVER_LOCAL_H
#define BERTH_DRIVER_LOCAL_H

#include <berth/driver.h>

struct berth_engine;

int berth_driver_local_new(struct berth_engine *engine, struct berth_driver **out,
                           struct berth_error *err);
#endif
