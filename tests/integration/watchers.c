/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/watchers.c - 5,000 who listen to one busy command of a real berthd: every byte
 * to all of them, no thread more, and little memory. BERTH_TEST_WATCHERS says how many. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LINES 40000
#define RSS_KB_MAX (150 * 1024)

static struct {
    char directory[64];
    pid_t daemon;
} stage;

/* --- a client --- */

static int dial(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s/s", stage.directory);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 500; i++) {
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        (void)usleep(10000);
    }
    fail_msg("berthd does not listen: %s", strerror(errno));
    return -1;
}

/* Sends a request, with the cookie behind its first line. */
static void put(int fd, const char *text)
{
    char path[sizeof stage.directory + 16], line[128] = "", request[4000];
    const char *rest = strstr(text, "\r\n") + 2;
    (void)snprintf(path, sizeof path, "%s/s.cookie", stage.directory);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    int len =
        snprintf(request, sizeof request, "%.*s%s\r\n%s", (int)(rest - text), text, line, rest);
    assert_int_equal(write(fd, request, (size_t)len), len);
}

/* The whole answer; a member of its body is between `key":"` and a quote. */
static void ask(const char *method, const char *path, const char *body, const char *key,
                char out[64])
{
    char request[2000], answer[65536];
    size_t len = 0;
    int fd = dial();
    (void)snprintf(request, sizeof request,
                   "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
                   "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   method, path, strlen(body), body);
    put(fd, request);
    for (ssize_t got;
         len < sizeof answer - 1 && (got = read(fd, answer + len, sizeof answer - 1 - len)) > 0;)
        len += (size_t)got;
    answer[len] = '\0';
    (void)close(fd);
    char name[64];
    (void)snprintf(name, sizeof name, "\"%s\":\"", key);
    const char *at = strstr(answer, name);
    if (!at)
        fail_msg("%s %s: %s", method, path, answer);
    at += strlen(name);
    (void)snprintf(out, 64, "%.*s", (int)strcspn(at, "\""), at);
}

static long status_of(const char *name)
{
    char path[64], line[256];
    long value = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)stage.daemon);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, 10);
    if (in)
        (void)fclose(in);
    return value;
}

/* --- the stage --- */

static int set_up(void **state)
{
    (void)state;
    struct rlimit files;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)snprintf(stage.directory, sizeof stage.directory, "/tmp/berth-watchers-XXXXXX");
    assert_non_null(mkdtemp(stage.directory));
    stage.daemon = fork();
    if (stage.daemon == 0) {
        char store[128], socket_path[128];
        (void)snprintf(store, sizeof store, "sqlite:%s/db", stage.directory);
        (void)snprintf(socket_path, sizeof socket_path, "%s/s", stage.directory);
        execl(BERTHD, "berthd", "--store", store, "--socket", socket_path, NULL);
        _exit(127);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    int how;
    (void)kill(stage.daemon, SIGTERM);
    assert_int_equal(waitpid(stage.daemon, &how, 0), stage.daemon);
    assert_int_equal(how, 0);
    (void)snprintf(command, sizeof command, "rm -rf %s", stage.directory);
    return system(command); /* NOLINT */
}

/* --- the test --- */

/* Reads events as they come, also in halves: the output is in their "data". */
struct watcher {
    int fd;
    uint64_t bytes, hash; /* of the output */
    size_t matched;       /* of what comes before it */
    bool inside, escaped;
    bool ended; /* its last event has come */
    size_t end_matched;
};

static bool match(const char *pattern, size_t *matched, char c)
{
    *matched = c == pattern[*matched] ? *matched + 1 : c == pattern[0];
    if (pattern[*matched])
        return false;
    *matched = 0;
    return true;
}

static void add(uint64_t *bytes, uint64_t *hash, char c)
{
    (*bytes)++;
    *hash = *hash * 31 + (unsigned char)c;
}

static void take(struct watcher *w, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];
        if (!w->inside) {
            w->inside = match("\"data\":\"", &w->matched, c);
            w->ended |= match("event: end\n", &w->end_matched, c);
        } else if (w->escaped) { /* the only one here is the end of a line */
            add(&w->bytes, &w->hash, c == 'n' ? '\n' : c);
            w->escaped = false;
        } else if (c == '\\') {
            w->escaped = true;
        } else if (c == '"') {
            w->inside = false;
        } else {
            add(&w->bytes, &w->hash, c);
        }
    }
}

static int listen_to(const char *exec)
{
    char request[300];
    int fd = dial();
    (void)snprintf(request, sizeof request,
                   "GET /api/execs/%s/log HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                   "Accept: text/event-stream\r\n\r\n",
                   exec);
    put(fd, request);
    return fd;
}

static void start(char exec[64])
{
    char company[64], environment[64], lease[64], path[200], body[400];
    ask("GET", "/api/companies", "", "id", company);
    (void)snprintf(path, sizeof path, "/api/companies/%s/environments", company);
    ask("POST", path, "{\"name\":\"here\",\"driver\":\"local\"}", "id", environment);
    (void)snprintf(path, sizeof path, "/api/environments/%s/leases", environment);
    ask("POST", path, "{}", "id", lease);
    (void)snprintf(path, sizeof path, "/api/environment-leases/%s/exec", lease);
    (void)snprintf(body, sizeof body,
                   "{\"command\":\"sh\",\"args\":[\"-c\",\"sleep 3; seq 1 %d; sleep 1; echo end\"],"
                   "\"detach\":true}",
                   LINES);
    ask("POST", path, body, "execId", exec);
}

