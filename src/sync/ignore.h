/* SPDX-License-Identifier: Apache-2.0
 * src/sync/ignore.h - which paths of a tree stay where they are. The rules are those of gitignore:
 * the last rule that matches a path decides, rules of a deeper directory come later, and nothing
 * below an excluded directory can be included again. ".berth", ".paperclip-runtime" and ".git" are
 * excluded at every depth, whatever the rules say. */
#ifndef BERTH_SYNC_IGNORE_H
#define BERTH_SYNC_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#include <berth/error.h>

/* The rules of one tree. Not thread-safe: a query remembers the directory of the last path. */
struct berth_ignore;

int berth_ignore_new(struct berth_ignore **out, struct berth_error *err);
void berth_ignore_free(struct berth_ignore *ignore); /* NULL is fine */

/* Adds the lines of an ignore file that stands in `directory` ("": the root of the tree). Those of
 * one directory are added in the order of their precedence, the strongest last. */
int berth_ignore_add(struct berth_ignore *ignore, const char *directory, const char *text,
                     size_t len, struct berth_error *err);
/* Adds those of a file in a directory above the tree. `below` is the path of the tree from there.
 */
int berth_ignore_add_above(struct berth_ignore *ignore, const char *below, const char *text,
                           size_t len, struct berth_error *err);
/* Adds one rule that applies in the whole tree, and is stronger than those of all files. */
int berth_ignore_add_override(struct berth_ignore *ignore, const char *rule,
                              struct berth_error *err);

/* Lets a path cross that rules of files exclude, and the directories above it. For files that a
 * repository tracks although its .gitignore names them. Overrides still exclude it. */
int berth_ignore_keep(struct berth_ignore *ignore, const char *path, struct berth_error *err);

/* Returns whether the rules exclude a path, or one of the directories above it. */
bool berth_ignore_excludes(struct berth_ignore *ignore, const char *path, bool is_directory);

/* Makes a copy, for another thread. */
int berth_ignore_copy(const struct berth_ignore *ignore, struct berth_ignore **out,
                      struct berth_error *err);

/* Appends all rules in a form that berth_ignore_read reads. The order of the directories is not
 * defined. */
struct berth_buf;
void berth_ignore_write(const struct berth_ignore *ignore, struct berth_buf *out);
/* Adds the rules that berth_ignore_write wrote. INVALID: the text is damaged. */
struct berth_record;
int berth_ignore_read(struct berth_ignore *ignore, struct berth_record *r, struct berth_error *err);

/* Returns whether a name never crosses, at any depth. */
bool berth_ignore_never_crosses(const char *name);
#endif
