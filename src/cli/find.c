/* SPDX-License-Identifier: Apache-2.0
 * src/cli/find.c - what people write for a thing: its name, its id, or the beginning of that. */
#include <string.h>

#include "base/id.h"
#include "cli/cli.h"
#include "core/company.h"
#include "core/secret.h"

#define NAME_CHARS_MAX 64

/* How many letters to change, add, leave out or swap. */
static int distance(const char *a, const char *b)
{
    int rows[3][NAME_CHARS_MAX + 1];
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > NAME_CHARS_MAX || b_len > NAME_CHARS_MAX)
        return NAME_CHARS_MAX;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a_len; i++) {
        int *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_len; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

const char *cli_most_like(const char *text, const char *const *names, int count)
{
    const char *found = NULL;
    int best = (int)strlen(text) / 3 + 1; /* one slip in a short word, more in a long one */
    for (int i = 0; i < count; i++) {
        int away = distance(text, names[i]);
        if (away <= best) {
            best = away - 1;
            found = names[i];
        }
    }
    return found;
}

int cli_find_id(struct cli *cli, enum berth_kind kind, const char *text, const char **out)
{
    const char *company = kind == BERTH_KIND_COMPANY ? NULL : cli->company_id;
    return berth_find_id(cli->b, &cli->arena, kind, company, text, out, &cli->err);
}

/* Nothing has that name: perhaps it is the beginning of an id, else say what could be meant. */
static int find_unnamed(struct cli *cli, enum berth_kind kind, const char *text, const char *noun,
                        const char *const *names, int count, const char **id)
{
    if (berth_is_prefix(text)) {
        int rc = cli_find_id(cli, kind, text, id);
        if (rc != BERTH_E_NOT_FOUND || berth_id_valid(text))
            return rc;
    }
    const char *like = cli_most_like(text, names, count);
    if (like)
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND,
                          "There is no %s \"%.200s\". Did you mean \"%.200s\"?", noun, text, like);
    return berth_fail(&cli->err, BERTH_E_NOT_FOUND,
                      "There is no %s \"%.200s\": \"berth %s list\" shows them.", noun, text,
                      kind == BERTH_KIND_ENVIRONMENT ? "env" : noun);
}

/* The names in a list, by `name_of`. */
static const char *const *names_of(struct cli *cli, const struct berth_list *list,
                                   const char *(*name_of)(const void *item))
{
    const char **names = berth_arena_alloc(&cli->arena, sizeof *names * (size_t)(list->count + 1));
    for (int i = 0; names && i < list->count; i++)
        names[i] = name_of(list->items[i]);
    return names;
}

static const char *environment_name(const void *item)
{
    return ((const struct berth_environment *)item)->name;
}

int cli_find_environment(struct cli *cli, const char *text, struct berth_environment **out)
{
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    struct berth_list all;
    filter.company_id = cli->company_id;
    int rc = berth_environment_list(cli->b, &cli->arena, &filter, &all, &cli->err);
    if (rc < 0)
        return rc;
    int found = 0;
    for (int i = 0; i < all.count; i++)
        if (strcmp(environment_name(all.items[i]), text) == 0) {
            *out = all.items[i];
            found++;
        }
    if (found > 1)
        return berth_fail(&cli->err, BERTH_E_CONFLICT,
                          "%d environments are called \"%.200s\": use the id.", found, text);
    if (found)
        return BERTH_OK;
    const char *id, *const *names = names_of(cli, &all, environment_name);
    rc = names
             ? find_unnamed(cli, BERTH_KIND_ENVIRONMENT, text, "environment", names, all.count, &id)
             : berth_arena_check(&cli->arena, &cli->err);
    return rc < 0 ? rc : berth_environment_get(cli->b, &cli->arena, id, out, &cli->err);
}

static const char *secret_name(const void *item)
{
    return ((const struct berth_secret *)item)->name;
}

int cli_find_secret(struct cli *cli, const char *text, struct berth_secret **out)
{
    struct berth_list all;
    int rc = berth_secret_list(cli->b, &cli->arena, cli->company_id, &all, &cli->err);
    for (int by_key = 0; rc == BERTH_OK && by_key < 2; by_key++) /* a name comes first */
        for (int i = 0; i < all.count; i++) {
            struct berth_secret *s = all.items[i];
            if (strcmp(by_key ? s->key : s->name, text) == 0) {
                *out = s;
                return BERTH_OK;
            }
        }
    if (rc < 0)
        return rc;
    const char *id, *const *names = names_of(cli, &all, secret_name);
    rc = names ? find_unnamed(cli, BERTH_KIND_SECRET, text, "secret", names, all.count, &id)
               : berth_arena_check(&cli->arena, &cli->err);
    return rc < 0 ? rc : berth_secret_get(cli->b, &cli->arena, id, out, &cli->err);
}

static const char *company_name(const void *item)
{
    return ((const struct berth_company *)item)->name;
}

int cli_find_company(struct cli *cli, const char *text, const char **id)
{
    struct berth_list all;
    int rc = berth_company_list(cli->b, &cli->arena, &all, &cli->err);
    for (int i = 0; rc == BERTH_OK && i < all.count; i++)
        if (strcmp(company_name(all.items[i]), text) == 0) {
            *id = ((const struct berth_company *)all.items[i])->id;
            return BERTH_OK;
        }
    if (rc < 0)
        return rc;
    const char *const *names = names_of(cli, &all, company_name);
    return names ? find_unnamed(cli, BERTH_KIND_COMPANY, text, "company", names, all.count, id)
                 : berth_arena_check(&cli->arena, &cli->err);
}
