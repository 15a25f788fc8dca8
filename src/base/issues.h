/* SPDX-License-Identifier: Apache-2.0
 * src/base/issues.h - lists everything that is wrong with an input, in the order it was found. */
#ifndef BERTH_BASE_ISSUES_H
#define BERTH_BASE_ISSUES_H

#include <berth/common.h>

#include "base/json.h"

/* Returns UNPROCESSABLE with the first message when the list is not empty. */
int berth_issues_check(const struct berth_issues *issues, struct berth_error *err);
/* Writes the issues as an array of {"path","message"} under the key. */
void berth_issues_json(struct berth_json_writer *w, const char *key,
                       const struct berth_issues *issues);
#endif
