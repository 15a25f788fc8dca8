/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/cage_escape.c - a worker that tries to leave its cage (tests/fake/prisoner.c).
 * The same program runs without any confinement, too: there each attempt succeeds, so that a
 * refusal is the work of the cage. What only root could do is not expected of another user. */
#include "plugin/launch.h"

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fs.h"
#include "os/spawn.h"

#define DESCRIPTOR 77
#define NOBODY 65534
#define ATTEMPTS 46
#define CROWDS 5

static int prisoner_fd; /* the program of the worker */

struct prison {
    char directory[64], data[96], package[96], state[160], key[128];
    int stream, datagrams, key_fd;
    pid_t victim; /* a process of ours */
    struct berth_buf out;
    struct berth_error err;
};

/* What even an unconfined program cannot do unless it is root's, or this machine may not allow. */
static const char *const privileged[] = {"key-by-handle", "system-written",         "mount",
                                         "change-root",   "become-root-by-program", "become-root",
                                         "make-a-device", "core-pattern",           NULL};
static const char *const kernel[] = {"foreign-architecture",
                                     "io-uring",
                                     "module",
                                     "first-process",
                                     "processes-without-limit",
                                     "watchers-without-limit",
                                     "watches-without-limit",
                                     "fanotify",
                                     "descriptors-in-flight",
                                     "aio-context",
                                     NULL};
/* Root's workers have a user of their own, whose limits nobody shares. */
static const char *const of_its_user[] = {"watchers-without-limit", "watches-without-limit", NULL};

static bool is_among(const char *name, size_t len, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == len && strncmp(*list, name, len) == 0)
            return true;
    return false;
}

static const char *in(const struct prison *p, const char *name)
{
    static char path[8][256];
    static int next;
    char *out = path[next++ % 8];
    (void)snprintf(out, 256, "%s/%s", p->data, name);
    return out;
}

static void put_file(const char *path, const char *text, mode_t mode)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
}

static int listen_at(const char *path, int type, bool abstract)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path + abstract, sizeof at.sun_path - 1, "%s", path);
    size_t len = offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1;
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, (socklen_t)len), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 16), 0);
    return fd;
}

static void copy_program(const struct prison *p, const char *name, mode_t mode)
{
    char path[200];
    auto_buf bytes = BERTH_BUF_INIT(64 * 1024 * 1024);
    struct berth_error err;
    (void)snprintf(path, sizeof path, "%s/%s", p->package, name);
    auto_close int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_int_equal(lseek(prisoner_fd, 0, SEEK_SET), 0);
    assert_int_equal(berth_fs_read_all(prisoner_fd, &bytes, &err), BERTH_OK);
    assert_int_equal(berth_fs_write_all(to, bytes.data, bytes.len, &err), BERTH_OK);
    assert_int_equal(fchmod(to, mode), 0);
}

static pid_t start_victim(const struct prison *p)
{
    int ends[2];
    char none;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(p->data) < 0)
            _exit(1);
        (void)execlp("sleep", "sleep", "600", (char *)NULL);
        _exit(1);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &none, 1), 0); /* it is closed when sleep runs */
    (void)close(ends[0]);
    return pid;
}

static void write_plan(const struct prison *p)
{
    struct {
        struct file_handle head;
        unsigned char bytes[MAX_HANDLE_SZ];
    } h = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount_id;
    char hex[2 * MAX_HANDLE_SZ + 1] = "", plan[4096];
    if (name_to_handle_at(AT_FDCWD, p->key, &h.head, &mount_id, 0) == 0)
        for (unsigned i = 0; i < h.head.handle_bytes; i++)
            (void)snprintf(hex + 2 * i, 3, "%02x", h.bytes[i]);
    (void)snprintf(plan, sizeof plan,
                   "socket %s\nabstract %s\ndatagrams %s\nvictim %d\ndescriptor %d\nkey %s\n"
                   "store %s\nother %s\nhome %s\npackage %s\nsetuid %s/setuid\nhandle %s\n"
                   "handle-type %d\n",
                   in(p, "berthd.sock"), p->directory, in(p, "datagrams"), (int)p->victim,
                   DESCRIPTOR, p->key, in(p, "berth.db"), in(p, "plugin-state/other/file"),
                   in(p, "home"), p->package, p->package, hex, h.head.handle_type);
    char path[200];
    (void)snprintf(path, sizeof path, "%s/plan", p->state);
    put_file(path, plan, 0644);
}

