/* SPDX-License-Identifier: Apache-2.0
 * src/os/runtime.c - see runtime.h. */
#include "os/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "os/fs.h"

#define NAME_BYTES 24 /* "/ssh.XXXXXX" and some */
#define TRIES 8
#define SOCKETS_BYTES_MAX (16 * 1024 * 1024) /* of /proc/net/unix */

/* Makes the directory, or checks that it is ours and closed to others. */
static bool make_private(const char *path)
{
    struct stat st;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return false;
    return lstat(path, &st) == 0 &&
           berth_fs_find_flaw(&st, S_IFDIR, BERTH_FS_OURS_PRIVATE) == BERTH_FS_NO_FLAW;
}

int berth_runtime_directory(char out[BERTH_RUNTIME_PATH_SIZE], struct berth_error *err)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    struct berth_error foreign;
    char ours[32];
    (void)snprintf(ours, sizeof ours, "/tmp/berth-%u", (unsigned)geteuid());
    const char *const candidates[][2] = {
        {base && *base == '/' ? base : NULL, "/berth"}, {"/run", "/berth"}, {ours, ""}};
    for (unsigned i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        if (!candidates[i][0])
            continue;
        int len =
            snprintf(out, BERTH_RUNTIME_PATH_SIZE, "%s%s", candidates[i][0], candidates[i][1]);
        if (len > 0 && len < BERTH_RUNTIME_PATH_SIZE - NAME_BYTES &&
            berth_fs_refuse_root("runtime directory", candidates[i][0], &foreign) == BERTH_OK &&
            make_private(out))
            return BERTH_OK;
    }
    return berth_fail(err, BERTH_E_UNAVAILABLE,
                      "There is no private directory for sockets: set XDG_RUNTIME_DIR to one that "
                      "is yours alone (0700).");
}

int berth_runtime_socket(const char *run_id, char out[BERTH_RUNTIME_SOCKET_SIZE],
                         struct berth_error *err)
{
    char directory[BERTH_RUNTIME_PATH_SIZE];
    int rc = berth_runtime_directory(directory, err);
    if (rc == BERTH_OK)
        (void)snprintf(out, BERTH_RUNTIME_SOCKET_SIZE, "%s/run.%.40s", directory, run_id);
    return rc;
}

int berth_runtime_lock(void)
{
    char directory[BERTH_RUNTIME_PATH_SIZE];
    struct berth_error ignored;
    if (berth_runtime_directory(directory, &ignored) < 0)
        return -1;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    return fd;
}

/* Connects to a socket without waiting. Returns a descriptor, or -1 and sets errno. */
static int socket_connect(const char *path, size_t len)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (len >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

/* Returns whether a process listens at the socket, or whether that is not known. */
static bool socket_is_used(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return true;
    auto_close int fd = socket_connect(path, strlen(path));
    return fd >= 0 || errno != ECONNREFUSED;
}

/* Reads the list of the sockets of this network namespace. Sockets in it have a process, so that
 * they need not be connected to. The caller frees it; NULL: it cannot be read. */
static char *list_sockets(void)
{
    struct berth_error ignored;
    struct berth_buf list = BERTH_BUF_INIT(SOCKETS_BYTES_MAX);
    auto_close int fd = open("/proc/net/unix", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && berth_fs_read_all(fd, &list, &ignored) == BERTH_OK)
        return berth_buf_take(&list);
    berth_buf_clear(&list);
    return NULL;
}

/* Connects to the socket of a process of this user. Returns a descriptor, or -1. */
static int socket_connect_ours(const char *path, size_t path_len)
{
    struct ucred who;
    socklen_t len = sizeof who;
    int fd = socket_connect(path, path_len);
    if (fd < 0 ||
        (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid()))
        return fd;
    (void)close(fd);
    return -1;
}

int berth_runtime_connect_elsewhere(const char *run_id)
{
    char name[BERTH_RUNTIME_SOCKET_SIZE];
    auto_free char *list = list_sockets();
    size_t name_len = (size_t)snprintf(name, sizeof name, "/run.%.40s", run_id);
    int fd = -1;
    for (const char *line = list; fd < 0 && line && *line;) {
        size_t len = strcspn(line, "\n");
        const char *path = memchr(line, '/', len), *end = line + len; /* the last column */
        if (path && (size_t)(end - path) >= name_len && memcmp(end - name_len, name, name_len) == 0)
            fd = socket_connect_ours(path, (size_t)(end - path)); /* or of another user */
        line = end + (*end == '\n');
    }
    return fd;
}

void berth_runtime_tidy_sockets(void)
{
    char directory[BERTH_RUNTIME_PATH_SIZE], path[BERTH_RUNTIME_SOCKET_SIZE + 256];
    struct berth_error ignored;
    auto_free char *used = NULL;
    if (berth_runtime_directory(directory, &ignored) < 0)
        return;
    auto_dir *dir = opendir(directory);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "run.", 4) != 0)
            continue;
        if (!used)
            used = list_sockets();
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (!(used && strstr(used, entry->d_name)) && !socket_is_used(path))
            (void)unlink(path);
    }
}

static void empty(int fd)
{
    auto_close int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (!dir)
        return;
    copy = -1; /* the stream's now */
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(fd, entry->d_name, 0);
    (void)closedir(dir);
}

/* Locks the room. A process that gets the lock of a dead one may remove its room. */
static int lock_room(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

int berth_runtime_room_open(const char *kind, struct berth_runtime_room *out,
                            struct berth_error *err)
{
    char directory[BERTH_RUNTIME_PATH_SIZE];
    int rc = berth_runtime_directory(directory, err);
    for (int i = 0; rc == BERTH_OK && i < TRIES; i++) {
        int len = snprintf(out->path, sizeof out->path, "%s/%s.XXXXXX", directory, kind);
        if (len < 0 || (size_t)len >= sizeof out->path || !mkdtemp(out->path))
            return berth_fail_errno(err, "Cannot make a directory in %s", directory);
        out->fd = lock_room(out->path);
        if (out->fd >= 0)
            return BERTH_OK; /* otherwise another process removed it between the two steps */
        (void)rmdir(out->path);
    }
    return rc < 0
               ? rc
               : berth_fail(err, BERTH_E_UNAVAILABLE, "Cannot lock a directory in %s.", directory);
}

bool berth_runtime_room_stands(const struct berth_runtime_room *room)
{
    struct stat ours, found;
    return room->fd >= 0 && fstat(room->fd, &ours) == 0 && lstat(room->path, &found) == 0 &&
           ours.st_dev == found.st_dev && ours.st_ino == found.st_ino;
}

void berth_runtime_room_close(struct berth_runtime_room *room)
{
    if (room->fd < 0)
        return;
    empty(room->fd);
    (void)rmdir(room->path);
    (void)close(room->fd);
    room->fd = -1;
}

void berth_runtime_tidy(const char *kind)
{
    char directory[BERTH_RUNTIME_PATH_SIZE];
    struct berth_error ignored;
    if (berth_runtime_directory(directory, &ignored) < 0)
        return;
    DIR *dir = opendir(directory);
    size_t len = strlen(kind);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct berth_runtime_room room = BERTH_RUNTIME_ROOM_INIT;
        if (strncmp(entry->d_name, kind, len) != 0 || entry->d_name[len] != '.')
            continue;
        int wrote = snprintf(room.path, sizeof room.path, "%s/%s", directory, entry->d_name);
        if (wrote < 0 || (size_t)wrote >= sizeof room.path)
            continue;
        room.fd = lock_room(room.path);
        berth_runtime_room_close(&room);
    }
    if (dir)
        (void)closedir(dir);
}
