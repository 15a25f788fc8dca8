/* SPDX-License-Identifier: Apache-2.0
 * src/sync/glob.h - matches paths against patterns in the syntax of gitignore. Both may come from a
 * stranger: the time is at most proportional to the product of their lengths. */
#ifndef BERTH_SYNC_GLOB_H
#define BERTH_SYNC_GLOB_H

#include <stdbool.h>

/* Returns whether a pattern matches one name. "*" and "?" match any byte, "[...]" one of a set with
 * ranges and POSIX classes, and a backslash makes the next byte literal. An unclosed "[" matches
 * nothing. */
bool berth_glob_match_name(const char *pattern, const char *name);

/* Returns whether a pattern matches a whole path. Both consist of names that are separated by "/".
 * "**" as a name matches any number of names, or at least one at the end of the pattern. */
bool berth_glob_match_path(const char *pattern, const char *path);
#endif