static int set_up(void **state)
{
    struct prison *p = calloc(1, sizeof *p);
    *state = p;
    (void)snprintf(p->directory, sizeof p->directory, "/tmp/berth-prison.XXXXXX");
    if (!mkdtemp(p->directory) || chmod(p->directory, 0755) < 0)
        return -1;
    (void)snprintf(p->data, sizeof p->data, "%s/data", p->directory);
    (void)snprintf(p->package, sizeof p->package, "%s/package", p->directory);
    (void)snprintf(p->state, sizeof p->state, "%s/plugin-state/mine", p->data);
    (void)snprintf(p->key, sizeof p->key, "%s/secrets.key", p->data);
    assert_int_equal(mkdir(p->package, 0755), 0);
    assert_int_equal(berth_fs_mkdirs(p->state, 0700, &p->err), BERTH_OK);
    assert_int_equal(berth_fs_mkdirs(in(p, "plugin-state/other"), 0700, &p->err), BERTH_OK);
    assert_int_equal(mkdir(in(p, "home"), 0700), 0);
    put_file(p->key, "secret", 0600);
    put_file(in(p, "berth.db"), "ledger", 0600);
    put_file(in(p, "plugin-state/other/file"), "of another", 0600);
    copy_program(p, "worker", 0755);
    copy_program(p, "setuid", geteuid() == 0 ? 04755 : 0755);
    p->stream = listen_at(in(p, "berthd.sock"), SOCK_STREAM, false);
    p->datagrams = listen_at(in(p, "datagrams"), SOCK_DGRAM, false);
    (void)listen_at(p->directory, SOCK_STREAM, true);
    /* For the victim and for a careless parent: it is not closed by an exec. */
    p->key_fd = open(p->key, O_RDONLY);
    assert_int_equal(dup2(p->key_fd, DESCRIPTOR), DESCRIPTOR);
    p->victim = start_victim(p);
    p->out = (struct berth_buf)BERTH_BUF_INIT(1024 * 1024);
    write_plan(p);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    struct prison *p = *state;
    (void)kill(p->victim, SIGKILL);
    (void)waitpid(p->victim, NULL, 0);
    (void)close(DESCRIPTOR);
    berth_buf_clear(&p->out);
    (void)nftw(p->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(p);
    return 0;
}

/* Checks that all attempts succeed without a cage, and that all fail in it. */
static void assert_attempts(struct prison *p, bool unconfined)
{
    int count = 0;
    for (const char *at = berth_buf_str(&p->out); *at;) {
        size_t len = strcspn(at, " "), line = strcspn(at, "\n");
        bool ok = strncmp(at + len, " ok\n", 4) == 0;
        bool excused = unconfined ? is_among(at, len, kernel) ||
                                        (geteuid() != 0 && is_among(at, len, privileged))
                                  : geteuid() == 0 && is_among(at, len, of_its_user);
        if (ok != unconfined && !excused)
            fail_msg("%s: %.*s", unconfined ? "without the cage" : "in the cage", (int)line, at);
        if (!ok && excused)
            (void)printf("# not possible without the cage either: %.*s\n", (int)line, at);
        at += line + 1;
        count++;
    }
    assert_int_equal(count, ATTEMPTS);
}

static struct berth_worker_spec prisoner_spec(const struct prison *p)
{
    static char entry[200];
    (void)snprintf(entry, sizeof entry, "%s/worker", p->package);
    return (struct berth_worker_spec){.plugin_key = "prisoner",
                                      .package = p->package,
                                      .entry = entry,
                                      .state = p->state,
                                      .data = p->data};
}

/* Runs a program in a cage until it has ended, with its output in p->out. */
static int run_caged(struct prison *p, const char *const *argv, const struct berth_confinement *c,
                     int *status)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct berth_spawn what = {
        .argv = argv, .env = env, .cwd = p->state, .fds = {-1, ends[1], 2}, .confinement = c};
    struct berth_child child;
    int rc = berth_spawn(&what, &child, &p->err);
    (void)close(ends[1]);
    if (rc == BERTH_OK) {
        assert_ok(p, berth_fs_read_all(ends[0], &p->out, &p->err));
        assert_int_equal(waitpid(child.pid, status, 0), child.pid);
        (void)close(child.pidfd);
    }
    (void)close(ends[0]);
    return rc;
}

static void in_its_cage(void **state)
{
    struct prison *p = *state;
    struct berth_worker_spec spec = prisoner_spec(p);
    struct berth_launch launch;
    int status;
    assert_ok(p, berth_launch_prepare("prisoner", &spec, &launch, &p->err));
    assert_ok(p, run_caged(p, launch.options.argv, launch.options.confinement, &status));
    berth_launch_clear(&launch);
    assert_attempts(p, false);
    assert_int_equal(status, 0);
    struct stat st; /* the worker's links are its own, and lead nowhere */
    assert_int_equal(stat(p->key, &st), 0);
    assert_int_equal(st.st_nlink, 1);
}

/* Puts a link to `to` where the directory is, as its owner can at any moment. */
static void swap_for_link(const struct prison *p, const char *directory, const char *to)
{
    char aside[200];
    (void)snprintf(aside, sizeof aside, "%s/aside", p->directory);
    assert_int_equal(rename(directory, aside), 0);
    assert_int_equal(symlink(to, directory), 0);
}

