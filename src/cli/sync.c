/* SPDX-License-Identifier: Apache-2.0
 * src/cli/sync.c - see sync.h. */
#include "cli/sync.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/time.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/print.h"
#include "core/workspace/workspace.h"

/* Returns the directory as an absolute path, in the arena; NULL after the error was printed. */
static const char *real_path(struct cli *cli, const char *option, const char *path)
{
    auto_free char *real = realpath(path, NULL);
    const char *copy = real ? berth_arena_strdup(&cli->arena, real) : NULL;
    if (!copy)
        (void)cli_usage(cli, "%s %s: %s", option, path, real ? "out of memory" : strerror(errno));
    return copy;
}

/* Reads "KEY=DIR" of each asset. */
static int read_assets(struct cli *cli, const struct cli_sync *o, struct berth_workspace_setup *out)
{
    struct berth_workspace_asset *all =
        berth_arena_alloc(&cli->arena, ((size_t)o->assets.count + 1) * sizeof *all);
    if (!all)
        return cli_usage(cli, "out of memory");
    for (int i = 0; i < o->assets.count; i++) {
        const char *text = o->assets.items[i], *equals = strchr(text, '=');
        if (!equals)
            return cli_usage(cli, "--asset %s: write KEY=DIR", text);
        all[i] = (struct berth_workspace_asset){
            .key = berth_arena_copy(&cli->arena, text, (size_t)(equals - text)),
            .path = real_path(cli, "--asset", equals + 1),
            .follow_links = o->follow_links};
        if (!all[i].path)
            return CLI_USAGE;
    }
    out->assets = all;
    out->asset_count = o->assets.count;
    return CLI_OK;
}

int cli_sync_read(struct cli *cli, struct cli_sync *o, struct berth_run_sync *out)
{
    int policy = BERTH_MERGE_KEEP_BOTH;
    if (!o->path && (o->exclude.count || o->on_conflict || o->branch || o->assets.count ||
                     o->adapter || o->install))
        return cli_usage(cli,
                         "--exclude, --on-conflict, --branch, --asset, --adapter and --install "
                         "belong to --workspace");
    if (o->detect && !o->install)
        return cli_usage(cli, "--detect belongs to --install");
    if (o->follow_links && !o->assets.count)
        return cli_usage(cli, "--follow-links belongs to --asset");
    if (cli_choice(cli, "on-conflict", o->on_conflict, &berth_merge_policies, &policy) != CLI_OK)
        return CLI_USAGE;
    if (!o->path)
        return CLI_OK;
    out->path = real_path(cli, "--workspace", o->path);
    if (!out->path)
        return CLI_USAGE;
    (void)berth_list_add(&o->exclude, &cli->arena, NULL);
    out->exclude = (const char *const *)(void *)o->exclude.items;
    out->on_conflict = (enum berth_merge_policy)policy;
    out->branch = o->branch;
    out->setup.adapter = o->adapter;
    out->setup.install_command = o->install;
    out->setup.detect_command = o->detect;
    return out->exclude ? read_assets(cli, o, &out->setup) : cli_usage(cli, "out of memory");
}

void cli_progress_text(struct cli_progress *p, const struct berth_workspace_progress *now,
                       char out[CLI_PROGRESS_SIZE])
{
    static const char full[] = "####################", empty[] = "                    ";
    const double mb = 1e6;
    int64_t all = now->bytes_total, done = now->bytes < all ? now->bytes : all;
    int64_t at_ms = berth_time_mono_ms();
    if (!now->bytes)
        p->began_ms = at_ms;
    int width = all ? (int)(done * (int64_t)(sizeof full - 1) / all) : (int)sizeof full - 1;
    double seconds = (double)(at_ms - p->began_ms) / 1000;
    (void)snprintf(
        out, CLI_PROGRESS_SIZE, "%s [%.*s%.*s] %d%% of %.1f MB, %zu of %zu files, %.1f MB/s",
        now->returning ? "bringing the work home" : "sending the workspace", width, full,
        (int)sizeof full - 1 - width, empty, all ? (int)(done * 100 / all) : 100, (double)all / mb,
        now->files, now->files_total, seconds > 0 ? (double)now->bytes / mb / seconds : 0);
}

