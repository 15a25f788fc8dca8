/* SPDX-License-Identifier: Apache-2.0
 * src/sync/tree.c - see tree.h. */
#include "sync/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/time.h"
#include "os/fs.h"

#define PERMISSIONS 0777
#define SECOND_NS INT64_C(1000000000)
#define MS_NS INT64_C(1000000)
/* A file that was changed this shortly before it was read may have been changed once more without
 * another time: the clock of files ticks 100 times a second or more. Some file systems round their
 * times, FAT to two seconds. */
#define UNSETTLED_NS (20 * MS_NS)
/* A page that a process has mapped and changed lately may be changed again without a new time,
 * until the kernel has written it to the disk: 30 s by default. A file that is read in that time
 * does not vouch for itself. One that was not read, because it is as it was, has no such page. */
#define WRITEBACK_NS (35000 * MS_NS)
#define UNSETTLED_ROUNDED_NS (3 * SECOND_NS)
#define HASH_THREADS_MAX 8
#define HASH_FILES_MIN 64 /* fewer are read by the caller alone */
#define READ_BYTES (256 * 1024)
#define HOLE_BYTES_MIN 4096
#define SHARE_FILES 32 /* that a thread takes at once: two do not meet in one directory then */
#define READ_TRIES 3   /* of a file that changes meanwhile */

static bool is_cancelled(int cancel_fd)
{
    struct pollfd wish = {.fd = cancel_fd, .events = POLLIN};
    return cancel_fd >= 0 && poll(&wish, 1, 0) > 0;
}

static int fail_cancelled(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_CANCELLED, "Reading the workspace was cancelled.");
}

