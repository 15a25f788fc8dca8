/* SPDX-License-Identifier: Apache-2.0
 * src/base/log.h - structured lines to a callback; the library opens no file. */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

#include <berth/berth.h>

/* Pairs of name and text after `event`, closed by NULL; a pair whose text is NULL is left out:
 *   berth_log_line(log, BERTH_LOG_WARN, "cleanup failed", "leaseId", id, "error", text, NULL);
 * A log without `write` drops everything. A line of more than 64 KiB keeps its event and says
 * that it was truncated. */
void berth_log_line(const struct berth_log *log, enum berth_log_level level, const char *event, ...)
    __attribute__((sentinel));
#endif
