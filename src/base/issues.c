/* SPDX-License-Identifier: Apache-2.0
 * src/base/issues.c - see issues.h. */
#include "base/issues.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"

void berth_issues_add(struct berth_issues *issues, const char *path, const char *fmt, ...)
{
    struct berth_issue *issue = berth_arena_alloc(issues->arena, sizeof *issue);
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!issue)
        return; /* arena->failed is set */
    issue->path = berth_arena_strdup(issues->arena, path);
    issue->message = berth_arena_strdup(issues->arena, text);
    (void)berth_list_add(&issues->list, issues->arena, issue);
}

int berth_issues_check(const struct berth_issues *issues, struct berth_error *err)
{
    int rc = berth_arena_check(issues->arena, err);
    if (rc < 0 || issues->list.count == 0)
        return rc;
    const struct berth_issue *first = issues->list.items[0];
    return berth_fail(err, BERTH_E_UNPROCESSABLE, "%s", first->message);
}

void berth_issues_json(struct berth_json_writer *w, const char *key,
                       const struct berth_issues *issues)
{
    berth_json_open_in(w, key, '[');
    for (int i = 0; i < issues->list.count; i++) {
        const struct berth_issue *issue = issues->list.items[i];
        berth_json_open(w, '{');
        berth_json_put_str(w, "path", issue->path);
        berth_json_put_str(w, "message", issue->message);
        berth_json_close(w, '}');
    }
    berth_json_close(w, ']');
}
