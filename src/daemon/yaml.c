/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/yaml.c - see yaml.h. One pass over libyaml's events: each value is checked and stored
 * when its event arrives, and the first fault ends the pass. The recursion is as deep as the paths
 * of the table, whatever the file contains. */
#include "daemon/yaml.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/time.h"
#include "base/utf8.h"
#include "os/fs.h"

struct reader {
    struct berth_yaml_cursor at;
    const struct berth_yaml_option *options;
    struct berth_buf text; /* the file's content */
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
};

int berth_yaml_fail(const struct berth_yaml_cursor *at, const char *fmt, ...)
{
    char text[sizeof at->err->message];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return berth_fail(at->err, BERTH_E_INVALID, "%.300s:%zu: %s", at->file, at->line, text);
}

static int yaml_no_memory(const struct reader *r)
{
    return berth_fail(r->at.err, BERTH_E_NO_MEMORY, "Out of memory: %.300s.", r->at.file);
}

/* --- events --- */

static size_t line_at(const struct berth_buf *text, size_t offset)
{
    size_t line = 1;
    for (size_t i = 0; i < offset && i < text->len; i++)
        line += text->data[i] == '\n';
    return line;
}

/* The most common mistake, which libyaml's own message does not name. */
static bool is_indented_by_tab(const struct berth_buf *text, size_t line)
{
    const char *p = berth_buf_str(text);
    while (--line && (p = strchr(p, '\n')))
        p++;
    return p && p[strspn(p, " ")] == '\t';
}

static int fail_parser(struct reader *r)
{
    const yaml_parser_t *parser = &r->parser;
    bool bytes = parser->error == YAML_READER_ERROR;
    if (parser->error == YAML_MEMORY_ERROR)
        return yaml_no_memory(r);
    r->at.line = bytes ? line_at(&r->text, parser->problem_offset) : parser->problem_mark.line + 1;
    if (!bytes && is_indented_by_tab(&r->text, r->at.line))
        return berth_yaml_fail(&r->at,
                               "This is not YAML: indent the line with spaces, not with a tab.");
    if (bytes || !parser->context)
        return berth_yaml_fail(&r->at, "This is not YAML: %s.", parser->problem);
    return berth_yaml_fail(&r->at, "This is not YAML: %s, %s that begins in line %zu.",
                           parser->problem, parser->context, parser->context_mark.line + 1);
}

/* Refuses anchors, aliases and tags: options do not need them, and aliases can multiply a file. */
static int check_event(struct reader *r)
{
    const yaml_event_t *e = &r->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_SCALAR_EVENT)
        anchor = e->data.scalar.anchor, tag = e->data.scalar.tag;
    else if (e->type == YAML_SEQUENCE_START_EVENT)
        anchor = e->data.sequence_start.anchor, tag = e->data.sequence_start.tag;
    else if (e->type == YAML_MAPPING_START_EVENT)
        anchor = e->data.mapping_start.anchor, tag = e->data.mapping_start.tag;
    if (anchor || e->type == YAML_ALIAS_EVENT)
        return berth_yaml_fail(&r->at,
                               "Anchors and aliases (&name, *name) are not supported. Write the "
                               "value out, or quote a text that begins with & or *.");
    if (tag)
        return berth_yaml_fail(&r->at, "Tags (!name) are not supported. Remove the tag, or quote a "
                                       "text that begins with an exclamation mark.");
    return BERTH_OK;
}

static int next_event(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return fail_parser(r);
    r->at.line = r->event.start_mark.line + 1;
    return check_event(r);
}

/* --- single values --- */

static const char *scalar_text(const struct reader *r)
{
    return (const char *)r->event.data.scalar.value;
}

static bool scalar_is(const struct reader *r, const char *text)
{
    return r->event.type == YAML_SCALAR_EVENT && strlen(text) == r->event.data.scalar.length &&
           strcmp(text, scalar_text(r)) == 0;
}

static bool is_plain(const struct reader *r)
{
    return r->event.type == YAML_SCALAR_EVENT &&
           r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const struct reader *r)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    for (unsigned i = 0; is_plain(r) && i < sizeof nulls / sizeof nulls[0]; i++)
        if (scalar_is(r, nulls[i]))
            return true;
    return false;
}

