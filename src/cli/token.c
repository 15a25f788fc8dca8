/* SPDX-License-Identifier: Apache-2.0
 * src/cli/token.c - berth token ...: who may speak to a daemon. A token is shown once, or written
 * to a file that only its owner reads. */
#include "core/token.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/cli.h"
#include "os/fs.h"

static void json(struct berth_json_writer *w, const void *item)
{
    berth_token_json(w, item);
}

static const char *permissions_of(struct cli *cli, const struct berth_token *t)
{
    const char *all = NULL;
    for (int i = 0; berth_permissions[i]; i++)
        if (t->permissions & 1U << i)
            all = all ? berth_arena_printf(&cli->arena, "%s, %s", all, berth_permissions[i])
                      : berth_permissions[i];
    return all ? all : "to look";
}

static void people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct berth_token *t = item;
    cli_field(cli, buf, "id", t->id);
    cli_field(cli, buf, "name", t->name);
    cli_field(cli, buf, "kind", berth_token_kinds.names[t->kind]);
    cli_field(cli, buf, "company", t->company_id ? t->company_id : "all");
    cli_field(cli, buf, "may", permissions_of(cli, t));
    cli_field(cli, buf, "agent", t->agent_id);
    cli_field(cli, buf, "run", t->run_id);
    cli_field(cli, buf, "lease", t->lease_id);
    cli_field(cli, buf, "expires", t->expires_at_ms ? cli_when(cli, t->expires_at_ms) : NULL);
    cli_field(cli, buf, "revoked", t->revoked_at_ms ? cli_when(cli, t->revoked_at_ms) : NULL);
    cli_field(cli, buf, "used", t->last_used_at_ms ? cli_when(cli, t->last_used_at_ms) : NULL);
}

static void row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_token *t = item;
    cells[0] = t->id;
    cells[1] = t->name;
    cells[2] = berth_token_kinds.names[t->kind];
    cells[3] = t->company_id ? t->company_id : "all";
    cells[4] = permissions_of(cli, t);
    cells[5] = t->last_used_at_ms ? cli_when(cli, t->last_used_at_ms) : NULL;
    cells[6] = t->revoked_at_ms   ? "revoked"
               : t->expires_at_ms ? cli_when(cli, t->expires_at_ms)
                                  : NULL;
}

static const struct cli_column columns[] = {{"ID", CLI_ID},      {"NAME", 0}, {"KIND", 0},
                                            {"COMPANY", CLI_ID}, {"MAY", 0},  {"USED", 0},
                                            {"EXPIRES", 0},      {0}};
static const struct cli_view view = {columns, row, json};

/* --- create --- */

struct wishes {
    struct berth_token_request request;
    struct berth_list allow;
    const char *ttl, *agent, *out;
    bool instance;
};

static int read_wishes(struct cli *cli, struct wishes *w)
{
    struct berth_token_request *r = &w->request;
    if (w->ttl && !berth_time_parse_duration(w->ttl, &r->ttl_ms))
        return cli_usage(cli, "--ttl \"%s\" is no time: write 90s, 15m, 1h or 30d", w->ttl);
    if (w->agent && (r->run_id || r->lease_id))
        return cli_usage(cli, "a token is for an agent or for a run");
    for (int i = 0; i < w->allow.count; i++) {
        int bit = 0;
        while (berth_permissions[bit] && strcmp(berth_permissions[bit], w->allow.items[i]) != 0)
            bit++;
        if (!berth_permissions[bit])
            return cli_usage(cli,
                             "--allow \"%s\" is none of: environments:manage, secrets:manage, "
                             "instance:manage",
                             (const char *)w->allow.items[i]);
        r->permissions |= 1U << bit;
    }
    r->kind = w->agent                   ? BERTH_TOKEN_AGENT
              : r->run_id || r->lease_id ? BERTH_TOKEN_RUN
                                         : BERTH_TOKEN_OPERATOR;
    r->agent_id = w->agent;
    return CLI_OK;
}

/* The file must be new: whoever has an old one open would see the token. */
static int write_file(struct cli *cli, int fd, const char *path, const struct berth_locked *text)
{
    int rc = berth_fs_write_all(fd, text->bytes, text->len, &cli->err);
    if (rc == BERTH_OK)
        rc = berth_fs_write_all(fd, "\n", 1, &cli->err);
    if (rc == BERTH_OK && fsync(fd) < 0)
        rc = berth_fail_errno(&cli->err, "Cannot write %s", path);
    return rc;
}

