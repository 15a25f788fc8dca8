/* SPDX-License-Identifier: Apache-2.0
 * src/cli/secret.c - berth secret ...: values go in, and never come out here. */
#include "core/secret.h"

#include <inttypes.h>

#include "base/id.h"
#include "cli/cli.h"
#include "core/vault.h"
#include "crypto/mask.h"

static void json(struct berth_json_writer *w, const void *item)
{
    berth_secret_json(w, item);
}

static void people(struct cli *cli, struct berth_buf *buf, const void *item)
{
    const struct berth_secret *s = item;
    char number[24];
    cli_field(cli, buf, "id", s->id);
    cli_field(cli, buf, "name", s->name);
    cli_field(cli, buf, "key", s->key);
    cli_field(cli, buf, "description", s->description);
    cli_field_status(cli, buf, "status", berth_secret_statuses.names[s->status]);
    (void)snprintf(number, sizeof number, "%" PRId64, s->latest_version);
    cli_field(cli, buf, "version", number);
    (void)snprintf(number, sizeof number, "%" PRId64, s->reference_count);
    cli_field(cli, buf, "used by", number);
    cli_field(cli, buf, "made for", s->environment_id);
    cli_field(cli, buf, "resolved", cli_when(cli, s->last_resolved_at_ms));
    cli_field(cli, buf, "rotated", cli_when(cli, s->last_rotated_at_ms));
    cli_field(cli, buf, "created", cli_when(cli, s->created_at_ms));
}

static int show(struct cli *cli, const struct berth_secret *s)
{
    return cli_print_one(cli, s->id, s, json, people);
}

/* Too short to be told from other text where a command prints it. */
static void warn_short(const struct cli *cli, const struct berth_locked *value)
{
    if (value->len < BERTH_MASKED_BYTES_MIN && !cli->quiet)
        (void)fprintf(stderr,
                      "berth: a value under %d bytes cannot be masked in the output of commands\n",
                      BERTH_MASKED_BYTES_MIN);
}

static int create(struct cli *cli, int argc, char **argv)
{
    struct berth_secret_input input = {.actor = &cli->actor};
    const char *from = NULL;
    const struct cli_option options[] = {
        {"from", &from}, {"key", &input.key}, {"description", &input.description}, {0}};
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status != CLI_OK)
        return status;
    auto_locked value = BERTH_LOCKED_INIT;
    struct berth_secret *s;
    input.name = argv[0];
    input.company_id = cli->company_id;
    if (cli_read_secret(cli, from, "Value", &value) < 0 ||
        berth_secret_create(cli->b, &cli->arena, &input, value.bytes, value.len, &s, &cli->err) < 0)
        return cli_fail(cli);
    warn_short(cli, &value);
    return show(cli, s);
}

/* Opens the runtime and finds the one secret that is named. */
static int open_one(struct cli *cli, int argc, char **argv, const struct cli_option *options,
                    struct berth_secret **out)
{
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status == CLI_OK && cli_find_secret(cli, argv[0], out) < 0)
        status = cli_fail(cli);
    return status;
}

static int rotate(struct cli *cli, int argc, char **argv)
{
    const char *from = NULL;
    const struct cli_option options[] = {{"from", &from}, {0}};
    struct berth_secret *s;
    int status = open_one(cli, argc, argv, options, &s);
    if (status != CLI_OK)
        return status;
    auto_locked value = BERTH_LOCKED_INIT;
    if (cli_read_secret(cli, from, "New value", &value) < 0 ||
        berth_secret_rotate(cli->b, &cli->arena, s->id, value.bytes, value.len, &cli->actor, &s,
                            &cli->err) < 0)
        return cli_fail(cli);
    warn_short(cli, &value);
    return show(cli, s);
}

static int update(struct cli *cli, int argc, char **argv)
{
    struct berth_secret_input input = {.actor = &cli->actor};
    const char *as = NULL;
    const struct cli_option options[] = {
        {"name", &input.name}, {"description", &input.description}, {"status", &as}, {0}};
    struct berth_secret *s;
    int chosen = 0;
    int status = open_one(cli, argc, argv, options, &s);
    if (status == CLI_OK)
        status = cli_choice(cli, "status", as, &berth_secret_statuses, &chosen);
    if (status != CLI_OK)
        return status;
    input.status = (enum berth_secret_status)chosen;
    input.fields = (input.name ? BERTH_SECRET_NAME : 0u) |
                   (input.description ? BERTH_SECRET_DESCRIPTION : 0u) |
                   (as ? BERTH_SECRET_STATUS : 0u);
    if (berth_secret_update(cli->b, &cli->arena, s->id, &input, &s, &cli->err) < 0)
        return cli_fail(cli);
    return show(cli, s);
}

static int show_one(struct cli *cli, int argc, char **argv)
{
    struct berth_secret *s;
    int status = open_one(cli, argc, argv, NULL, &s);
    return status == CLI_OK ? show(cli, s) : status;
}

static int delete (struct cli *cli, int argc, char **argv)
{
    struct berth_secret *s;
    int status = open_one(cli, argc, argv, NULL, &s);
    if (status != CLI_OK)
        return status;
    if (berth_secret_delete(cli->b, &cli->arena, s->id, &cli->actor, &s, &cli->err) < 0)
        return cli_fail(cli);
    return show(cli, s);
}

/* --- lists --- */

