/* SPDX-License-Identifier: Apache-2.0
 * src/base/log.h - writes log lines as JSON to a callback; the library opens no file. */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

#include <berth/berth.h>

/* Writes a line with the pairs of name and text that follow `event`, closed by NULL. A pair whose
 * text is NULL is left out:
 *   berth_log_line(log, BERTH_LOG_WARN, "cleanup failed", "leaseId", id, "error", text, NULL);
 * A log without `write` drops everything. A line of more than 64 KiB loses its pairs and gets
 * "truncated": true. */
void berth_log_line(const struct berth_log *log, enum berth_log_level level, const char *event, ...)
    __attribute__((sentinel));
#endif
