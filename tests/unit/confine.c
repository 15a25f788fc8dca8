/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/confine.c - what a confined program can do, and what it cannot. What Landlock refuses
 * is tried without it as well: it would have worked. */
#include "os/confine.h"

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/landlock.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "os/fs.h"

#define OTHER_UID 60123

static const char *const environment[] = {"PATH=/usr/bin:/bin", "MARK=here", NULL};

/* A directory with something to read, something to write, and something that is nobody's. */
struct ground {
    char directory[64], readable[80], writable[80], outside[80];
    const char *readable_paths[16], *writable_paths[4], *reachable_paths[4];
    struct berth_confine_request request;
    struct berth_confinement c;
    struct berth_buf out; /* what the last program said */
    int status;           /* and how it ended, as wait says it */
    struct berth_error err;
};

static void put_file(const char *directory, const char *name, const char *text, mode_t mode)
{
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
}

static void make_directory(struct ground *g, char path[80], const char *name, mode_t mode)
{
    (void)snprintf(path, 80, "%.40s/%s", g->directory, name);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int set_up(void **state)
{
    static const char *const system[] = {"/usr",  "/lib", "/lib64",         "/bin", "/etc",
                                         "/proc", "/dev", "/no/such/place", NULL};
    struct ground *g = calloc(1, sizeof *g);
    *state = g;
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-confine.XXXXXX");
    if (!mkdtemp(g->directory) || chmod(g->directory, 0755) < 0)
        return -1;
    make_directory(g, g->readable, "readable", 0755);
    make_directory(g, g->writable, "writable", 0777);
    make_directory(g, g->outside, "outside", 0777);
    put_file(g->readable, "file", "words", 0666);
    put_file(g->writable, "file", "words", 0666);
    put_file(g->outside, "secret", "hidden", 0666);
    size_t count = 0;
    for (; system[count]; count++)
        g->readable_paths[count] = system[count];
    g->readable_paths[count] = g->readable;
    g->writable_paths[0] = g->writable;
    g->writable_paths[1] = "/dev/null";
    g->request = (struct berth_confine_request){.readable = g->readable_paths,
                                                .writable = g->writable_paths,
                                                .reachable = g->reachable_paths};
    g->c.ruleset_fd = -1;
    g->out = (struct berth_buf)BERTH_BUF_INIT(1 << 20);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    berth_confine_close(&g->c);
    berth_buf_clear(&g->out);
    (void)nftw(g->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(g);
    return 0;
}

static void confine(struct ground *g)
{
    assert_ok(g, berth_confine_open(&g->request, &g->c, &g->err));
}

static int landlock_abi(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static void want_landlock(int abi)
{
    if (landlock_abi() >= abi)
        return;
    (void)printf("# skipped: this kernel has no Landlock of ABI %d\n", abi);
    skip();
}

static void want_root(void)
{
    if (geteuid() == 0)
        return;
    (void)printf("# skipped: only root can choose another user\n");
    skip();
}

/* Runs a program to its end, confined unless `c` is NULL; both its streams are in g->out. */
static const char *run_in(struct ground *g, const struct berth_confinement *c, const char *cwd,
                          const char *const *argv)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct berth_spawn what = {.argv = argv,
                               .env = environment,
                               .cwd = cwd,
                               .fds = {-1, ends[1], ends[1]},
                               .confinement = c};
    struct berth_child child = {0};
    int rc = berth_spawn(&what, &child, &g->err);
    (void)close(ends[1]);
    berth_buf_truncate(&g->out, 0);
    if (rc == BERTH_OK)
        assert_ok(g, berth_fs_read_all(ends[0], &g->out, &g->err));
    (void)close(ends[0]);
    assert_ok_at(rc, &g->err, argv[0], __FILE__, __LINE__);
    assert_int_equal(waitpid(child.pid, &g->status, 0), child.pid);
    (void)close(child.pidfd);
    return berth_buf_str(&g->out);
}

static const char *run(struct ground *g, const struct berth_confinement *c, const char *const *argv)
{
    return run_in(g, c, NULL, argv);
}

#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})

/* A script that says of each thing it tries "name ok" or which errno it was. `d` is the ground's
 * directory, `parent` our number. */
#define TRIES(directory, script)                                                                   \
    ((const char *const[]){"python3", "-I", "-S", "-c",                                            \
                           "import errno, os, socket, sys\n"                                       \
                           "d, parent = sys.argv[1], os.getppid()\n"                               \
                           "def t(name, f, *args):\n"                                              \
                           "    try: f(*args); print(name, 'ok')\n"                                \
                           "    except OSError as e: print(name, errno.errorcode[e.errno])\n"      \
                           "def r(p): os.close(os.open(p, os.O_RDONLY))\n"                         \
                           "def w(p): os.close(os.open(p, os.O_WRONLY | os.O_CREAT, 0o666))\n"     \
                           "o = d + '/outside'\n" script,                                          \
                           (directory), NULL})

/* --- files --- */

static void reads_and_writes_where_it_may(void **state)
{
    struct ground *g = *state;
    want_landlock(1);
    confine(g);
    const char *said =
        run(g, &g->c,
            TRIES(g->directory, "t('read', r, d + '/readable/file')\n"
                                "t('list', os.listdir, d + '/readable')\n"
                                "w2 = d + '/writable'\n"
                                "t('read there', r, w2 + '/file')\n"
                                "t('write', w, w2 + '/file')\n"
                                "t('create', w, w2 + '/new')\n"
                                "t('truncate', os.truncate, w2 + '/new', 0)\n"
                                "t('mkdir', os.mkdir, w2 + '/dir')\n"
                                "t('rename', os.rename, w2 + '/new', w2 + '/dir/n')\n"
                                "t('symlink', os.symlink, 'x', w2 + '/link')\n"
                                "t('unlink', os.unlink, w2 + '/link')\n"
                                "t('null', w, '/dev/null')\n"
                                "r2 = d + '/readable'\n"
                                "t('not write', w, r2 + '/file')\n"
                                "t('not create', w, r2 + '/new')\n"
                                "t('not truncate', os.truncate, r2 + '/file', 0)\n"
                                "t('not unlink', os.unlink, r2 + '/file')\n"
                                "t('not mkdir', os.mkdir, r2 + '/dir')\n"));
    assert_string_equal(said, "read ok\nlist ok\nread there ok\nwrite ok\ncreate ok\ntruncate ok\n"
                              "mkdir ok\nrename ok\nsymlink ok\nunlink ok\nnull ok\n"
                              "not write EACCES\nnot create EACCES\nnot truncate EACCES\n"
                              "not unlink EACCES\nnot mkdir EACCES\n");
    assert_string_equal(run(g, NULL, SH("cat /etc/hostname >/dev/null; echo fine")), "fine\n");
}

/* A directory that is swapped for a link must not open what the link leads to. */
static void links_are_not_allowed(void **state)
{
    struct ground *g = *state;
    char aside[100];
    want_landlock(1);
    (void)snprintf(aside, sizeof aside, "%s/aside", g->directory);
    assert_int_equal(rename(g->readable, aside), 0);
    assert_int_equal(symlink(g->outside, g->readable), 0);
    confine(g);
    const char *said = run(g, &g->c,
                           TRIES(g->directory, "t('read', r, d + '/readable/secret')\n"
                                               "t('list', os.listdir, o)\n"));
    assert_string_equal(said, "read EACCES\nlist EACCES\n");
}

/* Programs are run from where they can be read, and nowhere else. */
static void runs_what_it_may_read(void **state)
{
    struct ground *g = *state;
    char path[100];
    want_landlock(1);
    put_file(g->readable, "tool", "#!/bin/sh\necho tool runs\n", 0755);
    put_file(g->outside, "tool", "#!/bin/sh\necho tool runs\n", 0755);
    confine(g);
    (void)snprintf(path, sizeof path, "%s/tool", g->readable);
    assert_string_equal(run(g, &g->c, (const char *const[]){path, NULL}), "tool runs\n");
    (void)snprintf(path, sizeof path, "%s/tool", g->outside);
    assert_string_equal(run(g, NULL, (const char *const[]){path, NULL}), "tool runs\n");
    struct berth_child child;
    struct berth_spawn what = {.argv = (const char *const[]){path, NULL},
                               .env = environment,
                               .fds = {-1, -1, -1},
                               .confinement = &g->c};
    assert_int_equal(berth_spawn(&what, &child, &g->err), BERTH_E_DENIED);
}

#define INTRUSION                                                                                  \
    "t('read', r, o + '/secret')\n"                                                                \
    "t('write', w, o + '/secret')\n"                                                               \
    "t('create', w, o + '/new')\n"                                                                 \
    "t('list', os.listdir, o)\n"                                                                   \
    "t('mkdir', os.mkdir, o + '/dir')\n"                                                           \
    "t('symlink', os.symlink, 'x', o + '/link')\n"                                                 \
    "t('through a link', r, d + '/readable/link')\n"                                               \
    "t('through a directory', r, d + '/readable/up/outside/secret')\n"                             \
    "t('write through a link', w, d + '/readable/link')\n"                                         \
    "t('by dots', r, d + '/readable/../outside/secret')\n"                                         \
    "t('from where it is', r, 'secret')\n"                                                         \
    "t('by own cwd', r, '/proc/self/cwd/secret')\n"                                                \
    "t('by own root', r, '/proc/self/root' + o + '/secret')\n"                                     \
    "t('by our root', r, '/proc/%d/root%s/secret' % (parent, o))\n"                                \
    "t('by our descriptor', r, '/proc/%d/fd/250' % parent)\n"                                      \
    "t('our environment', r, '/proc/%d/environ' % parent)\n"                                       \
    "t('truncate', os.truncate, o + '/secret', 3)\n"

/* As the same user, so that the modes of the files would let it. */
static void nothing_outside_is_within_reach(void **state)
{
    struct ground *g = *state;
    char link[100], up[100], secret[100];
    want_landlock(3);
    (void)snprintf(link, sizeof link, "%s/link", g->readable);
    (void)snprintf(up, sizeof up, "%s/up", g->readable);
    (void)snprintf(secret, sizeof secret, "%s/secret", g->outside);
    assert_int_equal(symlink("../outside/secret", link), 0);
    assert_int_equal(symlink(g->directory, up), 0);
    auto_close int fd = open(secret, O_RDWR | O_CLOEXEC), far = fcntl(fd, F_DUPFD_CLOEXEC, 250);
    assert_int_equal(far, 250);
    confine(g);
    const char *const *argv = TRIES(g->directory, INTRUSION);
    const char *said = run_in(g, &g->c, g->outside, argv);
    assert_string_equal(said, "read EACCES\nwrite EACCES\ncreate EACCES\nlist EACCES\n"
                              "mkdir EACCES\nsymlink EACCES\nthrough a link EACCES\n"
                              "through a directory EACCES\nwrite through a link EACCES\n"
                              "by dots EACCES\nfrom where it is EACCES\nby own cwd EACCES\n"
                              "by own root EACCES\nby our root EACCES\nby our descriptor EACCES\n"
                              "our environment EACCES\ntruncate EACCES\n");
    said = run_in(g, NULL, g->outside, argv);
    assert_null(strstr(said, " E")); /* without us it would all have worked */
    assert_non_null(strstr(said, "truncate ok\n"));
}

/* Nor can a file be brought in from there. */
static void nothing_is_brought_in(void **state)
{
    struct ground *g = *state;
    want_landlock(2);
    confine(g);
    const char *const *argv =
        TRIES(g->directory, "t('link', os.link, o + '/secret', d + '/writable/linked')\n"
                            "t('move', os.rename, o + '/secret', d + '/writable/moved')\n"
                            "t('out', os.rename, d + '/writable/file', o + '/file')\n"
                            "print(sorted(os.listdir(d + '/writable')))\n");
    const char *said = run(g, &g->c, argv);
    assert_null(strstr(said, "ok"));
    assert_non_null(strstr(said, "['file']"));
    said = run(g, NULL, argv);
    assert_string_equal(said, "link ok\nmove ok\nout ok\n['linked', 'moved']\n");
}

/* It holds for whatever the program starts, too. */
static void children_are_confined_as_well(void **state)
{
    struct ground *g = *state;
    want_landlock(1);
    confine(g);
    char script[300];
    (void)snprintf(script, sizeof script,
                   "(setsid sh -c 'cat %s/secret && echo read || echo not read') 2>/dev/null; wait",
                   g->outside);
    assert_string_equal(run(g, &g->c, SH(script)), "not read\n");
    assert_string_equal(run(g, NULL, SH(script)), "hiddenread\n");
}

/* --- rights --- */

#define STATUS                                                                                     \
    SH("grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs):' /proc/self/status | tr -s '\\t ' ' '")

static void it_has_no_rights(void **state)
{
    struct ground *g = *state;
    for (int other = 0; other < (geteuid() == 0 ? 2 : 1); other++) {
        g->request.uid = other ? OTHER_UID : 0;
        confine(g);
        assert_string_equal(run(g, &g->c, STATUS),
                            "CapInh: 0000000000000000\nCapPrm: 0000000000000000\n"
                            "CapEff: 0000000000000000\nCapAmb: 0000000000000000\n"
                            "NoNewPrivs: 1\n");
        berth_confine_close(&g->c);
    }
    if (geteuid() == 0) /* without us it would have them */
        assert_null(strstr(run(g, NULL, STATUS), "CapEff: 0000000000000000"));
}

/* A program with the bit that would make it root's gains nothing by it. */
static void rights_are_not_gained(void **state)
{
    struct ground *g = *state;
    want_root();
    g->request.uid = OTHER_UID;
    confine(g);
    char script[300];
    (void)snprintf(script, sizeof script, "%s/copy -u", g->readable);
    char copy[300];
    (void)snprintf(copy, sizeof copy, "cp /usr/bin/id %s/copy && chmod 4755 %s/copy", g->readable,
                   g->readable);
    assert_string_equal(run(g, NULL, SH(copy)), "");
    assert_string_equal(run(g, &g->c, SH(script)), "60123\n");
    struct berth_confinement only_user = {.ruleset_fd = -1, .uid = OTHER_UID};
    assert_string_equal(run(g, &only_user, SH(script)), "0\n");
}

#define WHO SH("id -u; id -ru; id -g; id -rg")

static void it_is_another_user(void **state)
{
    struct ground *g = *state;
    char said[BERTH_CONFINE_TEXT_SIZE];
    want_root();
    g->request.uid = OTHER_UID;
    g->reachable_paths[0] = g->readable;
    g->reachable_paths[1] = g->writable;
    confine(g);
    assert_int_equal(g->c.uid, OTHER_UID);
    assert_string_equal(run(g, &g->c, WHO), "60123\n60123\n60123\n60123\n");
    gid_t before[64], ours[] = {0, 7777};
    int count = getgroups(64, before);
    assert_int_equal(setgroups(2, ours), 0);
    const char *groups = run(g, &g->c, SH("id -G"));
    assert_int_equal(setgroups((size_t)count, before), 0);
    assert_string_equal(groups, "60123\n"); /* and none of ours */
    berth_confine_say(&g->c, said);
    assert_non_null(strstr(said, "no new privileges, no capabilities; "));
    assert_non_null(strstr(said, "; user 60123"));
    assert_int_equal(strstr(said, "files confined by Landlock") != NULL, landlock_abi() > 0);
}

/* Where others may not go, it could not read its own files: we stay who we are, and say so. */
static void it_stays_our_user_where_others_may_not_go(void **state)
{
    struct ground *g = *state;
    char inner[100], said[BERTH_CONFINE_TEXT_SIZE];
    want_root();
    (void)snprintf(inner, sizeof inner, "%s/closed", g->directory);
    assert_int_equal(mkdir(inner, 0700), 0);
    (void)snprintf(inner, sizeof inner, "%s/closed/deep", g->directory);
    assert_int_equal(mkdir(inner, 0755), 0);
    (void)snprintf(inner, sizeof inner, "%s/closed/deep/package", g->directory);
    assert_int_equal(mkdir(inner, 0755), 0);
    g->request.uid = OTHER_UID;
    const char *const unreachable[] = {inner, "/no/such/place"};
    for (size_t i = 0; i < 2; i++) {
        g->reachable_paths[0] = g->readable;
        g->reachable_paths[1] = unreachable[i];
        confine(g);
        assert_int_equal(g->c.uid, 0);
        assert_string_equal(run(g, &g->c, WHO), "0\n0\n0\n0\n");
        berth_confine_say(&g->c, said);
        assert_non_null(strstr(said, "; NOT another user: "));
        berth_confine_close(&g->c);
    }
    g->reachable_paths[1] = NULL;
    confine(g);
    assert_int_equal(g->c.uid, OTHER_UID);
}

static void without_root_there_is_no_choice(void **state)
{
    struct ground *g = *state;
    char said[BERTH_CONFINE_TEXT_SIZE];
    bool was_root = geteuid() == 0;
    g->request.uid = OTHER_UID;
    if (was_root)
        assert_int_equal(seteuid(OTHER_UID), 0);
    int rc = berth_confine_open(&g->request, &g->c, &g->err);
    berth_confine_say(&g->c, said);
    if (was_root)
        assert_int_equal(seteuid(0), 0);
    assert_ok(g, rc);
    assert_int_equal(g->c.uid, 0);
    assert_non_null(strstr(said, "; our own user: only root can choose another"));
}

/* --- others --- */

static void it_cannot_signal_us(void **state)
{
    struct ground *g = *state;
    want_landlock(6);
    confine(g);
    const char *const *argv = TRIES(g->directory, "t('parent', os.kill, parent, 0)\n"
                                                  "child = os.fork()\n"
                                                  "if child == 0: os.read(0, 1); os._exit(0)\n"
                                                  "t('child', os.kill, child, 15)\n");
    assert_string_equal(run(g, &g->c, argv), "parent EPERM\nchild ok\n");
    assert_string_equal(run(g, NULL, argv), "parent ok\nchild ok\n");
}

static void it_cannot_reach_our_abstract_sockets(void **state)
{
    struct ground *g = *state;
    want_landlock(6);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", g->directory);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(g->directory));
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&address, len), 0);
    assert_int_equal(listen(fd, 5), 0);
    confine(g);
    const char *const *argv =
        TRIES(g->directory, "t('connect', socket.socket(socket.AF_UNIX).connect, '\\0' + d)\n");
    assert_string_equal(run(g, &g->c, argv), "connect EPERM\n");
    assert_string_equal(run(g, NULL, argv), "connect ok\n");
}

