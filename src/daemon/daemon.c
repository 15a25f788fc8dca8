/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/daemon.c - see daemon.h. A thread of its own sweeps; everything else is the API's. */
#include "daemon/daemon.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/urls.h"
#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/daemon_lock.h"
#include "core/socket_cookie.h"
#include "core/paths.h"
#include "core/plugin/plugin.h"
#include "core/token.h"
#include "crypto/tls.h"
#include "daemon/fit.h"
#include "daemon/secure.h"
#include "os/children.h"
#include "os/engine.h"
#include "os/runtime.h"
#include "store/store.h"

#define SWEEP_WAIT_MS 2000
#define RECOVERY_MS 330000

struct berth_daemon {
    struct berth_config *config;
    struct berth *b;
    struct berth_api *api;
    char *store, *socket;
    int lock_fd;                   /* says that we serve the store, and where */
    struct berth_secure **secures; /* for each address, or NULL */
    int *ports;                    /* for each address; 0: it is not listened at */
    bool serves_tcp;               /* a token exists; main thread */

    pthread_t sweeper;
    bool sweeping; /* there is such a thread */
    int work_told; /* leases with work that the log has named; the sweeper's alone */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing;
    int64_t sweep_ms;
};

/* --- the log: one object a line, to whoever started us --- */

static void write_log(void *ctx, enum berth_log_level level, const char *line)
{
    (void)ctx, (void)level;
    (void)fprintf(stderr, "%s\n", line);
}

/* --- addresses --- */

static int find_socket(struct berth_daemon *d, struct berth_error *err)
{
    char directory[BERTH_RUNTIME_PATH_SIZE];
    if (d->config->socket) {
        d->socket = strdup(d->config->socket);
    } else {
        int rc = berth_runtime_directory(directory, err);
        if (rc < 0)
            return rc;
        if (asprintf(&d->socket, "%s/berthd.sock", directory) < 0)
            d->socket = NULL;
    }
    return d->socket ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
}

static int open_secures(struct berth_daemon *d, struct berth_error *err)
{
    int rc = BERTH_OK;
    unsigned count = d->config->listen_count;
    d->secures = calloc(count + 1, sizeof *d->secures);
    d->ports = calloc(count + 1, sizeof *d->ports);
    if (!d->secures || !d->ports)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    for (unsigned i = 0; i < count && rc == BERTH_OK; i++) {
        const struct berth_config_listen *at = &d->config->listen[i];
        if (at->certificate)
            rc = berth_secure_new(at->certificate, at->key, &d->secures[i], err);
    }
    return rc;
}

/* Tells the API which hosts and origins are ours. The public URL is both: a proxy that ends TLS
 * sends us plain requests of pages whose origin is that URL. */
static int allow(struct berth_daemon *d, const struct berth_config *c, struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_list hosts = {0}, origins = {0};
    const char *rest = c->public_url ? strstr(c->public_url, "://") : NULL;
    for (unsigned i = 0; i < c->allowed_host_count; i++)
        (void)berth_list_add(&hosts, &arena, c->allowed_hosts[i]);
    if (rest)
        (void)berth_list_add(&hosts, &arena,
                             berth_arena_copy(&arena, rest + 3, strcspn(rest + 3, "/")));
    static char docker[] = BERTH_DOCKER_HOST; /* as containers of this machine know it */
    (void)berth_list_add(&hosts, &arena, docker);
    (void)berth_list_add(&hosts, &arena, NULL);
    for (unsigned i = 0; i < c->allowed_origin_count; i++)
        (void)berth_list_add(&origins, &arena, c->allowed_origins[i]);
    const char *own = c->public_url ? berth_urls_origin(&arena, c->public_url) : NULL;
    if (own)
        (void)berth_list_add(&origins, &arena, (char *)(uintptr_t)own);
    (void)berth_list_add(&origins, &arena, NULL);
    int rc = berth_arena_check(&arena, err);
    return rc < 0 ? rc
                  : berth_api_allow(d->api, (const char *const *)(void *)hosts.items,
                                    (const char *const *)(void *)origins.items, err);
}

