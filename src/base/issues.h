/* SPDX-License-Identifier: Apache-2.0
 * src/base/issues.h - several faults at once, in the order they were found. */
#ifndef BERTH_BASE_ISSUES_H
#define BERTH_BASE_ISSUES_H

#include <berth/error.h>

#include "base/arena.h"

struct berth_issue {
    const char *path; /* "port"; "" for the whole */
    const char *message;
};

struct berth_issues {
    struct berth_arena *arena;
    struct berth_list list; /* of struct berth_issue */
};

void berth_issues_add(struct berth_issues *issues, const char *path, const char *fmt, ...)
    BERTH_PRINTF(3, 4);
/* UNPROCESSABLE with the first message when there is any. */
int berth_issues_check(const struct berth_issues *issues, struct berth_error *err);
#endif