bool berth_tree_can_vouch(int root_fd)
{
    /* Others change files of these without this machine's clock, or number inodes anew; and a store
     * through a mapping changes no time on tmpfs. */
    static const unsigned long others[] = {
        TMPFS_MAGIC, NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
        V9FS_MAGIC,  FUSE_SUPER_MAGIC, CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,  MSDOS_SUPER_MAGIC};
    struct statfs fs;
    if (fstatfs(root_fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if ((unsigned long)fs.f_type == others[i])
            return false;
    return true;
}

/* --- listing --- */

struct listing {
    const struct berth_tree_options *options;
    struct berth_tree_manifest *out;
    char path[BERTH_TREE_PATH_BYTES_MAX + 1]; /* of what is being looked at */
    size_t len;
    int depth;
    uint64_t mount_id; /* of the root */
};

/* A name in a directory. */
struct name {
    unsigned char type; /* as in struct dirent */
    char text[];
};

static int list_directory(struct listing *l, int fd, struct berth_error *err);

/* Appends a name to the path. Returns the length before, which pop_name gets, or < 0. */
static int push_name(struct listing *l, const char *name, struct berth_error *err)
{
    size_t before = l->len, len = strlen(name);
    if (l->len + 1 + len > BERTH_TREE_PATH_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "A path is longer than %d bytes: %.400s/...",
                          BERTH_TREE_PATH_BYTES_MAX, l->path);
    if (l->len)
        l->path[l->len++] = '/';
    memcpy(l->path + l->len, name, len + 1);
    l->len += len;
    return (int)before;
}

static void pop_name(struct listing *l, int before)
{
    l->len = (size_t)before;
    l->path[l->len] = '\0';
}

static int compare_names(const void *a, const void *b)
{
    const struct name *const *x = a, *const *y = b;
    return strcmp((*x)->text, (*y)->text);
}

/* Reads the names of a directory, sorted, into the arena. */
static int read_names(struct listing *l, DIR *dir, struct berth_arena *arena,
                      struct berth_list *names, struct berth_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno)
            return berth_fail_errno(err, "Cannot read the directory %s", l->len ? l->path : ".");
        if (!entry)
            break;
        size_t len = strlen(entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        struct name *name = berth_arena_alloc(arena, sizeof *name + len + 1);
        if (name) {
            name->type = entry->d_type;
            memcpy(name->text, entry->d_name, len + 1);
        }
        if (!name || !berth_list_add(names, arena, name))
            return berth_arena_check(arena, err);
    }
    if (names->count)
        qsort(names->items, (size_t)names->count, sizeof names->items[0], compare_names);
    return BERTH_OK;
}

/* Adds the rules of an ignore file. A link or a directory of that name has none, as with git. */
static int read_rules(struct listing *l, int fd, const char *name, struct berth_error *err)
{
    auto_close int file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (file < 0 && (errno == ELOOP || errno == ENOENT))
        return BERTH_OK;
    if (file < 0 || fstat(file, &st) < 0)
        return berth_fail_errno(err, "Cannot read %s/%s", l->len ? l->path : ".", name);
    if (!S_ISREG(st.st_mode))
        return BERTH_OK;
    auto_buf text = BERTH_BUF_INIT(BERTH_IGNORE_FILE_BYTES_MAX);
    int rc = berth_fs_read_all(file, &text, err);
    if (rc < 0)
        return berth_wrap(err, "%s/%s", l->path, name);
    return text.len ? berth_ignore_add(l->options->ignore, l->path, text.data, text.len, err)
                    : BERTH_OK;
}

static int read_all_rules(struct listing *l, int fd, const struct berth_list *names,
                          struct berth_error *err)
{
    int rc = BERTH_OK;
    for (const char *const *file = l->options->ignore_files; file && *file; file++)
        for (int i = 0; rc == BERTH_OK && i < names->count; i++)
            if (strcmp(((const struct name *)names->items[i])->text, *file) == 0)
                rc = read_rules(l, fd, *file, err);
    return rc;
}

static int list_link(struct listing *l, int fd, const char *name, struct berth_entry *e,
                     struct berth_error *err)
{
    char target[BERTH_TREE_PATH_BYTES_MAX + 2];
    ssize_t len = readlinkat(fd, name, target, sizeof target);
    if (len < 0)
        return berth_fail_errno(err, "Cannot read the link %s", l->path);
    if ((size_t)len >= sizeof target)
        return berth_fail(err, BERTH_E_TOO_LARGE, "The target of the link %.400s is too long.",
                          l->path);
    target[len] = '\0';
    e->kind = BERTH_ENTRY_LINK;
    e->mode = 0;
    e->target = target;
    return berth_tree_manifest_add(l->out, e, err);
}

/* Returns the id of the mount that a directory is in; 0: it is not known. */
static uint64_t mount_of(int fd)
{
    struct statx st;
    return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 && st.stx_mask & STATX_MNT_ID
               ? st.stx_mnt_id
               : 0;
}

/* Excludes the directory at the path from now on. */
static int leave_mount(struct listing *l, struct berth_error *err)
{
    char rule[BERTH_TREE_PATH_BYTES_MAX * 2 + 3] = "/";
    size_t len = 1;
    if (strchr(l->path, '\n'))
        return berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "Something is mounted on %.400s, which has a newline in its name. Unmount "
            "it, or exclude it.",
            l->path);
    for (const char *at = l->path; *at; at++) {
        if (strchr("\\*?[] ", *at))
            rule[len++] = '\\';
        rule[len++] = *at;
    }
    rule[len++] = '/';
    rule[len] = '\0';
    if (!l->out->mounts++)
        l->out->mount_path = berth_arena_strdup(&l->out->arena, l->path);
    int rc = berth_ignore_add_override(l->options->ignore, rule, err);
    return rc < 0 ? rc : berth_arena_check(&l->out->arena, err);
}

/* Adds the directory under a name, and what is below it. */
static int list_below(struct listing *l, int fd, const char *name, const struct berth_entry *e,
                      struct berth_error *err)
{
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0)
        return berth_fail_errno(err, "Cannot read the directory %s", l->path);
    if (l->options->leave_mounts && mount_of(below) != l->mount_id) {
        (void)close(below);
        return leave_mount(l, err);
    }
    int rc = berth_tree_manifest_add(l->out, e, err);
    if (rc < 0) {
        (void)close(below);
        return rc;
    }
    if (l->depth == BERTH_TREE_DEPTH_MAX) {
        (void)close(below);
        return berth_fail(err, BERTH_E_TOO_LARGE, "Directories are more than %d deep: %.400s",
                          BERTH_TREE_DEPTH_MAX, l->path);
    }
    l->depth++;
    rc = list_directory(l, below, err);
    l->depth--;
    return rc;
}

