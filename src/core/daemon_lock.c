/* SPDX-License-Identifier: Apache-2.0
 * src/core/daemon_lock.c - see daemon_lock.h. */
#include "core/daemon_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "crypto/hash.h"
#include "os/runtime.h"

#define SQLITE "sqlite:"
#define NAME_DIGITS 16
#define NOTE_BYTES_MAX (32 + BERTH_SOCKET_PATH_SIZE) /* "PID\nSOCKET\n" */

static bool is_file(const char *address)
{
    return strncmp(address, SQLITE, strlen(SQLITE)) == 0;
}

/* The caller frees it. A file has one note, whatever it is called. */
static char *note_of(const char *address, struct berth_error *err)
{
    auto_free char *file = is_file(address) ? realpath(address + strlen(SQLITE), NULL) : NULL;
    char *path = NULL, digest[BERTH_SHA256_HEX_SIZE], directory[BERTH_RUNTIME_PATH_SIZE];
    if (is_file(address)) {
        if (asprintf(&path, "%s.berthd", file ? file : address + strlen(SQLITE)) < 0)
            path = NULL;
    } else {
        if (berth_runtime_directory(directory, err) < 0 ||
            berth_sha256_hex(address, strlen(address), digest, err) < 0)
            return NULL;
        if (asprintf(&path, "%s/store.%.*s", directory, NAME_DIGITS, digest) < 0)
            path = NULL;
    }
    if (!path)
        (void)berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    return path;
}

static int lock_refuse(int fd, const char *address, struct berth_error *err)
{
    char pid[32] = "";
    ssize_t got = pread(fd, pid, sizeof pid - 1, 0);
    pid[got > 0 ? strcspn(pid, "\n") : 0] = '\0';
    return berth_fail(err, BERTH_E_CONFLICT,
                      "Another berthd (process %s) serves the store %s: stop it, or use its "
                      "socket.",
                      *pid ? pid : "unknown", address + strlen(SQLITE));
}

int berth_daemon_lock_take(const char *address, const char *socket, int *fd,
                           struct berth_error *err)
{
    auto_free char *path = note_of(address, err), *here = *socket == '/' ? NULL : getcwd(NULL, 0);
    auto_close int note = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    char text[NOTE_BYTES_MAX];
    *fd = -1;
    if (!path)
        return err->code;
    if (note < 0)
        return berth_fail_errno(err, "Cannot open %s", path);
    struct flock all = {.l_type = F_WRLCK};
    if (fcntl(note, F_OFD_SETLK, &all) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            return berth_fail_errno(err, "Cannot lock %s", path);
        return is_file(address) ? lock_refuse(note, address, err) : BERTH_OK;
    }
    int len = snprintf(text, sizeof text, "%d\n%s%s%s\n", (int)getpid(), here ? here : "",
                       here ? "/" : "", socket);
    if (len >= (int)sizeof text)
        len = 0; /* too long for berth_daemon_lock_find */
    if (ftruncate(note, 0) < 0 || pwrite(note, text, (size_t)len, 0) != len)
        return berth_fail_errno(err, "Cannot write %s", path);
    *fd = note;
    note = -1;
    return BERTH_OK;
}

bool berth_daemon_lock_find(const char *address, char socket[BERTH_SOCKET_PATH_SIZE])
{
    struct berth_error none;
    struct stat st;
    char text[NOTE_BYTES_MAX] = "", *line;
    auto_free char *path = note_of(address, &none);
    auto_close int note = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW) : -1;
    struct flock all = {.l_type = F_RDLCK}; /* only queried: blocks no other process */
    if (note < 0 || fstat(note, &st) < 0 || st.st_uid != geteuid() || !S_ISREG(st.st_mode))
        return false;
    if (fcntl(note, F_OFD_GETLK, &all) < 0 || all.l_type == F_UNLCK)
        return false; /* no process holds the lock */
    if (pread(note, text, sizeof text - 1, 0) <= 0 || !(line = strchr(text, '\n')))
        return false;
    size_t len = strcspn(++line, "\n");
    if (line[len] != '\n' || !len || len >= BERTH_SOCKET_PATH_SIZE)
        return false;
    memcpy(socket, line, len);
    socket[len] = '\0';
    return true;
}