static void put_setup(struct cli *cli, struct berth_json_writer *w,
                      const struct berth_workspace_setup *setup)
{
    if (setup->adapter)
        cli_put(cli, w, "adapter", setup->adapter);
    if (setup->install_command)
        cli_put(cli, w, "installCommand", setup->install_command);
    if (setup->detect_command)
        cli_put(cli, w, "detectCommand", setup->detect_command);
    berth_json_open_in(w, "assets", '[');
    for (int i = 0; i < setup->asset_count; i++) {
        berth_json_open(w, '{');
        cli_put(cli, w, "key", setup->assets[i].key);
        cli_put(cli, w, "localDir", setup->assets[i].path);
        berth_json_put_bool(w, "followSymlinks", setup->assets[i].follow_links);
        berth_json_close(w, '}');
    }
    berth_json_close(w, ']');
}

void cli_sync_put(struct cli *cli, struct berth_json_writer *w, const char *key,
                  const struct berth_run_sync *sync)
{
    if (!sync->path)
        return;
    if (key)
        berth_json_open_in(w, key, '{');
    cli_put(cli, w, "path", sync->path);
    berth_json_open_in(w, "exclude", '[');
    for (const char *const *rule = sync->exclude; rule && *rule; rule++)
        cli_put(cli, w, NULL, *rule);
    berth_json_close(w, ']');
    berth_json_put_str(w, "onConflict", berth_merge_policies.names[sync->on_conflict]);
    if (sync->branch)
        cli_put(cli, w, "branch", sync->branch);
    put_setup(cli, w, &sync->setup);
    if (sync->no_restore)
        berth_json_put_bool(w, "noRestore", true);
    if (sync->mass_deletion)
        berth_json_put_bool(w, "massDeletion", true);
    if (key)
        berth_json_close(w, '}');
}

/* On stderr, where other programs write too, a line begins with our name. */
static const char *prefix_of(const FILE *to)
{
    return to == stderr ? "berth: " : "";
}

static void say_conflict(struct cli *cli, FILE *to, const struct berth_json *conflict)
{
    const char *beside = cli_text(conflict, "beside");
    (void)fprintf(
        to, "%sconflict (%s): %s%s%s\n", prefix_of(to), cli_clean(cli, cli_text(conflict, "kind")),
        cli_clean(cli, cli_text(conflict, "path")),
        beside ? "; the version of the place is in " : "", beside ? cli_clean(cli, beside) : "");
}

/* Says what the branch of a run has. */
static void say_branch(struct cli *cli, FILE *to, const struct berth_json *branch)
{
    long long commits = (long long)berth_json_int(berth_json_get(branch, "commits"));
    if (!cli->quiet)
        (void)fprintf(to, "%sthe branch %s has %lld new commit%s and is at %.10s\n", prefix_of(to),
                      cli_clean(cli, cli_text(branch, "name")), commits, commits == 1 ? "" : "s",
                      cli_clean(cli, cli_text(branch, "head")));
}

/* Says where a branch, tag, stash or notes of the place are here: refs/berth/KIND/LABEL/NAME. */
static void say_ref(struct cli *cli, FILE *to, const char *ref)
{
    static const char *const kinds[][2] = {{"refs/berth/heads/", "a new branch"},
                                           {"refs/berth/tags/", "a new tag"},
                                           {"refs/berth/stash/", "a stash"},
                                           {"refs/berth/notes/", "notes"}};
    for (size_t i = 0; ref && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(ref, kinds[i][0], strlen(kinds[i][0])) == 0)
            (void)fprintf(to, "%s%s of the place: %s\n", prefix_of(to), kinds[i][1],
                          cli_clean(cli, ref));
}

/* `on_branch`: the work is on a branch of its own, of which say_branch tells. */
static void say_git(struct cli *cli, FILE *to, const struct berth_json *git, bool on_branch)
{
    const struct berth_json *branches = berth_json_get(git, "branches"),
                            *nested = berth_json_get(git, "nested");
    const char *note = cli_text(git, "note"), *branch = cli_text(git, "branch");
    if (cli_is(git, "state", "advanced") && !cli->quiet && !on_branch)
        (void)fprintf(to, "%s%s is now at %.10s\n", prefix_of(to),
                      branch ? cli_clean(cli, branch) : "HEAD",
                      cli_clean(cli, cli_text(git, "head")));
    if (note)
        (void)fprintf(to, "%s%s\n", prefix_of(to), cli_clean(cli, note));
    for (size_t i = 0; i < berth_json_count(branches); i++)
        say_ref(cli, to, berth_json_str(berth_json_at(branches, i)));
    for (size_t i = 0; i < berth_json_count(nested); i++)
        (void)fprintf(to, "%sthe history of the repository in %s did not come home, only files\n",
                      prefix_of(to), cli_clean(cli, berth_json_str(berth_json_at(nested, i))));
}

