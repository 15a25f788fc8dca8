/* SPDX-License-Identifier: Apache-2.0
 * src/core/socket_cookie.h - the second proof, besides its uid, that a client at the daemon's Unix
 * socket is an operator: a secret in a file beside the socket, which workers of plugins cannot
 * read. The file has one line, "Berth-Cookie: VALUE", so that curl -H @FILE sends it. */
#ifndef BERTH_CORE_SOCKET_COOKIE_H
#define BERTH_CORE_SOCKET_COOKIE_H

#include <stdbool.h>

#include <berth/error.h>

#define BERTH_SOCKET_COOKIE_HEADER "Berth-Cookie"
#define BERTH_SOCKET_COOKIE_FIELD "berth-cookie" /* as the HTTP server spells it */
#define BERTH_SOCKET_COOKIE_SIZE 65              /* the value, in hexadecimal digits */
#define BERTH_SOCKET_COOKIE_LINE_SIZE 80         /* "Berth-Cookie: VALUE" */
#define BERTH_SOCKET_COOKIE_SUFFIX ".cookie"

/* Reads the value for the daemon at this socket, or makes it and the file, which only its owner can
 * read. The file stays when the daemon ends, so that a daemon which is started at a socket in use
 * takes nothing away from the other. A new value is made when the file was removed. */
int berth_socket_cookie_take(const char *socket, char out[BERTH_SOCKET_COOKIE_SIZE],
                             struct berth_error *err);
/* Reads the line of the file, without its end. Returns false when it cannot be read. */
bool berth_socket_cookie_read(const char *socket, char out[BERTH_SOCKET_COOKIE_LINE_SIZE]);
/* Compares two values in a time that does not depend on them. */
bool berth_socket_cookie_is(const char *value, const char *given);
#endif
