/* SPDX-License-Identifier: Apache-2.0
 * src/daemon/config.c - see config.h. yaml.c gives the file as it is written, here as `struct
 * written`; the rest is what its values mean, and which of them are taken. */
#include "daemon/config.h"

#include <arpa/inet.h>
#include <cyaml/cyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/time.h"
#include "daemon/yaml.h"
#include "http/server.h"
#include "os/socket.h"
#include "store/store.h"

#define SWEEP_MS 30000
#define DRAIN_MS 30000
#define PATH_SIZE 64 /* of a value in the file, "listen[15].certificate" */

/* --- the file as it is written; what is not in it is NULL --- */

struct written_listen {
    char *address;
    uint64_t port;
    char *certificate, *key;
    bool plaintext;
};

struct written {
    char *store, *key_file, *socket;
    struct written_listen *listen;
    unsigned listen_count;
    char **allowed_hosts;
    unsigned allowed_hosts_count;
    char **allowed_origins;
    unsigned allowed_origins_count;
    char *public_url;
    struct written_log {
        enum berth_log_level *level;
    } log;
    char *sweep_interval, *drain_timeout;
    uint64_t *connections_max;
    struct written_settings {
        char *lease_ttl, *run_lease_ttl, *idle_ttl, *retain_ttl, *call_timeout, *node_lapse,
            *cleanup_retry, *cleanup_retry_max;
        uint64_t *log_bytes_max;
    } settings;
};

#define OPTIONAL_TEXT(key, type, member)                                                           \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 1,         \
                           BERTH_OPTION_BYTES_MAX)
#define OPTIONAL_NUMBER(key, type, member)                                                         \
    CYAML_FIELD_UINT_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member)
#define OPTIONAL_LIST(key, type, member, entry, max)                                               \
    CYAML_FIELD_SEQUENCE(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, entry, 0, max)

static const cyaml_schema_value_t text_entry = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, BERTH_OPTION_BYTES_MAX)};

static const cyaml_schema_field_t listen_fields[] = {
    CYAML_FIELD_STRING_PTR("address", CYAML_FLAG_POINTER, struct written_listen, address, 1,
                           BERTH_OPTION_BYTES_MAX),
    CYAML_FIELD_UINT("port", CYAML_FLAG_DEFAULT, struct written_listen, port),
    OPTIONAL_TEXT("certificate", struct written_listen, certificate),
    OPTIONAL_TEXT("key", struct written_listen, key),
    CYAML_FIELD_BOOL("plaintext", CYAML_FLAG_OPTIONAL, struct written_listen, plaintext),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t listen_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct written_listen, listen_fields)};

static const cyaml_strval_t log_levels[] = {{"debug", BERTH_LOG_DEBUG},
                                            {"info", BERTH_LOG_INFO},
                                            {"warn", BERTH_LOG_WARN},
                                            {"error", BERTH_LOG_ERROR}};
