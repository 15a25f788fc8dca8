/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/urls.c - by which URLs a place may reach a daemon. */
#include "api/urls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HTTP(a, p)                                                                                 \
    {                                                                                              \
        .address = (a), .port = (p)                                                                \
    }
#define HTTPS(a, p)                                                                                \
    {                                                                                              \
        .address = (a), .port = (p), .tls = true                                                   \
    }

static const struct row {
    const char *name, *public_url;
    const char *hosts[3];
    struct berth_url_listen listen[2];
    const char *interfaces[4];
    const char *wanted; /* with a blank between */
} rows[] = {
    {"nothing", NULL, {NULL}, {{0}}, {NULL}, ""},
    {"the operator's word alone",
     "https://berth.example/",
     {NULL},
     {{0}},
     {"10.0.0.1"},
     "https://berth.example"},
    {"loopback", NULL, {NULL}, {HTTP("127.0.0.1", 7300)}, {"10.0.0.1"}, "http://127.0.0.1:7300"},
    {"loopback, IPv6", NULL, {NULL}, {HTTP("::1", 7300)}, {"10.0.0.1"}, "http://[::1]:7300"},
    {"all of this machine's",
     NULL,
     {NULL},
     {HTTP("0.0.0.0", 7300)},
     {"10.0.0.1", "192.168.1.2", "2001:db8::1"},
     "http://host.docker.internal:7300 http://10.0.0.1:7300 http://192.168.1.2:7300"},
    {"all, IPv6 too",
     NULL,
     {NULL},
     {HTTPS("::", 443)},
     {"10.0.0.1", "2001:db8::1"},
     "https://host.docker.internal https://[2001:db8::1]"},
    {"one address",
     NULL,
     {NULL},
     {HTTPS("10.0.0.1", 8443)},
     {"10.0.0.1", "192.168.1.2"},
     "https://10.0.0.1:8443"},
    {"names come before addresses",
     NULL,
     {"Berth.Example", "other"},
     {HTTPS("10.0.0.1", 8443)},
     {NULL},
     "https://berth.example:8443 https://other:8443 https://10.0.0.1:8443"},
    {"the operator comes first, and each once",
     "https://BERTH.example:8443",
     {"berth.example", "berth.example"},
     {HTTPS("10.0.0.1", 8443)},
     {NULL},
     "https://berth.example:8443 https://10.0.0.1:8443"},
    {"a public URL of this machine",
     "http://localhost:7300",
     {NULL},
     {HTTP("127.0.0.1", 7300)},
     {NULL},
     "http://localhost:7300 http://host.docker.internal:7300 http://127.0.0.1:7300"},
    {"and by IPv6",
     "http://[::1]:7300",
     {NULL},
     {HTTP("::1", 7300)},
     {NULL},
     "http://[::1]:7300 http://host.docker.internal:7300"},
    {"ports that go without saying",
     "HTTP://a.example:80",
     {"b"},
     {HTTP("10.0.0.1", 80)},
     {NULL},
     "http://a.example http://b http://10.0.0.1"},
    {"malformed ones are left out",
     "ftp://a.example",
     {"b c", ""},
     {HTTP("10.0.0.1", 7300)},
     {NULL},
     "http://10.0.0.1:7300"},
    {"a user is none of its business",
     "http://me@a.example",
     {NULL},
     {HTTP("10.0.0.1", 7300)},
     {NULL},
     "http://10.0.0.1:7300"},
    {"a port that is none",
     "http://a.example:99999",
     {NULL},
     {HTTP("10.0.0.1", 7300)},
     {NULL},
     "http://10.0.0.1:7300"},
    {"two addresses",
     NULL,
     {NULL},
     {HTTP("127.0.0.1", 7300), HTTPS("10.0.0.1", 7301)},
     {NULL},
     "https://10.0.0.1:7301 http://127.0.0.1:7300"},
};

static void candidates_in_their_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct berth_arena arena = BERTH_ARENA_INIT;
        struct berth_list found;
        struct berth_error err;
        char got[1000] = "";
        struct berth_url_inputs in = {.public_url = r->public_url,
                                      .hosts = r->hosts,
                                      .listen = r->listen,
                                      .interfaces = r->interfaces};
        while (in.listen_count < 2 && r->listen[in.listen_count].address)
            in.listen_count++;
        assert_int_equal(berth_urls_find(&arena, &in, &found, &err), 0);
        for (int u = 0; u < found.count; u++) {
            size_t len = strlen(got);
            (void)snprintf(got + len, sizeof got - len, "%s%s", u ? " " : "",
                           (const char *)found.items[u]);
        }
        if (strcmp(got, r->wanted) != 0)
            fail_msg("%s: %s\ninstead of: %s", r->name, got, r->wanted);
        berth_arena_clear(&arena);
    }
}

static void this_machines_addresses(void **state)
{
    (void)state;
    struct berth_arena arena = BERTH_ARENA_INIT;
    struct berth_error err;
    const char *const *all;
    assert_int_equal(berth_urls_interfaces(&arena, &all, &err), 0);
    bool six = false;
    for (; *all; all++) {
        assert_true(strncmp(*all, "127.", 4) != 0 && strcmp(*all, "::1") != 0);
        assert_true(strncmp(*all, "169.254.", 8) != 0 && strncmp(*all, "fe80:", 5) != 0);
        assert_false(six && !strchr(*all, ':')); /* IPv4 first */
        six |= strchr(*all, ':') != NULL;
    }
    berth_arena_clear(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_in_their_order),
        cmocka_unit_test(this_machines_addresses),
    };
    return cmocka_run_group_tests_name("urls", tests, NULL, NULL);
}