/* --- its life --- */

struct starter {
    const struct berth_confinement *c;
    struct berth_child child;
    struct berth_error err;
    int code;
    sem_t started, may_end;
};

static void *starter_main(void *ctx)
{
    struct starter *s = ctx;
    struct berth_spawn what = {.argv = (const char *const[]){"sleep", "300", NULL},
                               .env = environment,
                               .fds = {-1, -1, -1},
                               .confinement = s->c};
    s->code = berth_spawn(&what, &s->child, &s->err);
    (void)sem_post(&s->started);
    while (sem_wait(&s->may_end) < 0 && errno == EINTR)
        ;
    return NULL;
}

static bool ends_within(int pidfd, int ms)
{
    return poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, ms) == 1;
}

static void it_dies_with_the_thread_that_started_it(void **state)
{
    struct ground *g = *state;
    for (int dies = 0; dies < (geteuid() == 0 ? 3 : 2); dies++) {
        pthread_t thread;
        g->request.uid = dies == 2 ? OTHER_UID : 0;
        confine(g);
        assert_true(g->c.dies_first);
        g->c.dies_first = dies > 0;
        struct starter s = {.c = &g->c};
        (void)sem_init(&s.started, 0, 0);
        (void)sem_init(&s.may_end, 0, 0);
        assert_int_equal(pthread_create(&thread, NULL, starter_main, &s), 0);
        while (sem_wait(&s.started) < 0 && errno == EINTR)
            ;
        assert_ok_at(s.code, &s.err, "berth_spawn", __FILE__, __LINE__);
        assert_false(ends_within(s.child.pidfd, 100)); /* not before it */
        (void)sem_post(&s.may_end);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (dies)
            assert_true(ends_within(s.child.pidfd, 30000));
        else
            assert_false(ends_within(s.child.pidfd, 200));
        assert_int_equal(kill(s.child.pid, dies ? 0 : SIGTERM), 0);
        assert_int_equal(waitpid(s.child.pid, &g->status, 0), s.child.pid);
        assert_true(WIFSIGNALED(g->status));
        assert_int_equal(WTERMSIG(g->status), dies ? SIGKILL : SIGTERM);
        (void)close(s.child.pidfd);
        berth_confine_close(&g->c);
    }
}

