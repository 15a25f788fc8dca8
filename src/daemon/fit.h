/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/fit.h - fits the limits of the HTTP server to the machine. */
#ifndef BERTH_DAEMON_FIT_H
#define BERTH_DAEMON_FIT_H

#include "http/http.h"

/* What the machine gives to this process. */
struct berth_fit_machine {
    int64_t memory_bytes; /* of the machine; 0: not known */
    int64_t descriptors;  /* that the process may have; 0: not known */
};
/* Asks the system. */
struct berth_fit_machine berth_fit_look(void);

/* Lowers limits of `settings` that the machine cannot keep. TCP connections leave descriptors to
 * the Unix socket, the store, children and logs, however many come. */
void berth_fit_settings(const struct berth_fit_machine *machine,
                        struct berth_http_settings *settings);
#endif