/* Adds what stands under a name, and what is below it. */
static int list_entry(struct listing *l, int fd, const char *name, const struct stat *st,
                      struct berth_error *err)
{
    struct berth_entry e = {.path = l->path,
                            .mode = (uint16_t)(st->st_mode & PERMISSIONS),
                            .mtime_ns = berth_time_ns(&st->st_mtim),
                            .ctime_ns = berth_time_ns(&st->st_ctim),
                            .inode = (uint64_t)st->st_ino};
    if (S_ISLNK(st->st_mode))
        return list_link(l, fd, name, &e, err);
    if (S_ISREG(st->st_mode)) {
        e.kind = BERTH_ENTRY_FILE;
        e.size = (int64_t)st->st_size;
        return berth_tree_manifest_add(l->out, &e, err);
    }
    if (S_ISDIR(st->st_mode)) {
        e.kind = BERTH_ENTRY_DIRECTORY;
        return list_below(l, fd, name, &e, err);
    }
    if (!l->out->skipped++)
        l->out->skipped_path = berth_arena_strdup(&l->out->arena, l->path);
    return berth_arena_check(&l->out->arena, err);
}

static int list_name(struct listing *l, int fd, const struct name *name, struct berth_error *err)
{
    struct stat st;
    int before = push_name(l, name->text, err);
    if (before < 0)
        return before;
    int rc = BERTH_OK;
    bool known = name->type != DT_UNKNOWN;
    l->out->repositories += strcmp(name->text, ".git") == 0;
    bool excluded =
        known && berth_ignore_excludes(l->options->ignore, l->path, name->type == DT_DIR);
    if (!excluded) {
        if (fstatat(fd, name->text, &st, AT_SYMLINK_NOFOLLOW) < 0)
            rc = errno == ENOENT ? BERTH_OK /* removed since the directory was read */
                                 : berth_fail_errno(err, "Cannot read %s", l->path);
        else if (known || !berth_ignore_excludes(l->options->ignore, l->path, S_ISDIR(st.st_mode)))
            rc = list_entry(l, fd, name->text, &st, err);
    }
    pop_name(l, before);
    return rc;
}

/* Closes the descriptor. */
static int list_directory(struct listing *l, int fd, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_list names = {0};
    auto_dir *dir = fdopendir(fd);
    if (!dir) {
        (void)berth_fail_errno(err, "Cannot read the directory %s", l->len ? l->path : ".");
        (void)close(fd);
        return err->code;
    }
    if (is_cancelled(l->options->cancel_fd))
        return fail_cancelled(err);
    int rc = read_names(l, dir, &arena, &names, err);
    if (rc == BERTH_OK)
        rc = read_all_rules(l, fd, &names, err);
    for (int i = 0; rc == BERTH_OK && i < names.count; i++)
        rc = list_name(l, fd, names.items[i], err);
    return rc;
}

int64_t berth_tree_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return berth_time_ns(&now);
}

int berth_tree_list(int root_fd, const struct berth_tree_options *options,
                    struct berth_tree_manifest *out, struct berth_error *err)
{
    struct listing l = {.options = options, .out = out};
    int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot read the workspace");
    out->taken_at_ns = berth_tree_now_ns();
    l.mount_id = options->leave_mounts ? mount_of(fd) : 0;
    int rc = list_directory(&l, fd, err);
    return rc < 0 ? rc : berth_tree_manifest_sort(out, err);
}

/* --- hashing --- */

struct hashing {
    int root_fd, cancel_fd;
    int copy_fd; /* the directory that files are copied to; -1: they are only read */
    struct berth_entry **files;
    size_t count;
    _Atomic size_t next;
    _Atomic bool failed;
    pthread_mutex_t lock;
    struct berth_error err; /* of the first failure */
    struct berth_progress *progress;
};

/* What reading files needs. */
struct reader {
    struct berth_sha256_stream *digest;
    char *chunk;
    int cancel_fd; /* reading ends when it becomes readable; -1: never */
};

static int reader_open(struct reader *r, int cancel_fd, struct berth_error *err)
{
    *r = (struct reader){.chunk = malloc(READ_BYTES), .cancel_fd = cancel_fd};
    return r->chunk ? berth_sha256_stream_new(&r->digest, err)
                    : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: hashing.");
}