/* A quoted text can contain any character as an escape. U+0080 to U+009F are C2 80 to C2 9F. */
static bool has_control(const struct reader *r)
{
    const unsigned char *text = r->event.data.scalar.value;
    for (size_t i = 0; i < r->event.data.scalar.length; i++)
        if (text[i] < 0x20 || text[i] == 0x7f || (text[i] == 0xc2 && text[i + 1] < 0xa0))
            return true;
    return false;
}

static int check_text(const struct reader *r)
{
    size_t len = r->event.data.scalar.length;
    if (!len)
        return berth_yaml_fail(&r->at, "%s must not be empty.", r->at.path);
    if (len > BERTH_OPTION_BYTES_MAX)
        return berth_yaml_fail(&r->at, "%s must be at most %d bytes long.", r->at.path,
                               BERTH_OPTION_BYTES_MAX);
    return has_control(r)
               ? berth_yaml_fail(&r->at, "%s must not contain control characters.", r->at.path)
               : BERTH_OK;
}

static int read_text(const struct reader *r, char **out)
{
    int rc = check_text(r);
    if (rc < 0)
        return rc;
    *out = strdup(scalar_text(r));
    return *out ? BERTH_OK : yaml_no_memory(r);
}

static int read_duration(const struct reader *r, int64_t *ms)
{
    int rc = check_text(r);
    if (rc < 0 || berth_time_parse_duration(scalar_text(r), ms))
        return rc;
    return berth_yaml_fail(&r->at,
                           "%s must be a duration of at most 366 days, such as 250ms, 90s, 15m, 1h "
                           "or 2d.",
                           r->at.path);
}

static int read_bool(const struct reader *r, bool *out)
{
    *out = scalar_is(r, "true");
    return is_plain(r) && (*out || scalar_is(r, "false"))
               ? BERTH_OK
               : berth_yaml_fail(&r->at, "%s must be true or false, without quotes.", r->at.path);
}

static int read_number(const struct reader *r, const struct berth_yaml_option *o, void *out)
{
    const char *text = scalar_text(r);
    size_t digits = strspn(text, "0123456789");
    if (!is_plain(r) || !digits || text[digits] || (text[0] == '0' && digits > 1))
        return berth_yaml_fail(&r->at, "%s must be a whole number: digits only, without quotes.",
                               r->at.path);
    int64_t number = strtoll(text, NULL, 10); /* too large: INT64_MAX */
    if (number < o->min || number > o->max)
        return berth_yaml_fail(&r->at, "%s must be from %lld to %lld.", r->at.path,
                               (long long)o->min, (long long)o->max);
    int narrow = (int)number;
    if (o->type == BERTH_YAML_INT)
        memcpy(out, &narrow, sizeof narrow);
    else
        memcpy(out, &number, sizeof number);
    return BERTH_OK;
}

static int read_word(const struct reader *r, const struct berth_yaml_option *o, void *out)
{
    int index = 0;
    for (const char *word = o->words; *word; index++) {
        size_t len = strcspn(word, ",");
        if (len == r->event.data.scalar.length && memcmp(word, scalar_text(r), len) == 0) {
            memcpy(out, &index, sizeof index);
            return BERTH_OK;
        }
        word += len;
        word += strspn(word, ", ");
    }
    return berth_yaml_fail(&r->at, "%s must be one of %s.", r->at.path, o->words);
}

static int read_scalar(const struct reader *r, const struct berth_yaml_option *o, void *out)
{
    if (r->event.type != YAML_SCALAR_EVENT)
        return berth_yaml_fail(&r->at, "%s must be a single value, not a list or a mapping.",
                               r->at.path);
    switch (o->type) {
    case BERTH_YAML_TEXT:
        return read_text(r, out);
    case BERTH_YAML_BOOL:
        return read_bool(r, out);
    case BERTH_YAML_DURATION:
        return read_duration(r, out);
    case BERTH_YAML_WORD:
        return read_word(r, o, out);
    default:
        return read_number(r, o, out);
    }
}

/* --- lists and sections --- */

static int read_value(struct reader *r, const struct berth_yaml_option *o, char *base);

