/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/trip_trees.h - small directory trees for the tests of workspaces: reading,
 * comparing and editing them at random. Shares no code with src/sync. */
#ifndef BERTH_TESTS_TRIP_TREES_H
#define BERTH_TESTS_TRIP_TREES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TRIP_LABEL "cafe0123"
#define TRIP_MARK ".remote-" TRIP_LABEL /* ends the names of remote versions */
#define TRIP_THINGS_MAX 400
#define TRIP_PATH_SIZE 1280
#define TRIP_EXCLUDED "own.skip" /* at the root of a tree; does not travel */

/* What is at a path. */
struct trip_thing {
    char path[TRIP_PATH_SIZE];
    char kind;   /* d, f or l */
    mode_t mode; /* 0 of a link */
    int64_t size;
    uint64_t sum; /* of the content of a file, or of the target of a link */
};

struct trip_tree {
    struct trip_thing things[TRIP_THINGS_MAX];
    int count;
};

/* Returns what is at a path, or NULL. */
const struct trip_thing *trip_at(const struct trip_tree *t, const char *path);
bool trip_is_below(const char *path, const char *above); /* or equal */
/* Returns whether both have the same content and kind; the mode may differ. NULL: nothing. */
bool trip_alike(const struct trip_thing *a, const struct trip_thing *b);
bool trip_equal(const struct trip_thing *a, const struct trip_thing *b); /* with the mode */
/* Returns a path at which the trees differ, or NULL. */
const char *trip_difference(const struct trip_tree *a, const struct trip_tree *b);
/* Adds a thing. Fails the test when there are too many. */
struct trip_thing *trip_add(struct trip_tree *t, const struct trip_thing *thing);
void trip_print(const char *name, const struct trip_tree *t); /* to standard error */

/* Reads a directory, sorted by path, without TRIP_EXCLUDED and the directories of berth. */
void trip_read(const char *root, struct trip_tree *out);

/* Random numbers that follow from the seed alone. */
void trip_seed(uint64_t seed);
unsigned trip_dice(unsigned sides);

/* Changes something in a directory at random: content, mode, kind, existence, name. `who` tells
 * apart what the sides write. `hot`: a path that is often chosen, or NULL. */
void trip_edit(const char *root, char who, const char *hot);
/* Adds a number of files, links and directories. */
void trip_fill(const char *root, char who, unsigned count);
/* Changes the mode or the content at a path, if a file or directory is there. */
void trip_touch(const char *root, char who, const char *path);
/* Removes all but a few files. */
void trip_delete_most(const char *root);
/* Writes the excluded file. */
void trip_write_excluded(const char *root, char who);
/* Copies its text. Returns "" when the file does not exist. */
const char *trip_read_excluded(const char *root, char text[16]);
/* Gives all of a directory to the owner of the directory itself. */
void trip_give_to_owner(const char *root);
#endif
