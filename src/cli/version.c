/* SPDX-License-Identifier: Apache-2.0
 * src/cli/version.c - berth version. */
#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "store/migrate.h"

static int version_main(struct cli *cli, int argc, char **argv)
{
    if (cli_parse(cli, argc, argv, NULL, 0, 0) < 0)
        return CLI_USAGE;
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    if (cli->json) {
        berth_json_open(&w, '{');
        berth_json_put_str(&w, "version", BERTH_VERSION);
        berth_json_put_int(&w, "schemaVersion", berth_store_version());
        berth_json_close(&w, '}');
    } else {
        berth_buf_puts(&buf, "berth " BERTH_VERSION);
    }
    return cli_print(cli, &buf);
}

const struct cli_command cli_version_commands[] = {
    {"version", NULL, "", "the version of this program", version_main},
    {0},
};