static void it_begins_as_a_fresh_program(void **state)
{
    struct ground *g = *state;
    assert_int_equal(setenv("BERTH_TEST_LEAK", "leak", 1), 0);
    int leak = open("/dev/null", O_RDONLY), far = fcntl(leak, F_DUPFD, 200);
    assert_true(leak >= 0 && far >= 200); /* without O_CLOEXEC, as libraries do */
    (void)signal(SIGUSR1, SIG_IGN);
    sigset_t some, before;
    (void)sigemptyset(&some);
    (void)sigaddset(&some, SIGUSR2);
    (void)pthread_sigmask(SIG_BLOCK, &some, &before);
    confine(g);
    const char *said =
        run(g, &g->c,
            SH("env | sort | grep -v -e ^PWD -e ^_= -e ^SHLVL -e ^OLDPWD; ls /proc/self/fd | wc -l;"
               " grep -e SigBlk -e SigIgn /proc/self/status | cut -f2;"
               " test $(ps -o sid= -p $$) -eq $$ && echo own session; cat; echo end of input"));
    sigset_t after;
    (void)pthread_sigmask(SIG_SETMASK, &before, &after);
    (void)close(leak);
    (void)close(far);
    assert_int_equal(unsetenv("BERTH_TEST_LEAK"), 0);
    assert_string_equal(said, "MARK=here\nPATH=/usr/bin:/bin\n4\n0000000000000000\n"
                              "0000000000000000\nown session\nend of input\n");
    assert_int_equal(WEXITSTATUS(g->status), 0);
    assert_true(sigismember(&after, SIGUSR2)); /* and we are as we were */
    assert_false(sigismember(&after, SIGTERM));
    assert_ptr_equal(signal(SIGUSR1, SIG_DFL), SIG_IGN);
}

