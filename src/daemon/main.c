/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/main.c - berthd: options, signals, and what systemd is told. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "crypto/locked.h"
#include "daemon/daemon.h"
#include "os/spawn.h"

#define TICK_MS 1000
#define DEFAULT_CONFIG "/etc/berth/berthd.yaml"

struct options {
    const char *config; /* NULL: the default, if it is there */
    const char *store, *key_file, *socket;
    const char *listen[16];
    int listen_count;
};

static void daemon_usage(FILE *out)
{
    (void)fputs("berthd [--config FILE] [--store ADDRESS] [--key-file FILE] [--socket PATH]\n"
                "       [--listen ADDRESS:PORT]...\n\n"
                "Serves berth's API at a Unix socket, and over TCP to those who have a token.\n"
                "Without --config it reads " DEFAULT_CONFIG
                ", if that is there; berthd.yaml(5) has all\n"
                "options. What is said here, or by BERTH_STORE and BERTH_KEY_FILE, wins.\n",
                out);
}

static int fail(const struct berth_error *err)
{
    (void)fprintf(stderr, "berthd: %s\n", err->message);
    return 1;
}

/* --- systemd --- */

/* Says it to whoever started us, if he listens. */
static void notify(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!name || (name[0] != '/' && name[0] != '@') || strlen(name) >= sizeof to.sun_path)
        return;
    auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(to.sun_path, name, strlen(name));
    if (name[0] == '@')
        to.sun_path[0] = '\0';
    if (fd >= 0)
        (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
}

static void notify_reloading(void)
{
    char text[80];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify(text);
}

/* --- what we are told --- */

static bool replace(char **at, const char *value)
{
    char *copy = strdup(value);
    if (!copy)
        return false;
    free(*at);
    *at = copy;
    return true;
}

