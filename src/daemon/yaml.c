/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/yaml.c - see yaml.h. libcyaml takes anything for a boolean and octal for a number,
 * cuts a text at a NUL, drops a second document, and its reports have the line of the value before.
 * So the file is first walked by libyaml's events along the same schema; libcyaml then fills the
 * struct from what is known to be right. A libcyaml that is strict about these, and names lines as
 * they are, would let us remove the walk. */
#include "daemon/yaml.h"

#include <assert.h>
#include <cyaml/cyaml.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "os/fs.h"

#define FIELDS_MAX 32 /* of one mapping in a schema of ours */
#define DIGITS_MAX 18 /* less than 2^63 */

struct line {
    const char *path;
    size_t number;
};

/* One pass over the events; `event` is the one being looked at. */
struct walk {
    struct berth_yaml *yaml;
    yaml_parser_t parser;
    yaml_event_t event;
    struct berth_error *err;
};

static const cyaml_config_t cyaml_config = {.mem_fn = cyaml_mem, .flags = CYAML_CFG_NO_ALIAS};

/* --- what is told --- */

static int fail_text(const struct berth_yaml *yaml, size_t line, const char *path,
                     struct berth_error *err, const char *fmt, va_list args)
{
    char text[sizeof err->message];
    (void)vsnprintf(text, sizeof text, fmt, args);
    return berth_fail(err, BERTH_E_INVALID, "%.300s:%zu: %s%s%s", yaml->path, line, path,
                      path[0] ? " " : "", text);
}

int berth_yaml_fail(const struct berth_yaml *yaml, const char *path, struct berth_error *err,
                    const char *fmt, ...)
{
    size_t number = 1;
    for (int i = 0; i < yaml->lines.count; i++) {
        const struct line *line = yaml->lines.items[i];
        if (strcmp(line->path, path) == 0)
            number = line->number;
    }
    va_list args;
    va_start(args, fmt);
    int rc = fail_text(yaml, number, path, err, fmt, args);
    va_end(args);
    return rc;
}

BERTH_PRINTF(4, 5)
static int fail_line(const struct berth_yaml *yaml, size_t line, struct berth_error *err,
                     const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int rc = fail_text(yaml, line, "", err, fmt, args);
    va_end(args);
    return rc;
}

/* About the event that is looked at. */
BERTH_PRINTF(3, 4) static int fail_here(struct walk *w, const char *path, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int rc = fail_text(w->yaml, w->event.start_mark.line + 1, path, w->err, fmt, args);
    va_end(args);
    return rc;
}

static size_t line_at(const struct berth_yaml *yaml, size_t offset)
{
    size_t line = 1;
    for (size_t i = 0; i < offset && i < yaml->text.len; i++)
        line += yaml->text.data[i] == '\n';
    return line;
}

/* --- events --- */

/* The usual mistake, for which libyaml has only a riddle. */
static bool indented_by_tab(const struct berth_yaml *yaml, size_t line)
{
    const char *p = berth_buf_str(&yaml->text);
    while (--line && (p = strchr(p, '\n')))
        p++;
    return p && p[strspn(p, " ")] == '\t';
}

static int fail_parser(struct walk *w)
{
    const yaml_parser_t *parser = &w->parser;
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_MEMORY_ERROR)
        return berth_fail(w->err, BERTH_E_NO_MEMORY, "Out of memory: %.300s.", w->yaml->path);
    if (parser->error == YAML_READER_ERROR)
        return fail_line(w->yaml, line_at(w->yaml, parser->problem_offset), w->err,
                         "This is not YAML: %s.", parser->problem);
    if (indented_by_tab(w->yaml, line))
        return fail_line(w->yaml, line, w->err,
                         "This is not YAML: indent the line with spaces, not with a tab.");
    if (!parser->context)
        return fail_line(w->yaml, line, w->err, "This is not YAML: %s.", parser->problem);
    return fail_line(w->yaml, line, w->err, "This is not YAML: %s, %s that begins in line %zu.",
                     parser->problem, parser->context, parser->context_mark.line + 1);
}

