/* SPDX-License-Identifier: Apache-2.0
 * src/core/socket_cookie.c - see socket_cookie.h. */
#include "core/socket_cookie.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hex.h"
#include "os/fs.h"

#define VALUE_BYTES (BERTH_SOCKET_COOKIE_SIZE / 2)

static int cookie_new(char out[BERTH_SOCKET_COOKIE_SIZE], struct berth_error *err)
{
    unsigned char bytes[VALUE_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return berth_fail_errno(err, "Cannot make a random number");
    berth_hex_write(bytes, sizeof bytes, out);
    return BERTH_OK;
}

static bool cookie_path(const char *socket, const char *suffix, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s" BERTH_SOCKET_COOKIE_SUFFIX "%s", socket, suffix) < PATH_MAX;
}

static int cookie_write(const char *socket, const char *value, struct berth_error *err)
{
    char path[PATH_MAX], fresh[PATH_MAX], line[BERTH_SOCKET_COOKIE_LINE_SIZE + 1];
    if (!cookie_path(socket, "", path) || !cookie_path(socket, ".new", fresh))
        return berth_fail(err, BERTH_E_INVALID, "The path of the socket is too long.");
    int len = snprintf(line, sizeof line, BERTH_SOCKET_COOKIE_HEADER ": %s\n", value);
    (void)unlink(fresh);
    auto_close int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot make %s", fresh);
    int rc = berth_fs_write_all(fd, line, (size_t)len, err);
    if (rc == BERTH_OK && rename(fresh, path) < 0)
        rc = berth_fail_errno(err, "Cannot make %s", path);
    if (rc < 0)
        (void)unlink(fresh);
    return rc;
}

bool berth_socket_cookie_read(const char *socket, char out[BERTH_SOCKET_COOKIE_LINE_SIZE])
{
    static const char name[] = BERTH_SOCKET_COOKIE_HEADER ": ";
    char path[PATH_MAX];
    auto_close int fd =
        cookie_path(socket, "", path) ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    ssize_t got = fd < 0 ? -1 : read(fd, out, BERTH_SOCKET_COOKIE_LINE_SIZE - 1);
    out[got < 0 ? 0 : got] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return strncmp(out, name, strlen(name)) == 0;
}

/* Returns whether the file is ours alone, and not a link that another user could have made. */
static bool cookie_is_safe(const char *socket)
{
    char path[PATH_MAX];
    struct stat st;
    return cookie_path(socket, "", path) && lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

int berth_socket_cookie_take(const char *socket, char out[BERTH_SOCKET_COOKIE_SIZE],
                             struct berth_error *err)
{
    char line[BERTH_SOCKET_COOKIE_LINE_SIZE];
    size_t skip = strlen(BERTH_SOCKET_COOKIE_HEADER ": ");
    if (cookie_is_safe(socket) && berth_socket_cookie_read(socket, line) &&
        strlen(line + skip) == BERTH_SOCKET_COOKIE_SIZE - 1) {
        (void)snprintf(out, BERTH_SOCKET_COOKIE_SIZE, "%s", line + skip);
        return BERTH_OK;
    }
    int rc = cookie_new(out, err);
    return rc < 0 ? rc : cookie_write(socket, out, err);
}

bool berth_socket_cookie_is(const char *value, const char *given)
{
    unsigned char differ = strlen(value) != strlen(given);
    for (size_t i = 0; value[i] && given[i]; i++)
        differ |= (unsigned char)(value[i] ^ given[i]);
    return !differ && *value;
}