static _Atomic int signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* The child shares our memory for a moment, and must leave nothing of its own in it. */
static void our_signal_handlers_stay(void **state)
{
    struct ground *g = *state;
    struct sigaction ours = {.sa_handler = count_signal}, after;
    assert_int_equal(sigaction(SIGUSR1, &ours, NULL), 0);
    confine(g);
    assert_string_equal(run(g, &g->c, SH("echo fine")), "fine\n");
    assert_int_equal(sigaction(SIGUSR1, NULL, &after), 0);
    assert_ptr_equal(after.sa_handler, count_signal);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(signals, 1);
    (void)signal(SIGUSR1, SIG_DFL);
}

/* Its streams may be among the numbers that they become. */
static void streams_that_cross(void **state)
{
    struct ground *g = *state;
    int one[2], two[2];
    confine(g);
    assert_int_equal(pipe2(one, O_CLOEXEC), 0);
    assert_int_equal(pipe2(two, O_CLOEXEC), 0);
    struct berth_spawn what = {.argv = SH("echo out; echo err >&2"),
                               .env = environment,
                               .fds = {-1, 2, 1},
                               .confinement = &g->c};
    struct berth_child child = {0};
    int kept[2] = {fcntl(1, F_DUPFD_CLOEXEC, 3), fcntl(2, F_DUPFD_CLOEXEC, 3)};
    (void)dup2(one[1], 1);
    (void)dup2(two[1], 2);
    int rc = berth_spawn(&what, &child, &g->err);
    for (int i = 0; i < 2; i++) {
        (void)dup2(kept[i], 1 + i);
        (void)close(kept[i]);
    }
    (void)close(one[1]);
    (void)close(two[1]);
    assert_ok(g, rc);
    assert_ok(g, berth_fs_read_all(two[0], &g->out, &g->err));
    berth_buf_puts(&g->out, "|");
    assert_ok(g, berth_fs_read_all(one[0], &g->out, &g->err));
    assert_string_equal(berth_buf_str(&g->out), "out\n|err\n");
    assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
    (void)close(child.pidfd);
    (void)close(one[0]);
    (void)close(two[0]);
}