/* Anchors and tags have no place in a file of options, and aliases can make it explode. */
static int check_plainness(struct walk *w)
{
    const yaml_event_t *e = &w->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT)
        anchor = e->data.scalar.anchor, tag = e->data.scalar.tag;
    else if (e->type == YAML_SEQUENCE_START_EVENT)
        anchor = e->data.sequence_start.anchor, tag = e->data.sequence_start.tag;
    else if (e->type == YAML_MAPPING_START_EVENT)
        anchor = e->data.mapping_start.anchor, tag = e->data.mapping_start.tag;
    if (anchor || e->type == YAML_ALIAS_EVENT)
        return fail_here(w, "",
                         "Anchors and aliases (&name, *name) are not taken: write the value out. A "
                         "text that begins with & or * wants quotes.");
    if (tag)
        return fail_here(w, "",
                         "Tags (!name) are not taken: remove it. A text that begins with ! wants "
                         "quotes.");
    return BERTH_OK;
}

static int next(struct walk *w)
{
    yaml_event_delete(&w->event);
    if (!yaml_parser_parse(&w->parser, &w->event))
        return fail_parser(w);
    return check_plainness(w);
}

/* --- values --- */

static int walk_value(struct walk *w, const cyaml_schema_value_t *schema, const char *path);

static const char *scalar(const struct walk *w)
{
    return (const char *)w->event.data.scalar.value;
}

static bool is_plain(const struct walk *w)
{
    return w->event.type == YAML_SCALAR_EVENT &&
           w->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const struct walk *w)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    for (unsigned i = 0; is_plain(w) && i < sizeof nulls / sizeof nulls[0]; i++)
        if (strcmp(scalar(w), nulls[i]) == 0)
            return true;
    return false;
}

/* A quoted text can hold any character by an escape; U+0080 to U+009F are C2 80 to C2 9F. */
static bool has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[i + 1] < 0xa0))
            return true;
    }
    return false;
}

static int check_text(struct walk *w, const cyaml_schema_value_t *schema, const char *path)
{
    size_t len = w->event.data.scalar.length;
    if (len > schema->string.max)
        return fail_here(w, path, "is longer than %u bytes.", schema->string.max);
    if (!len)
        return fail_here(w, path, "must not be empty.");
    return has_control(scalar(w), len) ? fail_here(w, path, "must not hold control characters.")
                                       : BERTH_OK;
}

static int check_number(struct walk *w, const char *path)
{
    const char *text = scalar(w);
    size_t digits = strspn(text, "0123456789");
    bool right = is_plain(w) && digits && digits == w->event.data.scalar.length &&
                 digits <= DIGITS_MAX && (text[0] != '0' || digits == 1);
    return right ? BERTH_OK : fail_here(w, path, "must be a whole number, of digits alone.");
}

static int check_bool(struct walk *w, const char *path)
{
    const char *text = scalar(w);
    bool right = is_plain(w) && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0);
    return right ? BERTH_OK : fail_here(w, path, "must be true or false.");
}

static int check_enum(struct walk *w, const cyaml_schema_value_t *schema, const char *path)
{
    auto_buf names = BERTH_BUF_INIT(BERTH_OPTION_BYTES_MAX);
    for (uint32_t i = 0; i < schema->enumeration.count; i++) {
        const char *name = schema->enumeration.strings[i].str;
        if (strlen(name) == w->event.data.scalar.length && strcmp(name, scalar(w)) == 0)
            return BERTH_OK;
        berth_buf_printf(&names, "%s%s", i ? ", " : "", name);
    }
    int rc = berth_buf_check(&names, "List of names", w->err);
    return rc < 0 ? rc : fail_here(w, path, "must be one of %s.", berth_buf_str(&names));
}

static int walk_scalar(struct walk *w, const cyaml_schema_value_t *schema, const char *path)
{
    if (w->event.type != YAML_SCALAR_EVENT)
        return fail_here(w, path, "must be a single value, not a list or a mapping.");
    switch (schema->type) {
    case CYAML_STRING:
        return check_text(w, schema, path);
    case CYAML_UINT:
        return check_number(w, path);
    case CYAML_BOOL:
        return check_bool(w, path);
    case CYAML_ENUM:
        return check_enum(w, schema, path);
    default:
        return berth_fail(w->err, BERTH_E_INTERNAL,
                          "The schema has a type at %s that yaml.h rules "
                          "out.",
                          path);
    }
}

static int walk_sequence(struct walk *w, const cyaml_schema_value_t *schema, const char *path)
{
    if (w->event.type != YAML_SEQUENCE_START_EVENT)
        return fail_here(w, path, "must be a list: a line \"- ...\" for each entry.");
    unsigned count = 0;
    int rc;
    while ((rc = next(w)) == BERTH_OK && w->event.type != YAML_SEQUENCE_END_EVENT) {
        if (count == schema->sequence.max)
            return fail_here(w, path, "has more than %u entries.", schema->sequence.max);
        const char *entry = berth_arena_printf(&w->yaml->arena, "%s[%u]", path, count++);
        rc = entry ? walk_value(w, schema->sequence.entry, entry)
                   : berth_arena_check(&w->yaml->arena, w->err);
        if (rc < 0)
            break;
    }
    return rc;
}

