/* SPDX-License-Identifier: Apache-2.0
 * src/api/call.c - see call.h: bodies, queries, lists. */
#include "api/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/state.h"
#include "base/auto.h"
#include "base/container.h"
#include "base/id.h"
#include "base/limits.h"

#define QUERY_ISSUES_MAX 10 /* faults of a query that an answer lists */

/* --- bodies --- */

static const char *const type_names[] = {
    [BERTH_API_TEXT] = "string",
    [BERTH_API_OBJECT] = "object",
    [BERTH_API_FLAG] = "boolean",
    [BERTH_API_NUMBER] = "number",
    [BERTH_API_WORD] = "string",
    [BERTH_API_TEXTS] = "array of strings",
    [BERTH_API_PAIRS] = "object of strings",
    [BERTH_API_OBJECTS] = "array of objects",
};

static bool is_text(const struct berth_json *value)
{
    return berth_json_is(value, BERTH_JSON_STRING) &&
           strlen(berth_json_str(value)) == berth_json_str_len(value); /* no NUL in it */
}

static bool are_texts(const struct berth_json *array)
{
    bool all = berth_json_is(array, BERTH_JSON_ARRAY);
    for (size_t i = 0; all && i < berth_json_count(array); i++)
        all = is_text(berth_json_at(array, i));
    return all;
}

static bool are_objects(const struct berth_json *array)
{
    bool all = berth_json_is(array, BERTH_JSON_ARRAY);
    for (size_t i = 0; all && i < berth_json_count(array); i++)
        all = berth_json_is(berth_json_at(array, i), BERTH_JSON_OBJECT);
    return all;
}

static bool are_pairs(const struct berth_json *object)
{
    if (!berth_json_is(object, BERTH_JSON_OBJECT))
        return false;
    berth_json_each (object, iter) {
        const char *name = berth_json_iter_key(iter);
        if (!*name || strchr(name, '=') || !is_text(berth_json_iter_value(iter)))
            return false;
    }
    return true;
}

static bool has_type(const struct berth_json *value, enum berth_api_type type)
{
    switch (type) {
    case BERTH_API_TEXT:
    case BERTH_API_WORD:
        return is_text(value);
    case BERTH_API_TEXTS:
        return are_texts(value);
    case BERTH_API_PAIRS:
        return are_pairs(value);
    case BERTH_API_OBJECTS:
        return are_objects(value);
    case BERTH_API_OBJECT:
        return berth_json_is(value, BERTH_JSON_OBJECT);
    case BERTH_API_FLAG:
        return berth_json_is(value, BERTH_JSON_BOOL);
    case BERTH_API_NUMBER:
        return berth_json_is(value, BERTH_JSON_INT) && berth_json_int(value) >= 0;
    }
    return false;
}