static void expect(uint64_t *bytes, uint64_t *hash)
{
    char line[16];
    *bytes = *hash = 0;
    for (int i = 1; i <= LINES + 1; i++) {
        (void)snprintf(line, sizeof line, i > LINES ? "end\n" : "%d\n", i);
        for (const char *c = line; *c; c++)
            add(bytes, hash, *c);
    }
}

static void every_byte_to_all(void **state)
{
    (void)state;
    const char *wanted = getenv("BERTH_TEST_WATCHERS");
    int count = wanted ? atoi(wanted) : 5000, open = 0;
    struct watcher *all = calloc((size_t)count, sizeof *all);
    char exec[64], *chunk = malloc(65536);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    start(exec);
    for (int i = 0; i < count; i++) {
        all[i].fd = listen_to(exec);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        assert_int_equal(epoll_ctl(poller, EPOLL_CTL_ADD, all[i].fd, &event), 0);
        open++;
    }
    long threads = 0, rss = 0;
    while (open) {
        struct epoll_event events[256];
        int ready = epoll_wait(poller, events, 256, 60000);
        assert_true(ready > 0);
        for (int i = 0; i < ready; i++) {
            struct watcher *w = events[i].data.ptr;
            ssize_t got = read(w->fd, chunk, 65536);
            if (got > 0) {
                take(w, chunk, (size_t)got);
                continue;
            }
            assert_int_equal(got, 0);
            (void)close(w->fd);
            open--;
        }
        long now = status_of("Threads:");
        threads = now > threads ? now : threads;
    }
    rss = status_of("VmHWM:");
    uint64_t bytes, hash;
    expect(&bytes, &hash);
    for (int i = 0; i < count; i++) {
        assert_int_equal(all[i].bytes, bytes);
        assert_int_equal(all[i].hash, hash);
        assert_true(all[i].ended);
    }
    print_message("# %d watchers: %ld KB at most, %ld threads at most\n", count, rss, threads);
    assert_in_range(threads, 1, 60); /* of pools, whoever listens */
    assert_in_range(rss, 1, RSS_KB_MAX);
    (void)close(poller);
    free(chunk);
    free(all);
}

/* Who does not read is let go, with a reason, and comes back by his offset. */
static void who_stops_reading_is_let_go(void **state)
{
    (void)state;
    char company[64], lease[64], environment[64], path[200], exec[64];
    ask("GET", "/api/companies", "", "id", company);
    (void)snprintf(path, sizeof path, "/api/companies/%s/environments", company);
    ask("GET", path, "", "id", environment);
    (void)snprintf(path, sizeof path, "/api/environments/%s/leases", environment);
    ask("POST", path, "{}", "id", lease);
    (void)snprintf(path, sizeof path, "/api/environment-leases/%s/exec", lease);
    ask("POST", path, "{\"command\":\"seq\",\"args\":[\"1\",\"300000\"],\"detach\":true}", "execId",
        exec);
    char request[300], *chunk = malloc(4 * 1024 * 1024);
    int fd = dial();
    (void)snprintf(request, sizeof request,
                   "GET /api/execs/%s/log HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                   "Accept: text/event-stream\r\n\r\n",
                   exec);
    put(fd, request);
    (void)sleep(22); /* two beats */
    size_t len = 0;
    for (ssize_t got; (got = read(fd, chunk + len, 4 * 1024 * 1024 - 1 - len)) > 0;)
        len += (size_t)got;
    chunk[len] = '\0';
    (void)close(fd);
    const char *dropped = strstr(chunk, "event: dropped\ndata: {\"reason\":\"The reader did not "
                                        "follow: come back with this offset.\",\"offset\":");
    assert_non_null(dropped);
    assert_null(strstr(chunk, "event: end"));
    unsigned long long offset = strtoull(strstr(dropped, "\"offset\":") + 9, NULL, 10);
    assert_true(offset > 0);
    fd = dial();
    (void)snprintf(request, sizeof request,
                   "GET /api/execs/%s/log?offset=%llu HTTP/1.1\r\nHost: x\r\nConnection: "
                   "close\r\n\r\n",
                   exec, offset);
    put(fd, request);
    len = 0;
    for (ssize_t got; (got = read(fd, chunk + len, 4 * 1024 * 1024 - 1 - len)) > 0;)
        len += (size_t)got;
    chunk[len] = '\0';
    (void)close(fd);
    const char *rest = strstr(chunk, "\r\n\r\n");
    assert_non_null(rest);
    assert_int_equal(offset + strlen(rest + 4), 1988895); /* of seq 1 300000 */
    free(chunk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_to_all),
        cmocka_unit_test(who_stops_reading_is_let_go),
    };
    return cmocka_run_group_tests_name("watchers", tests, set_up, tear_down);
}
