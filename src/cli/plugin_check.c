/* SPDX-License-Identifier: Apache-2.0
 * src/cli/plugin_check.c - berth plugin check: the score card of a worker. No store is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/time.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "core/plugin/manifest.h"
#include "os/engine.h"
#include "os/fs.h"
#include "plugin/check.h"
#include "plugin/ops.h"

#define READ_MS 30000 /* to read a package and its manifest */
#define CARD_BYTES_MAX (4 * 1024 * 1024)

struct card {
    struct cli *cli;
    struct berth_buf json; /* the members of "checks" */
    struct berth_json_writer writer;
    int passed, failed, skipped;
};

static void on_check(void *ctx, const struct berth_check_result *r)
{
    static const char *const words[] = {"passed", "failed", "skipped"};
    struct card *card = ctx;
    int *counts[] = {&card->passed, &card->failed, &card->skipped};
    ++*counts[r->outcome];
    if (card->cli->json) {
        berth_json_open(&card->writer, '{');
        berth_json_put_str(&card->writer, "name", r->name);
        berth_json_put_str(&card->writer, "about", r->about);
        berth_json_put_str(&card->writer, "outcome", words[r->outcome]);
        berth_json_put_bytes(&card->writer, "detail", r->detail, strlen(r->detail));
        berth_json_close(&card->writer, '}');
    } else if (!card->cli->quiet || r->outcome == BERTH_CHECK_FAILED) {
        (void)printf("%-8s %-16s %s\n", words[r->outcome], r->name, r->about);
        if (r->outcome == BERTH_CHECK_FAILED)
            (void)printf("%-8s %-16s -> %s\n", "", "", cli_clean(card->cli, r->detail));
        (void)fflush(stdout); /* the next check may take a while */
    }
}

static void check_manifest(struct card *card, const struct berth_json *manifest)
{
    struct cli *cli = card->cli;
    struct berth_issues issues = {.arena = &cli->arena}, warnings = {.arena = &cli->arena};
    struct berth_manifest *read;
    struct berth_error err = {0};
    bool ok =
        berth_manifest_read(&cli->arena, manifest, &issues, &warnings, &read, &err) == BERTH_OK;
    struct berth_check_result result = {.name = "manifest",
                                        .about = "says what it is",
                                        .outcome = ok ? BERTH_CHECK_PASSED : BERTH_CHECK_FAILED,
                                        .detail = ok ? "" : err.message};
    on_check(card, &result);
}

static int print_card(struct card *card)
{
    int status = card->failed ? CLI_FAILED : CLI_OK;
    if (!card->cli->json) {
        (void)printf("%d passed, %d failed, %d skipped\n", card->passed, card->failed,
                     card->skipped);
        return status;
    }
    auto_buf out = BERTH_BUF_INIT(CARD_BYTES_MAX);
    struct berth_json_writer w = {.buf = &out};
    berth_json_close(&card->writer, ']');
    berth_json_open(&w, '{');
    berth_json_put_raw(&w, "checks", berth_buf_str(&card->json));
    berth_json_put_int(&w, "passed", card->passed);
    berth_json_put_int(&w, "failed", card->failed);
    berth_json_put_int(&w, "skipped", card->skipped);
    berth_json_close(&w, '}');
    int printed = cli_print(card->cli, &out);
    return printed == CLI_OK ? status : printed;
}

static int check_package(struct cli *cli, struct card *card, struct berth_engine *engine,
                         const char *package, const char *scratch,
                         struct berth_check_request *request)
{
    struct berth_package read = {0};
    struct berth_package_call call = {.deadline_ms = berth_time_mono_ms() + READ_MS,
                                      .cancel_fd = -1,
                                      .arena = &cli->arena,
                                      .engine = engine};
    struct berth_worker_spec cage = {.state = scratch, .unconfined = cli_allows_unconfined()};
    int rc = berth_builtins.packages->read(&call, package, &cage, &read, &cli->err);
    auto_json *manifest = read.manifest;
    if (rc < 0)
        return cli_fail(cli);
    check_manifest(card, manifest);
    request->package = read.path;
    request->manifest = manifest;
    request->scratch = scratch;
    request->unconfined = cage.unconfined;
    if (berth_plugin_check(engine, request, on_check, card, &cli->err) < 0)
        return cli_fail(cli);
    return print_card(card);
}

int cli_plugin_check(struct cli *cli, int argc, char **argv)
{
    const char *file = NULL;
    struct berth_list only = {0};
    const struct cli_option options[] = {
        {.name = "config", .text = &file}, {.name = "only", .texts = &only}, {0}};
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    auto_json *config = NULL;
    if (file && cli_read_object(cli, file, &config) < 0)
        return cli_fail(cli);
    (void)berth_list_add(&only, &cli->arena, NULL);
    const char *temporary = getenv("TMPDIR");
    char *scratch = berth_arena_printf(&cli->arena, "%s/berth-check.XXXXXX",
                                       temporary && *temporary ? temporary : "/tmp");
    struct berth_check_request request = {
        .config_json = config ? berth_json_canonical_in(&cli->arena, config) : "{}",
        .only = (const char *const *)(void *)only.items};
    if (berth_arena_check(&cli->arena, &cli->err) < 0)
        return cli_fail(cli);
    struct berth_engine *engine = NULL;
    struct card card = {.cli = cli, .json = BERTH_BUF_INIT(CARD_BYTES_MAX)};
    card.writer.buf = &card.json;
    berth_json_open(&card.writer, '[');
    if (!mkdtemp(scratch)) {
        (void)berth_fail_errno(&cli->err, "Cannot make %s", scratch);
        return cli_fail(cli);
    }
    int status = berth_engine_new(&engine, &cli->err) == BERTH_OK
                     ? check_package(cli, &card, engine, argv[0], scratch, &request)
                     : cli_fail(cli);
    berth_engine_free(engine);
    struct berth_error ignored;
    (void)berth_fs_remove_tree(scratch, &ignored);
    berth_buf_clear(&card.json);
    return status;
}
