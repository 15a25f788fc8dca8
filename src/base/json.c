/* SPDX-License-Identifier: Apache-2.0
 * src/base/json.c - see json.h. struct berth_json is jansson's json_t under our name. */
#include "base/json.h"

#include <jansson.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/json_long.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"

static json_t *value_raw(const struct berth_json *value)
{
    return (json_t *)(uintptr_t)value;
}

static struct berth_json *value_ours(json_t *value)
{
    return (struct berth_json *)value;
}

/* Says whether the text exceeds the limits of depth and of values. The depth is checked before the
 * parser recurses; a value takes far more memory than its text. */
static bool too_deep(const char *text, size_t len)
{
    int depth = 0;
    size_t values = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > BERTH_JSON_DEPTH_MAX || ++values > BERTH_JSON_VALUES_MAX)
                return true;
        } else if (c == ',') {
            if (++values > BERTH_JSON_VALUES_MAX)
                return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

static bool is_high(int unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(int unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

/* Says whether the text has an escaped surrogate. Most texts have none, and are not copied. */
static bool has_surrogates(const char *text, size_t len)
{
    for (const char *at = text, *end = text + len; (at = memchr(at, '\\', (size_t)(end - at)));
         at += 2) {
        int unit = berth_json_unit(at, end);
        if (is_high(unit) || is_low(unit))
            return true;
        if (end - at < 2)
            break;
    }
    return false;
}

/* Replaces every surrogate escape without its other half by \ufffd. */
static void mend_surrogates(char *copy, size_t len)
{
    char *end = copy + len;
    for (char *p = copy; p < end; p++) {
        if (*p != '\\')
            continue;
        int unit = berth_json_unit(p, end);
        if (unit < 0) {
            p++; /* another escape: skip its second character, which may be a backslash */
        } else if (is_high(unit) && is_low(berth_json_unit(p + 6, end))) {
            p += 11;
        } else {
            if (is_high(unit) || is_low(unit))
                memcpy(p + 2, "fffd", 4);
            p += 5;
        }
    }
}

/* Appends the text, with U+FFFD for each byte that is not UTF-8. */
static void mend_utf8(struct berth_buf *out, const char *text, size_t len)
{
    /* berth_utf8_step may read up to the NUL that follows the text. */
    for (const char *p = text, *end = text + len; p < end;) {
        size_t plain = 0, step = 1;
        while (p + plain < end && step) {
            step = (signed char)p[plain] >= 0 ? 1 : berth_utf8_step(p + plain);
            plain += step;
        }
        berth_buf_append(out, p, plain);
        p += plain;
        if (p < end) {
            berth_buf_puts(out, "\xef\xbf\xbd");
            p++;
        }
    }
}

static json_t *load_mended(const char *text, size_t len, size_t flags, json_error_t *at)
{
    auto_buf copy = BERTH_BUF_INIT(4 * (size_t)BERTH_MESSAGE_BYTES_MAX);
    mend_utf8(&copy, text, len);
    return copy.failed ? NULL : json_loadb(copy.data, copy.len, flags, at);
}

int berth_json_parse(const char *text, size_t len, enum berth_json_mode mode,
                     struct berth_json **out, struct berth_error *err)
{
    int max = mode == BERTH_JSON_FRAME ? BERTH_MESSAGE_BYTES_MAX : BERTH_JSON_BYTES_MAX;
    if (len > (size_t)max)
        return berth_fail(err, BERTH_E_TOO_LARGE, "JSON is longer than %d bytes.", max);
    if (too_deep(text, len))
        return berth_fail(err, BERTH_E_TOO_LARGE,
                          "JSON is nested deeper than %d levels, or has more than %d values.",
                          BERTH_JSON_DEPTH_MAX, BERTH_JSON_VALUES_MAX);
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    auto_free char *mended = NULL;
    if (mode != BERTH_JSON_OURS)
        flags |= JSON_ALLOW_NUL;
    if (mode != BERTH_JSON_OURS && has_surrogates(text, len)) {
        mended = malloc(len + 1);
        if (!mended)
            return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: JSON.");
        memcpy(mended, text, len);
        mended[len] = '\0';
        mend_surrogates(mended, len);
        text = mended;
    }
    json_error_t at = {0};
    bool is_long = mode == BERTH_JSON_FRAME && len > BERTH_MESSAGE_BYTES_SMALL;
    json_t *value =
        is_long ? berth_json_load_long(text, len, flags, &at) : json_loadb(text, len, flags, &at);
    if (!value && mode == BERTH_JSON_FRAME && json_error_code(&at) == json_error_numeric_overflow)
        value = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &at);
    if (!value && mode == BERTH_JSON_FRAME && json_error_code(&at) == json_error_invalid_utf8)
        value = load_mended(text, len, flags, &at);
    if (!value && json_error_code(&at) == json_error_out_of_memory)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: JSON.");
    if (!value) {
        char *quoted = strstr(at.text, " near "); /* the quoted part may be a secret */
        if (quoted)
            *quoted = '\0';
        return berth_fail(err, BERTH_E_INVALID, "Invalid JSON at line %d, column %d: %s.", at.line,
                          at.column, at.text);
    }
    *out = value_ours(value);
    return BERTH_OK;
}

/* Zeroes the strings that are freed with this value, since one may be a secret. */
static void wipe(json_t *value)
{
    const char *key;
    json_t *inner;
    size_t i;
    if (!value || value->refcount != 1)
        return;
    if (json_is_string(value))
        explicit_bzero((char *)(uintptr_t)json_string_value(value), json_string_length(value));
    json_object_foreach(value, key, inner) wipe(inner);
    json_array_foreach(value, i, inner) wipe(inner);
}

void berth_json_free(struct berth_json *value)
{
    wipe(value_raw(value));
    json_decref(value_raw(value));
}

void berth_json_freep(struct berth_json **value)
{
    berth_json_free(*value);
}

enum berth_json_type berth_json_type(const struct berth_json *value)
{
    if (!value)
        return BERTH_JSON_NULL;
    switch (json_typeof(value_raw(value))) {
    case JSON_OBJECT:
        return BERTH_JSON_OBJECT;
    case JSON_ARRAY:
        return BERTH_JSON_ARRAY;
    case JSON_STRING:
        return BERTH_JSON_STRING;
    case JSON_INTEGER:
        return BERTH_JSON_INT;
    case JSON_REAL:
        return BERTH_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return BERTH_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return BERTH_JSON_NULL;
}

bool berth_json_is(const struct berth_json *value, enum berth_json_type type)
{
    return value && berth_json_type(value) == type;
}

const struct berth_json *berth_json_get(const struct berth_json *object, const char *key)
{
    return value_ours(json_object_get(value_raw(object), key));
}

struct berth_json *berth_json_get_mutable(struct berth_json *object, const char *key)
{
    return value_ours(json_object_get(value_raw(object), key));
}

const char *berth_json_str(const struct berth_json *value)
{
    return json_string_value(value_raw(value));
}

size_t berth_json_str_len(const struct berth_json *value)
{
    return json_string_length(value_raw(value));
}

int64_t berth_json_int(const struct berth_json *value)
{
    return json_integer_value(value_raw(value));
}

double berth_json_number(const struct berth_json *value)
{
    return json_number_value(value_raw(value));
}

bool berth_json_true(const struct berth_json *value)
{
    return json_is_true(value_raw(value));
}

size_t berth_json_count(const struct berth_json *container)
{
    if (berth_json_is(container, BERTH_JSON_OBJECT))
        return json_object_size(value_raw(container));
    return json_array_size(value_raw(container));
}

const struct berth_json *berth_json_at(const struct berth_json *array, size_t index)
{
    return value_ours(json_array_get(value_raw(array), index));
}

bool berth_json_equal(const struct berth_json *a, const struct berth_json *b)
{
    return json_equal(value_raw(a), value_raw(b));
}

void *berth_json_iter(const struct berth_json *object)
{
    return json_object_iter(value_raw(object));
}

void *berth_json_iter_next(const struct berth_json *object, void *iter)
{
    return json_object_iter_next(value_raw(object), iter);
}

const char *berth_json_iter_key(void *iter)
{
    return json_object_iter_key(iter);
}

const struct berth_json *berth_json_iter_value(void *iter)
{
    return value_ours(json_object_iter_value(iter));
}

static void zero_and_free(void *p)
{
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

void berth_json_tune_process(void)
{
    json_set_alloc_funcs(malloc, zero_and_free);
}

struct berth_json *berth_json_new_object(void)
{
    return value_ours(json_object());
}

struct berth_json *berth_json_new_array(void)
{
    return value_ours(json_array());
}

struct berth_json *berth_json_new_str(const char *text)
{
    return value_ours(text ? json_string(text) : json_null());
}

struct berth_json *berth_json_new_int(int64_t number)
{
    return value_ours(json_integer(number));
}

struct berth_json *berth_json_new_bool(bool flag)
{
    return value_ours(json_boolean(flag));
}

struct berth_json *berth_json_new_null(void)
{
    return value_ours(json_null());
}

struct berth_json *berth_json_copy(const struct berth_json *value)
{
    return value_ours(json_deep_copy(value_raw(value)));
}

bool berth_json_set(struct berth_json *object, const char *key, struct berth_json *value)
{
    return json_object_set_new(value_raw(object), key, value_raw(value)) == 0;
}

bool berth_json_add(struct berth_json *array, struct berth_json *value)
{
    return json_array_append_new(value_raw(array), value_raw(value)) == 0;
}

void berth_json_remove(struct berth_json *object, const char *key)
{
    (void)json_object_del(value_raw(object), key);
}

static int dump(const char *bytes, size_t len, void *ctx)
{
    struct berth_buf *buf = ctx;
    berth_buf_append(buf, bytes, len);
    return buf->failed ? -1 : 0;
}

/* Does not use json_dumps, which returns cut text when memory runs out in the middle of a key. */
static char *to_text(const struct berth_json *value, size_t flags)
{
    struct berth_buf buf = {.max = SIZE_MAX / 4, .secret = true};
    flags |= JSON_COMPACT | JSON_ENCODE_ANY;
    if (json_dump_callback(value_raw(value), dump, &buf, flags) < 0)
        buf.failed = true;
    return berth_buf_take(&buf);
}

static char *in_arena(struct berth_arena *arena, char *text)
{
    auto_free char *own = text;
    if (!own)
        arena->failed = true;
    return berth_arena_strdup(arena, own);
}

char *berth_json_canonical(const struct berth_json *value)
{
    return to_text(value, JSON_SORT_KEYS);
}

char *berth_json_canonical_in(struct berth_arena *arena, const struct berth_json *value)
{
    return in_arena(arena, berth_json_canonical(value));
}

char *berth_json_text_in(struct berth_arena *arena, const struct berth_json *value)
{
    return in_arena(arena, to_text(value, 0));
}

/* Writes a control byte. Output of commands may have millions of them. */
static void put_control(struct berth_buf *buf, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    if (c == '\n' || c == '\t')
        berth_buf_append(buf, c == '\n' ? "\\n" : "\\t", 2);
    else
        berth_buf_append(buf, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
}

/* Writes a JSON string. A NUL must follow the last byte of the text. */
static void put_quoted(struct berth_buf *buf, const char *text, size_t len)
{
    berth_buf_append(buf, "\"", 1);
    for (const char *p = text, *end = text + len; p < end;) {
        size_t plain = 0, step;
        while ((unsigned char)p[plain] >= 0x20 && p[plain] != '"' && p[plain] != '\\' &&
               (step = (unsigned char)p[plain] < 0x80 ? 1 : berth_utf8_step(p + plain)) > 0)
            plain += step;
        berth_buf_append(buf, p, plain);
        p += plain;
        if (p == end)
            break;
        if ((unsigned char)*p >= 0x80)
            berth_buf_puts(buf, "\\ufffd");
        else if (*p == '"' || *p == '\\')
            berth_buf_append(buf, (char[]){'\\', *p}, 2);
        else
            put_control(buf, (unsigned char)*p);
        p++;
    }
    berth_buf_puts(buf, "\"");
}

static void writer_begin(struct berth_json_writer *w, const char *key)
{
    if (w->comma)
        berth_buf_puts(w->buf, ",");
    w->comma = true;
    if (key) {
        put_quoted(w->buf, key, strlen(key));
        berth_buf_puts(w->buf, ":");
    }
}

void berth_json_open(struct berth_json_writer *w, char bracket)
{
    berth_json_open_in(w, NULL, bracket);
}

void berth_json_open_in(struct berth_json_writer *w, const char *key, char bracket)
{
    writer_begin(w, key);
    berth_buf_append(w->buf, &bracket, 1);
    w->comma = false;
}

void berth_json_close(struct berth_json_writer *w, char bracket)
{
    berth_buf_append(w->buf, &bracket, 1);
    w->comma = true;
}

void berth_json_put_str(struct berth_json_writer *w, const char *key, const char *text)
{
    writer_begin(w, key);
    if (text)
        put_quoted(w->buf, text, strlen(text));
    else
        berth_buf_puts(w->buf, "null");
}

void berth_json_put_bytes(struct berth_json_writer *w, const char *key, const char *bytes,
                          size_t len)
{
    writer_begin(w, key);
    if (bytes)
        put_quoted(w->buf, bytes, len);
    else
        berth_buf_puts(w->buf, "null");
}

void berth_json_put_foreign(struct berth_json_writer *w, const char *key, const char *bytes)
{
    auto_free char *shown = bytes && w->hide ? strdup(bytes) : NULL;
    if (bytes && w->hide && !shown) {
        w->buf->failed = true;
        return;
    }
    if (shown)
        w->hide(w->hide_ctx, shown, strlen(shown));
    if (bytes)
        berth_json_put_bytes(w, key, shown ? shown : bytes, strlen(bytes));
    else
        berth_json_put_str(w, key, NULL);
}

void berth_json_put_int(struct berth_json_writer *w, const char *key, int64_t number)
{
    writer_begin(w, key);
    berth_buf_printf(w->buf, "%lld", (long long)number);
}

void berth_json_put_bool(struct berth_json_writer *w, const char *key, bool flag)
{
    writer_begin(w, key);
    berth_buf_puts(w->buf, flag ? "true" : "false");
}

void berth_json_put_time(struct berth_json_writer *w, const char *key, int64_t wall_ms)
{
    char text[BERTH_TIME_ISO_SIZE];
    if (wall_ms)
        berth_time_iso(wall_ms, text);
    berth_json_put_str(w, key, wall_ms ? text : NULL);
}

void berth_json_put_raw(struct berth_json_writer *w, const char *key, const char *json)
{
    writer_begin(w, key);
    berth_buf_puts(w->buf, json ? json : "null");
}