/* The package is swapped for a link before berth looks at it, and the program is behind both. */
static void package_that_is_a_link(void **state)
{
    struct prison *p = *state;
    struct berth_worker_spec spec = prisoner_spec(p);
    char inner[200];
    (void)snprintf(inner, sizeof inner, "%s/aside/worker", p->directory);
    swap_for_link(p, p->package, p->directory);
    spec.entry = inner;
    struct berth_launch launch;
    assert_int_equal(berth_launch_prepare("prisoner", &spec, &launch, &p->err), BERTH_E_DENIED);
    berth_launch_clear(&launch);
    assert_int_equal(berth_launch_prepare_script("0", "", &spec, &launch, &p->err), BERTH_E_DENIED);
    assert_non_null(strstr(p->err.message, "symbolic link"));
    berth_launch_clear(&launch);
}

/* The package is swapped after berth has looked at it: it must not be what is mounted. */
static void package_that_becomes_a_link(void **state)
{
    struct prison *p = *state;
    struct berth_worker_spec spec = prisoner_spec(p);
    struct berth_launch launch;
    const char *const argv[] = {"/bin/ls", p->package, NULL};
    int status;
    assert_ok(p, berth_launch_prepare("prisoner", &spec, &launch, &p->err));
    swap_for_link(p, p->package, "/");
    int rc = run_caged(p, argv, launch.options.confinement, &status);
    berth_launch_clear(&launch);
    assert_string_equal(berth_buf_str(&p->out), "");
    assert_int_equal(rc, BERTH_E_UNAVAILABLE);
}

/* The same for the node_modules above a package, without which a worker may run as well. */
static void modules_that_become_a_link(void **state)
{
    struct prison *p = *state;
    struct berth_worker_spec spec = prisoner_spec(p);
    struct berth_arena arena = BERTH_ARENA_INIT;
    struct berth_plugin_cage cage = {.arena = &arena};
    char modules[200];
    (void)snprintf(modules, sizeof modules, "%s/node_modules", p->directory);
    const char *const argv[] = {"/bin/sh", "-c", "test -e \"$0/etc\" && echo seen", modules, NULL};
    int status;
    assert_int_equal(mkdir(modules, 0755), 0);
    assert_ok(p, berth_plugin_cage_make(&cage, "prisoner", &spec, "/usr/bin/env", &p->err));
    swap_for_link(p, modules, "/");
    assert_ok(p, run_caged(p, argv, &cage.confinement, &status));
    berth_arena_clear(&arena);
    assert_string_equal(berth_buf_str(&p->out), "");
}

/* A link in an outer mount, where an inner one is to be mounted: nothing is made behind it. */
static void link_at_a_mount_point(void **state)
{
    struct prison *p = *state;
    char link[200];
    (void)snprintf(link, sizeof link, "%s/link", p->package);
    assert_int_equal(symlink(in(p, "home"), link), 0);
    const struct berth_mount mounts[] = {
        {.kind = BERTH_MOUNT_SYSTEM, .target = "/bin"},
        {.kind = BERTH_MOUNT_SYSTEM, .target = "/lib"},
        {.kind = BERTH_MOUNT_READ, .target = "/outer", .source = p->package},
        {.kind = BERTH_MOUNT_SCRATCH, .target = "/outer/link/made"},
    };
    const char *const writable[] = {NULL};
    struct berth_cage cage = {.root = {.mounts = mounts, .count = 4}, .writable = writable};
    struct berth_confinement c = {.ruleset_fd = -1, .cage = &cage};
    const char *const argv[] = {"/bin/true", NULL};
    int status;
    assert_int_equal(run_caged(p, argv, &c, &status), BERTH_E_UNAVAILABLE);
    assert_int_equal(access(in(p, "home/made"), F_OK), -1);
}

/* The engine's thread starts programs, and must not wait for the 45 s that a lease may be kept. */
static void program_that_cannot_be_opened(void **state)
{
    struct prison *p = *state;
    struct berth_worker_spec spec = prisoner_spec(p);
    struct berth_launch launch;
    assert_ok(p, berth_launch_prepare("prisoner", &spec, &launch, &p->err));
    auto_close int leased = open(spec.entry, O_RDWR | O_CLOEXEC);
    void (*before)(int) = signal(SIGIO, SIG_IGN);
    assert_int_equal(fcntl(leased, F_SETLEASE, F_WRLCK), 0);
    struct berth_spawn what = {.argv = launch.options.argv,
                               .env = launch.options.env,
                               .cwd = launch.options.cwd,
                               .fds = {-1, -1, 2},
                               .confinement = launch.options.confinement};
    struct berth_child child;
    assert_int_equal(berth_spawn(&what, &child, &p->err), BERTH_E_UNAVAILABLE);
    assert_non_null(strstr(p->err.message, "run the program in time"));
    (void)signal(SIGIO, before);
    berth_launch_clear(&launch);
}