/* The key is not one of these. It is shown when it looks like one. */
static int fail_key(struct walk *w, const cyaml_schema_field_t *fields, const char *path)
{
    auto_buf names = BERTH_BUF_INIT(BERTH_OPTION_BYTES_MAX);
    for (const cyaml_schema_field_t *field = fields; field->key; field++)
        berth_buf_printf(&names, "%s%s", field == fields ? "" : ", ", field->key);
    int rc = berth_buf_check(&names, "List of names", w->err);
    if (rc < 0)
        return rc;
    const char *dot = path[0] ? "." : "", *key = "?";
    if (w->event.type == YAML_SCALAR_EVENT && w->event.data.scalar.length <= 64 && scalar(w)[0] &&
        !has_control(scalar(w), w->event.data.scalar.length))
        key = scalar(w);
    return fail_here(w, "", "There is no option %s%s%s: write one of %s.", path, dot, key,
                     berth_buf_str(&names));
}

/* One key, its place in `fields`, and its value. */
static int walk_field(struct walk *w, const cyaml_schema_field_t *fields, size_t seen[FIELDS_MAX],
                      const char *path)
{
    int at = 0;
    while (fields[at].key && (w->event.type != YAML_SCALAR_EVENT ||
                              strlen(fields[at].key) != w->event.data.scalar.length ||
                              strcmp(fields[at].key, scalar(w)) != 0))
        at++;
    if (!fields[at].key)
        return fail_key(w, fields, path);
    assert(at < FIELDS_MAX);
    const char *inner =
        berth_arena_printf(&w->yaml->arena, "%s%s%s", path, path[0] ? "." : "", fields[at].key);
    if (!inner)
        return berth_arena_check(&w->yaml->arena, w->err);
    if (seen[at])
        return fail_here(w, inner, "is there already, in line %zu: remove one of them.", seen[at]);
    seen[at] = w->event.start_mark.line + 1;
    int rc = next(w);
    return rc < 0 ? rc : walk_value(w, &fields[at].value, inner);
}

static int walk_mapping(struct walk *w, const cyaml_schema_value_t *schema, const char *path)
{
    if (w->event.type != YAML_MAPPING_START_EVENT)
        return fail_here(w, path[0] ? path : "The file",
                         "must hold options: lines \"key: value\".");
    const cyaml_schema_field_t *fields = schema->mapping.fields;
    size_t seen[FIELDS_MAX] = {0};
    int rc;
    while ((rc = next(w)) == BERTH_OK && w->event.type != YAML_MAPPING_END_EVENT &&
           (rc = walk_field(w, fields, seen, path)) == BERTH_OK)
        ;
    for (int i = 0; rc == BERTH_OK && fields[i].key; i++)
        if (!seen[i] && !(fields[i].value.flags & CYAML_FLAG_OPTIONAL))
            rc = berth_yaml_fail(w->yaml, path, w->err, "needs the option %s.", fields[i].key);
    return rc;
}

static int walk_value(struct walk *w, const cyaml_schema_value_t *schema, const char *path)
{
    struct line *line = berth_arena_alloc(&w->yaml->arena, sizeof *line);
    if (!line || !berth_list_add(&w->yaml->lines, &w->yaml->arena, line))
        return berth_arena_check(&w->yaml->arena, w->err);
    *line = (struct line){.path = path, .number = w->event.start_mark.line + 1};
    if (is_null(w))
        return fail_here(w, path, "has no value: write one, or remove the option.");
    switch (schema->type) {
    case CYAML_MAPPING:
        return walk_mapping(w, schema, path);
    case CYAML_SEQUENCE:
        return walk_sequence(w, schema, path);
    default:
        return walk_scalar(w, schema, path);
    }
}

/* The stream's one document, if there is any. */
static int walk_stream(struct walk *w, bool *empty)
{
    *empty = true;
    int rc = next(w); /* the stream begins */
    if (rc == BERTH_OK)
        rc = next(w);
    if (rc < 0 || w->event.type == YAML_STREAM_END_EVENT)
        return rc;
    rc = next(w);
    if (rc == BERTH_OK && !is_null(w)) {
        *empty = false;
        rc = walk_value(w, w->yaml->schema, "");
    }
    if (rc == BERTH_OK)
        rc = next(w); /* the document ends */
    if (rc == BERTH_OK)
        rc = next(w);
    if (rc == BERTH_OK && w->event.type != YAML_STREAM_END_EVENT)
        rc = fail_here(w, "",
                       "A second document begins here: a file holds one. Remove the \"---\".");
    return rc;
}

