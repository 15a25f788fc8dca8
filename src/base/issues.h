/* SPDX-License-Identifier: Apache-2.0
 * src/base/issues.h - several faults at once, in the order they were found. */
#ifndef BERTH_BASE_ISSUES_H
#define BERTH_BASE_ISSUES_H

#include <berth/common.h>

/* UNPROCESSABLE with the first message when there is any. */
int berth_issues_check(const struct berth_issues *issues, struct berth_error *err);
#endif
