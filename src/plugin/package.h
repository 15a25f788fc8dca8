/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/package.h - where plugins come from: a directory, or npm; and their manifests. */
#ifndef BERTH_PLUGIN_PACKAGE_H
#define BERTH_PLUGIN_PACKAGE_H

#include "plugin/ops.h"

extern const struct berth_package_ops berth_plugin_packages;
#endif
