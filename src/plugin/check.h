/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/check.h - the conformance suite of workers, in any language: what a host relies on. */
#ifndef BERTH_PLUGIN_CHECK_H
#define BERTH_PLUGIN_CHECK_H

#include "net/worker.h"

berth_check_fn berth_plugin_check;
#endif