/* A cage whose program waits for a line, then takes all processes that it gets, says a byte, and
 * keeps them until its input ends. */
struct crowd {
    struct berth_launch launch;
    struct berth_child child;
    int in, out;
};

static bool start_crowd(const struct prison *p, struct crowd *c)
{
    static const char script[] = "read go; (for i in $(seq 400); do sleep 600 & done) 2>/dev/null; "
                                 "printf x; read end";
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct berth_worker_spec spec = prisoner_spec(p);
    struct berth_error err;
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        berth_launch_prepare("prisoner", &spec, &c->launch, &err) < 0)
        return false;
    struct berth_spawn what = {.argv = argv,
                               .env = env,
                               .cwd = p->state,
                               .fds = {in[0], out[1], 2},
                               .confinement = c->launch.options.confinement};
    int rc = berth_spawn(&what, &c->child, &err);
    (void)close(in[0]);
    (void)close(out[1]);
    c->in = in[1];
    c->out = out[0];
    return rc == BERTH_OK;
}

/* Returns how many of 20 processes a user can still start while its cages have what they can get;
 * or -1. Has left root's rights. */
static int start_beside_crowds(const struct prison *p, uid_t uid)
{
    struct crowd crowds[CROWDS];
    const struct rlimit few = {300, 300};
    int started = 0;
    char byte;
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
        setrlimit(RLIMIT_NPROC, &few) < 0)
        return -1;
    for (int i = 0; i < CROWDS; i++)
        if (!start_crowd(p, &crowds[i]))
            return -1;
    for (int i = 0; i < CROWDS; i++)
        if (write(crowds[i].in, "go\n", 3) != 3)
            return -1;
    for (int i = 0; i < CROWDS; i++)
        if (read(crowds[i].out, &byte, 1) != 1)
            return -1;
    for (pid_t pid; started < 20 && (pid = fork()) >= 0; started++)
        if (pid == 0)
            for (;;)
                (void)pause();
    for (int i = 0; i < CROWDS; i++)
        berth_launch_clear(&crowds[i].launch);
    return started; /* the cages and the processes end with us */
}

/* The kernel counts processes for the user, also those of cages that have a user namespace. */
static void many_cages_leave_processes(void **state)
{
    struct prison *p = *state;
    uid_t uid = 300000 + (uid_t)getpid(); /* other programs may run as nobody */
    int status;
    if (geteuid() != 0) {
        (void)printf("# only root can take a user that has no other processes\n");
        return;
    }
    assert_int_equal(chown(p->data, uid, uid), 0);
    assert_int_equal(chown(in(p, "plugin-state"), uid, uid), 0);
    assert_int_equal(chown(p->state, uid, uid), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int started = start_beside_crowds(p, uid);
        if (getuid() == uid)
            (void)kill(-1, SIGKILL); /* all that have this user, but us */
        _exit(started < 0 ? 100 : started);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 20);
}

static void without_a_cage(void **state)
{
    struct prison *p = *state;
    char entry[200];
    int ends[2], status;
    (void)snprintf(entry, sizeof entry, "%s/worker", p->package);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(p->state) == 0 && dup2(ends[1], 1) == 1)
            (void)execl(entry, entry, (char *)NULL);
        _exit(1);
    }
    (void)close(ends[1]);
    assert_ok(p, berth_fs_read_all(ends[0], &p->out, &p->err));
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_attempts(p, true);
}

/* The program can be opened only before. */
static void become_nobody(void)
{
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                           setresuid(NOBODY, NOBODY, NOBODY) < 0))
        abort();
    (void)prctl(PR_SET_DUMPABLE, 1); /* as any program that nobody starts */
}

/* With the argument "unprivileged" it is not root's. */
int main(int argc, char **argv)
{
    prisoner_fd = open(PRISONER, O_RDONLY | O_CLOEXEC);
    if (argc > 1 && strcmp(argv[1], "unprivileged") == 0)
        become_nobody();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_its_cage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(package_that_is_a_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(package_that_becomes_a_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(modules_that_become_a_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(link_at_a_mount_point, set_up, tear_down),
        cmocka_unit_test_setup_teardown(program_that_cannot_be_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_cages_leave_processes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_cage, set_up, tear_down),
    };
    bool own_proc;
    struct berth_error why;
    if (berth_cage_check(&own_proc, &why) < 0) {
        (void)printf("1..0 # skipped: %s\n", why.message);
        return 0;
    }
    return cmocka_run_group_tests_name("cage_escape", tests, NULL, NULL);
}
