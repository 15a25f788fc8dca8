/* SPDX-License-Identifier: Apache-2.0
 * src/sync/ignore.c - see ignore.h. */
#include "sync/ignore.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/map.h"
#include "sync/entry.h"
#include "sync/glob.h"
#include "sync/record.h"

struct rule {
    const char *pattern; /* without "!", and without "/" at either end */
    bool negated;
    bool anchored; /* matches the path from the rule's directory on, not the name alone */
    bool only_directories;
};

/* The rules of one directory. */
struct rule_set {
    struct berth_list rules; /* of struct rule; the strongest is the last */
    size_t directory_len;    /* of the directory's path */
};

/* What the rules say of a path. The greatest of a path and the directories above it holds. */
enum verdict {
    CROSSES,
    STAYS,        /* unless it is kept */
    STAYS_ALWAYS, /* by an override, or because such a name never crosses */
};

struct berth_ignore {
    struct berth_arena arena;
    struct berth_map sets; /* struct rule_set by directory */
    struct rule_set overrides;
    struct berth_map kept; /* paths that cross all the same: kept_file, kept_directory */
    int count;             /* of all rules */
    /* The directory of the last query, and what the rules say of it and those above it. Queries
     * come in the order of a walk, so most have the same directory. */
    char last_directory[BERTH_TREE_PATH_BYTES_MAX + 1];
    bool last_known;
    enum verdict last_verdict;
};

#define RULES_BYTES_MAX ((size_t)1 << 30) /* of all rules, written */

/* The values of the map `kept`. A directory is in it because something below it is kept. */
static char kept_file, kept_directory;

bool berth_ignore_never_crosses(const char *name)
{
    return strcmp(name, ".berth") == 0 || strcmp(name, ".paperclip-runtime") == 0 ||
           strcmp(name, ".git") == 0;
}

int berth_ignore_new(struct berth_ignore **out, struct berth_error *err)
{
    struct berth_ignore *ignore = calloc(1, sizeof *ignore);
    if (!ignore)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: ignore rules.");
    *out = ignore;
    return BERTH_OK;
}

void berth_ignore_free(struct berth_ignore *ignore)
{
    if (!ignore)
        return;
    berth_map_clear(&ignore->sets);
    berth_map_clear(&ignore->kept);
    berth_arena_clear(&ignore->arena);
    free(ignore);
}

/* Returns the length without the blanks at the end. A blank behind a backslash belongs to the line.
 */
