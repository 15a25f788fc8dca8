/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/manager.h - the workers of a process: who is wanted is started, and all end with it.
 */
#ifndef BERTH_PLUGIN_MANAGER_H
#define BERTH_PLUGIN_MANAGER_H

#include "plugin/ops.h"

extern const struct berth_manager_ops berth_plugin_manager;
#endif
