/* SPDX-License-Identifier: Apache-2.0
 * src/cli/far_site.c - see far_site.h. A script's input and output pass through two pipes: this
 * thread moves them in one request, and another one feeds and takes them. */
#include "cli/far_site.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "cli/client.h"
#include "cli/files.h"
#include "core/lease/lease_directory.h"
#include "core/paths.h"
#include "os/engine.h"
#include "os/fs.h"

#define CHUNK_BYTES 65536
#define TIDY_AGE_MS ((int64_t)24 * 60 * 60 * 1000)
#define TIDY_LOOKS_MAX 10 /* requests of one command for leases that it is not about */

static struct cli *cli_of(struct berth_workspace_site *site)
{
    return ((struct cli_far_site *)site)->cli;
}

/* Gives the error of the last call to a caller that is not the command line. */
static int hand_on_error(struct cli *cli, struct berth_error *err)
{
    *err = cli->err;
    return err->code;
}

/* --- scripts --- */

/* The side of a script that feeds and takes, in a thread of its own. */
struct script_end {
    const struct berth_place_script *script;
    struct berth_buf head;
    int input, output; /* the ends of this thread */
    char *chunk;
    _Atomic bool broken;    /* feeding has failed */
    struct berth_error err; /* code 0: it worked */
};

static int put_input(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    const struct script_end *e = ctx;
    return berth_fs_write_all(e->input, bytes, len, err);
}

static ssize_t get_output(void *ctx, const void **bytes, struct berth_error *err)
{
    struct script_end *e = ctx;
    ssize_t got;
    do
        got = read(e->output, e->chunk, CHUNK_BYTES);
    while (got < 0 && errno == EINTR);
    *bytes = e->chunk;
    return got < 0 ? berth_fail_errno(err, "Cannot read the output of the place") : got;
}

static void *script_main(void *ctx)
{
    struct script_end *e = ctx;
    const struct berth_place_script *s = e->script;
    struct berth_error ignored;
    const void *bytes;
    int rc = berth_fs_write_all(e->input, e->head.data, e->head.len, &e->err);
    if (rc == BERTH_OK && s->feed)
        rc = s->feed(s->ctx, &(struct berth_pack_sink){put_input, e}, &e->err);
    atomic_store(&e->broken, rc < 0);
    (void)close(e->input);
    if (rc == BERTH_OK && s->take)
        rc = s->take(s->ctx, &(struct berth_unpack_source){get_output, e}, &e->err);
    while (get_output(e, &bytes, &ignored) > 0) /* what is not wanted */
        ;
    (void)close(e->output);
    return NULL;
}

/* Writes the head of the request: a line of JSON. The input follows behind its newline. */
static int write_head(const struct berth_place_script *s, struct berth_buf *out,
                      struct berth_error *err)
{
    struct berth_json_writer w = {.buf = out};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "what", s->what);
    berth_json_put_str(&w, "script", s->text);
    berth_json_open_in(&w, "args", '[');
    for (const char *const *arg = s->args; arg && *arg; arg++)
        berth_json_put_str(&w, NULL, *arg);
    berth_json_close(&w, ']');
    berth_json_close(&w, '}');
    if (s->feed)
        berth_buf_puts(out, "\n");
    return berth_buf_check(out, "The script", err);
}

/* Reads the exit status of the script from the details of an error, and forgets these. */
static int take_exit_code(struct cli *cli)
{
    int found = -1;
    for (int i = 0; i < cli->issues.list.count; i++) {
        const struct berth_issue *issue = cli->issues.list.items[i];
        if (strcmp(issue->path, "exitCode") == 0)
            found = (int)strtol(issue->message, NULL, 10);
    }
    cli->issues.list.count = 0;
    return found;
}

/* Sends the request; its answer goes to the descriptor `to`. */
static int ask_for_script(struct cli *cli, const char *lease_id, struct cli_input *from, int to,
                          int *exit_code)
{
    const char *target =
        berth_arena_printf(&cli->arena, "/api/environment-leases/%s/workspace/script", lease_id);
    int rc = target ? cli_files_ask(cli, "POST", target, to, from)
                    : berth_arena_check(&cli->arena, &cli->err);
    *exit_code = rc < 0 ? take_exit_code(cli) : 0;
    return rc;
}

