/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/ssh.c - leases and commands on a real sshd, and what becomes of them when
 * something on the way breaks. */
#include "fixture.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/time.h"
#include "core/exec.h"
#include "farhost.h"

#define OUTPUT_BYTES_MAX (64 * 1024 * 1024)
#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})

static char workspace[200]; /* of this test, at the far end */

struct live {
    struct berth_buf out, err; /* to be read when it is over */
    _Atomic size_t seen;       /* so far */
};

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct live *live = ctx;
    berth_buf_append(stream == BERTH_STDOUT ? &live->out : &live->err, bytes, len);
    atomic_fetch_add(&live->seen, len);
}

static struct berth_environment *far_environment(struct fixture *f)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_environment *e;
    input.name = "far";
    input.driver = BERTH_DRIVER_SSH;
    input.config_json = farhost_config(workspace);
    assert_ok(f, berth_environment_create(f->b, &f->arena, &input, &issues, &e, &f->err));
    return e;
}

static struct berth_exec *start(struct fixture *f, struct berth_exec_request *r,
                                const struct berth_lease *l, struct live *live)
{
    *live = (struct live){.out = BERTH_BUF_INIT(OUTPUT_BYTES_MAX),
                          .err = BERTH_BUF_INIT(OUTPUT_BYTES_MAX)};
    struct berth_exec_handlers handlers = {.on_output = on_output, .ctx = live};
    struct berth_exec *x;
    r->lease_id = l->id;
    assert_ok(f, berth_exec_start(f->b, r, &handlers, &x, &f->err));
    return x;
}

static void finish(struct berth_exec *x, struct berth_exec_end *end)
{
    berth_exec_wait(x, end);
    berth_exec_free(x);
}

static void clear(struct live *live)
{
    berth_buf_clear(&live->out);
    berth_buf_clear(&live->err);
}

/* The label of what a lease runs, and that nothing carries it any more. */
static void assert_nothing_runs(const struct berth_lease *l)
{
    char label[80];
    (void)snprintf(label, sizeof label, "BERTH_LEASE_ID=%s", l->id);
    for (int i = 0; i < 500 && farhost_count_processes(label); i++)
        pause_ms(10);
    assert_int_equal(farhost_count_processes(label), 0);
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
    clear(&live);
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
        clear(&live[i]);
    }
    assert_done(f, give_lease(f, l, BERTH_LEASE_RELEASED), BERTH_LEASE_RELEASED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
}

static void keys_do_not_stay(void **state)
{
    struct fixture *f = *state;
    struct berth_lease *l = take_lease(f, far_environment(f), make_run(f));
    char command[300];
    (void)snprintf(command, sizeof command, "find %s/berth -name '*.k' | grep -q .",
                   getenv("XDG_RUNTIME_DIR"));
    assert_int_not_equal(system(command), 0); /* gone as soon as the connection stands */
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
    for (int i = 0; i < 500 && !atomic_load(&live.seen); i++)
        pause_ms(10);
    berth_exec_cancel(x);
    finish(x, &end);
    assert_int_equal(end.cause, BERTH_END_CANCELLED);
    assert_nothing_runs(l);
    clear(&live);
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
    for (int i = 0; i < 500 && !atomic_load(&live.seen); i++)
        pause_ms(10);
    farhost_stop();
    farhost_start();
    finish(x, &end);
    assert_int_equal(end.cause, BERTH_END_LOST);
    assert_int_equal(end.exit_code, -1);
    assert_nothing_runs(l);
    assert_done(f, give_lease(f, l, BERTH_LEASE_RELEASED), BERTH_LEASE_RELEASED, BERTH_PLACE_GONE,
                BERTH_CLEANUP_SUCCESS);
    clear(&live);
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
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UNPROCESSABLE);
    farhost_start();
    assert_non_null(strstr(f->err.message, "Connection refused"));
    assert_done(f, newest_lease(f, e), BERTH_LEASE_FAILED, BERTH_PLACE_NONE, BERTH_CLEANUP_NULL);
}

static int set_up(void **state)
{
    int rc = fixture_setup(state);
    struct fixture *f = *state;
    (void)snprintf(workspace, sizeof workspace, "%s/XXXXXX", farhost()->workspace);
    return rc < 0 || !mkdtemp(workspace) || chmod(workspace, 0777) < 0 ||
                   setenv("XDG_RUNTIME_DIR", f->directory, 1) < 0
               ? -1
               : 0;
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