static void reader_close(struct reader *r)
{
    berth_sha256_stream_free(r->digest);
    free(r->chunk);
}
#define auto_reader __attribute__((cleanup(reader_close))) struct reader

static int fail_changed(struct berth_error *err, const char *path, const char *how)
{
    (void)berth_fail(err, BERTH_E_CONFLICT, "%.600s %s. Try again.", path, how);
    err->os_errno = ESTALE;
    return err->code;
}

/* Appends bytes to a copy. Zeros become a hole, as *hole says: a small archive may name a file of
 * many gigabytes. */
static int write_copy(int copy, const char *bytes, size_t len, bool *hole, struct berth_error *err)
{
    *hole = len >= HOLE_BYTES_MIN && bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
    if (!*hole)
        return berth_fs_write_all(copy, bytes, len, err);
    return lseek(copy, (off_t)len, SEEK_CUR) < 0 ? berth_fail_errno(err, "Cannot write a copy")
                                                 : BERTH_OK;
}

/* Reads a whole file into the digest, and writes it to `copy`, which is empty, unless that is -1.
 * *stable says whether the file was the same before and after. */
static int hash_open_file(int fd, int copy, const struct reader *r, struct berth_entry *e,
                          bool *stable, struct berth_error *err)
{
    struct stat before, after;
    int64_t size = 0;
    bool hole = false;
    if (fstat(fd, &before) < 0)
        return berth_fail_errno(err, "Cannot read %s", e->path);
    berth_sha256_stream_begin(r->digest);
    for (ssize_t got; (got = read(fd, r->chunk, READ_BYTES)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return berth_fail_errno(err, "Cannot read %s", e->path);
        berth_sha256_stream_put(r->digest, r->chunk, (size_t)got);
        size += got;
        int rc = copy < 0 ? BERTH_OK : write_copy(copy, r->chunk, (size_t)got, &hole, err);
        if (rc < 0)
            return berth_wrap(err, "copy %.60s", e->path);
        if (got == READ_BYTES && is_cancelled(r->cancel_fd))
            return fail_cancelled(err);
    }
    if (hole && ftruncate(copy, size) < 0) /* it ends with a hole */
        return berth_fail_errno(err, "Cannot write the copy of %s", e->path);
    if (fstat(fd, &after) < 0)
        return berth_fail_errno(err, "Cannot read %s", e->path);
    berth_sha256_stream_end(r->digest, e->hash);
    *stable = S_ISREG(before.st_mode) && size == (int64_t)after.st_size &&
              berth_time_ns(&before.st_mtim) == berth_time_ns(&after.st_mtim) &&
              berth_time_ns(&before.st_ctim) == berth_time_ns(&after.st_ctim);
    e->size = size;
    e->mode = (uint16_t)(after.st_mode & PERMISSIONS);
    e->mtime_ns = berth_time_ns(&after.st_mtim);
    e->ctime_ns = berth_time_ns(&after.st_ctim);
    e->inode = (uint64_t)after.st_ino;
    e->hashed = true;
    return BERTH_OK;
}

/* Gives a copy the mode and the modification time of its original. The mode is set only when it
 * differs: a file system writes each change of an inode to its journal. */
static int finish_copy(int copy, const struct berth_entry *e, struct berth_error *err)
{
    struct stat st;
    int64_t ns = e->mtime_ns % SECOND_NS;
    ns += ns < 0 ? SECOND_NS : 0; /* before 1970 */
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {.tv_sec = (e->mtime_ns - ns) / SECOND_NS, .tv_nsec = ns}};
    if (fstat(copy, &st) < 0 ||
        ((st.st_mode & PERMISSIONS) != e->mode && fchmod(copy, e->mode) < 0) ||
        futimens(copy, times) < 0)
        return berth_fail_errno(err, "Cannot write the copy of %s", e->path);
    return BERTH_OK;
}

