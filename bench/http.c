/* SPDX-License-Identifier: Apache-2.0
 * bench/http.c - what a request to the API costs over a Unix socket, beside a bare echo of as many
 * bytes over another, with 1 and with 16 connections. Prints figures and never fails on one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <berth/berth.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/auto.h"
#include "os/fs.h"
#include "samples.h"

#define CONNECTIONS_MAX 16
#define ROUNDS 4000
#define LISTED 100

struct bench {
    char directory[64], socket[96], echo[96];
    struct berth *b;
    struct berth_api *api;
    char company_id[64], lease_id[64];
};

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
    int listener = (int)(intptr_t)ctx;
    pthread_t thread;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        if (pthread_create(&thread, NULL, echo_main, (void *)(intptr_t)fd) == 0)
            (void)pthread_detach(thread);
    return NULL;
}

static int dial(const char *path, bool listens)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int rc = listens ? bind(fd, (struct sockaddr *)&at, sizeof at)
                     : connect(fd, (struct sockaddr *)&at, sizeof at);
    if (rc < 0 || (listens && listen(fd, 64) < 0)) {
        perror(path);
        exit(1);
    }
    return fd;
}

/* --- one caller --- */

struct caller {
    const char *path, *request;
    bool echo; /* the answer is as long as the request */
    int rounds;
    struct samples samples;
    pthread_t thread;
};

/* One answer: its head says how long it is; an echo is as long as what was said. */
static bool hear(int fd, size_t echoed)
{
    static __thread char bytes[512 * 1024];
    size_t have = 0, want = echoed;
    while (!want || have < want) {
        ssize_t got = recv(fd, bytes + have, sizeof bytes - 1 - have, 0);
        if (got <= 0)
            return false;
        have += (size_t)got;
        bytes[have] = '\0';
        const char *end = want ? NULL : strstr(bytes, "\r\n\r\n");
        const char *length = end ? strstr(bytes, "Content-Length: ") : NULL;
        if (length)
            want = (size_t)(end + 4 - bytes) + strtoul(length + 16, NULL, 10);
    }
    return true;
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "bench-http: %s\n", what);
    exit(1);
}

static void *caller_main(void *ctx)
{
    struct caller *c = ctx;
    struct berth_error err;
    int fd = dial(c->path, false);
    size_t len = strlen(c->request);
    for (int i = -c->rounds / 10; i < c->rounds; i++) { /* the first ones do not count */
        int64_t from = now_ns();
        if (send(fd, c->request, len, MSG_NOSIGNAL) != (ssize_t)len || !hear(fd, c->echo ? len : 0))
            fail("a connection ended");
        if (i >= 0 && samples_add(&c->samples, now_ns() - from, &err) < 0)
            fail(err.message);
    }
    (void)close(fd);
    return NULL;
}

/* One row: that many callers at once; answers the median. */
static double run(const char *name, const char *path, const char *request, int connections,
                  double bare_us)
{
    bool echo = bare_us == 0;
    int rounds = strstr(request, "limit=") ? ROUNDS / 10 : ROUNDS;
    struct caller callers[CONNECTIONS_MAX] = {0};
    struct berth_error err;
    auto_samples all = {0};
    int64_t from = now_ns();
    for (int i = 0; i < connections; i++) {
        callers[i] =
            (struct caller){.path = path, .request = request, .echo = echo, .rounds = rounds};
        if (pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]) != 0)
            fail("no thread");
    }
    for (int i = 0; i < connections; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        if (samples_add_all(&all, &callers[i].samples, &err) < 0)
            fail(err.message);
        samples_clear(&callers[i].samples);
    }
    double seconds = (double)(now_ns() - from) / 1e9, us = samples_us(&all, 50);
    (void)printf("%-22s %3d %10.1f %10.1f %12.0f", name, connections, us, samples_us(&all, 99),
                 connections * rounds * 1.1 / seconds);
    (void)printf(bare_us > 0 ? " %9.2fx\n" : "\n", us / (bare_us > 0 ? bare_us : 1));
    return us;
}

/* --- the stage --- */

static void open_stage(struct bench *s)
{
    struct berth_error err;
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_options options = BERTH_OPTIONS_INIT;
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    struct berth_environment *e;
    struct berth_lease *lease;
    char store[120];
    const char *base = getenv("TMPDIR");
    (void)snprintf(s->directory, sizeof s->directory, "%.40s/berth-bench.XXXXXX",
                   base && *base ? base : "/tmp");
    if (!mkdtemp(s->directory))
        fail("no directory");
    (void)snprintf(s->socket, sizeof s->socket, "%s/api", s->directory);
    (void)snprintf(s->echo, sizeof s->echo, "%s/echo", s->directory);
    (void)snprintf(store, sizeof store, "sqlite:%s/berth.db", s->directory);
    options.store = store;
    int rc = berth_open(&options, &s->b, &err);
    if (rc == BERTH_OK)
        rc = berth_environment_ensure_local(s->b, &arena, NULL, &e, &err);
    for (int i = 0; rc == BERTH_OK && i < LISTED; i++) {
        struct berth_lease_request request = BERTH_LEASE_REQUEST_INIT;
        request.environment_id = berth_environment_id(e);
        rc = berth_lease_acquire(s->b, &arena, &request, &lease, &err);
    }
    if (rc == BERTH_OK)
        rc = berth_api_open(s->b, &settings, &s->api, &err);
    if (rc == BERTH_OK)
        rc = berth_api_listen(s->api, &(struct berth_http_address){.path = s->socket}, &err);
    if (rc < 0)
        fail(err.message);
    (void)snprintf(s->company_id, sizeof s->company_id, "%s", berth_lease_company_id(lease));
    (void)snprintf(s->lease_id, sizeof s->lease_id, "%s", berth_lease_id(lease));
}

int main(void)
{
    struct bench s = {0};
    struct berth_error err;
    pthread_t thread;
    char show[300], list[300];
    static const char health[] = "GET /api/health HTTP/1.1\r\nHost: berth\r\n\r\n";
    open_stage(&s);
    int listener = dial(s.echo, true);
    if (pthread_create(&thread, NULL, accept_main, (void *)(intptr_t)listener) != 0)
        fail("no thread");
    (void)snprintf(show, sizeof show,
                   "GET /api/environment-leases/%s HTTP/1.1\r\nHost: berth\r\n\r\n", s.lease_id);
    (void)snprintf(list, sizeof list,
                   "GET /api/companies/%s/leases?limit=100 HTTP/1.1\r\nHost: berth\r\n\r\n",
                   s.company_id);
    (void)printf("%-22s %3s %10s %10s %12s %10s\n", "over a Unix socket", "at", "p50 us", "p99 us",
                 "a second", "beside it");
    for (int connections = 1; connections <= CONNECTIONS_MAX; connections *= CONNECTIONS_MAX) {
        double bare = run("a bare echo", s.echo, health, connections, 0);
        (void)run("health", s.socket, health, connections, bare);
        (void)run("one lease", s.socket, show, connections, bare);
        (void)run("a list of 100 leases", s.socket, list, connections, bare);
    }
    (void)shutdown(listener, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    (void)close(listener);
    berth_api_close(s.api, 1000);
    berth_close(s.b);
    return berth_fs_remove_tree(s.directory, &err) < 0;
}
