/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/config.c - see config.h. The table `options` has every option; yaml.c fills the struct
 * from it. Above it are the checks of single values. */
#include "daemon/config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "daemon/yaml.h"
#include "http/http.h"
#include "os/socket.h"
#include "store/store.h"

#define SQLITE "sqlite:"
#define SWEEP_MS 30000
#define DRAIN_MS 30000

/* --- names and addresses --- */

/* Returns the length of the host name or IPv4 address at the beginning, or 0. */
static size_t name_length(const char *text)
{
    size_t label = 0, len = 0;
    for (;; len++) {
        char c = text[len];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || (c == '-' && label)) {
            if (++label > BERTH_HOST_LABEL_BYTES_MAX)
                return 0;
        } else if (c == '.' && label && text[len - 1] != '-') {
            label = 0;
        } else {
            break;
        }
    }
    return label && text[len - 1] != '-' && len <= BERTH_HOST_BYTES_MAX ? len : 0;
}

static bool is_ipv6(const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return inet_pton(AF_INET6, copy, &address) == 1;
}

/* Returns the length of the host at the beginning of a URL's authority, or 0. IPv6 is in brackets.
 */
static size_t host_length(const char *text)
{
    if (text[0] != '[')
        return name_length(text);
    size_t len = strcspn(text, "]");
    return text[len] && is_ipv6(text + 1, len - 1) ? len + 1 : 0;
}

/* Returns the text after "http://host:port", or NULL if it does not begin like that. `port` is 0
 * if it has none. */
static const char *after_host(const char *text, bool *secure, int *port)
{
    size_t scheme = strcspn(text, ":");
    *secure = scheme == strlen("https");
    if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
        return NULL;
    text += scheme + strlen("://");
    size_t host = host_length(text);
    if (!host)
        return NULL;
    text += host;
    *port = 0;
    if (*text != ':')
        return text;
    size_t digits = strspn(text + 1, "0123456789");
    *port = digits >= 1 && digits <= 5 ? atoi(text + 1) : 0;
    return *port >= 1 && *port <= 65535 ? text + 1 + digits : NULL;
}

/* --- checks --- */

static int check_host(struct berth_yaml_cursor *at, void *value)
{
    const char *text = *(char **)value;
    size_t len = host_length(text);
    if ((len && !text[len]) || is_ipv6(text, strlen(text)))
        return BERTH_OK;
    return berth_yaml_fail(
        at, "%s must be a host name or an IP address, without scheme, port or path.", at->path);
}

static int check_origin(struct berth_yaml_cursor *at, void *value)
{
    bool secure;
    int port;
    const char *rest = after_host(*(char **)value, &secure, &port);
    if (!rest || *rest)
        return berth_yaml_fail(at,
                               "%s must be http://HOST or https://HOST, optionally with :PORT, and "
                               "nothing after it.",
                               at->path);
    if (port == (secure ? 443 : 80))
        return berth_yaml_fail(
            at, "%s must not have the scheme's default port: browsers leave it out. Remove it.",
            at->path);
    return BERTH_OK;
}

/* Removes a slash at the end. */
static int check_url(struct berth_yaml_cursor *at, void *value)
{
    bool secure;
    int port;
    char *text = *(char **)value;
    const char *rest = after_host(text, &secure, &port);
    if (!rest || (*rest && strcmp(rest, "/") != 0))
        return berth_yaml_fail(at,
                               "%s must be http://HOST or https://HOST, optionally with :PORT, "
                               "without user, path or query.",
                               at->path);
    text[rest - text] = '\0';
    return BERTH_OK;
}

