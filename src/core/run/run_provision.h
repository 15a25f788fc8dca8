/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/run_provision.h - the script that makes a workspace ready before the command of a
 * run. */
#ifndef BERTH_CORE_RUN_RUN_PROVISION_H
#define BERTH_CORE_RUN_RUN_PROVISION_H

#include "core/berth.h"

struct berth_run_provision {
    const char *lease_id;
    const char *script; /* for bash */
    const char *cwd;
    const struct berth_locked *secrets; /* to mask, also in the script; it does not get them */
    int secret_count;
    int cancel_fd; /* -1: never */
};
/* Runs the script and waits for its end. CANCELLED, TIMEOUT, or UNPROCESSABLE with its exit status
 * and the first line that it wrote. */
int berth_run_provision(struct berth *b, const struct berth_run_provision *what,
                        struct berth_error *err);
#endif
