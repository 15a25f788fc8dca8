/* SPDX-License-Identifier: Apache-2.0
 * bench/trees.c - see trees.h. */
#include "trees.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fs.h"

#define FAN 50 /* names in a directory */
#define FILE_BYTES_MAX ((size_t)1024 * 1024)
#define EXIT_NO_PROGRAM 127

/* --- content --- */

/* Returns the length of a file. Of 100 files, 70 have about 2 KB, 24 about 9 KB, 5 about 45 KB and
 * one about 420 KB, which is 1 MB together. */
static size_t size_of(int file)
{
    int kind = file % 100;
    size_t size = kind < 70 ? 2000 : kind < 94 ? 9000 : kind < 99 ? 45000 : 420000;
    return size * (50 + (size_t)file * 37 % 101) / 100;
}

/* Fills the bytes with noise, which no compression makes smaller. */
static void fill(char *bytes, size_t len, uint64_t seed)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < len; i += sizeof x) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(bytes + i, &x, len - i < sizeof x ? len - i : sizeof x);
    }
}

static void path_of(const char *tree, int file, char *out, size_t size)
{
    int directory = file / FAN;
    (void)snprintf(out, size, "%s/t%03d/d%02d/f%02d", tree, directory / FAN, directory % FAN,
                   file % FAN);
}

/* Returns which file is the nth of those that change. */
static int nth_changed(int files, int nth)
{
    return (int)((int64_t)nth * files / CHANGED_FILES);
}

static int write_content(const char *path, int file, size_t len, unsigned seed,
                         struct berth_error *err)
{
    static char bytes[FILE_BYTES_MAX];
    fill(bytes, len, (uint64_t)seed << 32 | (unsigned)file);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd < 0 ? berth_fail_errno(err, "Cannot write %s", path)
                  : berth_fs_write_all(fd, bytes, len, err);
}

/* `bytes`: the length of each file; 0: that of size_of. */
static int make_files(const char *path, int files, size_t bytes, struct berth_error *err)
{
    char name[400];
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < files; i++) {
        path_of(path, i, name, sizeof name);
        if (i % FAN == 0) {
            *strrchr(name, '/') = '\0';
            rc = berth_fs_mkdirs(name, 0755, err);
            path_of(path, i, name, sizeof name);
        }
        if (rc == BERTH_OK)
            rc = write_content(name, i, bytes ? bytes : size_of(i), 0, err);
    }
    return rc;
}

int tree_make(const char *path, int files, struct berth_error *err)
{
    return make_files(path, files, 0, err);
}

int tree_make_even(const char *path, int files, size_t bytes, struct berth_error *err)
{
    return make_files(path, files, bytes, err);
}

int tree_change(const char *path, int files, unsigned seed, struct berth_error *err)
{
    char name[400];
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < CHANGED_FILES; i++) {
        int file = nth_changed(files, i);
        path_of(path, file, name, sizeof name);
        rc = write_content(name, file, size_of(file), seed, err);
    }
    return rc;
}

/* --- without a tool --- */

static int walk_directory(int parent, const char *name, size_t *count, struct berth_error *err)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_dir *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return berth_fail_errno(err, "Cannot read the directory %s", name);
    int rc = BERTH_OK;
    for (const struct dirent *entry; rc == BERTH_OK && (entry = readdir(dir));) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            rc = berth_fail_errno(err, "Cannot read %s", entry->d_name);
        else if (S_ISDIR(st.st_mode))
            rc = walk_directory(fd, entry->d_name, count, err);
        else
            ++*count;
    }
    return rc;
}

int tree_walk(const char *path, size_t *count, struct berth_error *err)
{
    *count = 0;
    return walk_directory(AT_FDCWD, path, count, err);
}

static int copy_file(const char *from, const char *to, struct berth_error *err)
{
    static char bytes[256 * 1024];
    auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int rc = in < 0 || out < 0 ? berth_fail_errno(err, "Cannot copy %s", from) : BERTH_OK;
    for (ssize_t got; rc == BERTH_OK && (got = read(in, bytes, sizeof bytes)) != 0;)
        rc = got < 0 ? berth_fail_errno(err, "Cannot read %s", from)
                     : berth_fs_write_all(out, bytes, (size_t)got, err);
    return rc;
}

int tree_copy_changed(const char *path, int files, const char *to, struct berth_error *err)
{
    char from[400], copy[400];
    int rc = mkdir(to, 0755) < 0 ? berth_fail_errno(err, "Cannot make %s", to) : BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < CHANGED_FILES; i++) {
        path_of(path, nth_changed(files, i), from, sizeof from);
        (void)snprintf(copy, sizeof copy, "%s/%d", to, i);
        rc = copy_file(from, copy, err);
    }
    return rc;
}

/* --- tools --- */

static int run_script(const char *text, const char *from, const char *to, struct berth_error *err)
{
    extern char **environ;
    const char *const argv[] = {"sh", "-c", text, "sh", from, to, NULL};
    pid_t pid;
    int status = 0;
    errno = posix_spawn(&pid, "/bin/sh", NULL, NULL, (char *const *)(uintptr_t)argv, environ);
    if (errno || waitpid(pid, &status, 0) < 0)
        return berth_fail_errno(err, "Cannot run %s", text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_PROGRAM)
        return berth_fail(err, BERTH_E_NOT_FOUND, "A program is missing: %s", text);
    return status ? berth_fail(err, BERTH_E_UPSTREAM, "This failed: %s", text) : BERTH_OK;
}

int tree_tar(const char *from, const char *to, struct berth_error *err)
{
    if (mkdir(to, 0755) < 0)
        return berth_fail_errno(err, "Cannot make %s", to);
    return run_script("tar -C \"$1\" -cf - . | tar -C \"$2\" -xf -", from, to, err);
}

int tree_rsync(const char *from, const char *to, struct berth_error *err)
{
    return run_script("exec rsync -a \"$1/\" \"$2/\"", from, to, err);
}