/* Tells by which URLs it can be reached now. */
static void set_urls(struct berth_daemon *d)
{
    auto_arena arena = BERTH_ARENA_INIT;
    const struct berth_config *c = d->config;
    struct berth_url_listen *listen =
        berth_arena_alloc(&arena, (c->listen_count + 1) * sizeof *listen);
    struct berth_url_inputs in = {.public_url = c->public_url, .listen = listen};
    struct berth_list hosts = {0}, urls;
    struct berth_error err = {0};
    for (unsigned i = 0; i < c->allowed_host_count; i++)
        (void)berth_list_add(&hosts, &arena, c->allowed_hosts[i]);
    (void)berth_list_add(&hosts, &arena, NULL);
    for (unsigned i = 0; listen && i < c->listen_count; i++)
        if (d->serves_tcp && d->ports[i] > 0)
            listen[in.listen_count++] = (struct berth_url_listen){
                .address = c->listen[i].address, .port = d->ports[i], .tls = d->secures[i] != NULL};
    in.hosts = (const char *const *)(void *)hosts.items;
    int rc = berth_arena_check(&arena, &err);
    if (rc == BERTH_OK)
        rc = berth_urls_interfaces(&arena, &in.interfaces, &err);
    if (rc == BERTH_OK)
        rc = berth_urls_find(&arena, &in, &urls, &err);
    if (rc == BERTH_OK)
        rc = berth_api_set_urls(d->api, &urls, &err);
    if (rc < 0)
        berth_log_line(&d->b->log, BERTH_LOG_WARN, "own URLs not known", "error", err.message,
                       NULL);
}

/* Takes the addresses before anything else can: a plugin's worker shares the network. Requests are
 * refused until a token exists. */
static int listen_over_tcp(struct berth_daemon *d, struct berth_error *err)
{
    berth_api_set_tcp(d->api, false);
    for (unsigned i = 0; i < d->config->listen_count; i++) {
        const struct berth_config_listen *at = &d->config->listen[i];
        struct berth_http_address address = {
            .host = at->address,
            .port = at->port,
            .secure = d->secures[i] ? berth_secure_ops(d->secures[i]) : NULL};
        int rc = berth_api_listen(d->api, &address, err);
        if (rc < 0)
            return rc;
        char port[16];
        (void)snprintf(port, sizeof port, "%d", rc);
        berth_log_line(&d->b->log, BERTH_LOG_INFO, "listening", "address", at->address, "port",
                       port, "tls", d->secures[i] ? "yes" : "no", NULL);
        d->ports[i] = rc;
    }
    return BERTH_OK;
}

void berth_daemon_tick(struct berth_daemon *d)
{
    struct berth_error ignored; /* the next tick tries again */
    bool exists = false;
    if (d->serves_tcp || !d->config->listen_count ||
        berth_token_exists(d->b, &exists, &ignored) < 0 || !exists)
        return;
    d->serves_tcp = true;
    berth_api_set_tcp(d->api, true);
    berth_log_line(&d->b->log, BERTH_LOG_INFO, "a token exists: requests over TCP are served",
                   NULL);
    set_urls(d);
}

/* --- sweeps --- */

/* Logs that work has waited for longer than workTtl, when that is so for more leases than before.
 */
static void tell_of_work(struct berth_daemon *d, int count)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", count);
    if (count > d->work_told)
        berth_log_line(&d->b->log, BERTH_LOG_WARN,
                       "leases hold work that did not come home for a long time: fetch it with "
                       "berth workspace pull, or give it up",
                       "leases", number, NULL);
    d->work_told = count;
}

/* Sweeps once. Slow providers continue on their own. Returns the number of environments that are
 * still being swept. */
static int sweep_once(struct berth_daemon *d)
{
    struct berth_sweep_options pass = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report = {0};
    struct berth_error err;
    berth_children_reap_inherited();
    pass.wait_ms = SWEEP_WAIT_MS;
    if (berth_sweep(d->b, &pass, &report, &err) < 0)
        berth_log_line(&d->b->log, BERTH_LOG_ERROR, "sweep failed", "error", err.message, NULL);
    else
        tell_of_work(d, report.work);
    if (report.quarantined)
        berth_log_line(&d->b->log, BERTH_LOG_ERROR, "leases that cannot be read are left alone",
                       NULL);
    return report.unfinished;
}

static bool is_closing(struct berth_daemon *d)
{
    pthread_mutex_lock(&d->lock);
    bool closing = d->closing;
    pthread_mutex_unlock(&d->lock);
    return closing;
}

/* What was left behind, to the end; a provider that hangs is not waited for for ever. */
static void recover(struct berth_daemon *d)
{
    int64_t end_ms = berth_time_mono_ms() + RECOVERY_MS;
    while (sweep_once(d) && !is_closing(d) && berth_time_mono_ms() < end_ms)
        ;
    berth_api_set_recovering(d->api, false);
    berth_log_line(&d->b->log, BERTH_LOG_INFO, "recovery finished", NULL);
}