/* ADDRESS:PORT, [ADDRESS]:PORT */
static int add_listen(struct berth_config *c, const char *text, struct berth_error *err)
{
    char address[64];
    unsigned char bytes[16];
    const char *given = text, *colon = strrchr(text, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    size_t len = colon ? (size_t)(colon - text) : 0;
    if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    bool fits = colon && colon[1] && !*end && port >= 0 && port <= 65535 && len < sizeof address;
    (void)snprintf(address, sizeof address, "%.*s", fits ? (int)len : 0, text);
    if (inet_pton(strchr(address, ':') ? AF_INET6 : AF_INET, address, bytes) != 1)
        return berth_fail(err, BERTH_E_INVALID,
                          "--listen \"%s\" is no address: write 127.0.0.1:7300 or [::1]:7300",
                          given);
    if (strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0)
        return berth_fail(err, BERTH_E_INVALID,
                          "--listen is for this machine alone; %s needs a certificate, or "
                          "\"plaintext: true\", in the config: berthd.yaml(5)",
                          address);
    struct berth_config_listen *grown =
        realloc(c->listen, (c->listen_count + 1) * sizeof *c->listen);
    char *copy = strdup(address);
    if (grown)
        c->listen = grown;
    if (!grown || !copy) {
        free(copy);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    }
    c->listen[c->listen_count++] = (struct berth_config_listen){.address = copy, .port = (int)port};
    return BERTH_OK;
}

static int read_config(const struct options *o, struct berth_config **out, struct berth_error *err)
{
    const char *path = o->config ? o->config : DEFAULT_CONFIG;
    struct berth_config *c;
    int rc = berth_config_read(path, &c, err);
    if (rc == BERTH_E_NOT_FOUND && !o->config)
        rc = berth_config_new(&c, err);
    if (rc < 0)
        return rc;
    const char *store = o->store ? o->store : getenv("BERTH_STORE");
    const char *key_file = o->key_file ? o->key_file : getenv("BERTH_KEY_FILE");
    bool done = (!store || !*store || replace(&c->store, store)) &&
                (!key_file || !*key_file || replace(&c->key_file, key_file)) &&
                (!o->socket || replace(&c->socket, o->socket));
    if (!done)
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    for (int i = 0; i < o->listen_count && rc == BERTH_OK; i++)
        rc = add_listen(c, o->listen[i], err);
    if (rc < 0)
        berth_config_free(c);
    else
        *out = c;
    return rc;
}

/* < 0: go on; else the exit status. */
static int daemon_parse(int argc, char **argv, struct options *o)
{
    static const struct option table[] = {
        {"config", required_argument, NULL, 'c'},   {"store", required_argument, NULL, 's'},
        {"key-file", required_argument, NULL, 'k'}, {"socket", required_argument, NULL, 'u'},
        {"listen", required_argument, NULL, 'l'},   {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},        {0}};
    for (int got; (got = getopt_long(argc, argv, "h", table, NULL)) != -1;) {
        if (got == 'c') {
            o->config = optarg;
        } else if (got == 's') {
            o->store = optarg;
        } else if (got == 'k') {
            o->key_file = optarg;
        } else if (got == 'u') {
            o->socket = optarg;
        } else if (got == 'l' && o->listen_count < 16) {
            o->listen[o->listen_count++] = optarg;
        } else if (got == 'h') {
            daemon_usage(stdout);
            return 0;
        } else if (got == 'v') {
            (void)printf("berthd %s\n", berth_version());
            return 0;
        } else {
            daemon_usage(stderr);
            return 2;
        }
    }
    if (optind == argc)
        return -1;
    (void)fprintf(stderr, "berthd: \"%s\" is one word too many\n", argv[optind]);
    return 2;
}

/* --- signals --- */

static void daemon_reload(struct berth_daemon *d, const struct options *o)
{
    struct berth_config *next;
    struct berth_error err;
    const char *ignored = NULL;
    notify_reloading();
    int rc = read_config(o, &next, &err);
    if (rc == BERTH_OK)
        rc = berth_daemon_reload(d, next, &ignored, &err);
    if (rc < 0)
        (void)fprintf(stderr, "berthd: the config stays as it was: %s\n", err.message);
    else if (ignored)
        (void)fprintf(stderr, "berthd: a change of \"%s\" needs a restart\n", ignored);
    notify("READY=1");
}

/* Until it is to end. */
static void serve(struct berth_daemon *d, const struct options *o, const sigset_t *signals)
{
    for (;;) {
        struct timespec tick = {.tv_sec = TICK_MS / 1000};
        int got = sigtimedwait(signals, NULL, &tick);
        if (got == SIGTERM || got == SIGINT)
            return;
        if (got == SIGHUP)
            daemon_reload(d, o);
        else if (got < 0 && errno == EAGAIN)
            berth_daemon_tick(d);
        notify("WATCHDOG=1");
    }
}

static bool arm_failpoint(void)
{
    const char *name = getenv("BERTH_FAILPOINT");
    if (!name)
        return true;
    enum berth_failpoint point = berth_failpoint_find(name);
    if (point != BERTH_FP_COUNT)
        berth_failpoint_arm(point, 0);
    return point != BERTH_FP_COUNT;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct berth_config *config;
    struct berth_daemon *daemon;
    struct berth_error err;
    sigset_t signals, blocked;
    int status = daemon_parse(argc, argv, &options);
    if (status >= 0)
        return status;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    blocked = signals;
    (void)sigaddset(&blocked, SIGCHLD);           /* its default, too, would wake this thread */
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL); /* before there is another thread */
    (void)signal(SIGPIPE, SIG_IGN);
    berth_spawn_note_signals();
    berth_builtins.tune_process();
    berth_deny_dumps();
    berth_spawn_raise_file_limit(); /* a connection is a descriptor */
    if (!arm_failpoint()) {
        (void)fputs("berthd: BERTH_FAILPOINT names no step\n", stderr);
        return 2;
    }
    if (read_config(&options, &config, &err) < 0 || berth_daemon_open(config, &daemon, &err) < 0)
        return fail(&err);
    notify("READY=1");
    serve(daemon, &options, &signals);
    notify("STOPPING=1");
    berth_daemon_close(daemon);
    return 0;
}
