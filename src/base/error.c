/* SPDX-License-Identifier: Apache-2.0
 * src/base/error.c - filling struct berth_error. */
#include <berth/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void reset(struct berth_error *err, int code, int os_errno)
{
    err->code = code;
    err->os_errno = os_errno;
    err->where[0] = '\0';
}

int berth_fail(struct berth_error *err, int code, const char *fmt, ...)
{
    reset(err, code, 0);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    return code;
}

static int code_of_errno(int os_errno)
{
    switch (os_errno) {
    case ENOENT:
        return BERTH_E_NOT_FOUND;
    case EACCES:
    case EPERM:
        return BERTH_E_DENIED;
    case ENOMEM:
        return BERTH_E_NO_MEMORY;
    case ETIMEDOUT:
        return BERTH_E_TIMEOUT;
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
        return BERTH_E_UNAVAILABLE;
    default:
        return BERTH_E_INTERNAL;
    }
}

int berth_fail_errno(struct berth_error *err, const char *fmt, ...)
{
    int saved = errno;
    reset(err, code_of_errno(saved), saved);
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof err->message) {
        char text[128];
        (void)snprintf(err->message + used, sizeof err->message - (size_t)used, ": %s",
                       strerror_r(saved, text, sizeof text));
    }
    return err->code;
}

int berth_wrap(struct berth_error *err, const char *fmt, ...)
{
    char inner[sizeof err->where];
    memcpy(inner, err->where, sizeof inner);
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(err->where, sizeof err->where, fmt, args);
    va_end(args);
    if (inner[0] && used >= 0 && (size_t)used < sizeof err->where)
        (void)snprintf(err->where + used, sizeof err->where - (size_t)used, ": %s", inner);
    return err->code;
}

int berth_code_http(int code)
{
    switch (code) {
    case BERTH_OK:
        return 200;
#define X(name, number, http, wire)                                                                \
    case number:                                                                                   \
        return http;
        BERTH_ERROR_MAP(X)
#undef X
    default:
        return 500;
    }
}

const char *berth_code_wire(int code)
{
    switch (code) {
    case BERTH_OK:
        return "ok";
#define X(name, number, http, wire)                                                                \
    case number:                                                                                   \
        return wire;
        BERTH_ERROR_MAP(X)
#undef X
    default:
        return "internal";
    }
}

int berth_code_find(const char *wire)
{
#define X(name, number, http, text)                                                                \
    if (strcmp(wire, text) == 0)                                                                   \
        return number;
    BERTH_ERROR_MAP(X)
#undef X
    return BERTH_OK;
}