/* Puts the directory of the config file before the path that begins `skip` bytes into the text. */
static int make_absolute(const struct berth_yaml_cursor *at, char **text, size_t skip)
{
    const char *slash = strrchr(at->file, '/');
    int len = slash ? (int)(slash - at->file) : 0;
    bool relative = at->file[0] != '/';
    if ((*text)[skip] == '/')
        return BERTH_OK;
    auto_free char *here = relative ? getcwd(NULL, 0) : NULL, *whole = NULL;
    if (relative && !here)
        return berth_fail_errno(at->err, "Cannot find the current directory");
    if (asprintf(&whole, "%.*s%s%s%.*s/%s", (int)skip, *text,
                 here && strcmp(here, "/") != 0 ? here : "", relative && len ? "/" : "", len,
                 at->file, *text + skip) < 0) {
        whole = NULL;
        return berth_fail(at->err, BERTH_E_NO_MEMORY, "Out of memory: options.");
    }
    free(*text);
    *text = take_ptr(whole);
    return BERTH_OK;
}

static int check_path(struct berth_yaml_cursor *at, void *value)
{
    return make_absolute(at, value, 0);
}

static int check_store(struct berth_yaml_cursor *at, void *value)
{
    struct berth_error why;
    char **address = value;
    int rc = berth_store_check(berth_builtins.databases, *address, &why);
    if (rc < 0) {
        (void)berth_yaml_fail(at, "%s is refused. %s", at->path, why.message);
        return at->err->code = rc;
    }
    return strncmp(*address, SQLITE, strlen(SQLITE)) == 0
               ? make_absolute(at, address, strlen(SQLITE))
               : BERTH_OK;
}

static int check_address(struct berth_yaml_cursor *at, void *value)
{
    struct in6_addr ignored;
    const char *text = *(char **)value;
    if (inet_pton(AF_INET, text, &ignored) == 1 || inet_pton(AF_INET6, text, &ignored) == 1)
        return BERTH_OK;
    return berth_yaml_fail(at, "%s must be an IPv4 or IPv6 address such as 127.0.0.1 or ::1.",
                           at->path);
}

static int check_listen(struct berth_yaml_cursor *at, void *value)
{
    const struct berth_config_listen *listen = value;
    if (!listen->certificate != !listen->key)
        return berth_yaml_fail(at, "%s has a %s but no %s. TLS needs both: set both or neither.",
                               at->path, listen->key ? "key" : "certificate",
                               listen->key ? "certificate" : "key");
    if (listen->certificate && listen->plaintext)
        return berth_yaml_fail(
            at, "%s has a certificate and \"plaintext: true\". Remove one of the two.", at->path);
    if (!listen->certificate && !listen->plaintext && !berth_is_loopback(listen->address))
        return berth_yaml_fail(at,
                               "%s can be reached from other machines, which would send their "
                               "tokens unencrypted. Set a certificate and a key, or write "
                               "\"plaintext: true\" if a proxy or a private network protects the "
                               "connection.",
                               at->path);
    return BERTH_OK;
}

/* --- the options --- */

#define AT(member) offsetof(struct berth_config, member)
#define LISTEN(member) offsetof(struct berth_config_listen, member)
#define LIST(member, counter, limit)                                                               \
    BERTH_YAML_LIST, AT(member), .count = AT(counter), .max = (limit),                             \
                                 .entry = sizeof *((struct berth_config *)NULL)->member

