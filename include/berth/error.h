/* SPDX-License-Identifier: Apache-2.0
 * include/berth/error.h - how a call says what went wrong. */
#ifndef BERTH_ERROR_H
#define BERTH_ERROR_H

/* X(name, code, http status, wire name). Codes are ABI: append, never renumber. */
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

struct berth_error {
    int code;           /* enum berth_code */
    int os_errno;       /* the errno behind it, or 0 */
    char message[1024]; /* the text users and tests see, to the letter */
    char where[120];    /* "acquire ci-linux: create sandbox"; for logs and the CLI */
};

/* What the shared library exports; everything else is hidden. */
#define BERTH_API __attribute__((visibility("default")))
#define BERTH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Each returns err->code, so a failing path is one line. wrap adds to `where`, never to message:
 * many texts are pinned to the letter. */
BERTH_API int berth_fail(struct berth_error *err, int code, const char *fmt, ...)
    BERTH_PRINTF(3, 4);
BERTH_API int berth_fail_errno(struct berth_error *err, const char *fmt, ...) BERTH_PRINTF(2, 3);
BERTH_API int berth_wrap(struct berth_error *err, const char *fmt, ...) BERTH_PRINTF(2, 3);

/* What the table says of a code; an unknown one counts as internal. */
BERTH_API int berth_code_http(int code);
BERTH_API const char *berth_code_wire(int code);
BERTH_API int berth_code_find(const char *wire); /* BERTH_OK: no code is called so */
#endif
