/* SPDX-License-Identifier: Apache-2.0
 * src/driver/fake.h - the built-in sandbox provider that makes nothing and always answers alike. */
#ifndef BERTH_DRIVER_FAKE_H
#define BERTH_DRIVER_FAKE_H

#include <berth/driver.h>

struct berth_engine;

int berth_driver_fake_new(struct berth_engine *engine, struct berth_driver **out,
                          struct berth_error *err);
#endif