void cli_sync_say_findings(struct cli *cli, FILE *to, const struct berth_json *report)
{
    const struct berth_json *leases = berth_json_get(report, "sharedWith");
    const char *warning = cli_text(report, "warning");
    if (warning)
        (void)fprintf(to, "%s%s\n", prefix_of(to), cli_clean(cli, warning));
    if (!cli->quiet && berth_json_get(report, "recovered"))
        (void)fprintf(to,
                      "%san earlier merge into this directory was interrupted: it is finished "
                      "now\n",
                      prefix_of(to));
    for (size_t i = 0; !cli->quiet && i < berth_json_count(leases); i++)
        (void)fprintf(to,
                      "%slease %s has files of this directory, too: what both change becomes a "
                      "conflict\n",
                      prefix_of(to), cli_clean(cli, berth_json_str(berth_json_at(leases, i))));
}

/* Prints the difference as it is, but nothing that could move the cursor of a terminal. */
static void say_diff(struct cli *cli, FILE *to, const char *diff, const struct berth_json *report)
{
    if (!diff || cli->quiet)
        return;
    size_t step;
    for (const char *at = diff; *at; at += step) {
        uint32_t c = berth_utf8_decode(at, &step);
        if (c != '\n' && c != '\t' && berth_utf8_is_control(c))
            (void)fputc('?', to);
        else
            (void)fwrite(at, 1, step, to);
    }
    if (berth_json_true(berth_json_get(report, "diffCut")))
        (void)fprintf(to, "%snot all changes are shown\n", prefix_of(to));
}

void cli_sync_say_object(struct cli *cli, FILE *to, const struct berth_json *workspace)
{
    const struct berth_json *conflicts = berth_json_get(workspace, "conflicts");
    if (!berth_json_is(workspace, BERTH_JSON_OBJECT))
        return;
    if (cli_is(workspace, "state", "kept")) {
        cli_sync_say_findings(cli, to, workspace);
        const char *why = cli_text(workspace, "error");
        if (why)
            (void)fprintf(to, "%s%s\n", prefix_of(to), cli_clean(cli, why));
        (void)fprintf(to,
                      "%sthe work is in the place of lease %s: run \"berth workspace pull\" to "
                      "fetch it\n",
                      prefix_of(to), cli_clean(cli, cli_text(workspace, "leaseId")));
        return;
    }
    say_diff(cli, to, cli_text(workspace, "diff"), workspace);
    if (!cli->quiet)
        (void)fprintf(to, "%s%lld added, %lld updated, %lld deleted in %s\n", prefix_of(to),
                      (long long)berth_json_int(berth_json_get(workspace, "added")),
                      (long long)berth_json_int(berth_json_get(workspace, "updated")),
                      (long long)berth_json_int(berth_json_get(workspace, "deleted")),
                      cli_clean(cli, cli_text(workspace, "path")));
    for (size_t i = 0; i < berth_json_count(conflicts); i++)
        say_conflict(cli, to, berth_json_at(conflicts, i));
    int64_t all = berth_json_int(berth_json_get(workspace, "conflictCount"));
    if (all > (int64_t)berth_json_count(conflicts))
        (void)fprintf(to, "%s%lld conflicts in all\n", prefix_of(to), (long long)all);
    cli_sync_say_findings(cli, to, workspace);
    const struct berth_json *branch = berth_json_get(workspace, "branch");
    if (berth_json_get(workspace, "git"))
        say_git(cli, to, berth_json_get(workspace, "git"), branch != NULL);
    if (branch)
        say_branch(cli, to, branch);
}

void cli_sync_say_run(struct cli *cli, const struct berth_json *run)
{
    const struct berth_json *workspace = berth_json_get(run, "workspace");
    say_diff(cli, stdout, cli_text(run, "workspaceDiff"), workspace);
    cli_sync_say_object(cli, stdout, workspace);
}

void cli_sync_say(struct cli *cli, FILE *to, const char *json)
{
    auto_json *workspace = NULL;
    struct berth_error ignored;
    if (json && berth_json_parse(json, strlen(json), BERTH_JSON_OURS, &workspace, &ignored) == 0)
        cli_sync_say_object(cli, to, workspace);
}
