/* SPDX-License-Identifier: Apache-2.0
 * bench/http.c - bench-http BERTHD: what requests to a daemon cost over its socket and over
 * loopback TCP with a token, with 1 and with 16 connections, beside a bare echo of as many bytes
 * and a bare posix_spawn; and what the daemon itself costs. Prints figures and never fails on one.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/socket_cookie.h"
#include "bare.h"
#include "base/auto.h"
#include "base/buf.h"
#include "os/fs.h"
#include "samples.h"

#define CONNECTIONS_MAX 16
#define ROUNDS 4000
#define TURNS 4
#define LISTED 100
#define ID_SIZE 37

/* Where requests go to. */
struct address {
    const char *path; /* a Unix socket, or NULL */
    int port;
};

static struct {
    char directory[64], socket[96], log[96], echo[96];
    char token[128];
    pid_t daemon;
    int port;
    char company[ID_SIZE], environment[ID_SIZE], lease[ID_SIZE];
} stage;

static void fail(const char *what)
{
    (void)fprintf(stderr, "bench-http: %s\n", what);
    if (stage.daemon > 0)
        (void)kill(stage.daemon, SIGKILL);
    exit(1);
}

static int dial(const struct address *to)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in tcp = {.sin_family = AF_INET,
                              .sin_port = htons((unsigned short)to->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(to->path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    (void)snprintf(local.sun_path, sizeof local.sun_path, "%s", to->path ? to->path : "");
    if (!to->path)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int rc = to->path ? connect(fd, (struct sockaddr *)&local, sizeof local)
                      : connect(fd, (struct sockaddr *)&tcp, sizeof tcp);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* --- a bare echo: a thread for each connection --- */

static void *echo_main(void *ctx)
{
    int fd = (int)(intptr_t)ctx;
    char bytes[4096];
    for (ssize_t got; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;)
        if (send(fd, bytes, (size_t)got, MSG_NOSIGNAL) != got)
            break;
    (void)close(fd);
    return NULL;
}

static void *accept_main(void *ctx)
{
    int listener = (int)(intptr_t)ctx, on = 1;
    pthread_t thread;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (pthread_create(&thread, NULL, echo_main, (void *)(intptr_t)fd) == 0)
            (void)pthread_detach(thread);
    }
    return NULL;
}

/* It listens until the end; answers the port of TCP. */
static int start_echo(const char *path)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof tcp;
    pthread_t thread;
    int fd = socket(path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(local.sun_path, sizeof local.sun_path, "%s", path ? path : "");
    int rc = path ? bind(fd, (struct sockaddr *)&local, sizeof local)
                  : bind(fd, (struct sockaddr *)&tcp, sizeof tcp);
    if (rc < 0 || listen(fd, 64) < 0 ||
        pthread_create(&thread, NULL, accept_main, (void *)(intptr_t)fd) != 0)
        fail("no echo");
    (void)pthread_detach(thread);
    if (!path)
        (void)getsockname(fd, (struct sockaddr *)&tcp, &len);
    return ntohs(tcp.sin_port);
}

/* --- one caller --- */

static __thread char heard[512 * 1024];

/* One answer: its head says how long it is; an echo is as long as what was said. */
static bool hear(int fd, size_t echoed)
{
    size_t have = 0, want = echoed;
    while (!want || have < want) {
        ssize_t got = recv(fd, heard + have, sizeof heard - 1 - have, 0);
        if (got <= 0)
            return false;
        have += (size_t)got;
        heard[have] = '\0';
        const char *end = want ? NULL : strstr(heard, "\r\n\r\n");
        const char *length = end ? strstr(heard, "Content-Length: ") : NULL;
        if (length)
            want = (size_t)(end + 4 - heard) + strtoul(length + 16, NULL, 10);
    }
    return true;
}

static void say(int fd, const char *text, bool echo)
{
    size_t len = strlen(text);
    if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len || !hear(fd, echo ? len : 0))
        fail("a connection ended");
    if (!echo && strncmp(heard, "HTTP/1.1 2", 10) != 0)
        fail(heard);
}

/* With the token or the cookie. */
static void request(const struct address *to, const char *method, const char *path,
                    const char *body, char out[1000])
{
    char cookie[BERTH_SOCKET_COOKIE_LINE_SIZE] = "";
    if (to->path && !berth_socket_cookie_read(to->path, cookie))
        fail("no cookie");
    (void)snprintf(out, 1000, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", method, path,
                   to->path ? cookie : "Authorization: Bearer ", to->path ? "" : stage.token);
    size_t len = strlen(out);
    if (body)
        (void)snprintf(out + len, 1000 - len,
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       strlen(body), body);
    else
        (void)snprintf(out + len, 1000 - len, "\r\n");
}

/* A text of the answer. */
static void field(const char *name, char *out, size_t size)
{
    char key[40];
    (void)snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(heard, key);
    if (!at)
        fail(heard);
    at += strlen(key);
    (void)snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
}

struct caller {
    const struct address *to;
    const char *text;
    bool echo, pair, bare; /* pair: what was taken is given back */
    int rounds;
    struct samples samples;
    pthread_t thread;
};

static void once(const struct caller *c, int fd)
{
    struct berth_error err;
    char lease[ID_SIZE], path[120], text[1000];
    static const char *const argv[] = {"/bin/true", NULL};
    if (c->bare) {
        if (run_bare(argv[0], argv, &err) < 0)
            fail(err.message);
        return;
    }
    say(fd, c->text, c->echo);
    if (!c->pair)
        return;
    field("id", lease, sizeof lease);
    (void)snprintf(path, sizeof path, "/api/environment-leases/%s/release", lease);
    request(c->to, "POST", path, "{}", text);
    say(fd, text, false);
}

static void *caller_main(void *ctx)
{
    struct caller *c = ctx;
    struct berth_error err;
    int fd = c->bare ? -1 : dial(c->to);
    if (!c->bare && fd < 0)
        fail("nobody listens");
    for (int i = -c->rounds / 10; i < c->rounds; i++) { /* the first ones do not count */
        int64_t from = now_ns();
        once(c, fd);
        if (i >= 0 && samples_add(&c->samples, now_ns() - from, &err) < 0)
            fail(err.message);
    }
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

struct row {
    const char *name;
    struct caller like;
    int connections;
    struct samples samples;
    double seconds;
};

/* That many callers at once. */
static void call(struct row *row)
{
    struct caller callers[CONNECTIONS_MAX] = {0};
    struct berth_error err;
    int64_t from = now_ns();
    for (int i = 0; i < row->connections; i++) {
        callers[i] = row->like;
        if (pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]) != 0)
            fail("no thread");
    }
    for (int i = 0; i < row->connections; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        if (samples_add_all(&row->samples, &callers[i].samples, &err) < 0)
            fail(err.message);
        samples_clear(&callers[i].samples);
    }
    row->seconds += (double)(now_ns() - from) / 1e9;
}

