/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/ssh.c - leases and commands on a real sshd, and what becomes of them when
 * something on the way breaks. */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/time.h"
#include "farhost.h"
#include "live.h"
#include "os/fs.h"

static char workspace[200]; /* of this test, at the far end */

static int try_environment(struct fixture *f, struct farhost_change change,
                           struct berth_environment **out)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    if (!change.workspace)
        change.workspace = workspace;
    input.name = "far";
    input.driver = BERTH_DRIVER_SSH;
    input.config_json = farhost_config_with(&change);
    return berth_environment_create(f->b, &f->arena, &input, &issues, out, &f->err);
}

static struct berth_environment *changed_environment(struct fixture *f,
                                                     struct farhost_change change)
{
    struct berth_environment *e;
    assert_ok(f, try_environment(f, change, &e));
    return e;
}

static struct berth_environment *far_environment(struct fixture *f)
{
    return changed_environment(f, (struct farhost_change){0});
}

static struct berth_exec *start(struct fixture *f, struct berth_exec_request *r,
                                const struct berth_lease *l, struct live *live)
{
    r->lease_id = l->id;
    return live_start(f, r, live);
}

/* A command that says "up" and then runs on. */
static struct berth_exec *start_long(struct fixture *f, const struct berth_lease *l, bool terminal,
                                     struct live *live)
{
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    r.argv = SH("echo up; sleep 300; sleep 300");
    r.terminal = terminal;
    r.grace_ms = 300;
    struct berth_exec *x = start(f, &r, l, live);
    WAIT_FOR(atomic_load(&live->seen) > 0);
    return x;
}

static void finish(struct berth_exec *x, struct berth_exec_end *end)
{
    berth_exec_wait(x, end);
    berth_exec_free(x);
}

/* Waits until no process of the lease is left. */
static void assert_nothing_runs(const struct berth_lease *l)
{
    char label[80];
    (void)snprintf(label, sizeof label, "BERTH_LEASE_ID=%s", l->id);
    farhost_wait_for_end(label);
}

static void assert_no_keys(void)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/berth", getenv("XDG_RUNTIME_DIR"));
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            fail_msg("%s/%s is still there", path, entry->d_name);
    if (dir)
        (void)closedir(dir);
}

/* As long as the connections stand: what was written for ssh(1) to read has been removed. */
static void assert_no_key_files(void)
{
    char command[300];
    (void)snprintf(command, sizeof command, "find %s/berth -name '*.[kh]' | grep -q .",
                   getenv("XDG_RUNTIME_DIR"));
    assert_int_not_equal(system(command), 0);
}

/* Whatever happened: nothing is open, nothing is owed, nothing is left there or here. */
static void assert_all_gone(struct fixture *f, const struct berth_lease *l)
{
    assert_int_equal(count_rows(f, "SELECT count(*) FROM leases WHERE due_at IS NOT NULL"), 0);
    assert_int_equal(farhost_count_leases(workspace), 0);
    if (l)
        assert_nothing_runs(l);
    assert_no_key_files();
    fixture_close(f);
    assert_no_keys();
    fixture_open(f);
}