static void working_directory(void **state)
{
    struct ground *g = *state;
    confine(g);
    char want[100];
    (void)snprintf(want, sizeof want, "%s\n", g->readable);
    assert_string_equal(run_in(g, &g->c, g->readable, SH("pwd")), want);
    (void)snprintf(want, sizeof want, "%s\nnot read\n", g->outside);
    if (landlock_abi() > 0) /* being there opens nothing */
        assert_string_equal(
            run_in(g, &g->c, g->outside, SH("pwd; cat secret 2>/dev/null || echo not read")), want);
    static const char *const rows[][2] = {
        {"/nowhere", "Working directory does not exist: \"/nowhere\""},
        {"/etc/passwd", "Working directory is not a directory: \"/etc/passwd\""}};
    for (size_t i = 0; i < 2; i++) {
        struct berth_child child;
        struct berth_spawn what = {.argv = SH("pwd"),
                                   .env = environment,
                                   .cwd = rows[i][0],
                                   .fds = {-1, -1, -1},
                                   .confinement = &g->c};
        assert_fails(g, BERTH_E_UNPROCESSABLE, rows[i][1], berth_spawn(&what, &child, &g->err));
    }
}

/* Told as for any other program, and nothing is left of it. */
static void programs_that_are_not_there_or_may_not_run(void **state)
{
    struct ground *g = *state;
    char plain[100], odd[100], script[100];
    put_file(g->readable, "odd", "no program at all", 0755);
    put_file(g->readable, "script", "#!/no/such/interpreter\n", 0755);
    (void)snprintf(plain, sizeof plain, "%s/file", g->readable);
    (void)snprintf(odd, sizeof odd, "%s/odd", g->readable);
    (void)snprintf(script, sizeof script, "%s/script", g->readable);
    const struct {
        const char *name;
        int code;
    } programs[] = {{"no-such-program", BERTH_E_NOT_FOUND},
                    {"/no/such", BERTH_E_NOT_FOUND},
                    {"", BERTH_E_NOT_FOUND},
                    {"/etc/passwd/x", BERTH_E_NOT_FOUND},
                    {script, BERTH_E_NOT_FOUND},
                    {"/etc/passwd", BERTH_E_DENIED},
                    {plain, BERTH_E_DENIED},
                    {odd, BERTH_E_DENIED},
                    {"/usr", BERTH_E_DENIED}};
    confine(g);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct berth_error free_err = {0};
        struct berth_child child;
        struct berth_spawn what = {.argv = (const char *const[]){programs[i].name, NULL},
                                   .env = environment,
                                   .fds = {-1, -1, -1}};
        assert_int_equal(berth_spawn(&what, &child, &free_err), programs[i].code);
        what.confinement = &g->c;
        assert_int_equal(berth_spawn(&what, &child, &g->err), programs[i].code);
        assert_string_equal(g->err.message, free_err.message);
    }
    errno = 0;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

#define ON_GROUND(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GROUND(reads_and_writes_where_it_may),
        ON_GROUND(links_are_not_allowed),
        ON_GROUND(runs_what_it_may_read),
        ON_GROUND(nothing_outside_is_within_reach),
        ON_GROUND(nothing_is_brought_in),
        ON_GROUND(children_are_confined_as_well),
        ON_GROUND(it_has_no_rights),
        ON_GROUND(rights_are_not_gained),
        ON_GROUND(it_is_another_user),
        ON_GROUND(it_stays_our_user_where_others_may_not_go),
        ON_GROUND(without_root_there_is_no_choice),
        ON_GROUND(it_cannot_signal_us),
        ON_GROUND(it_cannot_reach_our_abstract_sockets),
        ON_GROUND(it_dies_with_the_thread_that_started_it),
        ON_GROUND(it_begins_as_a_fresh_program),
        ON_GROUND(our_signal_handlers_stay),
        ON_GROUND(streams_that_cross),
        ON_GROUND(working_directory),
        ON_GROUND(programs_that_are_not_there_or_may_not_run),
    };
    return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
