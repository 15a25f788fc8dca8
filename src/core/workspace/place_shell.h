/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_shell.h - runs shell scripts in the place of a lease, which read and
 * write bytes. Where commands have byte streams, these are used. Everywhere else the bytes travel
 * as base64 in arguments and in output, through files in the place, so that a place needs nothing
 * but the ability to run a command: no standard input, and "/" as directory. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_SHELL_H
#define BERTH_CORE_WORKSPACE_PLACE_SHELL_H

#include "core/berth.h"
#include "sync/pack.h"
#include "sync/unpack.h"

/* The shell of a place. Used by one thread. */
struct berth_place_script;
struct berth_place_shell {
    /* Runs the scripts elsewhere; then only the ids and texts below are set. NULL: they run here.
     * As berth_place_shell_run. */
    int (*run)(struct berth_place_shell *shell, const struct berth_place_script *script,
               int *exit_code, struct berth_error *err);
    void *ctx; /* for `run` */
    struct berth *b;
    const char *lease_id;
    const char *program;   /* "sh" or "bash" */
    const char *directory; /* in the place, for files on their way; it is made when needed */
    int cancel_fd;         /* -1: never */
    bool streams;
    bool has_leftovers; /* the directory may have files of a killed process: empty it first */
    size_t part_bytes;  /* how much text one argument may have, as far as is known */
    int part_count;     /* how many such arguments one command may have, likewise */
    int calls;          /* commands that were run */
};

/* Sets up the shell of an active lease. The arena and the texts must outlive it. */
int berth_place_shell_init(struct berth_place_shell *shell, struct berth *b,
                           struct berth_arena *arena, const char *lease_id, const char *directory,
                           int cancel_fd, struct berth_error *err);

/* A script for the shell. */
struct berth_place_script {
    const char *what;        /* for errors: what it does, as "list the files" */
    const char *text;        /* reads its arguments as $1, $2, ... */
    const char *const *args; /* closed by NULL; or NULL */
    /* Writes the script's standard input to the sink. NULL: it has none. */
    int (*feed)(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err);
    /* Reads the script's standard output, to its end. NULL: it is dropped. The script must have
     * read all of its input before it writes. */
    int (*take)(void *ctx, const struct berth_unpack_source *source, struct berth_error *err);
    void *ctx;
};
/* Runs a script. *exit_code is that of the script, or -1. UPSTREAM: it failed; the error has the
 * words that it wrote to standard error. */
int berth_place_shell_run(struct berth_place_shell *shell, const struct berth_place_script *script,
                          int *exit_code, struct berth_error *err);

/* A `take` that appends the output to the berth_buf at ctx. */
int berth_place_shell_take_text(void *ctx, const struct berth_unpack_source *source,
                                struct berth_error *err);
#endif
