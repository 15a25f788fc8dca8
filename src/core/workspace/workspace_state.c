/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_state.c - see workspace_state.h. */
#include "core/workspace/workspace_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/buf.h"
#include "core/lease/lease_directory.h"
#include "os/fs.h"
#include "sync/record.h"

#define HEAD "berth workspace 1\n"
#define LISTS_HEAD "berth lists 1 "
#define LISTS_SUFFIX ".lists-"
#define STATE_BYTES_MAX ((size_t)1 << 30)
#define TEXTS 16                                 /* at the beginning */
#define BEGINNING_BYTES (sizeof HEAD + PATH_MAX) /* of a state: as far as the path */

void berth_workspace_state_clear(struct berth_workspace_state *s)
{
    berth_ignore_free(s->ignore);
    berth_tree_manifest_clear(&s->base);
    berth_tree_manifest_clear(&s->copy);
    berth_arena_clear(&s->arena);
    *s = (struct berth_workspace_state){0};
}

int berth_workspace_state_path(const char *states, struct berth_arena *arena, const char *lease_id,
                               const char *suffix, const char **out, struct berth_error *err)
{
    *out = berth_arena_printf(arena, "%s/%s%s", states, lease_id, suffix);
    return berth_arena_check(arena, err);
}

/* Appends a manifest, with its length before it. */
static void put_manifest(const struct berth_tree_manifest *m, struct berth_buf *out)
{
    auto_buf bytes = BERTH_BUF_INIT(STATE_BYTES_MAX);
    berth_tree_manifest_write(m, &bytes);
    if (!berth_buf_str(&bytes))
        out->failed = true;
    berth_buf_printf(out, "%zu\n", bytes.len);
    berth_buf_append(out, bytes.data, bytes.len);
}

