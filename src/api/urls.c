/* SPDX-License-Identifier: Apache-2.0
 * src/api/urls.c - see urls.h. */
#include "api/urls.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "os/socket.h"

struct finding {
    struct berth_arena *arena;
    struct berth_list *out;
};

static void url_add(struct finding *f, const char *url)
{
    for (int i = 0; url && i < f->out->count; i++)
        if (strcmp(f->out->items[i], url) == 0)
            return;
    if (url)
        (void)berth_list_add(f->out, f->arena, (char *)(uintptr_t)url);
}

/* Without the brackets that a URL has around IPv6. */
static const char *bare(struct berth_arena *arena, const char *host)
{
    size_t len = strlen(host);
    return len > 2 && host[0] == '[' && host[len - 1] == ']'
               ? berth_arena_copy(arena, host + 1, len - 2)
               : host;
}

static bool is_name(const char *host)
{
    return *host && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 ".-_:%") == strlen(host);
}

/* Scheme and host in lower case, and no port that goes without saying. */
static const char *origin(struct berth_arena *arena, bool tls, const char *host, int port)
{
    host = bare(arena, host);
    if (!host || !is_name(host) || port < 1 || port > 65535)
        return NULL;
    bool six = strchr(host, ':') != NULL, plain = port == (tls ? 443 : 80);
    char number[16] = "";
    if (!plain)
        (void)snprintf(number, sizeof number, ":%d", port);
    char *url = berth_arena_printf(arena, "%s://%s%s%s%s", tls ? "https" : "http", six ? "[" : "",
                                   host, six ? "]" : "", number);
    for (char *c = url; c && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return url;
}

/* "https://name:8443/..."; NULL: it is none. */
static const char *origin_of(struct berth_arena *arena, const char *url, const char **host)
{
    bool tls = strncasecmp(url, "https://", 8) == 0;
    if (!tls && strncasecmp(url, "http://", 7) != 0)
        return NULL;
    const char *at = url + (tls ? 8 : 7);
    size_t len = strcspn(at, "/?#");
    char *text = berth_arena_copy(arena, at, len);
    if (!text || strchr(text, '@'))
        return NULL;
    char *end = strrchr(text, ']'), *colon = strrchr(end ? end : text, ':');
    int port = tls ? 443 : 80;
    if (colon) {
        char after;
        if (sscanf(colon + 1, "%5d%c", &port, &after) != 1) /* NOLINT */
            return NULL;
        *colon = '\0';
    }
    *host = bare(arena, text);
    return *host ? origin(arena, tls, *host, port) : NULL;
}

const char *berth_urls_origin(struct berth_arena *arena, const char *url)
{
    const char *host;
    return origin_of(arena, url, &host);
}

static bool is_all(const char *address)
{
    return strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

/* A machine's address is of use only where it is listened at. */
static bool url_serves(const struct berth_url_listen *l, const char *address)
{
    return strcmp(l->address, strchr(address, ':') ? "::" : "0.0.0.0") == 0;
}

static void add_listens(struct finding *f, const struct berth_url_inputs *in, bool loopback)
{
    for (int i = 0; i < in->listen_count; i++) {
        const struct berth_url_listen *l = &in->listen[i];
        if (!is_all(l->address) && berth_is_loopback(l->address) == loopback)
            url_add(f, origin(f->arena, l->tls, l->address, l->port));
    }
}

static void add_interfaces(struct finding *f, const struct berth_url_inputs *in)
{
    for (const char *const *a = in->interfaces; a && *a; a++)
        for (int i = 0; i < in->listen_count; i++)
            if (url_serves(&in->listen[i], *a))
                url_add(f, origin(f->arena, in->listen[i].tls, *a, in->listen[i].port));
}

/* What runs in a container of this machine knows it by that name. */
static void add_docker(struct finding *f, const struct berth_url_inputs *in, bool public_here)
{
    for (int i = 0; i < in->listen_count; i++)
        if (public_here || is_all(in->listen[i].address))
            url_add(f, origin(f->arena, in->listen[i].tls, BERTH_DOCKER_HOST, in->listen[i].port));
}

int berth_urls_find(struct berth_arena *arena, const struct berth_url_inputs *in,
                    struct berth_list *out, struct berth_error *err)
{
    struct finding f = {.arena = arena, .out = out};
    const char *public_host = "";
    *out = (struct berth_list){0};
    if (in->public_url)
        url_add(&f, origin_of(arena, in->public_url, &public_host));
    for (const char *const *h = in->hosts; h && *h; h++)
        for (int i = 0; i < in->listen_count; i++)
            url_add(&f, origin(arena, in->listen[i].tls, *h, in->listen[i].port));
    add_listens(&f, in, false);
    add_docker(&f, in, berth_is_loopback(public_host));
    add_interfaces(&f, in);
    add_listens(&f, in, true); /* for what runs on this machine itself */
    for (int i = 0; !out->count && i < in->listen_count; i++)
        url_add(&f, origin(arena, in->listen[i].tls, "localhost", in->listen[i].port));
    return berth_arena_check(arena, err);
}

/* --- this machine's --- */

static bool is_of_use(const struct ifaddrs *a, int family)
{
    if (!a->ifa_addr || a->ifa_addr->sa_family != family || !(a->ifa_flags & IFF_UP) ||
        (a->ifa_flags & IFF_LOOPBACK))
        return false;
    if (family == AF_INET) {
        const struct sockaddr_in *four = (const void *)a->ifa_addr;
        return (ntohl(four->sin_addr.s_addr) >> 16) != 0xa9fe; /* 169.254.0.0/16 */
    }
    const struct sockaddr_in6 *six = (const void *)a->ifa_addr;
    return !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
}

int berth_urls_interfaces(struct berth_arena *arena, const char *const **out,
                          struct berth_error *err)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct berth_list list = {0};
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) < 0)
        return berth_fail_errno(err, "Cannot list this machine's addresses");
    for (int i = 0; i < 2; i++)
        for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
            char text[NI_MAXHOST];
            socklen_t len =
                families[i] == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
            if (is_of_use(a, families[i]) &&
                getnameinfo(a->ifa_addr, len, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0)
                (void)berth_list_add(&list, arena, berth_arena_strdup(arena, text));
        }
    freeifaddrs(all);
    (void)berth_list_add(&list, arena, NULL);
    *out = (const char *const *)(void *)list.items;
    return berth_arena_check(arena, err);
}
