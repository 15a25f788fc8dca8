/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_shell.h - the shell of a place: what is known of it, and its commands. A
 * place needs nothing but the ability to run a command: no standard input, and "/" as directory. */
#ifndef BERTH_CORE_WORKSPACE_PLACE_SHELL_H
#define BERTH_CORE_WORKSPACE_PLACE_SHELL_H

#include "core/berth.h"
#include "core/driver.h"
#include "sync/pack.h"
#include "sync/unpack.h"

/* Text in one argument: Linux allows 128 KiB, and some providers less in all. */
#define BERTH_PLACE_PART_BYTES ((size_t)96 * 1024)
#define BERTH_PLACE_SHELL_ARGS_MAX 32

struct berth_place_command;
struct berth_place_script;

/* The shell of a place. Used by one thread. */
struct berth_place_shell {
    /* Runs the scripts elsewhere; then only the ids and texts below are set. NULL: they run here.
     * As berth_place_script_run. */
    int (*run)(struct berth_place_shell *shell, const struct berth_place_script *script,
               int *exit_code, struct berth_error *err);
    void *ctx; /* for `run` */
    struct berth *b;
    const char *lease_id;
    const char *program;   /* "sh" or "bash" */
    const char *directory; /* in the place, for files on their way; it is made when needed */
    int cancel_fd;         /* -1: never */
    const struct berth_route *route;
    bool streams;
    bool carries;       /* the provider moves whole files, as far as is known */
    bool has_leftovers; /* the directory may have files of a killed process: empty it first */
    size_t part_bytes;  /* how much text one argument may have, as far as is known */
    int part_count;     /* how many such arguments one command may have, likewise */
    int calls;          /* commands that were run */
};

/* Sets up the shell of an active lease. The arena and the texts must outlive it. */
int berth_place_shell_init(struct berth_place_shell *shell, struct berth *b,
                           struct berth_arena *arena, const char *lease_id, const char *directory,
                           int cancel_fd, struct berth_error *err);

/* A script for the shell; place_script.h runs it. */
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

/* Starts a command, as berth_place_command_start. */
int berth_place_shell_start(struct berth_place_shell *shell, const char *text,
                            const char *const *args, bool with_stdin,
                            struct berth_place_command **out, struct berth_error *err);
/* Sets the error of a command that exited with another status than 0. */
int berth_place_shell_failed(const char *what, int exit_code, const char *words,
                             struct berth_error *err);
/* Runs a command without input. `out` receives its output, or is NULL. */
int berth_place_shell_command(struct berth_place_shell *shell, const char *what, const char *text,
                              const char *const *args, struct berth_buf *out, int *exit_code,
                              struct berth_error *err);
#endif
