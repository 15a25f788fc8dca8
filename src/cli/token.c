/* SPDX-License-Identifier: Apache-2.0
 * src/cli/token.c - berth token: creates, lists and revokes tokens for a daemon. A token is shown
 * once, or written to a file that only its owner can read. */
#include "core/token.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/table.h"
#include "os/fs.h"

static const char *permissions_of(struct cli *cli, const struct berth_json *token)
{
    const struct berth_json *list = berth_json_get(token, "permissions");
    const char *all = NULL;
    for (size_t i = 0; i < berth_json_count(list); i++)
        if (berth_json_str(berth_json_at(list, i)))
            all = berth_arena_printf(&cli->arena, "%s%s%s", all ? all : "", all ? ", " : "",
                                     berth_json_str(berth_json_at(list, i)));
    return all ? all : "to look";
}

static const char *end_of(struct cli *cli, const struct berth_json *token)
{
    if (cli_text(token, "revokedAt"))
        return "revoked";
    return cli_text(token, "expiresAt") ? cli_when(cli, cli_time(token, "expiresAt")) : NULL;
}

static const struct cli_cell lines[] = {{"id", "id"},
                                        {"name", "name"},
                                        {"kind", "kind"},
                                        {"company", "companyId", .otherwise = "all"},
                                        {"may", .text = permissions_of},
                                        {"agent", "agentId"},
                                        {"run", "runId"},
                                        {"lease", "leaseId"},
                                        {"expires", "expiresAt", CLI_WHEN},
                                        {"revoked", "revokedAt", CLI_WHEN},
                                        {"used", "lastUsedAt", CLI_WHEN},
                                        {0}};
static const struct cli_cell columns[] = {{"ID", "id", CLI_ID},
                                          {"NAME", "name"},
                                          {"KIND", "kind"},
                                          {"COMPANY", "companyId", CLI_ID, "all"},
                                          {"MAY", .text = permissions_of},
                                          {"USED", "lastUsedAt", CLI_WHEN},
                                          {"EXPIRES", .text = end_of},
                                          {0}};

/* --- create --- */

struct wishes {
    const char *ttl, *agent, *run, *lease, *out;
    struct berth_list allow;
    bool instance;
    int64_t ttl_ms;
};

static int read_wishes(struct cli *cli, struct wishes *w)
{
    if (w->ttl && !berth_time_parse_duration(w->ttl, &w->ttl_ms))
        return cli_usage(cli, "--ttl \"%s\" is not a duration: write 90s, 15m, 1h or 30d", w->ttl);
    if (w->agent && (w->run || w->lease))
        return cli_usage(cli, "a token is for an agent or for a run");
    for (int i = 0; i < w->allow.count; i++) {
        const char *const *known = berth_permissions;
        while (*known && strcmp(*known, w->allow.items[i]) != 0)
            known++;
        if (!*known)
            return cli_usage(cli,
                             "--allow \"%s\" is none of: environments:manage, secrets:manage, "
                             "instance:manage",
                             (const char *)w->allow.items[i]);
    }
    return CLI_OK;
}

static void write_body(struct cli *cli, const struct wishes *w, const char *name,
                       struct berth_buf *body)
{
    struct berth_json_writer j = {.buf = body};
    berth_json_open(&j, '{');
    cli_put(cli, &j, "name", name);
    berth_json_put_str(&j, "kind", w->agent ? "agent" : w->run || w->lease ? "run" : "operator");
    berth_json_put_str(&j, "companyId", w->instance ? NULL : cli->company_id);
    berth_json_open_in(&j, "permissions", '[');
    for (int i = 0; i < w->allow.count; i++)
        berth_json_put_str(&j, NULL, w->allow.items[i]);
    berth_json_close(&j, ']');
    cli_put(cli, &j, "agentId", w->agent);
    cli_put(cli, &j, "runId", w->run);
    cli_put(cli, &j, "leaseId", w->lease);
    if (w->ttl)
        berth_json_put_int(&j, "ttlMs", w->ttl_ms);
    berth_json_close(&j, '}');
}

/* The file must be new: a process that has an old one open would see the token. */
static int write_file(struct cli *cli, int fd, const char *path, const char *token)
{
    int rc = berth_fs_write_all(fd, token, strlen(token), &cli->err);
    if (rc == BERTH_OK)
        rc = berth_fs_write_all(fd, "\n", 1, &cli->err);
    if (rc == BERTH_OK && fsync(fd) < 0)
        rc = berth_fail_errno(&cli->err, "Cannot write %s", path);
    return rc;
}