/* Reads a file below the root, and copies it to `copy`, unless that is -1. */
static int read_file(int root_fd, int copy, const struct reader *r, struct berth_entry *e,
                     struct berth_error *err)
{
    for (int tries = 0; tries < READ_TRIES; tries++) {
        bool stable = false;
        auto_close int fd = berth_fs_open_beneath(root_fd, e->path, O_RDONLY | O_NONBLOCK, 0, err);
        if (fd < 0)
            return fd;
        if (tries && copy >= 0 && (ftruncate(copy, 0) < 0 || lseek(copy, 0, SEEK_SET) < 0))
            return berth_fail_errno(err, "Cannot write the copy of %s", e->path);
        int rc = hash_open_file(fd, copy, r, e, &stable, err);
        if (rc < 0 || stable)
            return rc;
    }
    return fail_changed(err, e->path, "changes while it is read");
}

static int hash_file(const struct hashing *h, const struct reader *r, struct berth_entry *e,
                     struct berth_error *err)
{
    if (h->copy_fd < 0)
        return read_file(h->root_fd, -1, r, e, err);
    auto_close int copy =
        berth_fs_open_beneath(h->copy_fd, e->path, O_WRONLY | O_CREAT | O_EXCL, e->mode, err);
    if (copy < 0)
        return copy;
    int rc = read_file(h->root_fd, copy, r, e, err);
    if (rc < 0)
        return rc;
    berth_progress_add_file(h->progress);
    berth_progress_add(h->progress, e->size);
    return finish_copy(copy, e, err);
}

int berth_tree_hash_fd(int fd, unsigned char hash[BERTH_SHA256_SIZE], struct berth_error *err)
{
    struct berth_entry e = {.path = "a file"};
    auto_reader r = {0};
    bool stable = false;
    int rc = reader_open(&r, -1, err);
    if (rc == BERTH_OK)
        rc = hash_open_file(fd, -1, &r, &e, &stable, err);
    if (rc == BERTH_OK && !stable)
        rc = berth_fail(err, BERTH_E_CONFLICT, "A file changes while it is read. Try again.");
    memcpy(hash, e.hash, sizeof e.hash);
    return rc;
}

int berth_tree_copy_file(int root_fd, const struct berth_entry *entry, int directory_fd,
                         const char *name, struct berth_error *err)
{
    struct berth_entry e = *entry;
    auto_reader r = {0};
    auto_close int copy =
        openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (copy < 0)
        return berth_fail_errno(err, "Cannot write the copy of %s", e.path);
    int rc = reader_open(&r, -1, err);
    if (rc == BERTH_OK)
        rc = read_file(root_fd, copy, &r, &e, err);
    if (rc == BERTH_OK && memcmp(e.hash, entry->hash, sizeof e.hash) != 0)
        rc = fail_changed(err, e.path, "has changed since it was listed");
    return rc;
}

static void hash_fail(struct hashing *h, const struct berth_error *err)
{
    pthread_mutex_lock(&h->lock);
    if (!atomic_exchange(&h->failed, true))
        h->err = *err;
    pthread_mutex_unlock(&h->lock);
}

static void *hash_main(void *ctx)
{
    struct hashing *h = ctx;
    struct berth_error err;
    auto_reader r = {0};
    int rc = reader_open(&r, h->cancel_fd, &err);
    for (size_t i; rc == BERTH_OK && (i = atomic_fetch_add(&h->next, SHARE_FILES)) < h->count;) {
        size_t end = h->count - i < SHARE_FILES ? h->count : i + SHARE_FILES;
        for (; rc == BERTH_OK && i < end && !atomic_load(&h->failed); i++)
            rc = is_cancelled(h->cancel_fd) ? fail_cancelled(&err)
                                            : hash_file(h, &r, h->files[i], &err);
    }
    if (rc < 0)
        hash_fail(h, &err);
    return NULL;
}

static int hash_files(struct hashing *h, struct berth_error *err)
{
    pthread_t threads[HASH_THREADS_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int wanted = h->count < HASH_FILES_MIN       ? 0
                 : processors > HASH_THREADS_MAX ? HASH_THREADS_MAX
                                                 : (int)processors,
        started = 0;
    pthread_mutex_init(&h->lock, NULL);
    while (started < wanted - 1 && pthread_create(&threads[started], NULL, hash_main, h) == 0)
        started++;
    (void)hash_main(h);
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&h->lock);
    if (!atomic_load(&h->failed))
        return BERTH_OK;
    *err = h->err;
    return err->code;
}

