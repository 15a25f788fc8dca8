/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_config.h - the config of an SSH environment: its form, its schema, its secret. */
#ifndef BERTH_DRIVER_SSH_CONFIG_H
#define BERTH_DRIVER_SSH_CONFIG_H

#include <berth/driver.h>

#include "base/json.h"
#include "driver/ssh_link.h"

extern const char berth_ssh_config_schema[];
extern const struct berth_driver_secret berth_ssh_config_secret;

/* The `validate` of the driver. */
int berth_ssh_validate(struct berth_driver *d, struct berth_call *call, const char *config_json,
                       enum berth_config_use use, struct berth_issues *issues,
                       const char **normalised, struct berth_error *err);
/* Reads a stored config with secret values. *out points into *json, which the caller frees. */
int berth_ssh_config_read(const char *config_json, struct berth_json **json,
                          struct berth_ssh_config *out, struct berth_error *err);
#endif
