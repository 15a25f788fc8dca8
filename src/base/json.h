/* SPDX-License-Identifier: Apache-2.0
 * src/base/json.h - the only door to the JSON library.
 * Reading is strict: whole documents, no duplicate keys, bounded size and depth. */
#ifndef BERTH_BASE_JSON_H
#define BERTH_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_buf;
struct berth_arena;
struct berth_json; /* a value; an object or array owns what it holds */

enum berth_json_type {
    BERTH_JSON_NULL,
    BERTH_JSON_BOOL,
    BERTH_JSON_INT,
    BERTH_JSON_REAL,
    BERTH_JSON_STRING,
    BERTH_JSON_ARRAY,
    BERTH_JSON_OBJECT,
};

enum berth_json_mode {
    BERTH_JSON_OURS,    /* \u0000 and lone surrogates are refused */
    BERTH_JSON_FOREIGN, /* from Node: NUL in texts is kept, a lone surrogate is U+FFFD */
    BERTH_JSON_FRAME,   /* the same, as long as a frame may be, and bytes that are no UTF-8 are
                           U+FFFD, too */
};

/* For programs, before their first document: what a value held is zeroed when it goes, since it may
 * have been a secret. It holds for everybody in the process who uses the JSON library. */
void berth_json_tune_process(void);

/* INVALID says what is wrong and at which line and column; TOO_LARGE beyond the limits. */
int berth_json_parse(const char *text, size_t len, enum berth_json_mode mode,
                     struct berth_json **out, struct berth_error *err);
void berth_json_free(struct berth_json *value);
void berth_json_freep(struct berth_json **value);
#define auto_json __attribute__((cleanup(berth_json_freep))) struct berth_json

/* Each lends; a NULL value or another type answers NULL, 0 or false. */
enum berth_json_type berth_json_type(const struct berth_json *value); /* NULL counts as null */
bool berth_json_is(const struct berth_json *value, enum berth_json_type type);
const struct berth_json *berth_json_get(const struct berth_json *object, const char *key);
struct berth_json *berth_json_get_mutable(struct berth_json *object, const char *key);
const char *berth_json_str(const struct berth_json *value);
size_t berth_json_str_len(const struct berth_json *value); /* NULs inside count */
int64_t berth_json_int(const struct berth_json *value);
double berth_json_number(const struct berth_json *value); /* of an int or a real */
bool berth_json_true(const struct berth_json *value);     /* exactly `true` */
size_t berth_json_count(const struct berth_json *container);
const struct berth_json *berth_json_at(const struct berth_json *array, size_t index);
bool berth_json_equal(const struct berth_json *a, const struct berth_json *b);

/* Iteration over an object, in the order of insertion. */
void *berth_json_iter(const struct berth_json *object);
void *berth_json_iter_next(const struct berth_json *object, void *iter);
const char *berth_json_iter_key(void *iter);
const struct berth_json *berth_json_iter_value(void *iter);
#define berth_json_each(object, iter)                                                              \
    for (void *iter = berth_json_iter(object); iter; (iter) = berth_json_iter_next(object, iter))

/* New values are the caller's; NULL when out of memory or when the text is not UTF-8. */
struct berth_json *berth_json_new_object(void);
struct berth_json *berth_json_new_array(void);
struct berth_json *berth_json_new_str(const char *text); /* NULL gives null */
struct berth_json *berth_json_new_int(int64_t number);
struct berth_json *berth_json_new_bool(bool flag);
struct berth_json *berth_json_new_null(void);
struct berth_json *berth_json_copy(const struct berth_json *value); /* deep */

/* `value` is taken over in any case; false when it was NULL or memory ran out. */
bool berth_json_set(struct berth_json *object, const char *key, struct berth_json *value);
bool berth_json_add(struct berth_json *array, struct berth_json *value);
void berth_json_remove(struct berth_json *object, const char *key);

/* Compact text with sorted keys, so that equal values give equal bytes. NULL: out of memory. */
char *berth_json_canonical(const struct berth_json *value);
char *berth_json_canonical_in(struct berth_arena *arena, const struct berth_json *value);
/* The same with the keys in their own order. */
char *berth_json_text_in(struct berth_arena *arena, const struct berth_json *value);

/* Writing: commas and escapes are the writer's business, errors stick in the buffer. A member has
 * a key, an array's item has NULL. */
struct berth_json_writer {
    struct berth_buf *buf;
    bool comma;
};
void berth_json_open(struct berth_json_writer *w, char bracket); /* { or [ */
void berth_json_open_in(struct berth_json_writer *w, const char *key, char bracket);
void berth_json_close(struct berth_json_writer *w, char bracket); /* } or ] */
void berth_json_put_str(struct berth_json_writer *w, const char *key,
                        const char *text); /* NULL: null */
/* Any bytes, of which the one after the last is a NUL; what is no UTF-8 becomes U+FFFD. */
void berth_json_put_bytes(struct berth_json_writer *w, const char *key, const char *bytes,
                          size_t len);
void berth_json_put_int(struct berth_json_writer *w, const char *key, int64_t number);
void berth_json_put_bool(struct berth_json_writer *w, const char *key, bool flag);
void berth_json_put_time(struct berth_json_writer *w, const char *key,
                         int64_t wall_ms); /* 0: null */
void berth_json_put_raw(struct berth_json_writer *w, const char *key,
                        const char *json); /* NULL: null */
#endif