static const cyaml_schema_field_t log_fields[] = {
    CYAML_FIELD_ENUM_PTR("level", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL | CYAML_FLAG_STRICT,
                         struct written_log, level, log_levels, CYAML_ARRAY_LEN(log_levels)),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t settings_fields[] = {
    OPTIONAL_TEXT("leaseTtl", struct written_settings, lease_ttl),
    OPTIONAL_TEXT("runLeaseTtl", struct written_settings, run_lease_ttl),
    OPTIONAL_TEXT("idleTtl", struct written_settings, idle_ttl),
    OPTIONAL_TEXT("retainTtl", struct written_settings, retain_ttl),
    OPTIONAL_TEXT("callTimeout", struct written_settings, call_timeout),
    OPTIONAL_TEXT("nodeLapse", struct written_settings, node_lapse),
    OPTIONAL_TEXT("cleanupRetry", struct written_settings, cleanup_retry),
    OPTIONAL_TEXT("cleanupRetryMax", struct written_settings, cleanup_retry_max),
    OPTIONAL_NUMBER("logBytesMax", struct written_settings, log_bytes_max),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t fields[] = {
    OPTIONAL_TEXT("store", struct written, store),
    OPTIONAL_TEXT("keyFile", struct written, key_file),
    OPTIONAL_TEXT("socket", struct written, socket),
    OPTIONAL_LIST("listen", struct written, listen, &listen_entry, BERTH_LISTEN_MAX),
    OPTIONAL_LIST("allowedHosts", struct written, allowed_hosts, &text_entry,
                  BERTH_ALLOWED_HOSTS_MAX),
    OPTIONAL_LIST("allowedOrigins", struct written, allowed_origins, &text_entry,
                  BERTH_ALLOWED_ORIGINS_MAX),
    OPTIONAL_TEXT("publicUrl", struct written, public_url),
    CYAML_FIELD_MAPPING("log", CYAML_FLAG_OPTIONAL, struct written, log, log_fields),
    OPTIONAL_TEXT("sweepInterval", struct written, sweep_interval),
    OPTIONAL_TEXT("drainTimeout", struct written, drain_timeout),
    OPTIONAL_NUMBER("connectionsMax", struct written, connections_max),
    CYAML_FIELD_MAPPING("settings", CYAML_FLAG_OPTIONAL, struct written, settings, settings_fields),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct written, fields)};

/* --- names and addresses --- */

/* So many bytes at the beginning are the name of a host, or an IPv4 address; 0: none are. */
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

/* The same of a host in a URL, where an IPv6 address is in brackets. */
static size_t host_length(const char *text)
{
    if (text[0] != '[')
        return name_length(text);
    size_t len = strcspn(text, "]");
    return text[len] && is_ipv6(text + 1, len - 1) ? len + 1 : 0;
}

/* What follows "http://host:port"; NULL: it is no such text. `port` is 0 when it has none. */
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

/* Each says what is wrong with the text, or NULL. */
static const char *host_fault(const char *text)
{
    size_t len = host_length(text);
    return (len && !text[len]) || is_ipv6(text, strlen(text))
               ? NULL
               : "must be the name or the address of a host, without scheme, port and path.";
}

static const char *origin_fault(const char *text)
{
    bool secure;
    int port;
    const char *rest = after_host(text, &secure, &port);
    if (!rest || *rest)
        return "must be http://HOST or https://HOST, with :PORT or without, and nothing behind it.";
    if (port == (secure ? 443 : 80))
        return "must not name the scheme's own port: browsers leave it out.";
    return NULL;
}

static const char *url_fault(const char *text)
{
    bool secure;
    int port;
    const char *rest = after_host(text, &secure, &port);
    return rest && (!*rest || strcmp(rest, "/") == 0)
               ? NULL
               : "must be http://HOST or https://HOST, with :PORT or without; no user, path or "
                 "query.";
}

/* --- what the values mean --- */

/* One file on its way into a config. */
struct form {
    struct berth_yaml yaml;
    char *directory; /* of the file, absolute; "" is the root */
    struct berth_config *config;
    struct berth_error *err;
};

static void form_clear(struct form *f)
{
    berth_yaml_clear(&f->yaml);
    free(f->directory);
    berth_config_free(f->config);
}

static int out_of_memory(struct form *f)
{
    return berth_fail(f->err, BERTH_E_NO_MEMORY, "Out of memory: options.");
}

static int find_directory(struct form *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    int len = slash ? (int)(slash - path) : 0;
    auto_free char *here = NULL;
    if (path[0] != '/') {
        here = getcwd(NULL, 0);
        if (!here)
            return berth_fail_errno(f->err, "Cannot tell the current directory");
        if (strcmp(here, "/") == 0)
            here[0] = '\0';
    }
    if (asprintf(&f->directory, "%s%s%.*s", here ? here : "", here && len ? "/" : "", len, path) >=
        0)
        return BERTH_OK;
    f->directory = NULL;
    return out_of_memory(f);
}

/* NULL is left out by each of these. */
static int put_text(struct form *f, const char *text, char **out)
{
    if (text)
        *out = strdup(text);
    return !text || *out ? BERTH_OK : out_of_memory(f);
}

static int put_path(struct form *f, const char *prefix, const char *path, char **out)
{
    if (!path)
        return BERTH_OK;
    bool relative = path[0] != '/';
    if (asprintf(out, "%s%s%s%s", prefix, relative ? f->directory : "", relative ? "/" : "",
                 path) >= 0)
        return BERTH_OK;
    *out = NULL;
    return out_of_memory(f);
}

static int put_number(struct form *f, const char *path, const uint64_t *given, int64_t min,
                      int64_t max, int64_t *out)
{
    if (!given)
        return BERTH_OK;
    if (*given < (uint64_t)min || *given > (uint64_t)max)
        return berth_yaml_fail(&f->yaml, path, f->err, "must be from %lld to %lld.", (long long)min,
                               (long long)max);
    *out = (int64_t)*given;
    return BERTH_OK;
}

static int put_store(struct form *f, const char *address)
{
    static const char scheme[] = "sqlite:";
    struct berth_error why;
    if (!address)
        return BERTH_OK;
    int rc = berth_store_check(berth_builtins.databases, address, &why);
    if (rc < 0) {
        (void)berth_yaml_fail(&f->yaml, "store", f->err, "is refused. %s", why.message);
        return f->err->code = rc;
    }
    return strncmp(address, scheme, strlen(scheme)) == 0
               ? put_path(f, scheme, address + strlen(scheme), &f->config->store)
               : put_text(f, address, &f->config->store);
}

static int put_list(struct form *f, const char *key, char *const *given, unsigned count,
                    const char *(*fault)(const char *text), char ***out, unsigned *out_count)
{
    if (!count)
        return BERTH_OK;
    *out = calloc(count, sizeof **out);
    if (!*out)
        return out_of_memory(f);
    *out_count = count;
    for (unsigned i = 0; i < count; i++) {
        const char *why = fault(given[i]);
        if (why) {
            char path[PATH_SIZE];
            (void)snprintf(path, sizeof path, "%s[%u]", key, i);
            return berth_yaml_fail(&f->yaml, path, f->err, "%s", why);
        }
        int rc = put_text(f, given[i], &(*out)[i]);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}

static int put_url(struct form *f, const char *url)
{
    const char *why = url ? url_fault(url) : NULL;
    if (why)
        return berth_yaml_fail(&f->yaml, "publicUrl", f->err, "%s", why);
    int rc = put_text(f, url, &f->config->public_url);
    size_t len = rc == BERTH_OK && url ? strlen(url) : 0;
    if (len && url[len - 1] == '/')
        f->config->public_url[len - 1] = '\0';
    return rc;
}

static int check_listen(struct form *f, const struct written_listen *given, const char *path)
{
    struct in6_addr ignored;
    char inner[PATH_SIZE + 16];
    if (inet_pton(AF_INET, given->address, &ignored) != 1 &&
        inet_pton(AF_INET6, given->address, &ignored) != 1) {
        (void)snprintf(inner, sizeof inner, "%s.address", path);
        return berth_yaml_fail(&f->yaml, inner, f->err,
                               "must be an IPv4 or IPv6 address in numbers: 127.0.0.1, ::1.");
    }
    if (!given->certificate != !given->key)
        return berth_yaml_fail(
            &f->yaml, path, f->err, "has a %s and no %s: TLS needs both, write both or none.",
            given->key ? "key" : "certificate", given->key ? "certificate" : "key");
    if (given->certificate && given->plaintext)
        return berth_yaml_fail(&f->yaml, path, f->err,
                               "has a certificate and \"plaintext: true\": remove one of them.");
    if (!given->certificate && !given->plaintext && !berth_is_loopback(given->address))
        return berth_yaml_fail(
            &f->yaml, path, f->err,
            "can be reached from other machines, which would send their tokens in the clear: give "
            "it a certificate and a key, or write \"plaintext: true\" when something else protects "
            "the way.");
    return BERTH_OK;
}

static int put_listen(struct form *f, const struct written_listen *given, unsigned i)
{
    struct berth_config_listen *listen = &f->config->listen[i];
    char path[PATH_SIZE], inner[PATH_SIZE + 16];
    (void)snprintf(path, sizeof path, "listen[%u]", i);
    (void)snprintf(inner, sizeof inner, "%s.port", path);
    int64_t port = 0;
    int rc = put_number(f, inner, &given->port, 0, 65535, &port);
    if (rc == BERTH_OK)
        rc = check_listen(f, given, path);
    if (rc == BERTH_OK)
        rc = put_text(f, given->address, &listen->address);
    if (rc == BERTH_OK)
        rc = put_path(f, "", given->certificate, &listen->certificate);
    if (rc == BERTH_OK)
        rc = put_path(f, "", given->key, &listen->key);
    listen->port = (int)port;
    listen->plaintext = given->plaintext;
    return rc;
}

static int put_listens(struct form *f, const struct written *given)
{
    if (!given->listen_count)
        return BERTH_OK;
    f->config->listen = calloc(given->listen_count, sizeof *f->config->listen);
    if (!f->config->listen)
        return out_of_memory(f);
    f->config->listen_count = given->listen_count;
    int rc = BERTH_OK;
    for (unsigned i = 0; rc == BERTH_OK && i < given->listen_count; i++)
        rc = put_listen(f, &given->listen[i], i);
    return rc;
}

static int put_durations(struct form *f, const struct written *given)
{
    const struct written_settings *s = &given->settings;
    struct berth_settings *out = &f->config->settings;
    const struct {
        const char *path, *text;
        int64_t *ms;
    } all[] = {
        {"sweepInterval", given->sweep_interval, &f->config->sweep_ms},
        {"drainTimeout", given->drain_timeout, &f->config->drain_ms},
        {"settings.leaseTtl", s->lease_ttl, &out->lease_ttl_ms},
        {"settings.runLeaseTtl", s->run_lease_ttl, &out->run_lease_ttl_ms},
        {"settings.idleTtl", s->idle_ttl, &out->idle_ttl_ms},
        {"settings.retainTtl", s->retain_ttl, &out->retain_ttl_ms},
        {"settings.callTimeout", s->call_timeout, &out->call_timeout_ms},
        {"settings.nodeLapse", s->node_lapse, &out->node_lapse_ms},
        {"settings.cleanupRetry", s->cleanup_retry, &out->cleanup_retry_ms},
        {"settings.cleanupRetryMax", s->cleanup_retry_max, &out->cleanup_retry_max_ms},
    };
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].text && !berth_time_parse_duration(all[i].text, all[i].ms))
            return berth_yaml_fail(&f->yaml, all[i].path, f->err,
                                   "must be a duration of at most 366 days: write 250ms, 90s, 15m, "
                                   "1h or 2d.");
    return BERTH_OK;
}