/* Returns whether the last change of a file was long enough before its manifest was taken. */
static bool is_settled(const struct berth_entry *e, int64_t taken_at_ns)
{
    bool rounded = e->ctime_ns % MS_NS == 0;
    int64_t before_ns = taken_at_ns - (rounded ? UNSETTLED_ROUNDED_NS : UNSETTLED_NS);
    return e->ctime_ns < before_ns && e->mtime_ns < before_ns;
}

/* Returns whether an earlier manifest vouches for the content of a file. An entry without an inode
 * vouches for nothing. */
static bool vouches(const struct berth_tree_manifest *known, const struct berth_entry *then,
                    const struct berth_entry *now)
{
    return then && then->kind == BERTH_ENTRY_FILE && then->hashed && then->size == now->size &&
           then->mtime_ns == now->mtime_ns && then->ctime_ns == now->ctime_ns && then->inode &&
           then->inode == now->inode && is_settled(now, known->taken_at_ns);
}

int berth_tree_hash(int root_fd, struct berth_tree_manifest *m,
                    const struct berth_tree_manifest *known, int cancel_fd, struct berth_error *err)
{
    auto_free struct berth_entry **files = calloc(m->count + 1, sizeof *files);
    struct hashing h = {.root_fd = root_fd, .cancel_fd = cancel_fd, .copy_fd = -1, .files = files};
    if (!files)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: hashing.");
    for (size_t i = 0, at = 0; i < m->count; i++) {
        struct berth_entry *e = &m->entries[i];
        const struct berth_entry *then = known && e->kind == BERTH_ENTRY_FILE
                                             ? berth_tree_manifest_next(known, &at, e->path)
                                             : NULL;
        if (e->kind != BERTH_ENTRY_FILE || e->hashed)
            continue;
        if (vouches(known, then, e)) {
            memcpy(e->hash, then->hash, sizeof e->hash);
            e->hashed = true;
        } else {
            files[h.count++] = e;
        }
    }
    m->files_read = h.count;
    int rc = h.count ? hash_files(&h, err) : BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < h.count; i++)
        if (files[i]->ctime_ns >= m->taken_at_ns - WRITEBACK_NS)
            files[i]->inode = 0;
    return rc;
}

/* --- copying --- */

/* Makes the directories and links of a tree. Its owner may write to all directories for now. */
static int copy_structure(const struct berth_tree_manifest *m, int copy_fd, struct berth_error *err)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct berth_entry *e = &m->entries[i];
        if ((e->kind == BERTH_ENTRY_DIRECTORY && mkdirat(copy_fd, e->path, S_IRWXU) < 0) ||
            (e->kind == BERTH_ENTRY_LINK && symlinkat(e->target, copy_fd, e->path) < 0))
            return berth_fail_errno(err, "Cannot make the copy of %s", e->path);
    }
    return BERTH_OK;
}

/* From below: a directory may be closed to its owner. */
static int copy_directory_modes(const struct berth_tree_manifest *m, int copy_fd,
                                struct berth_error *err)
{
    for (size_t i = m->count; i-- > 0;) {
        const struct berth_entry *e = &m->entries[i];
        if (e->kind == BERTH_ENTRY_DIRECTORY && fchmodat(copy_fd, e->path, e->mode, 0) < 0)
            return berth_fail_errno(err, "Cannot set the mode of the copy of %s", e->path);
    }
    return BERTH_OK;
}

int berth_tree_copy(int root_fd, struct berth_tree_manifest *m, int copy_fd, int cancel_fd,
                    struct berth_progress *progress, struct berth_error *err)
{
    auto_free struct berth_entry **files = calloc(m->count + 1, sizeof *files);
    struct hashing h = {.root_fd = root_fd,
                        .cancel_fd = cancel_fd,
                        .copy_fd = copy_fd,
                        .files = files,
                        .progress = progress};
    if (!files)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: copying.");
    int rc = copy_structure(m, copy_fd, err);
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].kind == BERTH_ENTRY_FILE)
            files[h.count++] = &m->entries[i];
    if (rc == BERTH_OK && h.count)
        rc = hash_files(&h, err);
    return rc < 0 ? rc : copy_directory_modes(m, copy_fd, err);
}
