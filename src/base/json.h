/* SPDX-License-Identifier: Apache-2.0
 * src/base/json.h - wraps the JSON library, which is included in base/ only.
 * Parsing is strict: whole documents, no duplicate keys, bounded size and depth. */
#ifndef BERTH_BASE_JSON_H
#define BERTH_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <berth/error.h>

struct berth_buf;
struct berth_arena;
struct berth_json; /* a value; an object or array owns its members */

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
    BERTH_JSON_FOREIGN, /* from Node: a NUL in a string is kept, a lone surrogate becomes U+FFFD */
    BERTH_JSON_FRAME,   /* as FOREIGN, up to BERTH_MESSAGE_BYTES_MAX; invalid UTF-8 becomes U+FFFD,
                           and all integers become reals when one overflows */
};

/* Makes the JSON library zero all memory that it frees, since it may have held a secret. A program
 * calls it before its first document; it applies to every user of the library in the process. */
void berth_json_tune_process(void);

/* Parses a document. INVALID: the message has the line, the column and the reason. TOO_LARGE: the
 * document exceeds a limit. The caller frees *out. */
int berth_json_parse(const char *text, size_t len, enum berth_json_mode mode,
                     struct berth_json **out, struct berth_error *err);
void berth_json_free(struct berth_json *value);
void berth_json_freep(struct berth_json **value);
#define auto_json __attribute__((cleanup(berth_json_freep))) struct berth_json

/* Accessors. What they return belongs to the value. A NULL value or a value of another type gives
 * NULL, 0 or false. */
enum berth_json_type berth_json_type(const struct berth_json *value); /* NULL counts as null */
bool berth_json_is(const struct berth_json *value, enum berth_json_type type);
const struct berth_json *berth_json_get(const struct berth_json *object, const char *key);
struct berth_json *berth_json_get_mutable(struct berth_json *object, const char *key);
const char *berth_json_str(const struct berth_json *value);
size_t berth_json_str_len(const struct berth_json *value); /* counts NULs inside */
int64_t berth_json_int(const struct berth_json *value);
double berth_json_number(const struct berth_json *value); /* an int or a real */
bool berth_json_true(const struct berth_json *value);     /* exactly `true` */
size_t berth_json_count(const struct berth_json *container);
const struct berth_json *berth_json_at(const struct berth_json *array, size_t index);
bool berth_json_equal(const struct berth_json *a, const struct berth_json *b);

/* Iterate over the members of an object, in the order of insertion. */
void *berth_json_iter(const struct berth_json *object);
void *berth_json_iter_next(const struct berth_json *object, void *iter);
const char *berth_json_iter_key(void *iter);
const struct berth_json *berth_json_iter_value(void *iter);
#define berth_json_each(object, iter)                                                              \
    for (void *iter = berth_json_iter(object); iter; (iter) = berth_json_iter_next(object, iter))

/* Create a value that the caller frees. NULL: memory ran out, or the text is not UTF-8. */
struct berth_json *berth_json_new_object(void);
struct berth_json *berth_json_new_array(void);
struct berth_json *berth_json_new_str(const char *text); /* NULL gives null */
struct berth_json *berth_json_new_int(int64_t number);
struct berth_json *berth_json_new_bool(bool flag);
struct berth_json *berth_json_new_null(void);
struct berth_json *berth_json_copy(const struct berth_json *value); /* deep */

/* Add `value` and own it, also on failure. Return false when it is NULL or memory runs out. */
bool berth_json_set(struct berth_json *object, const char *key, struct berth_json *value);
bool berth_json_add(struct berth_json *array, struct berth_json *value);
void berth_json_remove(struct berth_json *object, const char *key);

/* Returns compact text with sorted keys, so that equal values give equal bytes. NULL: no memory.
 * The caller frees the text, or the arena owns it. */
char *berth_json_canonical(const struct berth_json *value);
char *berth_json_canonical_in(struct berth_arena *arena, const struct berth_json *value);
/* Returns compact text with the keys in the order of insertion. */
char *berth_json_text_in(struct berth_arena *arena, const struct berth_json *value);

/* Writes JSON into a buffer, with commas and escapes; the buffer keeps the error. `key` is NULL for
 * an item of an array. */
struct berth_json_writer {
    struct berth_buf *buf;
    bool comma;
    /* Overwrites secrets in a copy of each foreign text before it is written; or NULL. */
    void (*hide)(void *hide_ctx, char *bytes, size_t len);
    void *hide_ctx;
};
void berth_json_open(struct berth_json_writer *w, char bracket); /* { or [ */
void berth_json_open_in(struct berth_json_writer *w, const char *key, char bracket);
void berth_json_close(struct berth_json_writer *w, char bracket); /* } or ] */
void berth_json_put_str(struct berth_json_writer *w, const char *key,
                        const char *text); /* NULL: null */
/* Writes bytes as a string; invalid UTF-8 becomes U+FFFD. A NUL must follow the last byte. */
void berth_json_put_bytes(struct berth_json_writer *w, const char *key, const char *bytes,
                          size_t len);
/* Writes such bytes up to their NUL, without what w->hide hides: for paths, names and messages that
 * others chose. NULL: null. */
void berth_json_put_foreign(struct berth_json_writer *w, const char *key, const char *bytes);
void berth_json_put_int(struct berth_json_writer *w, const char *key, int64_t number);
void berth_json_put_bool(struct berth_json_writer *w, const char *key, bool flag);
void berth_json_put_time(struct berth_json_writer *w, const char *key,
                         int64_t wall_ms); /* 0: null */
void berth_json_put_raw(struct berth_json_writer *w, const char *key,
                        const char *json); /* NULL: null */
#endif
