/* SPDX-License-Identifier: Apache-2.0
 * src/cli/lookup.c - see lookup.h. */
#include "cli/lookup.h"

#include <string.h>

#include "base/id.h"
#include "cli/client.h"
#include "cli/similar.h"
#include "core/id_prefix.h"

int cli_find_id(struct cli *cli, const char *kind, const char *text, const char **out)
{
    struct cli_answer found;
    bool all = strcmp(kind, "company") == 0 || strcmp(kind, "token") == 0;
    int rc = cli_get(cli, &found, "/api/find?kind=%s&prefix=%s%s%s", kind, cli_encode(cli, text),
                     all ? "" : "&companyId=", all ? "" : cli->company_id);
    if (rc == BERTH_OK && !(*out = cli_text(found.json, "id")))
        rc = cli_not_understood(cli);
    return rc;
}

/* Counts the objects whose member is the text; *out is the first of them. */
static int count_named(const struct berth_json *list, const char *key, const char *text,
                       const struct berth_json **out)
{
    int found = 0;
    for (size_t i = berth_json_count(list); i-- > 0;) { /* so that *out is the first */
        if (cli_is(berth_json_at(list, i), key, text) && cli_text(berth_json_at(list, i), "id")) {
            *out = berth_json_at(list, i);
            found++;
        }
    }
    return found;
}

static int say_unknown_name(struct cli *cli, const char *kind, const struct berth_json *list,
                            const char *text)
{
    size_t all = berth_json_count(list);
    int count = 0;
    const char **names = berth_arena_alloc(&cli->arena, sizeof *names * (all + 1));
    for (size_t i = 0; names && i < all; i++)
        if (cli_text(berth_json_at(list, i), "name"))
            names[count++] = cli_text(berth_json_at(list, i), "name");
    const char *like = names ? cli_most_like(text, names, count) : NULL;
    if (like)
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND,
                          "There is no %s \"%.200s\". Did you mean \"%.200s\"?", kind, text, like);
    return berth_fail(&cli->err, BERTH_E_NOT_FOUND,
                      "There is no %s \"%.200s\": \"berth %s list\" shows them.", kind, text,
                      strcmp(kind, "environment") == 0 ? "env" : kind);
}

/* Tries the text as the beginning of an id, else suggests a similar name. */
static int find_unnamed(struct cli *cli, const char *kind, const struct berth_json *list,
                        const char *text, const struct berth_json **out)
{
    const char *id;
    if (!berth_id_prefix_valid(text))
        return say_unknown_name(cli, kind, list, text);
    int rc = cli_find_id(cli, kind, text, &id);
    if (rc == BERTH_OK && count_named(list, "id", id, out) == 0)
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND, "%s is no more.", id);
    return rc != BERTH_E_NOT_FOUND || berth_id_valid(text)
               ? rc
               : say_unknown_name(cli, kind, list, text);
}

int cli_find_environment(struct cli *cli, const char *text, const struct berth_json **out)
{
    struct cli_answer all;
    int rc = cli_get(cli, &all, "/api/companies/%s/environments", cli->company_id);
    if (rc < 0)
        return rc;
    int found = count_named(all.json, "name", text, out);
    if (found > 1)
        return berth_fail(&cli->err, BERTH_E_CONFLICT,
                          "%d environments are called \"%.200s\": use the id.", found, text);
    return found ? BERTH_OK : find_unnamed(cli, "environment", all.json, text, out);
}

/* A secret has a name and a key; the name is tried first. */
int cli_find_secret(struct cli *cli, const char *text, const struct berth_json **out)
{
    struct cli_answer all;
    int rc = cli_get(cli, &all, "/api/companies/%s/secrets", cli->company_id);
    if (rc < 0)
        return rc;
    return count_named(all.json, "name", text, out) || count_named(all.json, "key", text, out)
               ? BERTH_OK
               : find_unnamed(cli, "secret", all.json, text, out);
}

int cli_find_company(struct cli *cli, const char *text, const struct berth_json **out)
{
    struct cli_answer all;
    int rc = cli_get(cli, &all, "/api/companies");
    if (rc < 0)
        return rc;
    return count_named(all.json, "name", text, out)
               ? BERTH_OK
               : find_unnamed(cli, "company", all.json, text, out);
}