static size_t trimmed_len(const char *line, size_t len)
{
    while (len && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r'))
        if (len > 1 && line[len - 2] == '\\' && line[len - 1] != '\r')
            break;
        else
            len--;
    return len;
}

/* Parses one line. Returns false for a comment, an empty line, or when memory runs out. */
static bool parse_rule(struct berth_arena *arena, const char *line, size_t len, struct rule *out)
{
    struct rule rule = {0};
    len = trimmed_len(line, len);
    if (!len || *line == '#' || memchr(line, '\0', len))
        return false;
    if (*line == '!') {
        rule.negated = true;
        line++, len--;
    }
    if (len && line[len - 1] == '/') {
        rule.only_directories = true;
        len--;
    }
    rule.anchored = memchr(line, '/', len) != NULL;
    if (len && *line == '/')
        line++, len--;
    if (!len)
        return false;
    rule.pattern = berth_arena_printf(arena, "%.*s", (int)len, line);
    *out = rule;
    return rule.pattern != NULL;
}

static int add_rule(struct berth_ignore *ignore, struct rule_set *set, const struct rule *rule,
                    struct berth_error *err)
{
    struct rule *kept = berth_arena_alloc(&ignore->arena, sizeof *kept);
    if (++ignore->count > BERTH_IGNORE_RULES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "A tree may have at most %d ignore rules.",
                          BERTH_IGNORE_RULES_MAX);
    ignore->last_known = false;
    if (kept) {
        *kept = *rule;
        (void)berth_list_add(&set->rules, &ignore->arena, kept);
    }
    return berth_arena_check(&ignore->arena, err);
}

static bool part_matches(const char *pattern, size_t pattern_len, const char *name, size_t name_len)
{
    char part[BERTH_IGNORE_LINE_BYTES_MAX + 1], text[BERTH_TREE_PATH_BYTES_MAX + 1];
    if (name_len >= sizeof text)
        return false;
    memcpy(part, pattern, pattern_len);
    part[pattern_len] = '\0';
    memcpy(text, name, name_len);
    text[name_len] = '\0';
    return berth_glob_match_name(part, text);
}

static bool is_any_depth(const char *pattern)
{
    return strncmp(pattern, "**/", 3) == 0 || strcmp(pattern, "**") == 0;
}

/* Adds a rule of a directory above the tree, as far as it can match something in the tree: without
 * the part that matches the path `below`, by which the tree is reached from there. */
static int add_lowered(struct berth_ignore *ignore, struct rule_set *set, struct rule rule,
                       const char *below, struct berth_error *err)
{
    while (rule.anchored && *below && !is_any_depth(rule.pattern)) {
        size_t part_len = strcspn(rule.pattern, "/"), name_len = strcspn(below, "/");
        if (!rule.pattern[part_len] || !part_matches(rule.pattern, part_len, below, name_len))
            return BERTH_OK; /* it is about the tree itself, or what is beside it */
        rule.pattern += part_len + 1;
        below += name_len + (below[name_len] == '/');
    }
    int rc = add_rule(ignore, set, &rule, err);
    if (!rule.anchored || strncmp(rule.pattern, "**/", 3) != 0)
        return rc;
    /* What follows "**" may match the end of the path. */
    for (rule.pattern += 3; rc == BERTH_OK && *below;) {
        rc = add_lowered(ignore, set, rule, below, err);
        size_t name_len = strcspn(below, "/");
        below += name_len + (below[name_len] == '/');
    }
    return rc;
}

static int add_line(struct berth_ignore *ignore, struct rule_set *set, const char *below,
                    const char *line, size_t len, struct berth_error *err)
{
    struct rule rule;
    if (len > BERTH_IGNORE_LINE_BYTES_MAX)
        return berth_fail(err, BERTH_E_TOO_LARGE, "An ignore rule is longer than %d bytes.",
                          BERTH_IGNORE_LINE_BYTES_MAX);
    if (!parse_rule(&ignore->arena, line, len, &rule))
        return berth_arena_check(&ignore->arena, err);
    return add_lowered(ignore, set, rule, below, err);
}

static struct rule_set *set_of(struct berth_ignore *ignore, const char *directory)
{
    struct rule_set *set = berth_map_get(&ignore->sets, directory);
    if (set)
        return set;
    set = berth_arena_alloc(&ignore->arena, sizeof *set);
    if (!set || !berth_map_put(&ignore->sets, directory, set))
        return NULL;
    *set = (struct rule_set){.directory_len = strlen(directory)};
    return set;
}

static int add_lines(struct berth_ignore *ignore, const char *directory, const char *below,
                     const char *text, size_t len, struct berth_error *err)
{
    struct rule_set *set = set_of(ignore, directory);
    if (!set)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: ignore rules.");
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which some editors write */
    if (len >= 3 && memcmp(text, mark, 3) == 0)
        text += 3, len -= 3;
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t line_len = (size_t)((newline ? newline : end) - text);
        int rc = add_line(ignore, set, below, text, line_len, err);
        if (rc < 0)
            return rc;
        text += line_len + 1;
    }
    return BERTH_OK;
}

int berth_ignore_add(struct berth_ignore *ignore, const char *directory, const char *text,
                     size_t len, struct berth_error *err)
{
    return add_lines(ignore, directory, "", text, len, err);
}