static int read_list(struct reader *r, const struct berth_yaml_option *o, char *base)
{
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return berth_yaml_fail(&r->at, "%s must be a list: one line \"- ...\" per entry.",
                               r->at.path);
    char *entries = calloc((size_t)o->max, o->entry);
    if (!entries)
        return yaml_no_memory(r);
    memcpy(base + o->offset, &entries, sizeof entries);
    unsigned *count = (void *)(base + o->count);
    size_t len = strlen(r->at.path);
    int rc;
    while ((rc = next_event(r)) == BERTH_OK && r->event.type != YAML_SEQUENCE_END_EVENT) {
        if (*count == o->max)
            return berth_yaml_fail(&r->at, "%s must have at most %u entries.", r->at.path, *count);
        (void)snprintf(r->at.path + len, sizeof r->at.path - len, "[%u]", *count);
        rc = read_value(r, o + 1, entries + o->entry * (*count)++);
        if (rc < 0)
            break;
        r->at.path[len] = '\0';
    }
    return rc;
}

/* Returns the key of `o` if it is an option of this section itself, else NULL. */
static const char *option_key(const struct berth_yaml_option *o, const char *section)
{
    size_t len = strlen(section);
    if (strncmp(o->path, section, len) != 0 || (len && o->path[len] != '.'))
        return NULL;
    const char *key = o->path + len + (len > 0);
    return *key && !key[strcspn(key, ".[")] ? key : NULL;
}

/* The message has "?" for a key that is too long to show or contains control characters. */
static int fail_key(struct reader *r, const char *section)
{
    auto_buf keys = BERTH_BUF_INIT(BERTH_OPTION_BYTES_MAX);
    for (const struct berth_yaml_option *o = r->options; o->path; o++)
        if (option_key(o, section))
            berth_buf_printf(&keys, "%s%s", keys.len ? ", " : "", option_key(o, section));
    int rc = berth_buf_check(&keys, "List of options", r->at.err);
    if (rc < 0)
        return rc;
    bool shown = r->event.type == YAML_SCALAR_EVENT && r->event.data.scalar.length &&
                 r->event.data.scalar.length <= 64 && !has_control(r);
    return berth_yaml_fail(&r->at, "Unknown option %s%s%s. Use one of %s.", r->at.path,
                           r->at.path[0] ? "." : "", shown ? scalar_text(r) : "?",
                           berth_buf_str(&keys));
}

/* Reads a key and its value. `seen` has the line of each option that the section already set. */
static int read_option(struct reader *r, const char *section, size_t *seen, char *base)
{
    const struct berth_yaml_option *o = r->options;
    const char *key = NULL;
    while (o->path && (!(key = option_key(o, section)) || !scalar_is(r, key)))
        o++;
    if (!o->path)
        return fail_key(r, section);
    assert(o - r->options < BERTH_YAML_OPTIONS_MAX);
    size_t *line = &seen[o - r->options], len = strlen(r->at.path);
    (void)snprintf(r->at.path + len, sizeof r->at.path - len, "%s%s", len ? "." : "", key);
    if (*line)
        return berth_yaml_fail(&r->at, "%s is already set in line %zu. Remove one of the two.",
                               r->at.path, *line);
    *line = r->at.line;
    int rc = next_event(r);
    if (rc == BERTH_OK)
        rc = read_value(r, o, base);
    if (rc == BERTH_OK)
        r->at.path[len] = '\0';
    return rc;
}

static int read_section(struct reader *r, const char *section, char *base)
{
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return berth_yaml_fail(&r->at, "%s must contain options: lines \"key: value\".",
                               r->at.path[0] ? r->at.path : "The file");
    size_t seen[BERTH_YAML_OPTIONS_MAX] = {0}, line = r->at.line;
    int rc;
    while ((rc = next_event(r)) == BERTH_OK && r->event.type != YAML_MAPPING_END_EVENT &&
           (rc = read_option(r, section, seen, base)) == BERTH_OK)
        ;
    if (rc < 0)
        return rc;
    r->at.line = line;
    for (const struct berth_yaml_option *o = r->options; o->path; o++)
        if (o->required && !seen[o - r->options] && option_key(o, section))
            return berth_yaml_fail(&r->at, "%s needs the option %s.", r->at.path,
                                   option_key(o, section));
    return BERTH_OK;
}