/* Answers the median. */
static double print_row(struct row *row, double beside_us)
{
    double us = samples_us(&row->samples, 50), counted = (double)row->samples.count;
    (void)printf("%-22s %3d %10.1f %10.1f %12.0f", row->name, row->connections, us,
                 samples_us(&row->samples, 99), counted * 1.1 / row->seconds);
    (void)printf(beside_us > 0 ? " %9.2fx\n" : "\n", us / (beside_us > 0 ? beside_us : 1));
    (void)fflush(stdout);
    samples_clear(&row->samples);
    return us;
}

static double run(const char *name, const struct caller *like, int connections, double beside_us)
{
    struct row row = {.name = name, .like = *like, .connections = connections};
    call(&row);
    return print_row(&row, beside_us);
}

/* Two rows by turns: a machine that becomes slower meanwhile does so for both. */
static void run_both(struct row *bare, struct row *ours)
{
    for (int i = 0; i < TURNS; i++) {
        call(bare);
        call(ours);
    }
    (void)print_row(ours, print_row(bare, 0));
}

/* --- the daemon --- */

static void ask(const char *method, const char *path, const char *body)
{
    struct address here = {.path = stage.socket};
    char text[1000];
    int fd = dial(&here);
    if (fd < 0)
        fail("the daemon does not listen");
    request(&here, method, path, body, text);
    say(fd, text, false);
    (void)close(fd);
}

static long memory_kb(const char *name)
{
    char path[64], line[256];
    long value = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)stage.daemon);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, 10);
    if (in)
        (void)fclose(in);
    return value;
}

/* Answers how long it took to the first answer, in milliseconds. */
static double start_daemon(const char *program)
{
    struct address here = {.path = stage.socket};
    char store[120];
    (void)snprintf(store, sizeof store, "sqlite:%s/berth.db", stage.directory);
    int64_t from = now_ns();
    stage.daemon = fork();
    if (stage.daemon == 0) {
        if (!freopen(stage.log, "a", stderr))
            _exit(126);
        execl(program, "berthd", "--store", store, "--socket", stage.socket, "--listen",
              "127.0.0.1:0", NULL);
        _exit(127);
    }
    for (int fd; (fd = dial(&here)) < 0; usleep(200))
        if (waitpid(stage.daemon, NULL, WNOHANG) != 0)
            fail("berthd did not start");
        else
            (void)fd;
    ask("GET", "/api/health", NULL);
    return (double)(now_ns() - from) / 1e6;
}

static void stop_daemon(void)
{
    (void)kill(stage.daemon, SIGTERM);
    (void)waitpid(stage.daemon, NULL, 0);
    stage.daemon = 0;
}