static int walk(struct berth_yaml *yaml, bool *empty, struct berth_error *err)
{
    struct walk w = {.yaml = yaml, .err = err};
    if (!yaml_parser_initialize(&w.parser))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: %.300s.", yaml->path);
    yaml_parser_set_input_string(&w.parser, (const unsigned char *)berth_buf_str(&yaml->text),
                                 yaml->text.len);
    int rc = walk_stream(&w, empty);
    yaml_event_delete(&w.event);
    yaml_parser_delete(&w.parser);
    return rc;
}

/* --- the file --- */

/* Whoever can write the file decides what the daemon does. */
static int check_file(int fd, const char *path, struct berth_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return berth_fail_errno(err, "Cannot read %.300s", path);
    if (!S_ISREG(st.st_mode))
        return berth_fail(err, BERTH_E_INVALID, "%.300s is not a file.", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return berth_fail(err, BERTH_E_DENIED,
                          "%.300s belongs to uid %u, not to us (uid %u) or root, and decides what "
                          "we do: run chown %u %.300s",
                          path, st.st_uid, geteuid(), geteuid(), path);
    if (st.st_mode & 022)
        return berth_fail(err, BERTH_E_DENIED,
                          "%.300s may be changed by others (its mode is %04o), and decides what we "
                          "do: run chmod go-w %.300s",
                          path, st.st_mode & 07777, path);
    return BERTH_OK;
}

static int check_bytes(const struct berth_yaml *yaml, struct berth_error *err)
{
    const char *text = berth_buf_str(&yaml->text);
    size_t at = 0, step;
    while ((step = berth_utf8_step(text + at)))
        at += step;
    if (at == yaml->text.len)
        return BERTH_OK;
    return fail_line(yaml, line_at(yaml, at), err, "%s",
                     text[at] ? "This is not UTF-8: save the file in that encoding."
                              : "There is a NUL byte: this is not a text.");
}

static int read_file(struct berth_yaml *yaml, struct berth_error *err)
{
    auto_close int fd = open(yaml->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return berth_fail(err, BERTH_E_NOT_FOUND, "There is no file %.300s.", yaml->path);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot read %.300s", yaml->path);
    int rc = check_file(fd, yaml->path, err);
    if (rc < 0)
        return rc;
    rc = berth_fs_read_all(fd, &yaml->text, err);
    if (rc == BERTH_E_TOO_LARGE)
        return berth_fail(err, rc, "%.300s is larger than %d bytes: it is no file of options.",
                          yaml->path, BERTH_OPTIONS_BYTES_MAX);
    return rc < 0 ? rc : check_bytes(yaml, err);
}

static int load(struct berth_yaml *yaml, struct berth_error *err)
{
    cyaml_err_t failed =
        cyaml_load_data((const uint8_t *)berth_buf_str(&yaml->text), yaml->text.len, &cyaml_config,
                        yaml->schema, &yaml->data, NULL);
    switch (failed) {
    case CYAML_OK:
        return BERTH_OK;
    case CYAML_ERR_OOM:
    case CYAML_ERR_LIBYAML_PARSER_INIT:
    case CYAML_ERR_LIBYAML_PARSER: /* the walk has met no error in it */
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: %.300s.", yaml->path);
    default:
        return berth_fail(err, BERTH_E_INTERNAL, "libcyaml refuses %.300s: %s.", yaml->path,
                          cyaml_strerror(failed));
    }
}

int berth_yaml_read(const char *path, const struct cyaml_schema_value *schema,
                    struct berth_yaml *out, struct berth_error *err)
{
    *out = (struct berth_yaml){
        .path = path, .schema = schema, .text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX)};
    bool empty = true;
    int rc = read_file(out, err);
    if (rc == BERTH_OK)
        rc = walk(out, &empty, err);
    return rc == BERTH_OK && !empty ? load(out, err) : rc;
}

void berth_yaml_clear(struct berth_yaml *yaml)
{
    if (yaml->data)
        (void)cyaml_free(&cyaml_config, yaml->schema, yaml->data, 0);
    berth_buf_clear(&yaml->text);
    berth_arena_clear(&yaml->arena);
    *yaml = (struct berth_yaml){0};
}