/* `base` is the struct or the list's entry that the value belongs to. */
static int read_value(struct reader *r, const struct berth_yaml_option *o, char *base)
{
    int rc;
    if (is_null(r))
        return berth_yaml_fail(&r->at, "%s has no value. Write one, or remove the option.",
                               r->at.path);
    if (o->type == BERTH_YAML_SECTION)
        rc = read_section(r, o->path, base);
    else if (o->type == BERTH_YAML_LIST)
        rc = read_list(r, o, base);
    else
        rc = read_scalar(r, o, base + o->offset);
    return rc == BERTH_OK && o->check ? o->check(&r->at, base + o->offset) : rc;
}

/* Reads the only document of the file. A file without one sets nothing. */
static int read_document(struct reader *r, void *out)
{
    int rc = next_event(r); /* start of the stream */
    if (rc == BERTH_OK)
        rc = next_event(r); /* start of the document */
    if (rc < 0 || r->event.type == YAML_STREAM_END_EVENT)
        return rc;
    rc = next_event(r);
    if (rc == BERTH_OK && !is_null(r))
        rc = read_value(r, r->options, out);
    if (rc == BERTH_OK)
        rc = next_event(r); /* end of the document */
    if (rc == BERTH_OK)
        rc = next_event(r);
    if (rc == BERTH_OK && r->event.type != YAML_STREAM_END_EVENT)
        rc = berth_yaml_fail(&r->at, "A second document begins here. Remove the \"---\".");
    return rc;
}

/* --- the file --- */

/* Refuses a file that another user can write: it controls the daemon. */
static int check_file(int fd, const char *file, struct berth_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return berth_fail_errno(err, "Cannot read %.300s", file);
    switch (berth_fs_find_flaw(&st, S_IFREG, BERTH_FS_TRUSTED)) {
    case BERTH_FS_WRONG_TYPE:
        return berth_fail(err, BERTH_E_INVALID, "%.300s is not a regular file.", file);
    case BERTH_FS_WRONG_OWNER:
        return berth_fail(err, BERTH_E_DENIED,
                          "%.300s must belong to root or to the daemon's user (uid %u), not to "
                          "uid %u. Run chown %u %.300s",
                          file, geteuid(), st.st_uid, geteuid(), file);
    case BERTH_FS_WRONG_MODE:
        return berth_fail(err, BERTH_E_DENIED,
                          "Other users can write %.300s (mode %04o) and so control the daemon. Run "
                          "chmod go-w %.300s",
                          file, st.st_mode & 07777, file);
    case BERTH_FS_NO_FLAW:
        break;
    }
    return BERTH_OK;
}

static int check_bytes(struct reader *r)
{
    const char *text = berth_buf_str(&r->text);
    size_t at = 0, step;
    while ((step = berth_utf8_step(text + at)))
        at += step;
    if (at == r->text.len)
        return BERTH_OK;
    r->at.line = line_at(&r->text, at);
    return berth_yaml_fail(&r->at, "%s Save the file as a text in UTF-8.",
                           text[at] ? "This is not UTF-8." : "There is a NUL byte.");
}

static int read_file(struct reader *r)
{
    auto_close int fd = open(r->at.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return berth_fail(r->at.err, BERTH_E_NOT_FOUND, "There is no file %.300s.", r->at.file);
    if (fd < 0)
        return berth_fail_errno(r->at.err, "Cannot read %.300s", r->at.file);
    int rc = check_file(fd, r->at.file, r->at.err);
    if (rc == BERTH_OK)
        rc = berth_fs_read_all(fd, &r->text, r->at.err);
    if (rc == BERTH_E_TOO_LARGE)
        return berth_fail(r->at.err, rc,
                          "%.300s is larger than %d bytes. Check that it is the config file.",
                          r->at.file, BERTH_OPTIONS_BYTES_MAX);
    return rc < 0 ? rc : check_bytes(r);
}

int berth_yaml_read(const char *file, const struct berth_yaml_option *options, void *out,
                    struct berth_error *err)
{
    struct reader r = {.at = {.file = file, .err = err},
                       .options = options,
                       .text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX)};
    int rc = read_file(&r);
    if (rc == BERTH_OK && !yaml_parser_initialize(&r.parser))
        rc = yaml_no_memory(&r);
    if (rc == BERTH_OK) {
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)berth_buf_str(&r.text),
                                     r.text.len);
        rc = read_document(&r, out);
        yaml_event_delete(&r.event);
        yaml_parser_delete(&r.parser);
    }
    berth_buf_clear(&r.text);
    return rc;
}
