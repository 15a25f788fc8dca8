/* SPDX-License-Identifier: Apache-2.0
 * src/http/server.c - the server: its addresses, how many connections it takes, its end. See
 * http.h. */
#include "http/http.h"

#include <stdlib.h>

#include "http/conn.h"

#define RESERVED_MAX 64 /* connections that only Unix sockets may have */
#define FULL_TOLD_MS 60000

/* --- counting connections --- */

/* Clients on this machine get in however many came by TCP. Connections that are being closed to
 * make room do not count; all of them came by TCP. */
static bool server_is_full(struct berth_http_server *server, bool local)
{
    int max = server->settings.connections_max;
    int kept = max / 4 < RESERVED_MAX ? max / 4 : RESERVED_MAX;
    pthread_mutex_lock(&server->lock);
    int all = server->connections - server->evicted, remote = server->remote - server->evicted;
    pthread_mutex_unlock(&server->lock);
    return all >= max || (!local && remote >= max - kept);
}

static void server_tell_full(struct berth_http_server *server)
{
    int64_t now = berth_time_mono_ms();
    if (!server->handlers.on_full ||
        (server->full_told_at_ms && now - server->full_told_at_ms < FULL_TOLD_MS))
        return;
    server->full_told_at_ms = now;
    server->handlers.on_full(server->handlers.ctx);
}

/* Closes a connection whose client is not trusted. Returns false when there is none. */
static bool server_make_room(struct berth_http_server *server)
{
    server_tell_full(server);
    if (!server->strangers)
        return false;
    berth_http_conn_evict(server->strangers);
    return true;
}

bool berth_http_server_admit(struct berth_http_server *server, bool local)
{
    if (server->draining || (server_is_full(server, local) && !server_make_room(server)))
        return false;
    pthread_mutex_lock(&server->lock);
    server->connections++;
    server->remote += !local;
    pthread_mutex_unlock(&server->lock);
    return true;
}

void berth_http_server_dismiss(struct berth_http_server *server, bool local)
{
    pthread_mutex_lock(&server->lock);
    server->connections--;
    server->remote -= !local;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

struct berth_http_stats berth_http_server_stats(struct berth_http_server *server)
{
    pthread_mutex_lock(&server->lock);
    struct berth_http_stats stats = {.connections = server->connections,
                                     .streams = server->streams,
                                     .requests = server->requests,
                                     .bodies_bytes = berth_budget_used(server->bodies),
                                     .answers_bytes = berth_budget_used(server->answers)};
    pthread_mutex_unlock(&server->lock);
    return stats;
}

/* --- the beginning --- */

static void server_free(struct berth_http_server *server)
{
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    berth_budget_free(server->bodies);
    berth_budget_free(server->answers);
    free(server);
}

int berth_http_server_open(struct berth_engine *engine, const struct berth_http_settings *settings,
                           const struct berth_http_handlers *handlers,
                           struct berth_http_server **out, struct berth_error *err)
{
    struct berth_http_server *server = calloc(1, sizeof *server);
    if (!server)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: server.");
    int rc = berth_budget_new(settings->bodies_bytes_max, &server->bodies, err);
    if (rc == BERTH_OK)
        rc = berth_budget_new(settings->answers_bytes_max, &server->answers, err);
    server->engine = engine;
    server->settings = *settings;
    server->handlers = *handlers;
    server->strangers_end = &server->strangers;
    pthread_mutex_init(&server->lock, NULL);
    berth_time_cond_init(&server->changed);
    if (rc < 0)
        server_free(server);
    else
        *out = server;
    return rc;
}

static void on_server_socket(void *ctx, struct berth_socket *socket)
{
    berth_http_conn_open(ctx, socket);
}

int berth_http_server_listen(struct berth_http_server *server,
                             const struct berth_http_address *address, struct berth_error *err)
{
    if (server->address_count == BERTH_HTTP_ADDRESSES_MAX)
        return berth_fail(err, BERTH_E_INVALID, "There are too many addresses to listen at.");
    struct berth_http_listening *at = &server->addresses[server->address_count];
    *at = (struct berth_http_listening){.server = server, .secure = address->secure};
    struct berth_listener_options options = {.path = address->path,
                                             .host = address->host,
                                             .port = address->port,
                                             .fd_max =
                                                 address->path ? 0 : server->settings.remote_fd_max,
                                             .on_socket = on_server_socket,
                                             .ctx = at};
    int rc = berth_listener_open(server->engine, &options, &at->listener, err);
    if (rc < 0)
        return rc;
    server->address_count++;
    return berth_listener_port(at->listener);
}

/* --- the end --- */

static void run_server_drain(void *ctx)
{
    struct berth_http_server *server = ctx;
    server->draining = true;
    for (struct berth_http_conn *c = server->first; c; c = c->next)
        if (c->phase == BERTH_HTTP_IDLE)
            berth_socket_close(c->socket);
        else if (c->phase == BERTH_HTTP_STREAMING && c->exchange->stream.on_drain)
            c->exchange->stream.on_drain(c->exchange->stream.ctx);
}

static void run_server_close(void *ctx)
{
    struct berth_http_server *server = ctx;
    server->draining = true;
    for (struct berth_http_conn *c = server->first; c; c = c->next)
        berth_socket_close(c->socket);
}

static void server_stop_listening(struct berth_http_server *server)
{
    for (int i = 0; i < server->address_count; i++)
        berth_listener_close(server->addresses[i].listener);
    server->address_count = 0;
}

void berth_http_server_drain(struct berth_http_server *server, int64_t wait_ms)
{
    struct timespec until = berth_time_until(wait_ms);
    struct berth_error ignored; /* a loop that cannot run does not have connections */
    server_stop_listening(server);
    (void)berth_engine_do(server->engine, run_server_drain, server, &ignored);
    pthread_mutex_lock(&server->lock);
    while (server->connections && wait_ms > 0)
        if (pthread_cond_timedwait(&server->changed, &server->lock, &until) != 0)
            break;
    pthread_mutex_unlock(&server->lock);
}

void berth_http_server_close(struct berth_http_server *server)
{
    if (!server)
        return;
    struct berth_error ignored;
    server_stop_listening(server);
    (void)berth_engine_do(server->engine, run_server_close, server, &ignored);
    pthread_mutex_lock(&server->lock);
    while (server->connections || server->exchanges)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    server_free(server);
}