static void give_back(struct fixture *f, const struct berth_lease *l)
{
    assert_done(f, give_lease(f, l, BERTH_LEASE_RELEASED), BERTH_LEASE_RELEASED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
    assert_all_gone(f, l);
}

/* One script, to its end. The caller clears `live`. */
static struct berth_exec_end run_script(struct fixture *f, const struct berth_lease *l,
                                        const char *script, struct live *live)
{
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    r.argv = SH(script);
    finish(start(f, &r, l, live), &end);
    return end;
}

static void assert_says(struct fixture *f, const struct berth_lease *l, const char *script,
                        const char *out)
{
    struct live live;
    struct berth_exec_end end = run_script(f, l, script, &live);
    assert_int_equal(end.cause, BERTH_END_EXITED);
    assert_int_equal(end.exit_code, 0);
    assert_string_equal(berth_buf_str(&live.out), out);
    assert_string_equal(berth_buf_str(&live.err), "");
    live_clear(&live);
}

#define NEEDS_ROOT()                                                                               \
    do {                                                                                           \
        if (geteuid() != 0) {                                                                      \
            print_message("# skipped: needs root, to change accounts, disks and networks\n");      \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

/* --- the seed --- */

static void R6_ssh_lease(void **state)
{
    struct fixture *f = *state;
    const struct farhost *host = farhost();
    struct berth_environment *e = far_environment(f);
    assert_null(json_text(f, e->config_json, "privateKey")); /* it is a secret now */
    assert_non_null(json_text(f, e->config_json, "privateKeySecretRef.secretId"));
    struct berth_run *run = make_run(f);
    struct berth_lease *l = take_lease(f, e, run);
    char id[300], port[16];
    (void)snprintf(id, sizeof id, "ssh://%s@127.0.0.1:%d%s", host->user, host->port, workspace);
    (void)snprintf(port, sizeof port, "%d", host->port);
    assert_int_equal(l->status, BERTH_LEASE_ACTIVE);
    assert_string_equal(l->provider_lease_id, id);
    assert_string_equal(json_text(f, l->metadata_json, "driver"), "ssh");
    assert_string_equal(json_text(f, l->metadata_json, "host"), "127.0.0.1");
    auto_json *metadata = parse_json(l->metadata_json);
    assert_int_equal(berth_json_int(berth_json_get(metadata, "port")), host->port);
    assert_string_equal(json_text(f, l->metadata_json, "username"), host->user);
    assert_string_equal(json_text(f, l->metadata_json, "remoteWorkspacePath"), workspace);
    assert_string_equal(json_text(f, l->metadata_json, "remoteCwd"), workspace);
    assert_int_equal(farhost_count_leases(workspace), 1);
    struct berth_run_end end = {.status = BERTH_RUN_SUCCEEDED};
    struct berth_list released;
    assert_ok(f, berth_run_finish(f->b, &f->arena, run->id, &end, &released, &f->err));
    assert_int_equal(released.count, 1);
    assert_done(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(farhost_count_leases(workspace), 0);
}

/* --- commands --- */

static void command_with_its_streams(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    const char *const env[] = {"NAMED=it's\n\"here\"", NULL};
    struct berth_exec_end end;
    struct live live;
    r.argv = SH("printf '%s' \"$NAMED\"; echo err >&2; exit 7");
    r.env = env;
    finish(start(f, &r, l, &live), &end);
    assert_int_equal(end.cause, BERTH_END_EXITED);
    assert_int_equal(end.exit_code, 7);
    assert_string_equal(berth_buf_str(&live.out), "it's\n\"here\"");
    assert_string_equal(berth_buf_str(&live.err), "err\n");
    assert_int_equal(end.bytes[0], live.out.len);
    assert_int_equal(end.bytes[1], 4);
    live_clear(&live);
}

/* sshd closes a connection that asks for more than it allows; we do not. */
static void many_at_once(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    enum { COUNT = 30 };
    struct berth_exec *x[COUNT];
    struct live live[COUNT];
    for (int i = 0; i < COUNT; i++) {
        struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
        r.argv = SH("sleep 1; echo done");
        x[i] = start(f, &r, l, &live[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        struct berth_exec_end end;
        finish(x[i], &end);
        assert_int_equal(end.cause, BERTH_END_EXITED);
        assert_int_equal(end.exit_code, 0);
        assert_string_equal(berth_buf_str(&live[i].out), "done\n");
        live_clear(&live[i]);
    }
    assert_done(f, give_lease(f, l, BERTH_LEASE_RELEASED), BERTH_LEASE_RELEASED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
}

static void keys_do_not_stay(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    assert_no_key_files(); /* gone as soon as the connection stands */
    assert_int_equal(give_lease(f, l, BERTH_LEASE_RELEASED)->status, BERTH_LEASE_RELEASED);
    fixture_close(f);
    assert_no_keys();
    fixture_open(f);
}

static void cancel_ends_the_tree(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    struct live live;
    r.argv = SH("trap '' TERM; setsid sh -c 'sleep 300' & echo up; sleep 300; sleep 300");
    r.grace_ms = 300;
    struct berth_exec *x = start(f, &r, l, &live);
    WAIT_FOR(atomic_load(&live.seen) > 0);
    berth_exec_cancel(x);
    finish(x, &end);
    assert_int_equal(end.cause, BERTH_END_CANCELLED);
    assert_nothing_runs(l);
    live_clear(&live);
}

/* --- what breaks --- */

static void server_killed_in_the_middle(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    struct live live;
    r.argv = SH("echo up; sleep 300");
    struct berth_exec *x = start(f, &r, l, &live);
    WAIT_FOR(atomic_load(&live.seen) > 0);
    farhost_stop();
    farhost_start();
    finish(x, &end);
    assert_int_equal(end.cause, BERTH_END_LOST);
    assert_int_equal(end.exit_code, -1);
    assert_nothing_runs(l);
    assert_done(f, give_lease(f, l, BERTH_LEASE_RELEASED), BERTH_LEASE_RELEASED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
    live_clear(&live);
}

/* The server is away when the place is to be given back: it is owed until it is back. */
static void release_is_owed_while_the_server_is_away(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    farhost_stop();
    struct berth_lease *given = give_lease(f, l, BERTH_LEASE_RELEASED);
    assert_int_equal(given->cleanup, BERTH_CLEANUP_FAILED);
    farhost_start();
    move_clock(3600 * 1000);
    (void)sweep(f);
    assert_done(f, l, BERTH_LEASE_RELEASED, BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_int_equal(farhost_count_leases(workspace), 0);
}

static void nobody_there_makes_no_place(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = far_environment(f);
    farhost_stop();
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UNAVAILABLE);
    farhost_start();
    assert_non_null(strstr(f->err.message, "Connection refused"));
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
}

/* --- who is there, and who are we --- */

static void assert_refused(struct fixture *f, const struct berth_environment *e, int code,
                           const char *text)
{
    assert_fails(f, code, text, try_lease(f, e, make_run(f)));
    assert_non_null(strstr(f->err.message, text));
    struct berth_lease *l = newest_lease(f, e);
    assert_done(f, l, BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_non_null(strstr(berth_lease_failure_reason(l), text));
    assert_all_gone(f, l);
}

static const char *read_text(struct fixture *f, const char *path)
{
    auto_buf buf = BERTH_BUF_INIT(16384);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_ok(f, berth_fs_read_all(fd, &buf, &f->err));
    return berth_arena_strdup(&f->arena, berth_buf_str(&buf));
}

static void write_text(const char *path, const char *text)
{
    struct berth_error err;
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(berth_fs_write_all(fd, text, strlen(text), &err), BERTH_OK);
}

/* The right name with the key of somebody else. */
static void wrong_host_key(void **state)
{
    struct fixture *f = *state;
    char path[192];
    (void)snprintf(path, sizeof path, "%s/key.pub", farhost()->directory);
    struct farhost_change change = {.known_hosts =
                                        berth_arena_printf(&f->arena, "[127.0.0.1]:%d %s",
                                                           farhost()->port, read_text(f, path))};
    assert_refused(f, changed_environment(f, change), BERTH_E_DENIED,
                   "Host key verification failed");
}

/* Without known hosts of its own an environment has those of whoever runs it. */
static void known_hosts_of_the_user(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    char directory[192], path[224];
    (void)snprintf(directory, sizeof directory, "%s/.ssh", farhost()->here);
    (void)snprintf(path, sizeof path, "%s/known_hosts", directory);
    struct berth_environment *e =
        changed_environment(f, (struct farhost_change){.known_hosts = ""});
    assert_refused(f, e, BERTH_E_DENIED, "Host key verification failed");
    assert_int_equal(mkdir(directory, 0700), 0);
    write_text(path, farhost()->known_hosts);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    (void)unlink(path);
    assert_says(f, l, "echo out", "out\n");
    give_back(f, l);
    e = changed_environment(f, (struct farhost_change){.known_hosts = "", .any_host_key = true});
    give_back(f, take_lease(f, e, make_run(f)));
    assert_int_equal(access(path, F_OK), -1); /* whom it met is not remembered */
    assert_int_equal(rmdir(directory), 0);
}

static void wrong_user_key(void **state)
{
    struct fixture *f = *state;
    char path[192], command[256];
    (void)snprintf(path, sizeof path, "%s/other", f->directory);
    (void)snprintf(command, sizeof command, "ssh-keygen -q -t ed25519 -N '' -f %s", path);
    assert_int_equal(system(command), 0);
    struct farhost_change changes[] = {{.key = read_text(f, path)}, {.key = "this is no key"}};
    for (int i = 0; i < 2; i++)
        assert_refused(f, changed_environment(f, changes[i]), BERTH_E_DENIED, "Permission denied");
    assert_refused(f, changed_environment(f, (struct farhost_change){.username = "no-such-user"}),
                   BERTH_E_DENIED, "Permission denied");
}

/* They would be options of ssh(1). */
static void names_that_look_like_options(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e;
    assert_int_equal(
        try_environment(f, (struct farhost_change){.host = "-oProxyCommand=touch /tmp/x"}, &e),
        BERTH_E_UNPROCESSABLE);
    assert_int_equal(try_environment(f, (struct farhost_change){.username = "-lroot"}, &e),
                     BERTH_E_UNPROCESSABLE);
    assert_int_equal(try_environment(f, (struct farhost_change){.workspace = "not/absolute"}, &e),
                     BERTH_E_UNPROCESSABLE);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM environments WHERE driver = 'ssh'"), 0);
}

/* --- what a login shell does --- */

/* All that it prints is nobody's, on pipes and on a terminal. */
static void noisy_login_shell(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    farhost_set_shell("/bin/bash");
    farhost_set_file(".bashrc", "echo 'noise; of the shell'; echo more >&2; printf '\\036'\n");
    farhost_set_file(".profile", "echo 'noise; of the profile'; echo more >&2; stty -echo\n");
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    assert_says(f, l, "echo out", "out\n");
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    struct live live;
    r.argv = SH("echo out; exit 4");
    r.terminal = true;
    finish(start(f, &r, l, &live), &end);
    assert_int_equal(end.exit_code, 4);
    assert_string_equal(berth_buf_str(&live.out), "out\r\n");
    live_clear(&live);
    give_back(f, l);
}

/* What it defines is not for us: it has changed directories in its own way for years. */
static void login_shell_with_ways_of_its_own(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    farhost_set_shell("/bin/bash");
    farhost_set_file(".bashrc", "cd() { builtin cd \"$@\" && ls -a; }\n"
                                "printf() { builtin printf '<%s>' \"$@\"; }\n"
                                "trap 'echo bye' EXIT; set -eu; shopt -s nullglob; IFS=/\n");
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    assert_says(f, l, "cd /; echo out", "out\n");
    struct live live;
    struct berth_exec_end end = run_script(f, l, "exit 4", &live);
    assert_int_equal(end.exit_code, 4);
    assert_int_equal(live.out.len, 0);
    live_clear(&live);
    give_back(f, l);
}

static void profile_sets_the_path(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    static const char *const shells[] = {"/bin/sh", "/bin/bash"};
    for (int i = 0; i < 2; i++) {
        farhost_set_shell(shells[i]);
        farhost_set_file(".profile", "PATH=\"$HOME/its own:/usr/bin:/bin\"; export PATH\n");
        struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
        const char *out =
            berth_arena_printf(&f->arena, "%s/home/its own:/usr/bin:/bin\n", farhost()->directory);
        assert_says(f, l, "echo \"$PATH\"", out);
        give_back(f, l);
    }
}

/* One that fails, one that fails loudly, and one that never ends: the PATH is then sshd's. */
static void profile_that_fails(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    static const char *const profiles[] = {"exit 1\n", "PATH=/nowhere; if then (\n",
                                           "echo waiting; exec sleep 300\n"};
    for (unsigned i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        farhost_set_file(".profile", profiles[i]);
        struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
        struct live live;
        struct berth_exec_end end = run_script(f, l, "echo \"$PATH\"", &live);
        assert_int_equal(end.exit_code, 0);
        assert_non_null(strstr(berth_buf_str(&live.out), "/usr/bin:/bin"));
        live_clear(&live);
        give_back(f, l);
    }
}

/* Nothing can be run there: that is said at once, with what the shell said. */
static void shell_that_refuses(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    farhost_set_shell("/bin/bash");
    farhost_set_file(".bashrc", "echo 'closed for repair' >&2; exit 1\n");
    struct berth_environment *e = far_environment(f);
    assert_refused(f, e, BERTH_E_UNAVAILABLE, "ended with status 1");
    assert_refused(f, e, BERTH_E_UNAVAILABLE, "closed for repair");
    farhost_set_shell("/usr/sbin/nologin");
    assert_refused(f, e, BERTH_E_UNAVAILABLE, "This account is currently not available");
}

/* --- secrets --- */

static void secret_in_the_output_is_masked(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    const char *const env[] = {berth_arena_printf(&f->arena, "KEY=%s", farhost()->key), NULL};
    struct berth_exec_end end;
    struct live live;
    r.argv = SH("printf '<%s>' \"$KEY\"; printf '<%s>' \"$KEY\" >&2");
    r.env = env;
    finish(start(f, &r, l, &live), &end);
    assert_int_equal(end.exit_code, 0);
    for (int i = 0; i < 2; i++) {
        const struct berth_buf *buf = i == 0 ? &live.out : &live.err;
        assert_int_equal(end.bytes[i], strlen(farhost()->key) + 2);
        assert_int_equal(buf->len, strlen(farhost()->key) + 2);
        assert_null(strstr(berth_buf_str(buf), "PRIVATE KEY"));
        assert_int_equal(berth_buf_str(buf)[1], '*');
    }
    live_clear(&live);
    give_back(f, l);
}

/* Looks at all command lines of this machine, which is both ends, for the texts in a file, until
 * somebody makes another one. It is a program of its own: a thread that opens files while libuv
 * closes others is a race to TSan. */
static void start_watcher(struct fixture *f, const char *texts)
{
    write_text(berth_arena_printf(&f->arena, "%s/texts", f->directory), texts);
    const char *command = berth_arena_printf(
        &f->arena,
        "cd %s && { while [ -e texts ] && ! [ -e stop ]; do"
        " grep -lsF -f texts /proc/[0-9]*/cmdline >>seen; echo >>looks; done; touch stopped; }"
        " </dev/null >/dev/null 2>&1 &",
        f->directory);
    assert_int_equal(system(command), 0);
}

static void stop_watcher(struct fixture *f)
{
    struct stat seen, looks;
    const char *stopped = berth_arena_printf(&f->arena, "%s/stopped", f->directory);
    write_text(berth_arena_printf(&f->arena, "%s/stop", f->directory), "");
    WAIT_FOR(access(stopped, F_OK) == 0);
    assert_int_equal(stat(berth_arena_printf(&f->arena, "%s/seen", f->directory), &seen), 0);
    assert_int_equal(stat(berth_arena_printf(&f->arena, "%s/looks", f->directory), &looks), 0);
    assert_true(looks.st_size > 10);
    assert_int_equal(seen.st_size, 0);
}

/* From before the connection is made until the place is given back. */
static void secrets_are_on_no_command_line(void **state)
{
    struct fixture *f = *state;
    const char *const env[] = {"TOKEN=value-on-no-command-line", NULL};
    const char *body = strchr(farhost()->key, '\n') + 1; /* its second line is the key's own */
    start_watcher(f, berth_arena_printf(&f->arena, "%s\n%.40s\n", env[0] + 6, body));
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    for (int i = 0; i < 6; i++) {
        struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
        struct berth_exec_end end;
        struct live live;
        r.argv = SH("sleep 0.3; [ \"$TOKEN\" = value-on-no-\"command-line\" ]");
        r.env = env;
        r.terminal = i % 2;
        r.timeout_ms = i > 2 ? 60000 : 0;
        finish(start(f, &r, l, &live), &end);
        assert_int_equal(end.exit_code, 0);
        live_clear(&live);
    }
    assert_int_equal(give_lease(f, l, BERTH_LEASE_RELEASED)->status, BERTH_LEASE_RELEASED);
    stop_watcher(f);
    assert_all_gone(f, l);
}

/* --- processes that are killed --- */

/* The numbers of the ssh(1) of this test: those that hold connections, or those of sessions. */
static int find_ssh(bool masters, int *pids, int max)
{
    DIR *dir = opendir("/proc");
    int count = 0;
    for (struct dirent *entry; dir && count < max && (entry = readdir(dir));) {
        char path[300], line[8192] = "";
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        auto_close int fd = atoi(entry->d_name) > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t got = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
        if (got > 0 && strcmp(line, "ssh") == 0 &&
            memmem(line, (size_t)got, getenv("XDG_RUNTIME_DIR"),
                   strlen(getenv("XDG_RUNTIME_DIR"))) &&
            masters == (memmem(line, (size_t)got, "\0-M", 4) != NULL))
            pids[count++] = atoi(entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return count;
}

/* The end is not known, and nothing runs on; a new connection tells. Where the far end hangs up in
 * two steps, it may know that a signal of its own ended the command, before its streams were cut.
 */
static void assert_lost(struct fixture *f, const struct berth_lease *l, struct berth_exec *x,
                        struct live *live)
{
    struct berth_exec_end end;
    finish(x, &end);
    if (end.cause != BERTH_END_SIGNALLED)
        assert_string_equal(berth_end_cause_name(end.cause), "lost");
    assert_int_equal(end.exit_code, -1);
    assert_non_null(strstr(berth_buf_str(&live->out), "up"));
    live_clear(live);
    assert_nothing_runs(l);
    assert_says(f, l, "echo again", "again\n");
}

static void session_killed(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    struct live live;
    int pids[8];
    struct berth_exec *x = start_long(f, l, true, &live);
    int count = find_ssh(false, pids, 8);
    assert_int_equal(count, 1);
    assert_int_equal(kill(pids[0], SIGKILL), 0);
    assert_lost(f, l, x, &live);
    give_back(f, l);
}

static void master_killed(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    for (int i = 0; i < 4; i++) {
        struct live live;
        int pids[8];
        struct berth_exec *x = start_long(f, l, i % 2, &live);
        int count = find_ssh(true, pids, 8);
        assert_true(count >= 1);
        while (count)
            assert_int_equal(kill(pids[--count], SIGKILL), 0);
        assert_lost(f, l, x, &live);
    }
    give_back(f, l);
}

/* --- networks and disks --- */

/* Nobody says a word any more: ssh(1) notices that after some 15 seconds. */
static void network_is_cut(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    const char *address = farhost_lay_cable();
    if (!address) {
        print_message("# skipped: no network namespace with a cable could be made\n");
        skip();
    }
    struct berth_environment *e = changed_environment(f, (struct farhost_change){.host = address});
    struct berth_lease *l = take_lease(f, e, make_run(f));
    struct live live;
    int pids[8];
    struct berth_exec *x = start_long(f, l, false, &live);
    assert_int_equal(find_ssh(true, pids, 8), 1);
    farhost_cut_cable();
    WAIT_FOR(find_ssh(true, pids, 8) == 0);
    farhost_join_cable();
    assert_lost(f, l, x, &live);
    give_back(f, l);
}

static void fill_disk(void)
{
    char path[192], bytes[4096] = "x";
    (void)snprintf(path, sizeof path, "%s/filler", farhost()->small);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
}

static void empty_disk(void)
{
    char path[192];
    (void)snprintf(path, sizeof path, "%s/filler", farhost()->small);
    (void)unlink(path);
}

/* The workspace of this test is on the small disk. */
static void use_small_disk(void)
{
    farhost_make_workspace(farhost()->small, workspace, sizeof workspace);
}

static void full_disk_makes_no_place(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    use_small_disk();
    struct berth_environment *e = far_environment(f);
    fill_disk();
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UNPROCESSABLE);
    empty_disk();
    assert_non_null(strstr(f->err.message, farhost()->user)); /* who refused, and its words */
    assert_non_null(strstr(f->err.message, "No space left on device"));
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
    assert_all_gone(f, newest_lease(f, e)); /* not even the directory */
    give_back(f, take_lease(f, e, make_run(f)));
}

static void disk_is_full_while_a_command_runs(void **state)
{
    NEEDS_ROOT();
    struct fixture *f = *state;
    use_small_disk();
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec_end end;
    struct live live;
    fill_disk();
    end = run_script(f, l, "echo out; echo err >&2; exit 4", &live);
    assert_int_equal(end.cause, BERTH_END_EXITED);
    assert_int_equal(end.exit_code, 4);
    assert_string_equal(berth_buf_str(&live.out), "out\n");
    assert_string_equal(berth_buf_str(&live.err), "err\n");
    live_clear(&live);
    r.argv = SH("echo out; sleep 300");
    r.timeout_ms = 500;
    r.grace_ms = 300;
    finish(start(f, &r, l, &live), &end);
    assert_string_equal(berth_end_cause_name(end.cause), "timeout");
    live_clear(&live);
    struct berth_exec *x = start_long(f, l, false, &live);
    berth_exec_cancel(x);
    finish(x, &end);
    assert_string_equal(berth_end_cause_name(end.cause), "cancelled");
    assert_nothing_runs(l);
    live_clear(&live);
    give_back(f, l); /* what is to be removed is removed */
    empty_disk();
}

/* --- this machine --- */

static void remove_runtime_directory(struct fixture *f)
{
    const char *path = berth_arena_printf(&f->arena, "%s/berth", getenv("XDG_RUNTIME_DIR"));
    assert_ok(f, berth_fs_remove_tree(path, &f->err));
}

/* As logind does it at the last logout of the user. Commands go on, others begin, and places are
 * given back. */
static void runtime_directory_is_removed(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = far_environment(f);
    struct berth_lease *l = take_lease(f, e, make_run(f)), *other;
    struct berth_exec_end end;
    struct live live;
    struct berth_exec *x = start_long(f, l, false, &live);
    remove_runtime_directory(f); /* with the socket of a connection that is used */
    assert_says(f, l, "echo one", "one\n");
    other = take_lease(f, e, make_run(f));
    berth_exec_cancel(x);
    finish(x, &end);
    assert_int_equal(end.cause, BERTH_END_CANCELLED);
    live_clear(&live);
    remove_runtime_directory(f); /* of one that is idle */
    assert_done(f, give_lease(f, other, BERTH_LEASE_RELEASED), BERTH_LEASE_RELEASED,
                BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    remove_runtime_directory(f);
    x = start_long(f, l, true, &live);
    berth_exec_cancel(x);
    finish(x, &end);
    live_clear(&live);
    give_back(f, l);
}

/* --- whole runs --- */

struct performed {
    int rc;
    struct berth_run_result result;
    struct live live;
};

static struct performed perform(struct fixture *f, const struct berth_environment *e,
                                const char *script, int64_t timeout_ms, int cancel_fd)
{
    struct performed p;
    struct berth_run_request request = BERTH_RUN_REQUEST_INIT;
    request.environment_id = e->id;
    request.command.argv = SH(script);
    request.command.timeout_ms = timeout_ms;
    request.command.grace_ms = 300;
    request.cancel_fd = cancel_fd;
    request.handlers = live_handlers(&p.live);
    p.rc = berth_run_perform(f->b, &f->arena, &request, &p.result, &f->err);
    return p;
}

static void assert_performed(struct fixture *f, const struct berth_environment *e,
                             struct performed *p, enum berth_run_status status,
                             const char *error_code)
{
    struct berth_run *run;
    assert_ok(f, p->rc);
    assert_true(p->result.started);
    assert_false(p->result.owed);
    assert_ok(f, berth_run_get(f->b, &f->arena, p->result.run->id, &run, &f->err));
    assert_int_equal(run->status, status);
    if (error_code)
        assert_string_equal(run->error_code, error_code);
    else
        assert_null(run->error_code);
    const struct berth_lease *l = newest_lease(f, e);
    assert_string_equal(l->heartbeat_run_id, run->id);
    assert_row(f, l,
               status == BERTH_RUN_SUCCEEDED || status == BERTH_RUN_CANCELLED ? BERTH_LEASE_RELEASED
                                                                              : BERTH_LEASE_FAILED,
               BERTH_PLACE_GONE, BERTH_CLEANUP_SUCCESS);
    assert_nothing_runs(l);
    assert_int_equal(farhost_count_leases(workspace), 0);
    live_clear(&p->live);
}

static void *cancel_soon(void *ctx)
{
    pause_ms(1500);
    assert_int_equal(eventfd_write(*(int *)ctx, 1), 0);
    return NULL;
}

static void runs_over_ssh(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = far_environment(f);
    struct performed p = perform(f, e, "echo \"$PWD\" $(ls -A); exit 0", 0, -1);
    const char *below = berth_arena_printf(&f->arena, "%s/.berth/leases/", workspace);
    assert_int_equal(strncmp(berth_buf_str(&p.live.out), below, strlen(below)), 0);
    assert_non_null(strstr(berth_buf_str(&p.live.out), "/workspace\n")); /* and empty */
    assert_performed(f, e, &p, BERTH_RUN_SUCCEEDED, NULL);
    /* Directories that their owner has closed are removed with the lease. */
    p = perform(f, e, "mkdir -p a/b && touch a/b/c && chmod 0 a/b && chmod 555 a .", 0, -1);
    assert_performed(f, e, &p, BERTH_RUN_SUCCEEDED, NULL);
    p = perform(f, e, "exit 3", 0, -1);
    assert_int_equal(p.result.end.exit_code, 3);
    assert_performed(f, e, &p, BERTH_RUN_FAILED, "adapter_failed");
    p = perform(f, e, "trap '' TERM; sleep 300; sleep 300", 500, -1);
    assert_performed(f, e, &p, BERTH_RUN_TIMED_OUT, "timeout");
    auto_close int cancel_fd = eventfd(0, EFD_CLOEXEC);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &cancel_fd), 0);
    p = perform(f, e, "sleep 300; sleep 300", 0, cancel_fd);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_performed(f, e, &p, BERTH_RUN_CANCELLED, "cancelled");
    assert_all_gone(f, NULL);
}

/* A command that cannot be run there is not run here instead. */
static void nothing_runs_here_instead(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = far_environment(f);
    struct berth_lease *l = take_lease(f, e, make_run(f));
    const char *open = berth_arena_printf(&f->arena, "%s/open", f->directory);
    const char *marker = berth_arena_printf(&f->arena, "%s/ran-here", open);
    const char *script = berth_arena_printf(&f->arena, "touch '%s'", marker);
    assert_int_equal(mkdir(open, 0700), 0);
    assert_int_equal(chmod(open, 0777), 0); /* any user could make the marker here */
    assert_int_equal(chmod(f->directory, 0711), 0);
    farhost_stop();
    struct performed p = perform(f, e, script, 0, -1);
    assert_true(p.rc < 0);
    assert_false(p.result.started);
    assert_int_equal(p.result.run->status, BERTH_RUN_FAILED);
    assert_string_equal(p.result.run->error_code, "lease_acquire_failed");
    live_clear(&p.live);
    struct berth_exec_request r = BERTH_EXEC_REQUEST_INIT;
    struct berth_exec *x;
    r.lease_id = l->id;
    r.argv = SH(script);
    assert_fails(f, BERTH_E_UNAVAILABLE, "Connection refused",
                 berth_exec_start(f->b, &r, NULL, &x, &f->err));
    farhost_start();
    assert_int_equal(access(marker, F_OK), -1);
    /* The run may have met a connection that was just breaking: then its place was owed. */
    move_clock(INT64_C(3600) * 1000);
    (void)sweep(f);
    give_back(f, l);
    assert_int_equal(access(marker, F_OK), -1);
}

/* --- the table --- */

/* What a test changed of the server is as it was, also when it failed. */
static void restore_server(void)
{
    farhost_start(); /* which does nothing when it runs */
    if (geteuid() != 0)
        return;
    farhost_set_shell("/bin/sh");
    farhost_set_file(".profile", NULL);
    farhost_set_file(".bashrc", NULL);
    empty_disk();
}

static int set_up(void **state)
{
    int rc = fixture_setup(state);
    struct fixture *f = *state;
    farhost_make_workspace(farhost()->workspace, workspace, sizeof workspace);
    restore_server();
    return rc < 0 || setenv("XDG_RUNTIME_DIR", f->directory, 1) < 0 ? -1 : 0;
}

#define SSH_TEST(test)                                                                             \
    {                                                                                              \
#test " (sqlite)", test, set_up, fixture_teardown, &on_sqlite                              \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        SSH_TEST(R6_ssh_lease),
        {"R6_ssh_lease (postgres)", R6_ssh_lease, set_up, fixture_teardown, &on_postgres},
        SSH_TEST(command_with_its_streams),
        SSH_TEST(many_at_once),
        SSH_TEST(keys_do_not_stay),
        SSH_TEST(cancel_ends_the_tree),
        SSH_TEST(server_killed_in_the_middle),
        SSH_TEST(release_is_owed_while_the_server_is_away),
        SSH_TEST(nobody_there_makes_no_place),
        SSH_TEST(wrong_host_key),
        SSH_TEST(known_hosts_of_the_user),
        SSH_TEST(wrong_user_key),
        SSH_TEST(names_that_look_like_options),
        SSH_TEST(noisy_login_shell),
        SSH_TEST(login_shell_with_ways_of_its_own),
        SSH_TEST(profile_sets_the_path),
        SSH_TEST(profile_that_fails),
        SSH_TEST(shell_that_refuses),
        SSH_TEST(secret_in_the_output_is_masked),
        SSH_TEST(secrets_are_on_no_command_line),
        SSH_TEST(session_killed),
        SSH_TEST(master_killed),
        SSH_TEST(network_is_cut),
        SSH_TEST(full_disk_makes_no_place),
        SSH_TEST(disk_is_full_while_a_command_runs),
        SSH_TEST(runtime_directory_is_removed),
        SSH_TEST(runs_over_ssh),
        SSH_TEST(nothing_runs_here_instead),
    };
    const char *only = getenv("BERTH_TEST_ONLY"); /* a pattern */
    if (only)
        cmocka_set_test_filter(only);
    return cmocka_run_group_tests_name("ssh", tests, NULL, NULL);
}
