/* SPDX-License-Identifier: Apache-2.0
 * src/cli/sync.h - the options that describe a workspace, and what became of it. */
#ifndef BERTH_CLI_SYNC_H
#define BERTH_CLI_SYNC_H

#include <stdio.h>

#include <berth/run.h>

#include "base/json.h"
#include "cli/cli.h"

/* The options as they were given. */
struct cli_sync {
    const char *path;                  /* NULL: no workspace */
    struct berth_list exclude, assets; /* assets: "KEY=DIR" */
    const char *on_conflict, *branch, *adapter, *install, *detect;
    bool follow_links;
};
/* The rows of a table of options for them, but for the path. */
#define CLI_SYNC_OPTIONS(o)                                                                        \
    {"exclude", .texts = &(o)->exclude}, {"on-conflict", &(o)->on_conflict},                       \
        {"branch", &(o)->branch}, {"asset", .texts = &(o)->assets},                                \
        {"follow-links", .flag = &(o)->follow_links}, {"adapter", &(o)->adapter},                  \
        {"install", &(o)->install},                                                                \
    {                                                                                              \
        "detect", &(o)->detect                                                                     \
    }
#define CLI_SYNC_USAGE                                                                             \
    "[--exclude PATTERN]... [--on-conflict keep-both|remote|local|fail] [--branch NAME]"           \
    " [--asset KEY=DIR]... [--follow-links] [--adapter NAME] [--install COMMAND"                   \
    " [--detect PROGRAM]]"

/* Reads the options. The path becomes absolute. Returns CLI_OK, or CLI_USAGE after the error has
 * been printed. */
int cli_sync_read(struct cli *cli, struct cli_sync *options, struct berth_run_sync *out);
/* Shows how far a transfer of a workspace is. Zeroed at first. */
struct cli_progress {
    int64_t began_ms;
};
#define CLI_PROGRESS_SIZE 128
/* Writes "sending the workspace [####    ] 50% of 12.0 MB, 6 of 9 files, 3.1 MB/s". */
void cli_progress_text(struct cli_progress *p, const struct berth_workspace_progress *now,
                       char out[CLI_PROGRESS_SIZE]);
/* Writes a workspace as the API takes it. `key` NULL: its members, into an open object. */
void cli_sync_put(struct cli *cli, struct berth_json_writer *w, const char *key,
                  const struct berth_run_sync *sync);
/* Prints what became of a workspace, from its JSON; NULL: there was none. */
void cli_sync_say(struct cli *cli, FILE *to, const char *json);
/* Prints the same from an object. */
void cli_sync_say_object(struct cli *cli, FILE *to, const struct berth_json *workspace);
/* Says which other leases hold the directory of a report, and whether an earlier merge was
 * finished. */
void cli_sync_say_findings(struct cli *cli, FILE *to, const struct berth_json *report);
/* Prints what became of the workspace of a run, with the difference that was kept. */
void cli_sync_say_run(struct cli *cli, const struct berth_json *run);
#endif