/* Prints the new token; one that was written to a file is left out. */
static int show_made(struct cli *cli, const struct cli_answer *made, bool written)
{
    struct cli_answer shown = *made;
    const char *id = cli_text(made->json, "id"), *token = cli_text(made->json, "token");
    auto_json *rest = written ? berth_json_copy(made->json) : NULL;
    if (rest) {
        berth_json_remove(rest, "token");
        shown.text = berth_json_text_in(&cli->arena, rest);
    }
    if (cli->json || cli->quiet)
        return cli_print_one(cli, &shown, written ? id : token, NULL);
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    buf.secret = true;
    cli_put_lines(cli, &buf, made->json, lines);
    if (!written)
        cli_field(cli, &buf, "token", token);
    return cli_print(cli, &buf);
}

static int token_create(struct cli *cli, int argc, char **argv)
{
    struct wishes w = {0};
    const struct cli_option options[] = {{"allow", .texts = &w.allow},
                                         {"instance", .flag = &w.instance},
                                         {"agent", &w.agent},
                                         {"run", &w.run},
                                         {"lease", &w.lease},
                                         {"ttl", &w.ttl},
                                         {"out", &w.out},
                                         {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0 || read_wishes(cli, &w) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if ((w.run && cli_find_id(cli, "run", w.run, &w.run) < 0) ||
        (w.lease && cli_find_id(cli, "lease", w.lease, &w.lease) < 0))
        return cli_fail(cli);
    auto_close int fd =
        w.out ? open(w.out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (w.out && fd < 0) {
        (void)berth_fail_errno(&cli->err, "Cannot make %s", w.out);
        return cli_fail(cli);
    }
    auto_buf body = CLI_BODY_INIT;
    struct cli_answer made;
    write_body(cli, &w, argv[0], &body);
    int rc = cli_call(cli, &made, "POST", &body, "/api/tokens");
    const char *token = cli_text(made.json, "token");
    if (rc == BERTH_OK && !token)
        rc = cli_not_understood(cli);
    if (rc == BERTH_OK && w.out)
        rc = write_file(cli, fd, w.out, token);
    if (rc < 0) {
        if (w.out)
            (void)unlink(w.out);
        return cli_fail(cli);
    }
    status = show_made(cli, &made, w.out != NULL);
    if (!w.out && !cli->quiet && status == CLI_OK)
        (void)fputs("berth: the token is not shown again: keep it in a file that only you read\n",
                    stderr);
    return status;
}

/* --- the others --- */

static int token_list(struct cli *cli, int argc, char **argv)
{
    const char *limit = NULL;
    bool all = false;
    int rows;
    const struct cli_option options[] = {{"all", .flag = &all}, {"limit", &limit}, {0}};
    struct cli_answer found;
    int status = cli_start(cli, argc, argv, options, 0, 0);
    if (status == CLI_OK)
        status = cli_limit(cli, limit, &rows);
    if (status != CLI_OK)
        return status;
    if (cli_get(cli, &found, "/api/tokens?limit=%d&all=%s%s%s", rows, all ? "true" : "false",
                cli->company ? "&companyId=" : "", cli->company ? cli->company_id : "") < 0)
        return cli_fail(cli);
    cli_say_cut(cli, &found, rows);
    return cli_print_list(cli, &found, columns);
}

static int token_revoke(struct cli *cli, int argc, char **argv)
{
    const char *id;
    struct cli_answer token;
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "token", argv[0], &id) < 0 ||
        cli_call(cli, &token, "DELETE", NULL, "/api/tokens/%s", id) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, &token, id, lines);
}

const struct cli_command cli_token_commands[] = {
    {"token", "create",
     "NAME [--allow PERMISSION]... [--instance | --agent ID | --run ID --lease ID] [--ttl 30d]"
     " [--out FILE]",
     "make a token for the daemon; it is shown once", token_create},
    {"token", "list", "[--all] [--limit N]", "tokens that are of use; --all shows the others, too",
     token_list},
    {"token", "revoke", "ID", "end a token, at once", token_revoke},
    {0},
};
