/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/transport.h - how the files of a workspace reach the directory of a place, and
 * come back. One interface, one implementation for each way. */
#ifndef BERTH_CORE_WORKSPACE_TRANSPORT_H
#define BERTH_CORE_WORKSPACE_TRANSPORT_H

#include "core/workspace/workspace_site.h"
#include "sync/ignore.h"
#include "sync/manifest.h"
#include "sync/progress.h"

/* The token says that the place is the one that was filled. One of these files is enough: commands
 * such as "git clean -fdx" remove the first, and "git init" after "rm -r .git" the second, which is
 * made with the repository. */
#define BERTH_TRANSPORT_TOKEN ".berth/token"
#define BERTH_TRANSPORT_TOKEN_COPY ".git/berth-token"
/* In the directory of a place: for files on their way. */
#define BERTH_TRANSPORT_SCRATCH ".paperclip-runtime/berth"
#define BERTH_TRANSPORT_REPLACED                                                                   \
    "The place was replaced: its directory does not have the token that was written when the "     \
    "workspace was sent. Nothing was changed here."

struct berth_transport;

struct berth_transport_ops {
    /* Lists the directory of the place, hashed, without what the rules exclude. `token`: CONFLICT
     * when the place does not have it; NULL: it is not looked for, and a missing directory is
     * empty. `known` is an earlier list of the same directory, or NULL. */
    int (*list)(struct berth_transport *t, const char *token, struct berth_ignore *ignore,
                const struct berth_tree_manifest *known, struct berth_tree_manifest *out,
                struct berth_error *err);
    /* Makes the place like the tree below root_fd, and writes the token there, unless it is NULL.
     * `there` is the list
     * of the place. `tree` lists the tree; its files are hashed, unless `there` is empty: then they
     * are hashed on the way. *copy becomes the list of the place. */
    int (*send)(struct berth_transport *t, int root_fd, struct berth_tree_manifest *tree,
                const struct berth_tree_manifest *there, const char *token,
                struct berth_tree_manifest *copy, struct berth_error *err);
    /* Prepares the content of files of the last list for `fetch`. */
    int (*gather)(struct berth_transport *t, const struct berth_entry *const *files, size_t count,
                  struct berth_error *err);
    /* Makes the file `name` in a directory, with the content of a gathered file. `t` is the
     * transport. */
    int (*fetch)(void *t, const struct berth_entry *file, int directory_fd, const char *name,
                 struct berth_error *err);
    void (*free)(struct berth_transport *t);
};

/* An implementation embeds this as its first member. */
struct berth_transport {
    const struct berth_transport_ops *ops;
    int cancel_fd;                   /* -1: never */
    struct berth_progress *progress; /* counts the bytes of send and gather; NULL: not counted */
};

/* `below` is the path of a directory below the one of the place, which is made when it is missing;
 * NULL: the directory itself. */

/* The directory is on this machine. `journals`, as in struct berth_apply_root, outlives it. */
int berth_transport_directory_new(const char *path, const char *below, const char *journals,
                                  int cancel_fd, struct berth_transport **out,
                                  struct berth_error *err);
/* The directory is in the place of an active lease that runs commands. Content from the place is
 * kept in the directory `blobs` on this machine, which free removes. The arena outlives it. */
int berth_transport_shell_new(struct berth_workspace_site *site, struct berth_arena *arena,
                              const char *lease_id, const char *directory, const char *below,
                              const char *blobs, int cancel_fd, struct berth_transport **out,
                              struct berth_error *err);

/* Opens the one or the other for the workspace of a trip, and sets trip->in_place. */
struct berth_git_trip;
int berth_transport_open(struct berth_git_trip *trip, const char *below,
                         struct berth_transport **out, struct berth_error *err);
void berth_transport_close(struct berth_transport **t); /* NULL is fine */
#define auto_transport __attribute__((cleanup(berth_transport_close))) struct berth_transport
#endif