int berth_api_find_word(const char *const *words, const char *text)
{
    for (int i = 0; text && words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

static void set_texts(struct berth_arena *arena, const struct berth_json *array,
                      struct berth_list *out)
{
    *out = (struct berth_list){0};
    for (size_t i = 0; i < berth_json_count(array); i++)
        (void)berth_list_add(out, arena,
                             berth_arena_strdup(arena, berth_json_str(berth_json_at(array, i))));
}

static void set_objects(struct berth_arena *arena, const struct berth_json *array,
                        struct berth_list *out)
{
    *out = (struct berth_list){0};
    for (size_t i = 0; i < berth_json_count(array); i++)
        (void)berth_list_add(out, arena, berth_json_canonical_in(arena, berth_json_at(array, i)));
}

static void set_pairs(struct berth_arena *arena, const struct berth_json *object,
                      struct berth_list *out)
{
    berth_json_each (object, iter)
        (void)berth_list_add(out, arena,
                             berth_arena_printf(arena, "%s=%s", berth_json_iter_key(iter),
                                                berth_json_str(berth_json_iter_value(iter))));
}

static void set_field(struct berth_api_call *c, const struct berth_api_field *f,
                      const struct berth_json *value, void *out)
{
    void *at = (char *)out + f->offset;
    const char *text = NULL;
    if (f->type == BERTH_API_TEXT)
        text = berth_arena_strdup(&c->arena, berth_json_str(value));
    else if (f->type == BERTH_API_OBJECT)
        text = berth_json_canonical_in(&c->arena, value);
    else if (f->type == BERTH_API_FLAG)
        *(bool *)at = berth_json_true(value);
    else if (f->type == BERTH_API_TEXTS)
        set_texts(&c->arena, value, at);
    else if (f->type == BERTH_API_PAIRS)
        set_pairs(&c->arena, value, at);
    else if (f->type == BERTH_API_OBJECTS)
        set_objects(&c->arena, value, at);
    else if (f->type == BERTH_API_NUMBER)
        *(int64_t *)at = berth_json_int(value);
    else if ((*(int *)at = berth_api_find_word(f->words, berth_json_str(value))) < 0)
        berth_issues_add(&c->issues, f->name, "Unknown value: %.100s", berth_json_str(value));
    if (text)
        *(const char **)at = text;
}

static void read_field(struct berth_api_call *c, const struct berth_api_field *f,
                       const struct berth_json *body, void *out, bool *given)
{
    const struct berth_json *value = berth_json_get(body, f->name);
    bool null = value && berth_json_type(value) == BERTH_JSON_NULL;
    *given = value != NULL;
    if (!value && f->required)
        berth_issues_add(&c->issues, f->name, "Required");
    else if (null && !f->nullable)
        berth_issues_add(&c->issues, f->name, "Expected %s, received null", type_names[f->type]);
    else if (value && !null && !has_type(value, f->type))
        berth_issues_add(&c->issues, f->name, "Expected %s", type_names[f->type]);
    else if (value && !null)
        set_field(c, f, value, out);
}

static void refuse_unknown(struct berth_api_call *c, const struct berth_api_field *fields,
                           const struct berth_json *body)
{
    berth_json_each (body, iter) {
        const char *key = berth_json_iter_key(iter);
        const struct berth_api_field *f = fields;
        while (f->name && strcmp(f->name, key) != 0)
            f++;
        if (!f->name)
            berth_issues_add(&c->issues, key, "Unrecognized key");
    }
}

static int invalid(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_INVALID, "Validation error");
}

static int parse_body(struct berth_api_call *c, struct berth_json **out, struct berth_error *err)
{
    const char *type = berth_http_header(c->head, "content-type");
    struct berth_error why;
    if (c->body_len == 0) {
        *out = berth_json_new_object();
        return *out ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: body.");
    }
    if (!type || strncasecmp(type, "application/json", 16) != 0 ||
        (type[16] && type[16] != ';' && type[16] != ' '))
        return berth_fail(err, BERTH_E_INVALID, "The body must be application/json.");
    int rc = berth_json_parse(c->body, c->body_len, BERTH_JSON_OURS, out, &why);
    if (rc == BERTH_E_NO_MEMORY)
        return berth_fail(err, rc, "%s", why.message);
    if (rc < 0) {
        berth_issues_add(&c->issues, "", "%s", why.message);
        return invalid(err);
    }
    if (berth_json_is(*out, BERTH_JSON_OBJECT))
        return BERTH_OK;
    berth_issues_add(&c->issues, "", "Expected object");
    return invalid(err);
}

/* Fills the struct from an object that was parsed. */
static int read_object(struct berth_api_call *c, const struct berth_api_field *fields,
                       const struct berth_json *body, void *out, unsigned *given,
                       struct berth_error *err)
{
    unsigned seen = 0;
    for (int i = 0; fields[i].name; i++) {
        bool there;
        read_field(c, &fields[i], body, out, &there);
        seen |= there ? 1U << i : 0;
    }
    refuse_unknown(c, fields, body);
    if (given)
        *given = seen;
    if (c->issues.list.count)
        return invalid(err);
    return berth_arena_check(&c->arena, err);
}

int berth_api_body(struct berth_api_call *c, const struct berth_api_field *fields, void *out,
                   unsigned *given, struct berth_error *err)
{
    auto_json *body = NULL;
    int rc = parse_body(c, &body, err);
    return rc < 0 ? rc : read_object(c, fields, body, out, given, err);
}

int berth_api_object(struct berth_api_call *c, const char *json,
                     const struct berth_api_field *fields, void *out, struct berth_error *err)
{
    auto_json *object = NULL;
    int rc = json ? berth_json_parse(json, strlen(json), BERTH_JSON_OURS, &object, err) : BERTH_OK;
    return rc < 0 || !json ? rc : read_object(c, fields, object, out, NULL, err);
}

static void on_call_token_dead(struct berth_api_guarded *guarded)
{
    struct berth_api_call *c = berth_container_of(guarded, struct berth_api_call, guarded);
    berth_api_call_go_on(c);
    berth_http_exchange_refuse(c->x, 401, "Unauthorized"); /* may free the call */
}

void berth_api_call_wait(struct berth_api_call *c)
{
    if (!c->caller.token_id || c->guarded.link)
        return;
    (void)snprintf(c->guarded.token_id, sizeof c->guarded.token_id, "%s", c->caller.token_id);
    c->guarded.end = on_call_token_dead;
    berth_api_guard_add(c->api->guard, &c->guarded);
}

void berth_api_call_go_on(struct berth_api_call *c)
{
    berth_api_guard_remove(&c->guarded);
}

int berth_api_left_fd(const struct berth_api_call *c)
{
    return c->x ? berth_http_exchange_left_fd(c->x) : c->cancel_fd;
}

const struct berth_api_field berth_api_nothing[] = {{0}};

/* --- queries --- */

static int hex(char h)
{
    return h <= '9' ? h - '0' : (h | 0x20) - 'a' + 10;
}

const char *berth_api_decode(struct berth_arena *arena, const char *text, size_t len, bool form)
{
    char *out = berth_arena_copy(arena, text, len);
    size_t to = 0;
    for (size_t at = 0; out && at < len; at++) {
        out[to] = form && text[at] == '+' ? ' ' : text[at];
        if (text[at] == '%') {
            out[to] = (char)(hex(text[at + 1]) * 16 + hex(text[at + 2]));
            at += 2;
        }
        to++;
    }
    if (out)
        out[to] = '\0';
    return out;
}

/* Reads the next parameter of a query and moves *at behind it. Returns its name, decoded; *value
 * and *len are its text, still encoded. NULL: the query has no more. */
static const char *query_next(struct berth_arena *arena, const char **at, const char **value,
                              size_t *len)
{
    while (*at && **at == '&')
        ++*at;
    if (!*at || !**at)
        return NULL;
    const char *name = *at;
    size_t whole = strcspn(name, "&"), name_len = strcspn(name, "=&");
    *at = name + whole;
    *value = name + name_len + (name[name_len] == '=');
    *len = whole - (size_t)(*value - name);
    return berth_api_decode(arena, name, name_len, true);
}

const char *berth_api_query(struct berth_api_call *c, const char *name)
{
    const char *at = c->head->query, *value, *found;
    size_t len;
    while ((found = query_next(&c->arena, &at, &value, &len)))
        if (strcmp(found, name) == 0)
            return berth_api_decode(&c->arena, value, len, true);
    return NULL;
}

/* Returns the position of the word in a list with spaces between, or -1. */
static int query_find(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (int i = 0; list && *list; i++) {
        size_t here = strcspn(list, " ");
        if (here == len && strncmp(list, word, len) == 0)
            return i;
        list += here + (list[here] == ' ');
    }
    return -1;
}

int berth_api_check_query(struct berth_api_call *c, struct berth_error *err)
{
    const char *at = c->head->query, *value, *name;
    unsigned seen = 0;
    size_t len;
    while (c->issues.list.count < QUERY_ISSUES_MAX &&
           (name = query_next(&c->arena, &at, &value, &len))) {
        int which = query_find(c->route->query, name);
        if (which < 0)
            berth_issues_add(&c->issues, name, "Unrecognized key");
        else if (seen & 1U << which)
            berth_issues_add(&c->issues, name, "Given more than once");
        else
            seen |= 1U << which;
    }
    return c->issues.list.count ? invalid(err) : berth_arena_check(&c->arena, err);
}

int berth_api_query_number(struct berth_api_call *c, const char *name, int64_t min, int64_t max,
                           int64_t otherwise, int64_t *out, struct berth_error *err)
{
    const char *text = berth_api_query(c, name);
    size_t digits = text ? strspn(text, "0123456789") : 0;
    bool number = digits && digits <= 18 && !text[digits];
    int64_t value = number ? strtoll(text, NULL, 10) : otherwise;
    *out = value;
    if (text && (!number || value < min || value > max)) {
        berth_issues_add(&c->issues, name, "Expected a number from %lld to %lld", (long long)min,
                         (long long)max);
        return invalid(err);
    }
    return BERTH_OK;
}

int berth_api_query_limit(struct berth_api_call *c, int *out, struct berth_error *err)
{
    int64_t limit;
    int rc = berth_api_query_number(c, "limit", 1, BERTH_LIST_ROWS_MAX, BERTH_LIST_ROWS_DEFAULT,
                                    &limit, err);
    *out = (int)limit;
    return rc;
}

int berth_api_query_id(struct berth_api_call *c, const char *name, const char **out,
                       struct berth_error *err)
{
    const char *text = berth_api_query(c, name);
    struct berth_id parsed;
    *out = NULL;
    if (!text)
        return BERTH_OK;
    if (berth_id_parse(text, "Cursor", &parsed, err) < 0) {
        berth_issues_add(&c->issues, name, "Expected an id");
        return invalid(err);
    }
    *out = berth_arena_strdup(&c->arena, parsed.text);
    return berth_arena_check(&c->arena, err);
}

int berth_api_query_word(struct berth_api_call *c, const char *name, const char *const *words,
                         int *out, struct berth_error *err)
{
    const char *text = berth_api_query(c, name);
    *out = berth_api_find_word(words, text);
    if (text && *out < 0) {
        berth_issues_add(&c->issues, name, "Unknown value: %.100s", text);
        return invalid(err);
    }
    return BERTH_OK;
}

bool berth_api_wants_events(const struct berth_api_call *c)
{
    static const char type[] = "text/event-stream";
    const char *accept = berth_http_header(c->head, "accept");
    return accept && strncasecmp(accept, type, sizeof type - 1) == 0 &&
           strcspn(accept + sizeof type - 1, ",; ") == 0;
}

int berth_api_last_event(const struct berth_api_call *c, int64_t *out, struct berth_error *err)
{
    const char *text = berth_http_header(c->head, "last-event-id");
    if (!text)
        return BERTH_OK;
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 18 || text[digits])
        return berth_fail(err, BERTH_E_INVALID,
                          "Last-Event-ID is not the id of an event: it must be a number.");
    *out = strtoll(text, NULL, 10);
    return BERTH_OK;
}

int berth_api_query_page(struct berth_api_call *c, struct berth_page *out, struct berth_error *err)
{
    int64_t limit;
    int rc = berth_api_query_number(c, "limit", 1, BERTH_LIST_ROWS_MAX, 0, &limit, err);
    if (rc == BERTH_OK)
        rc = berth_api_query_id(c, "before", &out->before, err);
    out->limit = (int)limit;
    return rc;
}

int berth_api_query_flag(struct berth_api_call *c, const char *name, bool *out,
                         struct berth_error *err)
{
    static const char *const words[] = {"false", "true", NULL};
    int word;
    int rc = berth_api_query_word(c, name, words, &word, err);
    *out = word == 1;
    return rc;
}

/* --- what is said --- */

void berth_api_say_ok(struct berth_api_call *c)
{
    berth_json_open(&c->w, '{');
    berth_json_put_bool(&c->w, "ok", true);
    berth_json_close(&c->w, '}');
}

void berth_api_say_list(struct berth_api_call *c, const struct berth_list *list,
                        berth_api_item_fn *each)
{
    berth_json_open(&c->w, '[');
    for (int i = 0; i < list->count; i++)
        each(&c->w, list->items[i]);
    berth_json_close(&c->w, ']');
}
