/* SPDX-License-Identifier: Apache-2.0
 * include/berth/error.h - error codes, and the description of a failed call.
 *
 * A call that can fail returns BERTH_OK (0) or a negative code. On failure it fills the struct
 * berth_error that the caller passed in. `err` is never NULL. */
#ifndef BERTH_ERROR_H
#define BERTH_ERROR_H

/* All error codes: X(name, code, HTTP status, wire name). The codes are part of the ABI: append new
 * ones, never renumber. */
#define BERTH_ERROR_MAP(X)                                                                         \
    X(INVALID, -1, 400, "invalid")                                                                 \
    X(DENIED, -2, 403, "denied")                                                                   \
    X(NOT_FOUND, -3, 404, "not_found")                                                             \
    X(CONFLICT, -4, 409, "conflict")                                                               \
    X(TOO_LARGE, -5, 413, "too_large")                                                             \
    X(UNAVAILABLE, -6, 503, "unavailable")                                                         \
    X(TIMEOUT, -7, 504, "timeout")                                                                 \
    X(CANCELLED, -8, 499, "cancelled")                                                             \
    X(UNSUPPORTED, -9, 501, "unsupported")                                                         \
    X(NO_MEMORY, -10, 500, "no_memory")                                                            \
    X(INTERNAL, -11, 500, "internal")                                                              \
    X(UNAUTHORIZED, -12, 401, "unauthorized")                                                      \
    X(UNPROCESSABLE, -13, 422, "unprocessable")                                                    \
    X(RATE_LIMITED, -14, 429, "rate_limited")                                                      \
    X(UPSTREAM, -15, 502, "upstream")

enum berth_code {
    BERTH_OK = 0,
#define X(name, code, http, wire) BERTH_E_##name = (code),
    BERTH_ERROR_MAP(X)
#undef X
};

/* The description of a failed call. The caller owns it. It needs no initialisation and no clean-up,
 * and is meaningful only after a call returned a negative code. */
struct berth_error {
    int code;           /* enum berth_code */
    int os_errno;       /* the errno that caused the failure, or 0 */
    char message[1024]; /* the text for users; a longer text is cut */
    char where[120];    /* the failed steps for logs: "acquire ci-linux: create sandbox" */
};

/* Marks a function that the shared library exports. All other symbols are hidden. */
#define BERTH_API __attribute__((visibility("default")))
/* Lets the compiler check printf arguments. `fmt` and `args` are the positions of the format and of
 * its first argument, counted from 1. */
#define BERTH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Fills *err with the code and the formatted message, and empties err->where. Returns `code`. */
BERTH_API int berth_fail(struct berth_error *err, int code, const char *fmt, ...)
    BERTH_PRINTF(3, 4);
/* Fills *err from errno: chooses the code, sets os_errno, and appends ": " and the system's text
 * for errno to the formatted message. Returns the code. */
BERTH_API int berth_fail_errno(struct berth_error *err, const char *fmt, ...) BERTH_PRINTF(2, 3);
/* Puts the formatted step in front of err->where. The message stays as it is, because callers match
 * messages literally. Returns err->code. */
BERTH_API int berth_wrap(struct berth_error *err, const char *fmt, ...) BERTH_PRINTF(2, 3);

/* Returns the HTTP status of a code: 200 for BERTH_OK, 500 for an unknown code. */
BERTH_API int berth_code_http(int code);
/* Returns the name of a code in JSON: "ok" for BERTH_OK, "internal" for an unknown code. */
BERTH_API const char *berth_code_wire(int code);
/* Returns the code with this wire name, or BERTH_OK when no code has it. */
BERTH_API int berth_code_find(const char *wire);
#endif