static void *sweep_main(void *ctx)
{
    struct berth_daemon *d = ctx;
    recover(d);
    pthread_mutex_lock(&d->lock);
    while (!d->closing) {
        struct timespec until = berth_time_until(d->sweep_ms);
        if (pthread_cond_timedwait(&d->changed, &d->lock, &until) != ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&d->lock);
        (void)sweep_once(d);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* --- all of it --- */

static int open_runtime(struct berth_daemon *d, struct berth_error *err)
{
    struct berth_options options = BERTH_OPTIONS_INIT;
    int rc = BERTH_OK;
    if (!d->config->store)
        rc = berth_default_store(&d->store, err);
    else if (!(d->store = strdup(d->config->store)))
        rc = berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory.");
    if (rc < 0)
        return rc;
    options.store = d->store;
    options.key_file = d->config->key_file;
    options.settings = d->config->settings;
    options.log = (struct berth_log){.write = write_log, .min_level = d->config->log_level};
    rc = berth_open(&options, &d->b, err);
    if (rc == BERTH_OK)
        rc = find_socket(d, err);
    return rc < 0 ? rc : berth_daemon_lock_take(d->store, d->socket, &d->lock_fd, err);
}

/* Says so when other users can look into the directory. What berth makes there is private. */
static void log_directory(const struct berth_daemon *d)
{
    auto_arena arena = BERTH_ARENA_INIT;
    struct berth_error ignored;
    struct stat st;
    const char *path = berth_plugins_directory(d->b, &arena, NULL, NULL, &ignored);
    if (path && stat(path, &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)))
        berth_log_line(&d->b->log, BERTH_LOG_WARN,
                       "the directory of the store is open to other users: run chmod 700",
                       "directory", path, NULL);
}

static void log_limits(const struct berth_daemon *d, const struct berth_fit_machine *machine,
                       const struct berth_http_settings *settings)
{
    char descriptors[24], connections[24], bodies[24];
    (void)snprintf(descriptors, sizeof descriptors, "%lld", (long long)machine->descriptors);
    (void)snprintf(connections, sizeof connections, "%d", settings->connections_max);
    (void)snprintf(bodies, sizeof bodies, "%lld", (long long)settings->bodies_bytes_max);
    berth_log_line(&d->b->log, BERTH_LOG_INFO,
                   settings->connections_max < d->config->connections_max
                       ? "fewer connections than connectionsMax: raise the limit of open files"
                       : "limits",
                   "descriptors", descriptors, "connections", connections, "bodyBytes", bodies,
                   NULL);
}

static int open_api(struct berth_daemon *d, struct berth_error *err)
{
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    struct berth_fit_machine machine = berth_fit_look();
    settings.connections_max = d->config->connections_max;
    berth_fit_settings(&machine, &settings);
    log_limits(d, &machine, &settings);
    int rc = open_secures(d, err);
    if (rc == BERTH_OK)
        rc = berth_api_open(d->b, &settings, &d->api, err);
    if (rc == BERTH_OK)
        rc = allow(d, d->config, err);
    if (rc < 0)
        return rc;
    berth_api_set_recovering(d->api, true);
    rc = listen_over_tcp(d, err);
    if (rc < 0)
        return rc;
    d->b->socket = d->socket;
    struct berth_http_address address = {.path = d->socket};
    char cookie[BERTH_SOCKET_COOKIE_SIZE];
    rc = berth_socket_cookie_take(d->socket, cookie, err);
    if (rc == BERTH_OK)
        rc = berth_api_set_cookie(d->api, cookie, d->socket, err);
    return rc < 0 ? rc : berth_api_listen(d->api, &address, err);
}

int berth_daemon_open(struct berth_config *config, struct berth_daemon **out,
                      struct berth_error *err)
{
    struct berth_daemon *d = calloc(1, sizeof *d);
    if (!d) {
        berth_config_free(config);
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: daemon.");
    }
    d->config = config;
    d->lock_fd = -1;
    d->sweep_ms = config->sweep_ms;
    pthread_mutex_init(&d->lock, NULL);
    berth_time_cond_init(&d->changed);
    int rc = open_runtime(d, err);
    if (rc == BERTH_OK)
        rc = open_api(d, err);
    if (rc == BERTH_OK) {
        berth_log_line(&d->b->log, BERTH_LOG_INFO, "listening", "socket", d->socket, "store",
                       berth_store_where(d->b->store), NULL);
        log_directory(d);
        set_urls(d);
        berth_daemon_tick(d);
        struct berth_error ignored; /* the first command tries again, and tells */
        (void)berth_engine_prepare(d->b->engine, &ignored);
        errno = pthread_create(&d->sweeper, NULL, sweep_main, d);
        d->sweeping = errno == 0;
        rc = errno ? berth_fail_errno(err, "Cannot start a thread") : BERTH_OK;
    }
    if (rc < 0)
        berth_daemon_close(d);
    else
        *out = d;
    return rc;
}

static bool daemon_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* What is bound to the start of the process. */
static const char *find_ignored(const struct berth_config *now, const struct berth_config *next)
{
    if (!daemon_same(now->store, next->store))
        return "store";
    if (!daemon_same(now->key_file, next->key_file))
        return "keyFile";
    if (!daemon_same(now->socket, next->socket))
        return "socket";
    if (now->connections_max != next->connections_max)
        return "connectionsMax";
    if (memcmp(&now->settings, &next->settings, sizeof now->settings) != 0)
        return "settings";
    if (now->listen_count != next->listen_count)
        return "listen";
    for (unsigned i = 0; i < now->listen_count; i++)
        if (!daemon_same(now->listen[i].address, next->listen[i].address) ||
            now->listen[i].port != next->listen[i].port ||
            !now->listen[i].certificate != !next->listen[i].certificate)
            return "listen";
    return NULL;
}

/* The same address in the other config; NULL: it has none, or not with TLS. */
static const struct berth_config_listen *find_listen(const struct berth_config *c,
                                                     const struct berth_config_listen *like)
{
    for (unsigned i = 0; i < c->listen_count; i++)
        if (daemon_same(c->listen[i].address, like->address) && c->listen[i].port == like->port &&
            c->listen[i].certificate)
            return &c->listen[i];
    return NULL;
}

/* All new pairs, or none. */
static int renew_pairs(struct berth_daemon *d, const struct berth_config *next,
                       struct berth_error *err)
{
    const struct berth_config *now = d->config;
    struct berth_tls **pairs = calloc(now->listen_count + 1, sizeof(void *));
    int rc = pairs ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: TLS.");
    for (unsigned i = 0; rc == BERTH_OK && i < now->listen_count; i++) {
        const struct berth_config_listen *at = find_listen(next, &now->listen[i]);
        if (d->secures[i] && at)
            rc = berth_tls_open(at->certificate, at->key, &pairs[i], err);
    }
    for (unsigned i = 0; pairs && i < now->listen_count; i++)
        if (rc < 0)
            berth_tls_close(pairs[i]);
        else if (pairs[i])
            berth_secure_renew(d->secures[i], pairs[i]);
    free(pairs);
    return rc;
}

#define SWAP(a, b)                                                                                 \
    do {                                                                                           \
        __typeof__(a) swapped_ = (a);                                                              \
        (a) = (b);                                                                                 \
        (b) = swapped_;                                                                            \
    } while (0)

/* What a later reload compares with, or goes back to. */
static void keep_new(struct berth_daemon *d, struct berth_config *next)
{
    struct berth_config *now = d->config;
    SWAP(now->allowed_hosts, next->allowed_hosts);
    SWAP(now->allowed_host_count, next->allowed_host_count);
    SWAP(now->allowed_origins, next->allowed_origins);
    SWAP(now->allowed_origin_count, next->allowed_origin_count);
    SWAP(now->public_url, next->public_url);
    pthread_mutex_lock(&d->lock);
    d->sweep_ms = now->sweep_ms = next->sweep_ms;
    now->drain_ms = next->drain_ms;
    __atomic_store_n(&d->b->log.min_level, next->log_level, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

int berth_daemon_reload(struct berth_daemon *d, struct berth_config *next, const char **ignored,
                        struct berth_error *err)
{
    struct berth_error none;
    *ignored = find_ignored(d->config, next);
    int rc = allow(d, next, err);
    if (rc == BERTH_OK)
        rc = renew_pairs(d, next, err);
    if (rc == BERTH_OK) {
        keep_new(d, next);
        set_urls(d);
    } else {
        (void)allow(d, d->config, &none);
    }
    berth_config_free(next);
    return rc;
}

void berth_daemon_close(struct berth_daemon *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (d->sweeping)
        (void)pthread_join(d->sweeper, NULL); /* it knows the API */
    int64_t end_ms = berth_time_mono_ms() + d->config->drain_ms;
    berth_api_close(d->api, d->config->drain_ms);
    int64_t left_ms = end_ms - berth_time_mono_ms();
    if (d->b) /* workers may use the rest of the time to stop, however they like it */
        berth_cancel_calls(d->b, (left_ms > 0 ? left_ms : 0) + BERTH_STOP_WORKERS_MS);
    for (unsigned i = 0; d->secures && i < d->config->listen_count; i++)
        berth_secure_free(d->secures[i]);
    berth_close(d->b);
    if (d->lock_fd >= 0)
        (void)close(d->lock_fd);
    free(d->secures);
    free(d->ports);
    free(d->socket);
    free(d->store);
    berth_config_free(d->config);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

const char *berth_daemon_socket(const struct berth_daemon *d)
{
    return d->socket;
}

const char *berth_daemon_store(const struct berth_daemon *d)
{
    return berth_store_where(d->b->store);
}

int berth_daemon_port(const struct berth_daemon *d, unsigned nth)
{
    return nth < d->config->listen_count && d->ports[nth] > 0 ? d->ports[nth] : 0;
}