static const struct berth_yaml_option options[] = {
    {"", BERTH_YAML_SECTION},
    {"store", BERTH_YAML_TEXT, AT(store), check_store},
    {"keyFile", BERTH_YAML_TEXT, AT(key_file), check_path},
    {"socket", BERTH_YAML_TEXT, AT(socket), check_path},
    {"listen", LIST(listen, listen_count, BERTH_LISTEN_MAX)},
    {"listen[]", BERTH_YAML_SECTION, 0, check_listen},
    {"listen[].address", BERTH_YAML_TEXT, LISTEN(address), check_address, .required = true},
    {"listen[].port", BERTH_YAML_INT, LISTEN(port), .required = true, .max = 65535},
    {"listen[].certificate", BERTH_YAML_TEXT, LISTEN(certificate), check_path},
    {"listen[].key", BERTH_YAML_TEXT, LISTEN(key), check_path},
    {"listen[].plaintext", BERTH_YAML_BOOL, LISTEN(plaintext)},
    {"allowedHosts", LIST(allowed_hosts, allowed_host_count, BERTH_ALLOWED_HOSTS_MAX)},
    {"allowedHosts[]", BERTH_YAML_TEXT, 0, check_host},
    {"allowedOrigins", LIST(allowed_origins, allowed_origin_count, BERTH_ALLOWED_ORIGINS_MAX)},
    {"allowedOrigins[]", BERTH_YAML_TEXT, 0, check_origin},
    {"publicUrl", BERTH_YAML_TEXT, AT(public_url), check_url},
    {"log", BERTH_YAML_SECTION},
    {"log.level", BERTH_YAML_WORD, AT(log_level), .words = "debug, info, warn, error"},
    {"sweepInterval", BERTH_YAML_DURATION, AT(sweep_ms)},
    {"drainTimeout", BERTH_YAML_DURATION, AT(drain_ms)},
    {"connectionsMax", BERTH_YAML_INT, AT(connections_max), .min = BERTH_CONNECTIONS_MIN,
     .max = BERTH_CONNECTIONS_MAX},
    {"settings", BERTH_YAML_SECTION},
    {"settings.leaseTtl", BERTH_YAML_DURATION, AT(settings.lease_ttl_ms)},
    {"settings.runLeaseTtl", BERTH_YAML_DURATION, AT(settings.run_lease_ttl_ms)},
    {"settings.idleTtl", BERTH_YAML_DURATION, AT(settings.idle_ttl_ms)},
    {"settings.retainTtl", BERTH_YAML_DURATION, AT(settings.retain_ttl_ms)},
    {"settings.workTtl", BERTH_YAML_DURATION, AT(settings.work_ttl_ms)},
    {"settings.callTimeout", BERTH_YAML_DURATION, AT(settings.call_timeout_ms)},
    {"settings.nodeLapse", BERTH_YAML_DURATION, AT(settings.node_lapse_ms)},
    {"settings.cleanupRetry", BERTH_YAML_DURATION, AT(settings.cleanup_retry_ms)},
    {"settings.cleanupRetryMax", BERTH_YAML_DURATION, AT(settings.cleanup_retry_max_ms)},
    {"settings.logBytesMax", BERTH_YAML_INT64, AT(settings.log_bytes_max), .min = 1,
     .max = BERTH_LOG_BYTES_MAX},
    {"settings.allowUnconfinedPlugins", BERTH_YAML_BOOL, AT(settings.allow_unconfined_plugins)},
    {NULL},
};
_Static_assert(sizeof options / sizeof options[0] <= BERTH_YAML_OPTIONS_MAX + 1, "yaml.h");

int berth_config_read(const char *path, struct berth_config **out, struct berth_error *err)
{
    struct berth_config *config = NULL;
    int rc = berth_config_new(&config, err);
    if (rc < 0)
        return rc;
    rc = berth_yaml_read(path, options, config, err);
    if (rc < 0)
        berth_config_free(config);
    else
        *out = config;
    return rc;
}

int berth_config_new(struct berth_config **out, struct berth_error *err)
{
    const struct berth_http_settings http = BERTH_HTTP_SETTINGS_INIT;
    struct berth_config *config = calloc(1, sizeof *config);
    if (!config)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: options.");
    *config = (struct berth_config){.log_level = BERTH_LOG_INFO,
                                    .sweep_ms = SWEEP_MS,
                                    .drain_ms = DRAIN_MS,
                                    .connections_max = http.connections_max,
                                    .settings = BERTH_SETTINGS_INIT};
    *out = config;
    return BERTH_OK;
}

static void free_texts(char **texts, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

void berth_config_free(struct berth_config *config)
{
    if (!config)
        return;
    for (unsigned i = 0; i < config->listen_count; i++) {
        free(config->listen[i].address);
        free(config->listen[i].certificate);
        free(config->listen[i].key);
    }
    free(config->listen);
    free_texts(config->allowed_hosts, config->allowed_host_count);
    free_texts(config->allowed_origins, config->allowed_origin_count);
    free(config->store);
    free(config->key_file);
    free(config->socket);
    free(config->public_url);
    free(config);
}