static int put_all(struct form *f, const struct written *given)
{
    struct berth_config *config = f->config;
    int64_t connections = config->connections_max;
    int64_t log_bytes = (int64_t)config->settings.log_bytes_max;
    int rc = put_store(f, given->store);
    if (rc == BERTH_OK)
        rc = put_path(f, "", given->key_file, &config->key_file);
    if (rc == BERTH_OK)
        rc = put_path(f, "", given->socket, &config->socket);
    if (rc == BERTH_OK)
        rc = put_listens(f, given);
    if (rc == BERTH_OK)
        rc = put_list(f, "allowedHosts", given->allowed_hosts, given->allowed_hosts_count,
                      host_fault, &config->allowed_hosts, &config->allowed_host_count);
    if (rc == BERTH_OK)
        rc = put_list(f, "allowedOrigins", given->allowed_origins, given->allowed_origins_count,
                      origin_fault, &config->allowed_origins, &config->allowed_origin_count);
    if (rc == BERTH_OK)
        rc = put_url(f, given->public_url);
    if (rc == BERTH_OK)
        rc = put_durations(f, given);
    if (rc == BERTH_OK)
        rc = put_number(f, "connectionsMax", given->connections_max, BERTH_CONNECTIONS_MIN,
                        BERTH_CONNECTIONS_MAX, &connections);
    if (rc == BERTH_OK)
        rc = put_number(f, "settings.logBytesMax", given->settings.log_bytes_max, 1,
                        BERTH_LOG_BYTES_MAX, &log_bytes);
    if (given->log.level)
        config->log_level = *given->log.level;
    config->connections_max = (int)connections;
    config->settings.log_bytes_max = (uint64_t)log_bytes;
    return rc;
}

int berth_config_read(const char *path, struct berth_config **out, struct berth_error *err)
{
    auto_clean(form_clear) struct form f = {.err = err};
    int rc = berth_yaml_read(path, &schema, &f.yaml, err);
    if (rc == BERTH_OK)
        rc = berth_config_new(&f.config, err);
    if (rc == BERTH_OK)
        rc = find_directory(&f, path);
    if (rc == BERTH_OK && f.yaml.data)
        rc = put_all(&f, f.yaml.data);
    if (rc == BERTH_OK)
        *out = take_ptr(f.config);
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