int berth_ignore_add_above(struct berth_ignore *ignore, const char *below, const char *text,
                           size_t len, struct berth_error *err)
{
    return add_lines(ignore, "", below, text, len, err);
}

int berth_ignore_add_override(struct berth_ignore *ignore, const char *rule,
                              struct berth_error *err)
{
    if (strchr(rule, '\n'))
        return berth_fail(err, BERTH_E_INVALID, "An exclude rule must be a single line.");
    return add_line(ignore, &ignore->overrides, "", rule, strlen(rule), err);
}

int berth_ignore_keep(struct berth_ignore *ignore, const char *path, struct berth_error *err)
{
    char directory[BERTH_TREE_PATH_BYTES_MAX + 1];
    if (!berth_path_valid(path))
        return berth_fail(err, BERTH_E_INVALID, "\"%.200s\" is not a path below the workspace.",
                          path);
    bool stored = berth_map_put(&ignore->kept, path, &kept_file);
    for (const char *slash = strchr(path, '/'); slash && stored; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);
        memcpy(directory, path, len);
        directory[len] = '\0';
        if (!berth_map_get(&ignore->kept, directory))
            stored = berth_map_put(&ignore->kept, directory, &kept_directory);
    }
    ignore->last_known = false;
    return stored ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: ignore rules.");
}

/* Returns the last rule of the set that matches, or NULL. */
static const struct rule *match_set_rules(const struct rule_set *set, const char *path,
                                          bool is_directory)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *below = path + set->directory_len + (set->directory_len ? 1 : 0);
    for (int i = set->rules.count - 1; i >= 0; i--) {
        const struct rule *rule = set->rules.items[i];
        if (rule->only_directories && !is_directory)
            continue;
        if (rule->anchored ? berth_glob_match_path(rule->pattern, below)
                           : berth_glob_match_name(rule->pattern, name))
            return rule;
    }
    return NULL;
}

static bool is_kept(const struct berth_ignore *ignore, const char *path, bool is_directory)
{
    const char *kept = ignore->kept.count ? berth_map_get(&ignore->kept, path) : NULL;
    return kept == &kept_file || (kept && is_directory);
}

/* Judges one path without regard to the directories above it. */
static enum verdict judge_entry(const struct berth_ignore *ignore, const char *path,
                                bool is_directory)
{
    const char *slash = strrchr(path, '/');
    if (berth_ignore_never_crosses(slash ? slash + 1 : path))
        return STAYS_ALWAYS;
    const struct rule *rule = match_set_rules(&ignore->overrides, path, is_directory);
    if (rule)
        return rule->negated ? CROSSES : STAYS_ALWAYS;
    if (!ignore->sets.count)
        return CROSSES;
    char directory[BERTH_TREE_PATH_BYTES_MAX + 1];
    size_t len = slash ? (size_t)(slash - path) : 0;
    memcpy(directory, path, len);
    for (;;) {
        directory[len] = '\0';
        const struct rule_set *set = berth_map_get(&ignore->sets, directory);
        rule = set ? match_set_rules(set, path, is_directory) : NULL;
        if (rule)
            return rule->negated ? CROSSES : STAYS;
        if (!len)
            return CROSSES;
        slash = strrchr(directory, '/');
        len = slash ? (size_t)(slash - directory) : 0;
    }
}

/* Judges a directory and those above it, from the root down. */
static enum verdict judge_above(const struct berth_ignore *ignore, char *directory)
{
    enum verdict verdict = CROSSES;
    for (char *slash = directory; *slash && verdict != STAYS_ALWAYS;) {
        slash += strcspn(slash, "/");
        char kept = *slash;
        *slash = '\0';
        enum verdict one = judge_entry(ignore, directory, true);
        verdict = one > verdict ? one : verdict;
        *slash = kept;
        slash += kept == '/';
    }
    return verdict;
}

