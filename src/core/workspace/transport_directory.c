/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/transport_directory.c - a place whose directory is on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/workspace/transport.h"
#include "os/fs.h"
#include "sync/apply.h"
#include "sync/tree.h"

#define TOKEN_BYTES_MAX 128

struct directory_transport {
    struct berth_transport base;
    struct berth_apply_root root;
};

static struct directory_transport *directory_of(struct berth_transport *t)
{
    return (struct directory_transport *)t;
}

static bool has_token(int fd, const char *path, const char *token)
{
    auto_buf found = BERTH_BUF_INIT(TOKEN_BYTES_MAX);
    struct berth_error ignored;
    auto_close int file = berth_fs_open_beneath(fd, path, O_RDONLY | O_NONBLOCK, 0, &ignored);
    return file >= 0 && berth_fs_read_all(file, &found, &ignored) == BERTH_OK && found.len &&
           strcmp(berth_buf_str(&found), token) == 0;
}

static int check_token(int fd, const char *token, struct berth_error *err)
{
    if (has_token(fd, BERTH_TRANSPORT_TOKEN, token) ||
        has_token(fd, BERTH_TRANSPORT_TOKEN_COPY, token))
        return BERTH_OK;
    return berth_fail(err, BERTH_E_CONFLICT, BERTH_TRANSPORT_REPLACED);
}

static int write_token(int fd, const char *token, struct berth_error *err)
{
    static const struct {
        const char *path, *text;
    } files[] = {{".berth/.gitignore", "*\n"}, {BERTH_TRANSPORT_TOKEN, NULL}};
    if (mkdirat(fd, ".berth", S_IRWXU) < 0 && errno != EEXIST)
        return berth_fail_errno(err, "Cannot write to the directory of the place");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *text = files[i].text ? files[i].text : token;
        auto_close int file = berth_fs_open_beneath(
            fd, files[i].path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, err);
        int rc = file < 0 ? file : berth_fs_write_all(file, text, strlen(text), err);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}

/* Finishes what a killed push has left in the place, before the place is listed for the next one.
 * The lock keeps two pushes apart; it is dropped when the descriptor is closed. */
