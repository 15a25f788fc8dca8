/* SPDX-License-Identifier: Apache-2.0
 * src/cli/secret.c - berth secret: stores and rotates secrets; their values are never printed. */
#include "core/secret/secret.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/prompt.h"
#include "cli/table.h"
#include "crypto/mask.h"

static int secret_print(struct cli *cli, const struct cli_answer *secret)
{
    static const struct cli_cell lines[] = {{"id", "id"},
                                            {"name", "name"},
                                            {"key", "key"},
                                            {"description", "description"},
                                            {"status", "status", CLI_STATUS},
                                            {"version", "latestVersion"},
                                            {"used by", "referenceCount"},
                                            {"made for", "environmentId"},
                                            {"resolved", "lastResolvedAt", CLI_WHEN, "-"},
                                            {"rotated", "lastRotatedAt", CLI_WHEN, "-"},
                                            {"created", "createdAt", CLI_WHEN, "-"},
                                            {0}};
    return cli_print_one(cli, secret, cli_text(secret->json, "id"), lines);
}

/* Warns about a value that is too short to be masked in output. */
static void warn_short(const struct cli *cli, const struct berth_locked *value)
{
    if (value->len < BERTH_MASKED_BYTES_MIN && !cli->quiet)
        (void)fprintf(stderr,
                      "berth: a value under %d bytes cannot be masked in the output of commands\n",
                      BERTH_MASKED_BYTES_MIN);
}

/* Writes the value as text, or as base64 when it is not UTF-8. */
static void put_value(struct berth_json_writer *w, const struct berth_locked *value)
{
    if (!memchr(value->bytes, '\0', value->len) &&
        berth_utf8_valid_bytes(value->bytes, value->len)) {
        berth_json_put_bytes(w, "value", value->bytes, value->len);
        return;
    }
    auto_locked text = BERTH_LOCKED_INIT;
    struct berth_error none;
    if (berth_locked_new(BERTH_BASE64_SIZE(value->len), &text, &none) < 0) {
        w->buf->failed = true;
        return;
    }
    berth_base64_encode(value->bytes, value->len, text.bytes);
    berth_json_put_str(w, "valueBase64", text.bytes);
}

static int secret_create(struct cli *cli, int argc, char **argv)
{
    const char *from = NULL, *key = NULL, *description = NULL;
    const struct cli_option options[] = {
        {"from", &from}, {"key", &key}, {"description", &description}, {0}};
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status != CLI_OK)
        return status;
    auto_locked value = BERTH_LOCKED_INIT;
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    struct cli_answer made;
    body.secret = true;
    if (cli_read_secret(cli, from, "Value", &value) < 0)
        return cli_fail(cli);
    berth_json_open(&w, '{');
    cli_put(cli, &w, "name", argv[0]);
    cli_put(cli, &w, "key", key);
    cli_put(cli, &w, "description", description);
    put_value(&w, &value);
    berth_json_close(&w, '}');
    if (cli_call(cli, &made, "POST", &body, "/api/companies/%s/secrets", cli->company_id) < 0)
        return cli_fail(cli);
    warn_short(cli, &value);
    return secret_print(cli, &made);
}

/* Connects, and finds the secret that argv[0] names. */
static int secret_open(struct cli *cli, int argc, char **argv, const struct cli_option *options,
                       struct cli_answer *out)
{
    int status = cli_start(cli, argc, argv, options, 1, 1);
    if (status == CLI_OK && cli_find_secret(cli, argv[0], &out->json) < 0)
        status = cli_fail(cli);
    if (status == CLI_OK)
        out->text = berth_json_text_in(&cli->arena, out->json);
    return status;
}

static int secret_rotate(struct cli *cli, int argc, char **argv)
{
    const char *from = NULL;
    const struct cli_option options[] = {{"from", &from}, {0}};
    struct cli_answer secret;
    int status = secret_open(cli, argc, argv, options, &secret);
    if (status != CLI_OK)
        return status;
    auto_locked value = BERTH_LOCKED_INIT;
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    body.secret = true;
    if (cli_read_secret(cli, from, "New value", &value) < 0)
        return cli_fail(cli);
    berth_json_open(&w, '{');
    put_value(&w, &value);
    berth_json_close(&w, '}');
    if (cli_call(cli, &secret, "POST", &body, "/api/secrets/%s/rotate",
                 cli_text(secret.json, "id")) < 0)
        return cli_fail(cli);
    warn_short(cli, &value);
    return secret_print(cli, &secret);
}

static int secret_update(struct cli *cli, int argc, char **argv)
{
    const char *name = NULL, *description = NULL, *as = NULL;
    const struct cli_option options[] = {
        {"name", &name}, {"description", &description}, {"status", &as}, {0}};
    struct cli_answer secret;
    int ignored;
    int status = secret_open(cli, argc, argv, options, &secret);
    if (status == CLI_OK)
        status = cli_choice(cli, "status", as, &berth_secret_statuses, &ignored);
    if (status != CLI_OK)
        return status;
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    berth_json_open(&w, '{');
    cli_put(cli, &w, "name", name);
    cli_put(cli, &w, "description", description);
    cli_put(cli, &w, "status", as);
    berth_json_close(&w, '}');
    if (cli_call(cli, &secret, "PATCH", &body, "/api/secrets/%s", cli_text(secret.json, "id")) < 0)
        return cli_fail(cli);
    return secret_print(cli, &secret);
}

static int secret_show(struct cli *cli, int argc, char **argv)
{
    struct cli_answer secret;
    int status = secret_open(cli, argc, argv, NULL, &secret);
    return status == CLI_OK ? secret_print(cli, &secret) : status;
}