bool berth_ignore_excludes(struct berth_ignore *ignore, const char *path, bool is_directory)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (strlen(path) > BERTH_TREE_PATH_BYTES_MAX)
        return true; /* a tree refuses such a path before it asks */
    if (!ignore->last_known || strlen(ignore->last_directory) != len ||
        memcmp(ignore->last_directory, path, len) != 0) {
        memcpy(ignore->last_directory, path, len);
        ignore->last_directory[len] = '\0';
        ignore->last_verdict = judge_above(ignore, ignore->last_directory);
        ignore->last_known = true;
    }
    enum verdict verdict = ignore->last_verdict;
    if (verdict != STAYS_ALWAYS) {
        enum verdict own = judge_entry(ignore, path, is_directory);
        verdict = own > verdict ? own : verdict;
    }
    return verdict == STAYS ? !is_kept(ignore, path, is_directory) : verdict != CROSSES;
}

/* --- the written form: the overrides; for each directory its name and its rules, and an empty
 * name; the kept paths, and an empty one --- */

static void write_rules(const struct rule_set *set, struct berth_buf *out)
{
    for (int i = 0; i < set->rules.count; i++) {
        const struct rule *rule = set->rules.items[i];
        berth_buf_printf(out, "%s%s%s%s\n", rule->negated ? "!" : "", rule->anchored ? "/" : "",
                         rule->pattern, rule->only_directories ? "/" : "");
    }
    berth_buf_append(out, "", 1);
}

void berth_ignore_write(const struct berth_ignore *ignore, struct berth_buf *out)
{
    const char *directory;
    size_t at = 0;
    write_rules(&ignore->overrides, out);
    for (struct rule_set *set; (set = berth_map_next(&ignore->sets, &at, &directory));) {
        berth_buf_printf(out, "/%s", directory); /* the root is not empty then */
        berth_buf_append(out, "", 1);
        write_rules(set, out);
    }
    berth_buf_append(out, "", 1);
    at = 0;
    for (const char *kept, *path; (kept = berth_map_next(&ignore->kept, &at, &path));)
        if (kept == &kept_file)
            berth_record_put_text(out, path);
    berth_buf_append(out, "", 1);
}

int berth_ignore_read(struct berth_ignore *ignore, struct berth_record *r, struct berth_error *err)
{
    const char *rules = berth_record_text(r), *directory = "";
    int rc = BERTH_OK;
    for (const char *line = rules; line && *line && rc == BERTH_OK;) {
        size_t len = strcspn(line, "\n");
        rc = add_line(ignore, &ignore->overrides, "", line, len, err);
        line += len + (line[len] == '\n');
    }
    while (rc == BERTH_OK && rules && (directory = berth_record_text(r)) && *directory) {
        rules = berth_record_text(r);
        if (rules)
            rc = berth_ignore_add(ignore, directory + 1, rules, strlen(rules), err);
    }
    const char *kept = "";
    while (rc == BERTH_OK && rules && directory && (kept = berth_record_text(r)) && *kept)
        rc = berth_ignore_keep(ignore, kept, err);
    if (rc == BERTH_OK && (!rules || !directory || !kept))
        rc = berth_fail(err, BERTH_E_INVALID, "The rules of a workspace are damaged.");
    return rc;
}

int berth_ignore_copy(const struct berth_ignore *ignore, struct berth_ignore **out,
                      struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(RULES_BYTES_MAX);
    struct berth_ignore *copy = NULL;
    berth_ignore_write(ignore, &text);
    int rc = berth_buf_check(&text, "The rules of a workspace", err);
    if (rc == BERTH_OK)
        rc = berth_ignore_new(&copy, err);
    if (rc < 0)
        return rc;
    struct berth_record r = {text.data, text.data + text.len};
    rc = berth_ignore_read(copy, &r, err);
    if (rc < 0)
        berth_ignore_free(copy);
    else
        *out = copy;
    return rc;
}