/* The port is in its log, once there is a token. */
static void find_port(void)
{
    for (int i = 0; i < 100 && !stage.port; i++) {
        char line[1000];
        FILE *in = fopen(stage.log, "re");
        while (in && fgets(line, sizeof line, in)) {
            const char *at = strstr(line, "\"port\":\"");
            if (at)
                stage.port = atoi(at + 8);
        }
        if (in)
            (void)fclose(in);
        (void)usleep(50000);
    }
    if (!stage.port)
        fail("berthd does not listen at a port");
}

static void fill_store(void)
{
    char path[200];
    ask("GET", "/api/companies", NULL);
    field("id", stage.company, sizeof stage.company);
    (void)snprintf(path, sizeof path, "/api/companies/%s/environments", stage.company);
    ask("POST", path, "{\"name\":\"here\",\"driver\":\"local\"}");
    field("id", stage.environment, sizeof stage.environment);
    (void)snprintf(path, sizeof path, "/api/environments/%s/leases", stage.environment);
    for (int i = 0; i < LISTED; i++)
        ask("POST", path, "{}");
    field("id", stage.lease, sizeof stage.lease);
    ask("POST", "/api/tokens", "{\"name\":\"bench\",\"permissions\":[\"environments:manage\"]}");
    field("token", stage.token, sizeof stage.token);
    find_port();
}

/* --- the rows --- */

static void measure(const struct address *to, const struct address *echo, int connections)
{
    char path[200], text[1000];
    struct caller c = {.to = echo, .echo = true, .rounds = ROUNDS, .text = text};
    request(to, "GET", "/api/health", NULL, text);
    double bare = run("a bare echo", &c, connections, 0);
    c = (struct caller){.to = to, .rounds = ROUNDS, .text = text};
    (void)run("health", &c, connections, bare);
    (void)snprintf(path, sizeof path, "/api/environment-leases/%s", stage.lease);
    request(to, "GET", path, NULL, text);
    (void)run("one lease", &c, connections, bare);
    (void)snprintf(path, sizeof path, "/api/companies/%s/leases?limit=%d", stage.company, LISTED);
    request(to, "GET", path, NULL, text);
    c.rounds = ROUNDS / 10;
    (void)run("a list of 100 leases", &c, connections, bare);
    (void)snprintf(path, sizeof path, "/api/environments/%s/leases", stage.environment);
    request(to, "POST", path, "{}", text);
    c.pair = true;
    (void)run("acquire and release", &c, connections, 0);
    c.pair = false;
    struct row spawn = {.name = "a bare posix_spawn",
                        .like = {.bare = true, .rounds = ROUNDS / 5 / TURNS},
                        .connections = connections};
    (void)snprintf(path, sizeof path, "/api/environment-leases/%s/exec", stage.lease);
    request(to, "POST", path, "{\"command\":\"/bin/true\"}", text);
    c.rounds = spawn.like.rounds;
    struct row exec = {.name = "exec of /bin/true", .like = c, .connections = connections};
    run_both(&spawn, &exec);
}

int main(int argc, char **argv)
{
    struct berth_error err;
    const char *base = getenv("TMPDIR");
    if (argc != 2)
        fail("bench-http BERTHD");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(stage.directory, sizeof stage.directory, "%.40s/berth-bench.XXXXXX",
                   base && *base ? base : "/tmp");
    if (!mkdtemp(stage.directory))
        fail("no directory");
    (void)snprintf(stage.socket, sizeof stage.socket, "%s/s", stage.directory);
    (void)snprintf(stage.log, sizeof stage.log, "%s/log", stage.directory);
    (void)snprintf(stage.echo, sizeof stage.echo, "%s/echo", stage.directory);
    double first_ms = start_daemon(argv[1]);
    stop_daemon();
    double again_ms = start_daemon(argv[1]);
    (void)usleep(300000);
    (void)printf(
        "berthd: %.1f ms to its first answer on an empty store, %.1f ms on the next start; "
        "idle %.1f MB, %.1f MB of it anonymous\n\n",
        first_ms, again_ms, (double)memory_kb("VmRSS:") / 1024,
        (double)memory_kb("RssAnon:") / 1024);
    fill_store();
    struct address ours[] = {{.path = stage.socket}, {.port = stage.port}};
    struct address echoes[] = {{.path = stage.echo}, {0}};
    (void)start_echo(stage.echo);
    echoes[1].port = start_echo(NULL);
    for (int i = 0; i < 2; i++) {
        (void)printf("%-22s %3s %10s %10s %12s %10s\n",
                     i ? "over TCP, by a token" : "over a Unix socket", "at", "p50 us", "p99 us",
                     "a second", "beside it");
        for (int n = 1; n <= CONNECTIONS_MAX; n *= CONNECTIONS_MAX)
            measure(&ours[i], &echoes[i], n);
        (void)printf("\n");
    }
    (void)printf("afterwards %.1f MB, %.1f MB of it anonymous\n",
                 (double)memory_kb("VmRSS:") / 1024, (double)memory_kb("RssAnon:") / 1024);
    stop_daemon();
    return berth_fs_remove_tree(stage.directory, &err) < 0;
}