static int open_pipes(int input[2], int output[2], struct berth_error *err)
{
    if (pipe2(input, O_CLOEXEC) < 0)
        return berth_fail_errno(err, "Cannot make a pipe");
    if (pipe2(output, O_CLOEXEC) == 0)
        return BERTH_OK;
    (void)close(input[0]);
    (void)close(input[1]);
    return berth_fail_errno(err, "Cannot make a pipe");
}

static int far_run(struct berth_place_shell *shell, const struct berth_place_script *script,
                   int *exit_code, struct berth_error *err)
{
    struct cli *cli = cli_of(shell->ctx);
    auto_buf head = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    auto_free char *chunk = malloc(CHUNK_BYTES);
    int input[2], output[2];
    pthread_t thread;
    int rc = write_head(script, &head, err);
    if (rc == BERTH_OK && !chunk)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    if (rc == BERTH_OK)
        rc = open_pipes(input, output, err);
    if (rc < 0)
        return rc;
    struct script_end end = {
        .script = script, .head = head, .input = input[1], .output = output[0], .chunk = chunk};
    bool started = pthread_create(&thread, NULL, script_main, &end) == 0;
    if (started)
        rc = ask_for_script(cli, shell->lease_id, &(struct cli_input){input[0], -1, &end.broken, 0},
                            output[1], exit_code);
    (void)close(input[0]);
    (void)close(output[1]);
    if (!started) {
        (void)close(input[1]);
        (void)close(output[0]);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Cannot start a thread: workspace.");
    }
    (void)pthread_join(thread, NULL);
    /* When the place gave up, the daemon knows why, and a broken pipe or a cut archive here only
     * follows from that. When feeding failed, the request was broken off for that. */
    bool fed_badly = atomic_load(&end.broken) && end.err.os_errno != EPIPE;
    if (rc < 0 && !fed_badly)
        return hand_on_error(cli, err);
    if (end.err.code < 0)
        *err = end.err;
    return end.err.code < 0 ? err->code : rc;
}

/* --- the site --- */

static int far_look(struct berth_workspace_site *site, const char *lease_id, bool *has_work,
                    struct berth_error *err)
{
    struct cli_answer lease;
    int rc = cli_get(cli_of(site), &lease, "/api/environment-leases/%s", lease_id);
    *has_work = rc == BERTH_OK && cli_text(lease.json, "workAt");
    return rc < 0 ? hand_on_error(cli_of(site), err) : rc;
}

static int far_is_near(struct berth_workspace_site *site, const char *lease_id, bool *near,
                       struct berth_error *err)
{
    (void)site, (void)lease_id, (void)err;
    *near = false;
    return BERTH_OK;
}

static int far_open_shell(struct berth_workspace_site *site, struct berth_arena *arena,
                          const char *lease_id, const char *directory, int cancel_fd,
                          struct berth_place_shell *out, struct berth_error *err)
{
    (void)arena, (void)err;
    *out = (struct berth_place_shell){.run = far_run,
                                      .ctx = site,
                                      .lease_id = lease_id,
                                      .directory = directory,
                                      .cancel_fd = cancel_fd};
    return BERTH_OK;
}

/* Changes the mark of work that is not home. `seen_ms`: of the state "home". */
static int change_work(struct cli *cli, const char *lease_id, const char *state, int64_t seen_ms,
                       struct cli_answer *out, struct berth_error *err)
{
    auto_buf body = CLI_BODY_INIT;
    struct berth_json_writer w = {.buf = &body};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "state", state);
    if (seen_ms >= 0)
        berth_json_put_int(&w, "seen", seen_ms);
    berth_json_close(&w, '}');
    int rc =
        cli_call(cli, out, "POST", &body, "/api/environment-leases/%s/workspace/work", lease_id);
    return rc < 0 ? hand_on_error(cli, err) : rc;
}

static int far_mark(struct berth_workspace_site *site, const char *lease_id,
                    enum berth_work_mark mark, struct berth_error *err)
{
    struct cli_answer ignored;
    return change_work(cli_of(site), lease_id, mark == BERTH_WORK_SENDING ? "sending" : "away",
                       BERTH_LEASE_SEEN_ANY, &ignored, err);
}

