/* SPDX-License-Identifier: Apache-2.0
 * src/sync/glob.c - see glob.h. Neither function recurses: after a mismatch, only the last star is
 * tried again, because what an earlier star could give, a later one can give too. */
#include "sync/glob.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* A name inside a pattern or a path: [at, end). */
struct span {
    const char *at, *end;
};

static bool in_class(const char *name, size_t len, unsigned char c)
{
    static const struct {
        const char *name;
        int (*test)(int c);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank},
                   {"cntrl", iscntrl}, {"digit", isdigit}, {"graph", isgraph},
                   {"lower", islower}, {"print", isprint}, {"punct", ispunct},
                   {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strlen(classes[i].name) == len && memcmp(classes[i].name, name, len) == 0)
            return c < 128 && classes[i].test(c);
    return false;
}

/* Reads one byte of a set, which a backslash may precede. Returns the position behind it. */
static const char *set_byte(const char *p, const char *end, unsigned char *out)
{
    if (*p == '\\' && p + 1 < end)
        p++;
    *out = (unsigned char)*p;
    return p + 1;
}

/* Tests a byte against the set that begins behind "[". Returns the position behind "]", or NULL
 * when the set has no end. */
static const char *match_set(const char *p, const char *end, unsigned char c, bool *matched)
{
    bool negated = p < end && (*p == '!' || *p == '^'), found = false;
    p += negated;
    for (const char *first = p; p < end && (*p != ']' || p == first);) {
        if (end - p > 2 && p[0] == '[' && p[1] == ':') {
            const char *close = memchr(p + 2, ':', (size_t)(end - p - 2));
            if (close && close + 1 < end && close[1] == ']') {
                found |= in_class(p + 2, (size_t)(close - p - 2), c);
                p = close + 2;
                continue;
            }
        }
        unsigned char low, high;
        p = set_byte(p, end, &low);
        high = low;
        if (end - p > 1 && p[0] == '-' && p[1] != ']')
            p = set_byte(p + 1, end, &high);
        found |= c >= low && c <= high;
    }
    *matched = found != negated;
    return p < end ? p + 1 : NULL;
}

/* Matches one byte against what stands at p, which is not a star. Returns the position behind it,
 * or NULL. */
static const char *match_byte(const char *p, const char *end, unsigned char c)
{
    bool matched = true;
    if (p == end)
        return NULL;
    switch (*p) {
    case '?':
        return p + 1;
    case '[':
        p = match_set(p + 1, end, c, &matched);
        return matched ? p : NULL;
    case '\\':
        if (p + 1 < end)
            p++;
        return (unsigned char)*p == c ? p + 1 : NULL;
    default:
        return (unsigned char)*p == c ? p + 1 : NULL;
    }
}

static bool match_span(struct span pattern, struct span name)
{
    struct span star = {0}; /* behind the last star; where its match ends */
    while (name.at < name.end) {
        if (pattern.at < pattern.end && *pattern.at == '*') {
            star = (struct span){++pattern.at, name.at};
            continue;
        }
        const char *next = match_byte(pattern.at, pattern.end, (unsigned char)*name.at);
        if (next) {
            pattern.at = next;
            name.at++;
        } else if (star.at) {
            pattern.at = star.at;
            name.at = ++star.end;
        } else {
            return false;
        }
    }
    while (pattern.at < pattern.end && *pattern.at == '*')
        pattern.at++;
    return pattern.at == pattern.end;
}

bool berth_glob_match_name(const char *pattern, const char *name)
{
    return match_span((struct span){pattern, pattern + strlen(pattern)},
                      (struct span){name, name + strlen(name)});
}

/* Returns the name that begins at `at`, or one with at NULL behind the last. */
static struct span name_at(const char *at)
{
    return (struct span){at, at ? at + strcspn(at, "/") : NULL};
}

static const char *behind(struct span name)
{
    return *name.end ? name.end + 1 : NULL;
}

static bool is_double_star(struct span name)
{
    return name.end - name.at == 2 && memcmp(name.at, "**", 2) == 0;
}

bool berth_glob_match_path(const char *pattern, const char *path)
{
    struct span star = {
        0}; /* the name behind the last "**"; the first name that it does not cover */
    const char *p = pattern, *s = path;
    while (s) {
        struct span wanted = name_at(p), name = name_at(s);
        if (p && is_double_star(wanted)) {
            p = behind(wanted);
            if (!p)
                return true;
            star = (struct span){p, s};
        } else if (p && match_span(wanted, name)) {
            p = behind(wanted);
            s = behind(name);
        } else if (star.at && star.end) {
            p = star.at;
            s = star.end = behind(name_at(star.end));
        } else {
            return false;
        }
    }
    return !p;
}
