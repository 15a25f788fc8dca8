/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_list.h - the list of a directory in a place, made by a shell script.
 * It is a stranger's: each path and number is checked. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_LIST_H
#define BERTH_CORE_WORKSPACE_PLACE_LIST_H

#include "base/buf.h"
#include "core/berth.h"
#include "sync/ignore.h"
#include "sync/manifest.h"

#define BERTH_PLACE_LIST_BYTES_MAX ((size_t)1 << 30)

/* The end of a script that has changed to the directory. $at is what to list there, as "./NAME"; ""
 * is all of it. $depth is how many levels to list, "" is all; with a non-empty $hash the files are
 * hashed. LC_ALL is C. Prints "no TOOL" when the place
 * lacks a program that is needed. */
extern const char berth_place_list_script[];

/* Returns the program that the place lacks, by what the script printed; NULL: none. The text is in
 * the arena. */
const char *berth_place_list_lacks(struct berth_arena *arena, const struct berth_buf *text);
/* Reads what the script printed; the text is changed. Paths that the rules exclude are left out;
 * NULL: no rules. `is_directory`: a directory was listed, not one file. UPSTREAM: it is damaged or
 * not whole. */
int berth_place_list_parse(struct berth_buf *text, struct berth_ignore *ignore, bool hashed,
                           bool is_directory, struct berth_tree_manifest *out,
                           struct berth_error *err);
#endif