static void row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_secret *s = item;
    cells[0] = s->id;
    cells[1] = s->name;
    cells[2] = berth_secret_statuses.names[s->status];
    cells[3] = berth_arena_printf(&cli->arena, "%" PRId64, s->latest_version);
    cells[4] = berth_arena_printf(&cli->arena, "%" PRId64, s->reference_count);
    cells[5] = cli_when(cli, s->last_resolved_at_ms);
}

static int list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_column columns[] = {
        {"ID", CLI_ID},  {"NAME", 0}, {"STATUS", CLI_STATUS}, {"VERSION", 0}, {"USED BY", 0},
        {"RESOLVED", 0}, {0}};
    static const struct cli_view view = {columns, row, json};
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    struct berth_list found;
    if (berth_secret_list(cli->b, &cli->arena, cli->company_id, &found, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_list(cli, &found, &view);
}

static void binding_json(struct berth_json_writer *w, const void *item)
{
    berth_binding_json(w, item);
}

static void binding_row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_binding *b = item;
    cells[0] = b->target_id;
    cells[1] = b->target_type;
    cells[2] = b->config_path;
    cells[3] = b->version ? berth_arena_printf(&cli->arena, "%" PRId64, b->version) : "latest";
}

static int usage(struct cli *cli, int argc, char **argv)
{
    static const struct cli_column columns[] = {
        {"TARGET", CLI_ID}, {"TYPE", 0}, {"AT", 0}, {"VERSION", 0}, {0}};
    static const struct cli_view view = {columns, binding_row, binding_json};
    struct berth_secret *s;
    struct berth_list found;
    int status = open_one(cli, argc, argv, NULL, &s);
    if (status != CLI_OK)
        return status;
    if (berth_secret_usage(cli->b, &cli->arena, s->id, &found, &cli->err) < 0)
        return cli_fail(cli);
    return cli_print_list(cli, &found, &view);
}

static void event_json(struct berth_json_writer *w, const void *item)
{
    berth_secret_event_json(w, item);
}

static void event_row(struct cli *cli, const void *item, const char **cells)
{
    const struct berth_secret_event *e = item;
    cells[0] = berth_arena_printf(&cli->arena, "%" PRId64, e->id);
    cells[1] = cli_when(cli, e->created_at_ms);
    cells[2] = e->success ? "success" : "failure";
    cells[3] = berth_arena_printf(&cli->arena, "%s %s", e->consumer_type, e->consumer_id);
    cells[4] = e->config_path;
    cells[5] = e->error_code;
}

static int events(struct cli *cli, int argc, char **argv)
{
    static const struct cli_column columns[] = {
        {"ID", CLI_NUMBER}, {"WHEN", 0}, {"OUTCOME", CLI_STATUS}, {"WHO", 0}, {"AT", 0},
        {"WHY", 0},         {0}};
    static const struct cli_view view = {columns, event_row, event_json};
    const char *limit = NULL, *id;
    int rows;
    const struct cli_option options[] = {{"limit", &limit}, {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0 || cli_limit(cli, limit, &rows) != CLI_OK)
        return CLI_USAGE;
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    struct berth_secret *s;
    struct berth_list found;
    /* Events outlive their secret: a whole id serves without one. */
    int rc = cli_find_secret(cli, argv[0], &s);
    id = rc == BERTH_OK ? s->id : argv[0];
    if ((rc < 0 && !berth_id_valid(argv[0])) ||
        berth_secret_events(cli->b, &cli->arena, id, rows, &found, &cli->err) < 0)
        return cli_fail(cli);
    cli_say_cut(cli, found.count, rows);
    return cli_print_list(cli, &found, &view);
}

static int rotate_key(struct cli *cli, int argc, char **argv)
{
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    struct berth_key_change done;
    if (berth_secret_change_key(cli->b, &cli->actor, &done, &cli->err) < 0)
        return cli_fail(cli);
    auto_buf buf = BERTH_BUF_INIT(1024);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->quiet && !cli->json) {
        berth_buf_puts(&buf, done.to);
    } else if (cli->json) {
        berth_json_open(&w, '{');
        berth_json_put_str(&w, "fromKeyId", done.from);
        berth_json_put_str(&w, "keyId", done.to);
        berth_json_put_int(&w, "versions", done.versions);
        berth_json_close(&w, '}');
    } else {
        berth_buf_printf(&buf,
                         "%" PRId64 " version%s sealed with the key %s now. Keep a copy of %s.",
                         done.versions, done.versions == 1 ? " is" : "s are", done.to,
                         berth_vault_path(cli->b->vault));
    }
    return cli_print(cli, &buf);
}

const struct cli_command cli_secret_commands[] = {
    {"secret", "create", "NAME [--from FILE|-] [--key KEY] [--description TEXT]",
     "store a value, from a file, standard input or a prompt", create},
    {"secret", "list", "", "the secrets, without their values", list},
    {"secret", "show", "NAME|ID", "one secret, without its value", show_one},
    {"secret", "rotate", "NAME|ID [--from FILE|-]", "a new value; the old one stays as a version",
     rotate},
    {"secret", "update",
     "NAME|ID [--name TEXT] [--description TEXT] [--status active|disabled|archived]",
     "change its words; one that is not active is given to nobody", update},
    {"secret", "delete", "NAME|ID", "delete it; refused while a config or a lease needs it",
     delete},
    {"secret", "usage", "NAME|ID", "which configs name it", usage},
    {"secret", "events", "NAME|ID [--limit N]", "who asked for its value, and what they got",
     events},
    {"secret", "rotate-key", "", "seal all secrets with a new key; goes on where it was stopped",
     rotate_key},
    {0},
};
