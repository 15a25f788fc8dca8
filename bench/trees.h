/* SPDX-License-Identifier: Apache-2.0
 * bench/trees.h - directories of files to synchronise, and what the bare tools do with them. */
#ifndef BERTH_BENCH_TREES_H
#define BERTH_BENCH_TREES_H

#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

#define CHANGED_FILES 100

/* Makes a directory with `files` files of 10 KB on average: most of them are small, a few are
 * large. A directory has 50 files or 50 directories. */
int tree_make(const char *path, int files, struct berth_error *err);
/* Makes a directory with files of the same length. */
int tree_make_even(const char *path, int files, size_t bytes, struct berth_error *err);
/* Writes new content, of the same length, to 100 files that are spread over a tree. Another `seed`
 * gives other content. */
int tree_change(const char *path, int files, unsigned seed, struct berth_error *err);

/* Calls fstatat for everything in a tree. *count receives the number of files. */
int tree_walk(const char *path, size_t *count, struct berth_error *err);
/* Copies the 100 files that tree_change writes into a fresh directory. */
int tree_copy_changed(const char *path, int files, const char *to, struct berth_error *err);
/* Runs "tar -cf - | tar -xf -" into a fresh directory. */
int tree_tar(const char *from, const char *to, struct berth_error *err);
/* Runs "rsync -a", which makes `to` if it is missing. NOT_FOUND: it is not installed. */
int tree_rsync(const char *from, const char *to, struct berth_error *err);
#endif