static int show_made(struct cli *cli, const struct berth_token *made,
                     const struct berth_locked *text, bool written)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    char shown[BERTH_TOKEN_TEXT_SIZE] = "";
    buf.secret = true;
    memcpy(shown, text->bytes, text->len < sizeof shown ? text->len : sizeof shown - 1);
    if (cli->json) {
        berth_json_open(&w, '{');
        if (!written)
            berth_json_put_str(&w, "token", shown);
        berth_token_fields(&w, made);
        berth_json_close(&w, '}');
    } else if (cli->quiet) {
        berth_buf_puts(&buf, written ? made->id : shown);
    } else {
        people(cli, &buf, made);
        if (!written)
            cli_field(cli, &buf, "token", shown);
    }
    explicit_bzero(shown, sizeof shown);
    int status = cli_print(cli, &buf);
    if (!written && !cli->quiet && status == CLI_OK)
        (void)fputs("berth: the token is not shown again: keep it in a file that only you read\n",
                    stderr);
    return status;
}

static int create(struct cli *cli, int argc, char **argv)
{
    struct wishes w = {.request = BERTH_TOKEN_REQUEST_INIT};
    const struct cli_option options[] = {{"allow", .texts = &w.allow},
                                         {"instance", .flag = &w.instance},
                                         {"agent", &w.agent},
                                         {"run", &w.request.run_id},
                                         {"lease", &w.request.lease_id},
                                         {"ttl", &w.ttl},
                                         {"out", &w.out},
                                         {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0 || read_wishes(cli, &w) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_token_request *r = &w.request;
    r->name = argv[0];
    r->actor = &cli->actor;
    r->company_id = w.instance ? NULL : cli->company_id;
    if ((r->run_id && cli_find_id(cli, BERTH_KIND_RUN, r->run_id, &r->run_id) < 0) ||
        (r->lease_id && cli_find_id(cli, BERTH_KIND_LEASE, r->lease_id, &r->lease_id) < 0))
        return cli_fail(cli);
    auto_close int fd =
        w.out ? open(w.out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (w.out && fd < 0) {
        (void)berth_fail_errno(&cli->err, "Cannot make %s", w.out);
        return cli_fail(cli);
    }
    auto_locked text = BERTH_LOCKED_INIT;
    struct berth_token *made;
    int rc = berth_token_create(cli->b, &cli->arena, r, &made, &text, &cli->err);
    if (rc == BERTH_OK && w.out)
        rc = write_file(cli, fd, w.out, &text);
    if (rc < 0) {
        if (w.out)
            (void)unlink(w.out);
        return cli_fail(cli);
    }
    return show_made(cli, made, &text, w.out != NULL);
}

/* --- the others --- */

static int list(struct cli *cli, int argc, char **argv)
{
    bool all = false;
    const struct cli_option options[] = {{"all", .flag = &all}, {0}};
    int status = cli_start(cli, argc, argv, options, 0, 0);
    if (status != CLI_OK)
        return status;
    struct berth_list found;
    const char *company_id = cli->company && *cli->company ? cli->company_id : NULL;
    if (berth_token_list(cli->b, &cli->arena, company_id, all, &found, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_list(cli, &found, &view);
}

static int revoke_one(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 1, 1);
    if (status != CLI_OK)
        return status;
    const char *id;
    struct berth_token *t;
    if (berth_find_id(cli->b, &cli->arena, BERTH_KIND_TOKEN, NULL, argv[0], &id, &cli->err) < 0 ||
        berth_token_revoke(cli->b, &cli->arena, id, &cli->actor, &t, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_one(cli, t->id, t, json, people);
}

const struct cli_command cli_token_commands[] = {
    {"token", "create",
     "NAME [--allow PERMISSION]... [--instance | --agent ID | --run ID --lease ID] [--ttl 30d]"
     " [--out FILE]",
     "let somebody speak to the daemon; the token is shown once", create},
    {"token", "list", "[--all]", "tokens that are of use; --all shows the others, too", list},
    {"token", "revoke", "ID", "end a token, at once", revoke_one},
    {0},
};
