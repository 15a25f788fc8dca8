/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/git_command.h - runs git on this machine, for the repository of a workspace.
 * Hooks, the file system monitor, prompts and automatic maintenance are off, and objects that are
 * fetched are checked. Filters do not run: a caller of a command that would run one switches the
 * setting off in the environment of the command. */
#ifndef BERTH_CORE_WORKSPACE_GIT_COMMAND_H
#define BERTH_CORE_WORKSPACE_GIT_COMMAND_H

#include "core/berth.h"

/* A directory in which git runs. */
struct berth_git {
    struct berth_engine *engine; /* runs git; NULL: the directory has no repository */
    const char *directory;
    /* Variables for git, as "NAME=value". Closed by NULL; or NULL. */
    const char *const *env;
    const struct berth_buf *input; /* its standard input; NULL: empty */
    int cancel_fd;                 /* -1: never */
};

/* Runs git with these words, closed by NULL. `out` receives its output, without a newline at the
 * end, or is NULL. UPSTREAM: it failed; the error has git's own words. NOT_FOUND: git is not
 * installed. */
int berth_git_run(const struct berth_git *git, const char *const *words, struct berth_buf *out,
                  struct berth_error *err);
#define BERTH_GIT(git, out, err, ...)                                                              \
    berth_git_run(git, (const char *const[]){__VA_ARGS__, NULL}, out, err)

/* Takes the next line off a text, into the arena. Returns it without its newline. */
const char *berth_git_take_line(struct berth_arena *arena, const char **at);
/* Returns whether a text from a stranger is the id of an object: 40 or 64 hexadecimal digits. */
bool berth_git_id_valid(const char *text);
/* Returns whether a text from a stranger is a ref that can be stored: `head`, as "refs/heads/", and
 * a name that git allows. */
bool berth_git_ref_valid(const char *text, const char *head);
#endif