static int far_reopen(struct berth_workspace_site *site, const char *lease_id,
                      struct berth_lease_work_seen *seen, struct berth_error *err)
{
    struct cli_answer answer;
    int rc = change_work(cli_of(site), lease_id, "reopen", BERTH_LEASE_SEEN_ANY, &answer, err);
    if (rc < 0)
        return rc;
    seen->reopened = berth_json_true(berth_json_get(answer.json, "reopened"));
    seen->partial = berth_json_true(berth_json_get(answer.json, "partial"));
    seen->mark_ms = berth_json_int(berth_json_get(answer.json, "seen"));
    return BERTH_OK;
}

static int far_mark_home(struct berth_workspace_site *site, const char *lease_id, int64_t seen_ms,
                         struct berth_error *err)
{
    struct cli_answer ignored;
    return change_work(cli_of(site), lease_id, "home", seen_ms, &ignored, err);
}

static int far_give_back(struct berth_workspace_site *site, const char *lease_id, bool reopened,
                         struct berth_error *err)
{
    struct cli_answer ignored;
    int rc = reopened ? cli_call(cli_of(site), &ignored, "POST", NULL,
                                 "/api/environment-leases/%s/release", lease_id)
                      : BERTH_OK;
    return rc < 0 ? hand_on_error(cli_of(site), err) : rc;
}

static const struct berth_workspace_site_ops far_ops = {
    .look = far_look,
    .is_near = far_is_near,
    .open_shell = far_open_shell,
    .mark = far_mark,
    .reopen = far_reopen,
    .mark_home = far_mark_home,
    .give_back = far_give_back,
};

/* Returns the directory for what has to survive a crash, which the caller frees. */
static int find_states(char **out, struct berth_error *err)
{
    auto_free char *data = NULL;
    int rc = berth_data_directory(&data, err);
    if (rc == BERTH_OK)
        rc = berth_fs_refuse_root("data directory", data, err);
    if (rc == BERTH_OK && asprintf(out, "%s/workspaces/far", data) < 0) {
        *out = NULL;
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    }
    return rc;
}

int cli_far_site_open(struct cli *cli, struct cli_far_site *out)
{
    *out = (struct cli_far_site){.base = {.ops = &far_ops}, .cli = cli};
    int rc = find_states(&out->states, &cli->err);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(out->states, S_IRWXU, &cli->err);
    if (rc == BERTH_OK)
        rc = berth_engine_new(&out->base.engine, &cli->err);
    out->base.states = out->states;
    return rc;
}

void cli_far_site_close(struct cli_far_site *site)
{
    berth_engine_free(site->base.engine);
    free(site->states);
}

const char *cli_far_directory(struct cli *cli, const char *lease_id)
{
    struct cli_answer tree;
    if (cli_get(cli, &tree, "/api/environment-leases/%s/tree?depth=1", lease_id) < 0)
        return NULL;
    const char *directory = cli_text(tree.json, "directory");
    if (!directory)
        (void)cli_not_understood(cli);
    return directory;
}

/* Forgets a lease that has ended: nothing can come home from its place any more. */
static void forget_ended(struct cli *cli, const char *states, const char *lease_id)
{
    struct berth_error kept = cli->err;
    struct cli_answer lease;
    bool known = cli_get(cli, &lease, "/api/environment-leases/%s", lease_id) == BERTH_OK;
    cli->err = kept;
    if (known &&
        (cli_is(lease.json, "status", "released") || cli_is(lease.json, "status", "expired") ||
         cli_is(lease.json, "status", "failed")))
        berth_lease_workspace_remove(states, lease_id);
}

void cli_far_site_tidy(struct cli *cli, const char *lease_id)
{
    auto_free char *states = NULL;
    struct berth_error ignored; /* what stays does no harm */
    if (find_states(&states, &ignored) < 0)
        return;
    forget_ended(cli, states, lease_id);
    auto_dir *dir = opendir(states);
    struct dirent *d;
    for (int looks = 0; dir && looks < TIDY_LOOKS_MAX && (d = readdir(dir));) {
        char name[BERTH_ID_SIZE]; /* without the suffix of files that belong to a state */
        struct berth_id id;
        struct stat st;
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(d->d_name, "."), d->d_name);
        if (berth_id_parse(name, "Lease", &id, &ignored) < 0 ||
            fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            berth_time_wall_ms() - (int64_t)st.st_mtime * 1000 < TIDY_AGE_MS)
            continue;
        forget_ended(cli, states, id.text);
        looks++;
    }
}