static int recover_place(const struct directory_transport *d, struct berth_error *err)
{
    auto_apply_report report = {0};
    if (flock(d->root.fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? berth_fail(err, BERTH_E_CONFLICT,
                                "Another process sends files to this place. Try again.")
                   : berth_fail_errno(err, "Cannot lock the directory of the place");
    return berth_apply_recover(&d->root, &report, err);
}

static int directory_list(struct berth_transport *t, const char *token, struct berth_ignore *ignore,
                          const struct berth_tree_manifest *known, struct berth_tree_manifest *out,
                          struct berth_error *err)
{
    struct directory_transport *d = directory_of(t);
    struct berth_tree_options options = {.ignore = ignore, .cancel_fd = t->cancel_fd};
    int rc = token ? check_token(d->root.fd, token, err) : recover_place(d, err);
    if (rc == BERTH_OK)
        rc = berth_tree_list(d->root.fd, &options, out, err);
    if (rc == BERTH_OK)
        rc = berth_tree_hash(d->root.fd, out, berth_tree_can_vouch(d->root.fd) ? known : NULL,
                             t->cancel_fd, err);
    return rc;
}

struct tree_source {
    int root_fd;
    struct berth_progress *progress;
};

static void count_file(struct berth_progress *progress, const struct berth_entry *file)
{
    berth_progress_add_file(progress);
    berth_progress_add(progress, file->size);
}

static int fetch_from_tree(void *ctx, const struct berth_entry *file, int directory_fd,
                           const char *name, struct berth_error *err)
{
    const struct tree_source *source = ctx;
    count_file(source->progress, file);
    return berth_tree_copy_file(source->root_fd, file, directory_fd, name, err);
}

/* Makes a directory that has files already like the tree. */
static int send_changes(struct directory_transport *d, int root_fd,
                        const struct berth_tree_manifest *tree,
                        const struct berth_tree_manifest *there, struct berth_error *err)
{
    auto_merge plan = {0};
    auto_apply_report report = {0};
    struct tree_source source = {root_fd, d->base.progress};
    struct berth_apply_source from = {fetch_from_tree, &source};
    int rc = berth_merge_plan(there, tree, there, BERTH_MERGE_REMOTE, "push", &plan, err);
    berth_progress_start(source.progress, plan.added + plan.updated, plan.bytes);
    if (rc == BERTH_OK)
        rc = berth_apply(&d->root, &plan, &from, &report, err);
    if (rc == BERTH_OK && report.conflict_count)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "Files in the place change while the workspace is sent. Try again.");
    return rc;
}

/* Adds an entry of the tree to the list of the place, with the times and the inode that it has
 * there. Without a file of this size there, it is left out, and read when the place is listed. */
static int add_placed(const struct directory_transport *d, struct berth_entry e,
                      struct berth_tree_manifest *copy, struct berth_error *err)
{
    struct stat st;
    if (fstatat(d->root.fd, e.path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (e.kind == BERTH_ENTRY_FILE && (!S_ISREG(st.st_mode) || (int64_t)st.st_size != e.size)))
        return BERTH_OK;
    e.inode = (uint64_t)st.st_ino;
    e.mtime_ns = berth_time_ns(&st.st_mtim);
    e.ctime_ns = berth_time_ns(&st.st_ctim);
    return berth_tree_manifest_add(copy, &e, err);
}

/* Lists the place after it was made like the tree. What was the same in `there` is taken from
 * there. */
static int list_copy(const struct directory_transport *d, const struct berth_tree_manifest *tree,
                     const struct berth_tree_manifest *there, struct berth_tree_manifest *copy,
                     struct berth_error *err)
{
    int rc = BERTH_OK;
    copy->taken_at_ns = there->count ? there->taken_at_ns : berth_tree_now_ns();
    for (size_t i = 0, at = 0; rc == BERTH_OK && i < tree->count; i++) {
        const struct berth_entry *e = &tree->entries[i];
        const struct berth_entry *old = berth_tree_manifest_next(there, &at, e->path);
        rc = berth_entry_same(old, e) ? berth_tree_manifest_add(copy, old, err)
                                      : add_placed(d, *e, copy, err);
    }
    return rc;
}

static int directory_send(struct berth_transport *t, int root_fd, struct berth_tree_manifest *tree,
                          const struct berth_tree_manifest *there, const char *token,
                          struct berth_tree_manifest *copy, struct berth_error *err)
{
    struct directory_transport *d = directory_of(t);
    if (!there->count)
        berth_progress_start(t->progress, tree->files, tree->bytes);
    int rc = there->count
                 ? send_changes(d, root_fd, tree, there, err)
                 : berth_tree_copy(root_fd, tree, d->root.fd, t->cancel_fd, t->progress, err);
    berth_progress_end(t->progress);
    if (rc == BERTH_OK)
        rc = token ? write_token(d->root.fd, token, err)
                   : berth_fs_remove_tree_at(d->root.fd, ".berth", err);
    if (rc < 0)
        return rc;
    return list_copy(d, tree, there, copy, err);
}

static int directory_gather(struct berth_transport *t, const struct berth_entry *const *files,
                            size_t count, struct berth_error *err)
{
    int64_t bytes = 0;
    (void)err;
    for (size_t i = 0; i < count; i++)
        bytes += files[i]->size;
    berth_progress_start(t->progress, count, bytes);
    return BERTH_OK;
}

static int directory_fetch(void *ctx, const struct berth_entry *file, int directory_fd,
                           const char *name, struct berth_error *err)
{
    count_file(directory_of(ctx)->base.progress, file);
    return berth_tree_copy_file(directory_of(ctx)->root.fd, file, directory_fd, name, err);
}

static void directory_free(struct berth_transport *t)
{
    (void)close(directory_of(t)->root.fd);
    free(t);
}

static const struct berth_transport_ops directory_ops = {.list = directory_list,
                                                         .send = directory_send,
                                                         .gather = directory_gather,
                                                         .fetch = directory_fetch,
                                                         .free = directory_free};

/* Returns a directory below the one that `fd` is, instead of it. Missing ones are made. A command
 * of the place may have put links there; they are not followed. Returns -1 with errno. */
static int open_below(int fd, const char *below)
{
    char name[BERTH_TREE_NAME_BYTES_MAX + 1];
    while (fd >= 0 && *below) {
        size_t len = strcspn(below, "/");
        (void)snprintf(name, sizeof name, "%.*s", (int)len, below);
        int next = mkdirat(fd, name, S_IRWXU) == 0 || errno == EEXIST
                       ? openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        int cause = errno;
        (void)close(fd);
        errno = cause;
        fd = next;
        below += len + (below[len] == '/');
    }
    return fd;
}

int berth_transport_directory_new(const char *path, const char *below, const char *journals,
                                  int cancel_fd, struct berth_transport **out,
                                  struct berth_error *err)
{
    auto_close int fd =
        open_below(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), below ? below : "");
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open the directory %s%s%s of the place", path,
                                below ? "/" : "", below ? below : "");
    struct directory_transport *d = calloc(1, sizeof *d);
    if (!d)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    *d = (struct directory_transport){.base = {.ops = &directory_ops, .cancel_fd = cancel_fd},
                                      .root = {.fd = fd, .journals = journals}};
    fd = -1;
    *out = &d->base;
    return BERTH_OK;
}