static int write_file(const char *path, const struct berth_buf *bytes, struct berth_error *err)
{
    auto_free char *fresh = NULL;
    if (asprintf(&fresh, "%s.new", path) < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    auto_close int fd =
        open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot write %s", fresh);
    int rc = berth_fs_write_all(fd, bytes->data, bytes->len, err);
    if (rc == BERTH_OK && (fsync(fd) < 0 || rename(fresh, path) < 0))
        rc = berth_fail_errno(err, "Cannot write %s", path);
    if (rc < 0)
        (void)unlink(fresh);
    return rc;
}

static int sync_directory(const char *path, struct berth_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? BERTH_OK : berth_fail_errno(err, "Cannot write %s", path);
}

/* Removes a file of lists. */
static void remove_lists(const char *states, const char *lease_id, const char *letter)
{
    auto_free char *path = NULL;
    if (asprintf(&path, "%s/%s" LISTS_SUFFIX "%s", states, lease_id, letter) < 0)
        path = NULL;
    else
        (void)unlink(path);
}

/* Writes the lists into the file that the stored state does not name, and names it. */
static int save_lists(const char *states, const char *lease_id, struct berth_workspace_state *s,
                      struct berth_error *err)
{
    auto_buf out = BERTH_BUF_INIT(STATE_BYTES_MAX);
    auto_free char *path = NULL;
    struct berth_id id = berth_id_new_random();
    const char *letter = s->lists[0] == 'a' ? "b" : "a";
    berth_buf_printf(&out, LISTS_HEAD "%s%s\n", letter, id.text);
    put_manifest(&s->base, &out);
    put_manifest(&s->copy, &out);
    s->lists = berth_arena_printf(&s->arena, "%s%s", letter, id.text);
    int rc = berth_buf_check(&out, "The manifest of the workspace", err);
    if (rc == BERTH_OK)
        rc = berth_arena_check(&s->arena, err);
    if (rc < 0)
        return rc;
    if (asprintf(&path, "%s/%s" LISTS_SUFFIX "%s", states, lease_id, letter) < 0)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    return write_file(path, &out, err);
}

int berth_workspace_state_save(const char *states, const char *lease_id,
                               struct berth_workspace_state *s, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    auto_buf out = BERTH_BUF_INIT(STATE_BYTES_MAX);
    const char *path;
    bool kept = s->lists_kept && *s->lists;
    int rc = berth_fs_mkdirs(states, S_IRWXU, err);
    if (rc == BERTH_OK && !kept)
        rc = save_lists(states, lease_id, s, err);
    if (rc < 0)
        return rc;
    berth_buf_puts(&out, HEAD);
    const char *const texts[TEXTS] = {
        s->path,       s->cwd,      s->token,        s->label,     s->git.sent ? "sent" : "",
        s->git.ref,    s->git.head, s->git.index,    s->git.note,  s->shared,
        s->repository, s->branch,   s->branch_start, s->recovered, s->warning,
        s->lists};
    for (size_t i = 0; i < TEXTS; i++)
        berth_record_put_text(&out, texts[i] ? texts[i] : "");
    berth_buf_printf(&out, "%d\n", (int)s->policy);
    berth_ignore_write(s->ignore, &out);
    rc = berth_buf_check(&out, "The rules of the workspace", err);
    if (rc == BERTH_OK)
        rc = berth_workspace_state_path(states, &arena, lease_id, "", &path, err);
    if (rc == BERTH_OK)
        rc = write_file(path, &out, err);
    if (rc == BERTH_OK)
        rc = sync_directory(states, err);
    if (rc == BERTH_OK && !kept)
        remove_lists(states, lease_id, s->lists[0] == 'a' ? "b" : "a");
    return rc;
}

static int read_manifest(struct berth_record *r, struct berth_tree_manifest *out,
                         struct berth_error *err)
{
    int64_t len;
    if (!berth_record_number(r, 10, '\n', &len) || len < 0 || len > r->end - r->at)
        return berth_fail(err, BERTH_E_INVALID, "A manifest is damaged or not whole.");
    auto_free char *copy = malloc((size_t)len + 1);
    if (!copy)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    memcpy(copy, r->at, (size_t)len);
    copy[len] = '\0'; /* the reader wants a NUL behind the bytes */
    r->at += len;
    return berth_tree_manifest_parse(copy, (size_t)len, out, err);
}

static int parse_state(const struct berth_buf *bytes, struct berth_workspace_state *out,
                       struct berth_error *err)
{
    struct berth_record r = {bytes->data, bytes->data + bytes->len};
    const char *texts[TEXTS];
    int64_t policy = -1;
    bool good = bytes->len > sizeof HEAD && memcmp(bytes->data, HEAD, sizeof HEAD - 1) == 0;
    r.at += good ? sizeof HEAD - 1 : 0;
    for (int i = 0; i < TEXTS; i++)
        good = good && (texts[i] = berth_record_text(&r)) != NULL;
    good = good && berth_record_number(&r, 10, '\n', &policy) && policy >= 0 &&
           policy <= BERTH_MERGE_FAIL;
    if (!good)
        return berth_fail(err, BERTH_E_INVALID, "it is damaged or not whole");
    for (int i = 0; i < TEXTS; i++)
        texts[i] = berth_arena_strdup(&out->arena, texts[i]);
    out->path = texts[0];
    out->cwd = texts[1];
    out->token = texts[2];
    out->label = texts[3];
    out->shared = texts[9];
    out->repository = texts[10];
    out->branch = texts[11];
    out->branch_start = texts[12];
    out->recovered = texts[13];
    out->warning = texts[14];
    out->lists = texts[15];
    out->git = (struct berth_workspace_git){.sent = texts[4] && *texts[4],
                                            .ref = texts[5],
                                            .head = texts[6],
                                            .index = texts[7],
                                            .note = texts[8]};
    out->policy = (enum berth_merge_policy)policy;
    int rc = berth_arena_check(&out->arena, err);
    if (rc == BERTH_OK)
        rc = berth_ignore_new(&out->ignore, err);
    return rc < 0 ? rc : berth_ignore_read(out->ignore, &r, err);
}

static int parse_lists(const struct berth_buf *bytes, struct berth_workspace_state *out,
                       struct berth_error *err)
{
    struct berth_record r = {bytes->data, bytes->data + bytes->len};
    auto_free char *head = NULL;
    int len = asprintf(&head, LISTS_HEAD "%s\n", out->lists);
    if (len < 0) {
        head = NULL;
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    }
    if (bytes->len < (size_t)len || memcmp(bytes->data, head, (size_t)len) != 0)
        return berth_fail(err, BERTH_E_INVALID, "it does not have the lists of the workspace");
    r.at += len;
    int rc = read_manifest(&r, &out->base, err);
    return rc < 0 ? rc : read_manifest(&r, &out->copy, err);
}

static int read_file(const char *path, struct berth_buf *out, struct berth_error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return berth_fail(err, BERTH_E_NOT_FOUND, "it does not exist");
    if (fd < 0)
        return berth_fail_errno(err, "Cannot read %s", path);
    return berth_fs_read_all(fd, out, err);
}

/* Reads the lists that the state names. */
static int load_lists(const char *states, const char *lease_id, struct berth_workspace_state *out,
                      const char **path, struct berth_error *err)
{
    auto_buf bytes = BERTH_BUF_INIT(STATE_BYTES_MAX);
    const char suffix[] = {'.', 'l', 'i', 's', 't', 's', '-', out->lists[0], '\0'};
    int rc = berth_workspace_state_path(states, &out->arena, lease_id, suffix, path, err);
    if (rc == BERTH_OK)
        rc = read_file(*path, &bytes, err);
    return rc < 0 ? rc : parse_lists(&bytes, out, err);
}

static int load(const char *states, const char *lease_id, bool with_lists,
                struct berth_workspace_state *out, struct berth_error *err)
{
    auto_buf bytes = BERTH_BUF_INIT(STATE_BYTES_MAX);
    const char *path;
    *out = (struct berth_workspace_state){0};
    int rc = berth_workspace_state_path(states, &out->arena, lease_id, "", &path, err);
    if (rc < 0)
        return rc;
    rc = read_file(path, &bytes, err);
    if (rc == BERTH_E_NOT_FOUND)
        return berth_fail(err, BERTH_E_NOT_FOUND,
                          "No workspace was sent to lease %s from this machine.", lease_id);
    if (rc == BERTH_OK)
        rc = parse_state(&bytes, out, err);
    if (rc == BERTH_OK && with_lists)
        rc = load_lists(states, lease_id, out, &path, err);
    if (rc < 0 && rc != BERTH_E_NO_MEMORY) {
        struct berth_error cause = *err;
        rc = berth_fail(err, BERTH_E_INTERNAL, "Cannot read %s: %s.", path, cause.message);
    }
    return rc;
}

int berth_workspace_state_load(const char *states, const char *lease_id,
                               struct berth_workspace_state *out, struct berth_error *err)
{
    return load(states, lease_id, true, out, err);
}

int berth_workspace_state_peek(const char *states, const char *lease_id,
                               struct berth_workspace_state *out, struct berth_error *err)
{
    return load(states, lease_id, false, out, err);
}

/* Returns whether a state is about a directory, one above it, or one below it. */
static bool is_about(int states_fd, const char *name, const char *path)
{
    char text[BEGINNING_BYTES + 1];
    auto_close int fd = openat(states_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : pread(fd, text, BEGINNING_BYTES, 0);
    size_t head = sizeof HEAD - 1;
    if (got <= (ssize_t)head || memcmp(text, HEAD, head) != 0)
        return false;
    text[got] = '\0'; /* so is the path */
    return berth_fs_is_within(text + head, path) || berth_fs_is_within(path, text + head);
}

int berth_workspace_state_others(const char *states, struct berth_arena *arena, const char *path,
                                 const char *lease_id, struct berth_list *out,
                                 struct berth_error *err)
{
    auto_dir *dir = opendir(states);
    *out = (struct berth_list){0};
    if (!dir)
        return errno == ENOENT ? BERTH_OK : berth_fail_errno(err, "Cannot read %s", states);
    for (const struct dirent *d; (d = readdir(dir));) {
        struct berth_id id;
        struct berth_error ignored; /* another kind of file */
        if (berth_id_parse(d->d_name, "Lease", &id, &ignored) == BERTH_OK &&
            strcmp(id.text, lease_id) != 0 && is_about(dirfd(dir), d->d_name, path))
            (void)berth_list_add(out, arena, berth_arena_strdup(arena, id.text));
    }
    return berth_arena_check(arena, err);
}