static int secret_delete(struct cli *cli, int argc, char **argv)
{
    struct cli_answer secret, done;
    int status = secret_open(cli, argc, argv, NULL, &secret);
    if (status != CLI_OK)
        return status;
    if (cli_call(cli, &done, "DELETE", NULL, "/api/secrets/%s", cli_text(secret.json, "id")) < 0)
        return cli_fail(cli);
    return secret_print(cli, &secret);
}

/* --- lists --- */

static int secret_list(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"ID", "id", CLI_ID},
                                              {"NAME", "name"},
                                              {"STATUS", "status", CLI_STATUS},
                                              {"VERSION", "latestVersion"},
                                              {"USED BY", "referenceCount"},
                                              {"RESOLVED", "lastResolvedAt", CLI_WHEN},
                                              {0}};
    struct cli_answer found;
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    return cli_get(cli, &found, "/api/companies/%s/secrets", cli->company_id) < 0
               ? cli_fail(cli)
               : cli_print_list(cli, &found, columns);
}

static int secret_usage(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"TARGET", "targetId", CLI_ID},
                                              {"TYPE", "targetType"},
                                              {"AT", "configPath"},
                                              {"VERSION", "versionSelector"},
                                              {0}};
    struct cli_answer found;
    int status = secret_open(cli, argc, argv, NULL, &found);
    if (status != CLI_OK)
        return status;
    if (cli_get(cli, &found, "/api/secrets/%s/usage", cli_text(found.json, "id")) < 0)
        return cli_fail(cli);
    found.json = berth_json_get(found.json, "bindings");
    found.text = berth_json_text_in(&cli->arena, found.json);
    return cli_print_list(cli, &found, columns);
}

static const char *consumer_of(struct cli *cli, const struct berth_json *event)
{
    const char *type = cli_text(event, "consumerType"), *id = cli_text(event, "consumerId");
    return type && id ? berth_arena_printf(&cli->arena, "%s %s", type, id) : NULL;
}

static int secret_events(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"ID", "id", CLI_NUMBER},
                                              {"WHEN", "createdAt", CLI_WHEN},
                                              {"OUTCOME", "outcome", CLI_STATUS},
                                              {"WHO", .text = consumer_of},
                                              {"AT", "configPath"},
                                              {"WHY", "errorCode"},
                                              {0}};
    const char *limit = NULL, *before = NULL;
    int64_t ignored;
    int rows;
    const struct cli_option options[] = {{"limit", &limit}, {"before", &before}, {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0 || cli_limit(cli, limit, &rows) != CLI_OK)
        return CLI_USAGE;
    if (before && !cli_number(before, 1, INT64_MAX, &ignored))
        return cli_usage(cli, "--before is the id of an event");
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    const struct berth_json *secret;
    struct cli_answer found;
    /* Events outlive their secret, so a whole id need not be found. */
    int rc = cli_find_secret(cli, argv[0], &secret);
    const char *id = rc == BERTH_OK ? cli_text(secret, "id") : argv[0];
    if ((rc < 0 && !berth_id_valid(argv[0])) ||
        cli_get(cli, &found, "/api/secrets/%s/access-events?limit=%d%s%s", id, rows,
                before ? "&before=" : "", before ? before : "") < 0)
        return cli_fail(cli);
    cli_say_cut(cli, &found, rows);
    return cli_print_list(cli, &found, columns);
}

static int secret_rotate_key(struct cli *cli, int argc, char **argv)
{
    struct cli_answer done;
    int status = cli_start(cli, argc, argv, NULL, 0, 0);
    if (status != CLI_OK)
        return status;
    if (cli_call(cli, &done, "POST", NULL, "/api/secret-key/rotate") < 0)
        return cli_fail(cli);
    const char *key = cli_text(done.json, "keyId");
    int64_t versions = berth_json_int(berth_json_get(done.json, "versions"));
    const char *file = cli_text(done.json, "keyFile");
    if (cli->json || cli->quiet || !key || !file)
        return cli_print_text(cli, cli->json ? done.text : cli->quiet ? key : NULL);
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    berth_buf_printf(&buf, "%" PRId64 " version%s sealed with the key %s now. Keep a copy of %s.",
                     versions, versions == 1 ? " is" : "s are", cli_clean(cli, key),
                     cli_clean(cli, file));
    return cli_print(cli, &buf);
}

const struct cli_command cli_secret_commands[] = {
    {"secret", "create", "NAME [--from FILE|-] [--key KEY] [--description TEXT]",
     "store a value, from a file, standard input or a prompt", secret_create},
    {"secret", "list", "", "the secrets, without their values", secret_list},
    {"secret", "show", "NAME|ID", "one secret, without its value", secret_show},
    {"secret", "rotate", "NAME|ID [--from FILE|-]", "a new value; the old one stays as a version",
     secret_rotate},
    {"secret", "update",
     "NAME|ID [--name TEXT] [--description TEXT] [--status active|disabled|archived]",
     "change its texts or status; an inactive secret is not handed out", secret_update},
    {"secret", "delete", "NAME|ID", "delete it; refused while a config or a lease needs it",
     secret_delete},
    {"secret", "usage", "NAME|ID", "which configs name it", secret_usage},
    {"secret", "events", "NAME|ID [--limit N] [--before ID]",
     "who asked for its value, and what they got", secret_events},
    {"secret", "rotate-key", "", "seal all secrets with a new key; goes on where it was stopped",
     secret_rotate_key},
    {0},
};
