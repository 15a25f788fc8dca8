/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/daemon_config.c - reads berthd.yaml: each option, and the text of each error. */
#include "daemon/config.h"

#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "os/fs.h"

struct ground {
    char directory[64], path[96];
    struct berth_config *config; /* what was read */
    struct berth_error err;
};

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "/tmp/berth-config.XXXXXX");
    if (!mkdtemp(g->directory))
        return -1;
    (void)snprintf(g->path, sizeof g->path, "%s/berthd.yaml", g->directory);
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    struct berth_error ignored;
    berth_config_free(g->config);
    (void)berth_fs_remove_tree(g->directory, &ignored);
    free(g);
    return 0;
}

static void write_bytes(struct ground *g, const void *bytes, size_t len)
{
    (void)unlink(g->path);
    auto_close int fd = open(g->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_ok(g, berth_fs_write_all(fd, bytes, len, &g->err));
}

static void read_text(struct ground *g, const char *text)
{
    write_bytes(g, text, strlen(text));
    berth_config_free(take_ptr(g->config));
    assert_ok(g, berth_config_read(g->path, &g->config, &g->err));
}

/* Checks the whole text of the error, which begins with the name of the file. */
static void assert_refused(struct ground *g, const char *what, size_t len, int code,
                           const char *text)
{
    struct berth_config *untouched = (struct berth_config *)(void *)g, *config = untouched;
    write_bytes(g, what, len);
    int rc = berth_config_read(g->path, &config, &g->err);
    char wanted[1024];
    (void)snprintf(wanted, sizeof wanted, "%s%s", g->path, text);
    if (rc != code || strcmp(g->err.message, wanted) != 0)
        fail_msg("%.200s\n  answers %d: %s\n  instead of %d: %s", what, rc, g->err.message, code,
                 wanted);
    assert_ptr_equal(config, untouched);
}

static void assert_text(const char *got, const char *wanted)
{
    if (wanted)
        assert_non_null(got);
    if (wanted)
        assert_string_equal(got, wanted);
    else
        assert_null(got);
}

static void assert_same(const struct berth_config *a, const struct berth_config *b)
{
    assert_text(a->store, b->store);
    assert_text(a->key_file, b->key_file);
    assert_text(a->socket, b->socket);
    assert_text(a->public_url, b->public_url);
    assert_int_equal(a->listen_count, b->listen_count);
    assert_int_equal(a->allowed_host_count, b->allowed_host_count);
    assert_int_equal(a->allowed_origin_count, b->allowed_origin_count);
    assert_int_equal(a->log_level, b->log_level);
    assert_int_equal(a->sweep_ms, b->sweep_ms);
    assert_int_equal(a->drain_ms, b->drain_ms);
    assert_int_equal(a->connections_max, b->connections_max);
    assert_memory_equal(&a->settings, &b->settings, sizeof a->settings);
}

/* --- defaults --- */

static void without_a_file(void **state)
{
    struct ground *g = *state;
    const struct berth_settings settings = BERTH_SETTINGS_INIT;
    assert_ok(g, berth_config_new(&g->config, &g->err));
    const struct berth_config *c = g->config;
    assert_null(c->store);
    assert_null(c->key_file);
    assert_null(c->socket);
    assert_null(c->listen);
    assert_int_equal(c->listen_count, 0);
    assert_null(c->allowed_hosts);
    assert_int_equal(c->allowed_host_count, 0);
    assert_null(c->allowed_origins);
    assert_int_equal(c->allowed_origin_count, 0);
    assert_null(c->public_url);
    assert_int_equal(c->log_level, BERTH_LOG_INFO);
    assert_int_equal(c->sweep_ms, 30000);
    assert_int_equal(c->drain_ms, 30000);
    assert_int_equal(c->connections_max, 8192);
    assert_memory_equal(&c->settings, &settings, sizeof settings);
    berth_config_free(NULL);
}

static void a_file_that_says_nothing(void **state)
{
    struct ground *g = *state;
    const char *const texts[] = {"",
                                 "# nothing\n",
                                 "\n\n",
                                 "---\n",
                                 "--- # nothing\n...\n",
                                 "{}",
                                 "---\n{}\n",
                                 "%YAML 1.1\n---\n",
                                 "\xef\xbb\xbf",
                                 "~\n",
                                 "listen: []\n",
                                 "log: {}\nsettings: {}\n",
                                 "allowedHosts: []\nallowedOrigins: []\n"};
    struct berth_config *defaults;
    assert_ok(g, berth_config_new(&defaults, &g->err));
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        read_text(g, texts[i]);
        assert_same(g->config, defaults);
    }
    berth_config_free(defaults);
}

static void read_example(struct ground *g, struct berth_buf *text)
{
    auto_close int fd = open(EXAMPLE_FILE, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_ok(g, berth_fs_read_all(fd, text, &g->err));
}

static void the_example_has_the_defaults(void **state)
{
    struct ground *g = *state;
    auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    struct berth_config *defaults;
    assert_ok(g, berth_config_new(&defaults, &g->err));
    read_example(g, &text);
    read_text(g, berth_buf_str(&text));
    assert_same(g->config, defaults);
    berth_config_free(defaults);
}

/* "#" and one blank begin a sentence; any other "#" is an option that is switched off. */
static void switch_on(const char *text, struct berth_buf *out)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool sentence = len < 2 || (text[1] == ' ' && text[2] != ' ');
        size_t skip = text[0] == '#' && !sentence ? 1 : 0;
        berth_buf_append(out, text + skip, len - skip);
        berth_buf_puts(out, "\n");
        text += len + (text[len] == '\n');
    }
}

static bool has_key(const char *yaml, const char *key)
{
    size_t len = strlen(key);
    for (; *yaml; yaml += strcspn(yaml, "\n"), yaml += *yaml == '\n') {
        const char *word = yaml + strspn(yaml, " -");
        if (strncmp(word, key, len) == 0 && word[len] == ':')
            return true;
    }
    return false;
}

static void the_example_has_every_option(void **state)
{
    struct ground *g = *state;
    static const char *const keys[] = {
        "store",
        "keyFile",
        "socket",
        "listen",
        "address",
        "port",
        "certificate",
        "key",
        "plaintext",
        "allowedHosts",
        "allowedOrigins",
        "publicUrl",
        "log",
        "level",
        "sweepInterval",
        "drainTimeout",
        "connectionsMax",
        "settings",
        "leaseTtl",
        "runLeaseTtl",
        "idleTtl",
        "retainTtl",
        "workTtl",
        "callTimeout",
        "nodeLapse",
        "cleanupRetry",
        "logBytesMax",
        "cleanupRetryMax",
        "allowUnconfinedPlugins",
    };
    auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    auto_buf all = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    read_example(g, &text);
    switch_on(berth_buf_str(&text), &all);
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!has_key(berth_buf_str(&all), keys[i]))
            fail_msg("the example does not have %s", keys[i]);
    read_text(g, berth_buf_str(&all));
    assert_string_equal(g->config->store, "sqlite:/var/lib/berth/berth.db");
    assert_int_equal(g->config->listen_count, 3);
    assert_int_equal(g->config->allowed_host_count, 1);
    assert_int_equal(g->config->allowed_origin_count, 1);
    assert_non_null(g->config->public_url);
}

/* --- values --- */

static const char everything[] = "store: postgres://berth@db.example/berth\n"
                                 "keyFile: /k/secrets.key\n"
                                 "socket: \"/run/berth d.sock\"\n"
                                 "listen:\n"
                                 "  - address: 127.0.0.1\n"
                                 "    port: 0\n"
                                 "  - address: '::'\n"
                                 "    port: 65535\n"
                                 "    certificate: /tls/crt\n"
                                 "    key: /tls/key\n"
                                 "    plaintext: false\n"
                                 "  - {address: 10.0.0.5, port: 1, plaintext: true}\n"
                                 "allowedHosts: [berth.example, 10.0.0.5, '::1', '[fe80::1]', x]\n"
                                 "allowedOrigins:\n"
                                 "- https://console.example\n"
                                 "- http://[::1]:8080\n"
                                 "- http://10.0.0.5:443\n"
                                 "publicUrl: https://berth.example:8443/\n"
                                 "log:\n"
                                 "  level: debug\n"
                                 "sweepInterval: 250ms\n"
                                 "drainTimeout: 15m\n"
                                 "connectionsMax: 16\n"
                                 "settings:\n"
                                 "  leaseTtl: 1s\n"
                                 "  runLeaseTtl: 2s\n"
                                 "  idleTtl: 3s\n"
                                 "  retainTtl: 4s\n"
                                 "  workTtl: 8s\n"
                                 "  callTimeout: 5s\n"
                                 "  nodeLapse: 6s\n"
                                 "  cleanupRetry: 7s\n"
                                 "  cleanupRetryMax: 366d\n"
                                 "  logBytesMax: 1099511627776\n"
                                 "  allowUnconfinedPlugins: true\n";

static void assert_everything(const struct berth_config *c)
{
    static const struct berth_settings settings = {.lease_ttl_ms = 1000,
                                                   .run_lease_ttl_ms = 2000,
                                                   .idle_ttl_ms = 3000,
                                                   .retain_ttl_ms = 4000,
                                                   .work_ttl_ms = 8000,
                                                   .call_timeout_ms = 5000,
                                                   .node_lapse_ms = 6000,
                                                   .allow_unconfined_plugins = true,
                                                   .self_sweep_ms = 5000, /* not in the file */
                                                   .cleanup_retry_ms = 7000,
                                                   .cleanup_retry_max_ms = BERTH_TTL_MS_MAX,
                                                   .log_bytes_max = UINT64_C(1) << 40};
    static const char *const hosts[] = {"berth.example", "10.0.0.5", "::1", "[fe80::1]", "x"};
    static const char *const origins[] = {"https://console.example", "http://[::1]:8080",
                                          "http://10.0.0.5:443"};
    assert_string_equal(c->store, "postgres://berth@db.example/berth");
    assert_string_equal(c->key_file, "/k/secrets.key");
    assert_string_equal(c->socket, "/run/berth d.sock");
    assert_int_equal(c->listen_count, 3);
    assert_string_equal(c->listen[0].address, "127.0.0.1");
    assert_int_equal(c->listen[0].port, 0);
    assert_null(c->listen[0].certificate);
    assert_null(c->listen[0].key);
    assert_false(c->listen[0].plaintext);
    assert_string_equal(c->listen[1].address, "::");
    assert_int_equal(c->listen[1].port, 65535);
    assert_string_equal(c->listen[1].certificate, "/tls/crt");
    assert_string_equal(c->listen[1].key, "/tls/key");
    assert_false(c->listen[1].plaintext);
    assert_string_equal(c->listen[2].address, "10.0.0.5");
    assert_int_equal(c->listen[2].port, 1);
    assert_null(c->listen[2].certificate);
    assert_true(c->listen[2].plaintext);
    assert_int_equal(c->allowed_host_count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_string_equal(c->allowed_hosts[i], hosts[i]);
    assert_int_equal(c->allowed_origin_count, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(c->allowed_origins[i], origins[i]);
    assert_string_equal(c->public_url, "https://berth.example:8443"); /* without the slash */
    assert_int_equal(c->log_level, BERTH_LOG_DEBUG);
    assert_int_equal(c->sweep_ms, 250);
    assert_int_equal(c->drain_ms, 900000);
    assert_int_equal(c->connections_max, 16);
    assert_memory_equal(&c->settings, &settings, sizeof settings);
}

static void every_option_is_read(void **state)
{
    struct ground *g = *state;
    read_text(g, everything);
    assert_everything(g->config);
}

/* Windows's lines, its mark at the beginning, and the borders of a document. */
static void other_shapes_of_the_same(void **state)
{
    struct ground *g = *state;
    auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    berth_buf_puts(&text, "\xef\xbb\xbf# Müller\r\n---\r\n");
    for (const char *p = everything; *p; p++) {
        if (*p == '\n')
            berth_buf_puts(&text, "\r");
        berth_buf_append(&text, p, 1);
    }
    berth_buf_puts(&text, "...\r\n");
    read_text(g, berth_buf_str(&text));
    assert_everything(g->config);
}

static void log_levels(void **state)
{
    struct ground *g = *state;
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "log: {level: %s}", names[i]);
        read_text(g, text);
        assert_int_equal(g->config->log_level, i);
    }
}

static void loopback_needs_no_tls(void **state)
{
    struct ground *g = *state;
    static const char *const addresses[] = {"127.0.0.1", "127.255.255.254", "::1",
                                            "0:0:0:0:0:0:0:1"};
    for (unsigned i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "listen: [{address: \"%s\", port: 80}]", addresses[i]);
        read_text(g, text);
        assert_string_equal(g->config->listen[0].address, addresses[i]);
    }
}

static void lists_up_to_their_limit(void **state)
{
    struct ground *g = *state;
    auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    berth_buf_puts(&text, "listen:\n");
    for (int i = 0; i < BERTH_LISTEN_MAX; i++)
        berth_buf_printf(&text, "- {address: 127.0.0.1, port: %d}\n", 1000 + i);
    berth_buf_puts(&text, "allowedHosts:\n");
    for (int i = 0; i < BERTH_ALLOWED_HOSTS_MAX; i++)
        berth_buf_printf(&text, "- host-%d\n", i);
    berth_buf_puts(&text, "allowedOrigins:\n");
    for (int i = 0; i < BERTH_ALLOWED_ORIGINS_MAX; i++)
        berth_buf_printf(&text, "- http://host-%d\n", i);
    read_text(g, berth_buf_str(&text));
    assert_int_equal(g->config->listen_count, BERTH_LISTEN_MAX);
    assert_int_equal(g->config->listen[BERTH_LISTEN_MAX - 1].port, 1000 + BERTH_LISTEN_MAX - 1);
    assert_int_equal(g->config->allowed_host_count, BERTH_ALLOWED_HOSTS_MAX);
    assert_int_equal(g->config->allowed_origin_count, BERTH_ALLOWED_ORIGINS_MAX);
}

/* --- paths --- */

static const char relative[] = "store: sqlite:data/berth.db\n"
                               "keyFile: secrets.key\n"
                               "socket: ../run/s\n"
                               "listen: [{address: 1.2.3.4, port: 1, certificate: c, key: ./k}]\n";

static void assert_beneath(const struct ground *g, const char *directory)
{
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "sqlite:%s/data/berth.db", directory);
    assert_string_equal(g->config->store, wanted);
    (void)snprintf(wanted, sizeof wanted, "%s/secrets.key", directory);
    assert_string_equal(g->config->key_file, wanted);
    (void)snprintf(wanted, sizeof wanted, "%s/../run/s", directory);
    assert_string_equal(g->config->socket, wanted);
    (void)snprintf(wanted, sizeof wanted, "%s/c", directory);
    assert_string_equal(g->config->listen[0].certificate, wanted);
    (void)snprintf(wanted, sizeof wanted, "%s/./k", directory);
    assert_string_equal(g->config->listen[0].key, wanted);
}

static void relative_paths_are_beneath_the_file(void **state)
{
    struct ground *g = *state;
    read_text(g, relative);
    assert_beneath(g, g->directory);
}

static void absolute_paths_stay(void **state)
{
    struct ground *g = *state;
    read_text(g, "store: sqlite:/a/b.db\nkeyFile: /k\nsocket: /s\n");
    assert_string_equal(g->config->store, "sqlite:/a/b.db");
    assert_string_equal(g->config->key_file, "/k");
    assert_string_equal(g->config->socket, "/s");
}

/* Wherever the daemon goes afterwards, they mean the same. */
static void a_file_with_a_relative_name(void **state)
{
    struct ground *g = *state;
    static const char *const names[] = {"berthd.yaml", "./berthd.yaml", "sub/berthd.yaml"};
    static const char *const directories[] = {"", "/.", "/sub"};
    auto_free char *before = getcwd(NULL, 0);
    char sub[128], real[128];
    assert_int_equal(chdir(g->directory), 0);
    assert_non_null(getcwd(real, sizeof real));
    assert_int_equal(mkdir("sub", 0700), 0);
    write_bytes(g, relative, strlen(relative));
    assert_int_equal(link("berthd.yaml", "sub/berthd.yaml"), 0);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        berth_config_free(take_ptr(g->config));
        assert_ok(g, berth_config_read(names[i], &g->config, &g->err));
        (void)snprintf(sub, sizeof sub, "%.64s%s", real, directories[i]);
        assert_beneath(g, sub);
    }
    assert_int_equal(chdir(before), 0);
}

/* --- what is refused --- */

#define KEYS                                                                                       \
    "store, keyFile, socket, listen, allowedHosts, allowedOrigins, publicUrl, log, "               \
    "sweepInterval, drainTimeout, connectionsMax, settings."
#define SETTINGS                                                                                   \
    "leaseTtl, runLeaseTtl, idleTtl, retainTtl, workTtl, callTimeout, nodeLapse, cleanupRetry, "   \
    "cleanupRetryMax, logBytesMax, allowUnconfinedPlugins."
#define DURATION " must be a duration of at most 366 days, such as 250ms, 90s, 15m, 1h or 2d."
#define SINGLE " must be a single value, not a list or a mapping."
#define NOTHING " has no value. Write one, or remove the option."
#define NUMBER " must be a whole number: digits only, without quotes."
#define LIST " must be a list: one line \"- ...\" per entry."
#define OPTIONS " must contain options: lines \"key: value\"."
#define HOST " must be a host name or an IP address, without scheme, port or path."
#define ORIGIN " must be http://HOST or https://HOST, optionally with :PORT, and nothing after it."
#define OWN_PORT " must not have the scheme's default port: browsers leave it out. Remove it."
#define URL                                                                                        \
    " must be http://HOST or https://HOST, optionally with :PORT, without user, path or query."
#define ADDRESS " must be an IPv4 or IPv6 address such as 127.0.0.1 or ::1."
#define CLEAR                                                                                      \
    " can be reached from other machines, which would send their tokens unencrypted. Set a "       \
    "certificate and a key, or write \"plaintext: true\" if a proxy or a private network "         \
    "protects the connection."
#define PASSWORD                                                                                   \
    " is refused. The store's address must not hold a password: put it into the file that "        \
    "PGPASSFILE names (~/.pgpass)."
#define NO_STORE                                                                                   \
    " is refused. No store at this address: write sqlite:PATH or postgres://user@host/db."
#define ALIAS                                                                                      \
    "Anchors and aliases (&name, *name) are not supported. Write the value out, or quote a text "  \
    "that begins with & or *."
#define TAG                                                                                        \
    "Tags (!name) are not supported. Remove the tag, or quote a text that begins with an "         \
    "exclamation mark."
#define SECOND "A second document begins here. Remove the \"---\"."
#define BOOLEAN " must be true or false, without quotes."
#define L "listen:\n- address: 127.0.0.1\n"

static const struct {
    const char *yaml, *text;
} faults[] = {
    /* keys */
    {"foo: 1\n", ":1: Unknown option foo. Use one of " KEYS},
    {"# a\n\nstore: sqlite:/x\nStore: b\n", ":4: Unknown option Store. Use one of " KEYS},
    {"log: {level: info, file: /x}", ":1: Unknown option log.file. Use one of level."},
    {L "  prt: 5\n",
     ":3: Unknown option listen[0].prt. Use one of address, port, certificate, key, "
     "plaintext."},
    {L "  port: 1\n- port: 2\n  adress: ::1\n",
     ":5: Unknown option listen[1].adress. Use one of address, port, certificate, key, "
     "plaintext."},
    {"settings:\n  leaseTTL: 1d\n", ":2: Unknown option settings.leaseTTL. Use one of " SETTINGS},
    {"settings: {selfSweep: 1s}", ":1: Unknown option settings.selfSweep. Use one of " SETTINGS},
    {"\"a\\eb\": 1\n", ":1: Unknown option ?. Use one of " KEYS},
    {"? [store]\n: 1\n", ":1: Unknown option ?. Use one of " KEYS},
    {"\"store\\0x\": sqlite:/x\n", ":1: Unknown option ?. Use one of " KEYS},
    {"'': 1\n", ":1: Unknown option ?. Use one of " KEYS},
    {"log.level: info\n", ":1: Unknown option log.level. Use one of " KEYS},
    {"'listen[]': {}\n", ":1: Unknown option listen[]. Use one of " KEYS},
    {"drainTimeout: soon\nfoo: 1\n", ":1: drainTimeout" DURATION},
    {"<<: {store: x}\n", ":1: Unknown option <<. Use one of " KEYS},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1\n",
     ":1: Unknown option ?. Use one of " KEYS},
    {"store: sqlite:/a\nsocket: /s\nstore: sqlite:/b\n",
     ":3: store is already set in line 1. Remove one of the two."},
    {L "  port: 1\n  port: 1\n",
     ":4: listen[0].port is already set in line 3. Remove one of the two."},
    {"log:\n  level: info\nlog:\n  level: info\n",
     ":3: log is already set in line 1. Remove one of the two."},
    {"settings: {idleTtl: 1d,\n\"idleTtl\": 2d}\n",
     ":2: settings.idleTtl is already set in line 1. Remove one of the two."},
    /* types */
    {"store\n", ":1: The file" OPTIONS},
    {"- store\n", ":1: The file" OPTIONS},
    {"\n\"\"\n", ":2: The file" OPTIONS},
    {"store:\n  - sqlite:/x\n", ":2: store" SINGLE},
    {"store: {a: b}\n", ":1: store" SINGLE},
    {"connectionsMax: [1]\n", ":1: connectionsMax" SINGLE},
    {"listen: 127.0.0.1\n", ":1: listen" LIST},
    {"listen:\n  address: 127.0.0.1\n  port: 80\n", ":2: listen" LIST},
    {"listen:\n- 127.0.0.1\n", ":2: listen[0]" OPTIONS},
    {"listen:\n- [a]\n", ":2: listen[0]" OPTIONS},
    {"allowedHosts: a\n", ":1: allowedHosts" LIST},
    {"allowedHosts:\n- a\n- [b]\n", ":3: allowedHosts[1]" SINGLE},
    {"allowedOrigins:\n- http://a: b\n", ":2: allowedOrigins[0]" SINGLE},
    {"log: info\n", ":1: log" OPTIONS},
    {"log: [level]\n", ":1: log" OPTIONS},
    {"settings:\n- leaseTtl: 1d\n", ":2: settings" OPTIONS},
    /* nothing there */
    {"store:\nsocket: /s\n", ":1: store" NOTHING},
    {"store: null\n", ":1: store" NOTHING},
    {"socket: ~\n", ":1: socket" NOTHING},
    {"a: 1\nlisten:\n", ":1: Unknown option a. Use one of " KEYS},
    {"listen:\n", ":1: listen" NOTHING},
    {"listen:\n-\n", ":2: listen[0]" NOTHING},
    {"log:\n# level: info\n", ":1: log" NOTHING},
    {"settings: {leaseTtl: }\n", ":1: settings.leaseTtl" NOTHING},
    {"allowedHosts: [a, ~]\n", ":1: allowedHosts[1]" NOTHING},
    {"store: \"\"\n", ":1: store must not be empty."},
    {"allowedHosts: ['']\n", ":1: allowedHosts[0] must not be empty."},
    /* texts */
    {"store: \"sqlite:/a\\0b\"\n", ":1: store must not contain control characters."},
    {"keyFile: \"/a\\nb\"\n", ":1: keyFile must not contain control characters."},
    {"socket: \"/a\\x9b2J\"\n", ":1: socket must not contain control characters."},
    {"\nsocket: |\n  /a\n", ":2: socket must not contain control characters."},
    /* the store */
    {"store: /var/lib/berth.db\n", ":1: store" NO_STORE},
    {"store: 5\n", ":1: store" NO_STORE},
    {"store: 'sqlite:'\n", ":1: store" NO_STORE},
    {"store: mysql://a@b/c\n", ":1: store" NO_STORE},
    {"log: {}\nstore: postgres://berth:hunter2@db.example/berth\n", ":2: store" PASSWORD},
    {"store: postgresql://berth@db/berth?password=hunter2\n", ":1: store" PASSWORD},
    {"store: postgres:nonsense\n",
     ":1: store is refused. The store's address is not one PostgreSQL knows. Write "
     "postgres://user@host:port/database."},
    /* addresses */
    {L, ":2: listen[0] needs the option port."},
    {"listen:\n\n- port: 80\n", ":3: listen[0] needs the option address."},
    {"listen: [{}]\n", ":1: listen[0] needs the option address."},
    {L "  port: 65536\n", ":3: listen[0].port must be from 0 to 65535."},
    {L "  port: 99999999999999999999\n", ":3: listen[0].port must be from 0 to 65535."},
    {L "  port: -1\n", ":3: listen[0].port" NUMBER},
    {L "  port: +1\n", ":3: listen[0].port" NUMBER},
    {L "  port: 0x50\n", ":3: listen[0].port" NUMBER},
    {L "  port: 080\n", ":3: listen[0].port" NUMBER},
    {L "  port: 80.0\n", ":3: listen[0].port" NUMBER},
    {L "  port: 8_0\n", ":3: listen[0].port" NUMBER},
    {L "  port: http\n", ":3: listen[0].port" NUMBER},
    {L "  port: \"80\"\n", ":3: listen[0].port" NUMBER},
    {L "  port: \"80\\0\"\n", ":3: listen[0].port" NUMBER},
    {L "  port:\n", ":3: listen[0].port" NOTHING},
    {L "  port: 1\n  plaintext: yes\n", ":4: listen[0].plaintext" BOOLEAN},
    {L "  port: 1\n  plaintext: flase\n", ":4: listen[0].plaintext" BOOLEAN},
    {L "  port: 1\n  plaintext: True\n", ":4: listen[0].plaintext" BOOLEAN},
    {L "  port: 1\n  plaintext: 0\n", ":4: listen[0].plaintext" BOOLEAN},
    {L "  port: 1\n  plaintext: 'true'\n", ":4: listen[0].plaintext" BOOLEAN},
    {"listen: [{address: localhost, port: 1}]\n", ":1: listen[0].address" ADDRESS},
    {"listen: [{address: 127.1, port: 1}]\n", ":1: listen[0].address" ADDRESS},
    {"listen: [{address: '[::1]', port: 1}]\n", ":1: listen[0].address" ADDRESS},
    {"listen: [{address: 127.0.0.1:80, port: 1}]\n", ":1: listen[0].address" ADDRESS},
    {"listen: [{address: 'fe80::1%eth0', port: 1}]\n", ":1: listen[0].address" ADDRESS},
    {"listen: [{address: '*', port: 1}]\n", ":1: listen[0].address" ADDRESS},
    {L "  port: 1\n- address: 0.0.0.0\n  port: 80\n", ":4: listen[1]" CLEAR},
    {"listen: [{address: '::', port: 80}]\n", ":1: listen[0]" CLEAR},
    {"listen: [{address: '::ffff:127.0.0.1', port: 80}]\n", ":1: listen[0]" CLEAR},
    {"listen: [{address: 126.255.255.255, port: 80, plaintext: false}]\n", ":1: listen[0]" CLEAR},
    {"listen: [{address: 128.0.0.1, port: 80}]\n", ":1: listen[0]" CLEAR},
    {L "  port: 1\n  certificate: c\n",
     ":2: listen[0] has a certificate but no key. TLS needs both: set both or neither."},
    {L "  port: 1\n  key: k\n",
     ":2: listen[0] has a key but no certificate. TLS needs both: set both or neither."},
    {L "  port: 1\n  certificate: c\n  key: k\n  plaintext: true\n",
     ":2: listen[0] has a certificate and \"plaintext: true\". Remove one of the two."},
    /* names */
    {"allowedHosts: [a, 'a:80']\n", ":1: allowedHosts[1]" HOST},
    {"allowedHosts:\n- http://a\n", ":2: allowedHosts[0]" HOST},
    {"allowedHosts: ['*.example']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [a/]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [a_b]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['a b']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['-a']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [a-]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [a-.b]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [a..b]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [.a]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [a.]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['[::1']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['[::1]:80']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['[a]']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['[]']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['[']\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: ['1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:0:1:2:3:4:5:6:7']\n",
     ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [bücher.example]\n", ":1: allowedHosts[0]" HOST},
    {"allowedHosts: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b]\n",
     ":1: allowedHosts[0]" HOST},
    {"allowedOrigins: [console.example]\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['*']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['null']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://a/']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://a:']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://a:0']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://a:65536']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://a:4294967376']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://u@a']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['http://::1']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['httpx://a']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins: ['ftp://a']\n", ":1: allowedOrigins[0]" ORIGIN},
    {"allowedOrigins:\n- http://a\n- https://a:443\n", ":3: allowedOrigins[1]" OWN_PORT},
    {"allowedOrigins: ['http://a:80']\n", ":1: allowedOrigins[0]" OWN_PORT},
    {"publicUrl: berth.example\n", ":1: publicUrl" URL},
    {"publicUrl: https://berth.example/api\n", ":1: publicUrl" URL},
    {"publicUrl: https://berth.example//\n", ":1: publicUrl" URL},
    {"publicUrl: https://berth.example?x\n", ":1: publicUrl" URL},
    {"publicUrl: https://berth.example/#x\n", ":1: publicUrl" URL},
    {"publicUrl: https://me@berth.example\n", ":1: publicUrl" URL},
    {"publicUrl: https://me:hunter2@berth.example\n", ":1: publicUrl" URL},
    {"publicUrl: file:///etc\n", ":1: publicUrl" URL},
    /* the rest */
    {"log:\n  level: trace\n", ":2: log.level must be one of debug, info, warn, error."},
    {"log: {level: INFO}\n", ":1: log.level must be one of debug, info, warn, error."},
    {"log: {level: 1}\n", ":1: log.level must be one of debug, info, warn, error."},
    {"log: {level: \"info\\0\"}\n", ":1: log.level must be one of debug, info, warn, error."},
    {"sweepInterval: 30\n", ":1: sweepInterval" DURATION},
    {"drainTimeout: 0s\n", ":1: drainTimeout" DURATION},
    {"settings:\n  leaseTtl: 1w\n", ":2: settings.leaseTtl" DURATION},
    {"settings:\n  leaseTtl: 1d\n  runLeaseTtl: 367d\n", ":3: settings.runLeaseTtl" DURATION},
    {"settings: {idleTtl: '1 d'}\n", ":1: settings.idleTtl" DURATION},
    {"settings: {retainTtl: -1s}\n", ":1: settings.retainTtl" DURATION},
    {"settings: {callTimeout: 1.5h}\n", ":1: settings.callTimeout" DURATION},
    {"settings: {nodeLapse: never}\n", ":1: settings.nodeLapse" DURATION},
    {"settings: {cleanupRetry: s}\n", ":1: settings.cleanupRetry" DURATION},
    {"settings: {cleanupRetryMax: 999999999999d}\n", ":1: settings.cleanupRetryMax" DURATION},
    {"settings: {logBytesMax: 0}\n", ":1: settings.logBytesMax must be from 1 to 1099511627776."},
    {"settings: {logBytesMax: 1099511627777}\n",
     ":1: settings.logBytesMax must be from 1 to 1099511627776."},
    {"settings: {logBytesMax: 64MiB}\n", ":1: settings.logBytesMax" NUMBER},
    {"connectionsMax: 15\n", ":1: connectionsMax must be from 16 to 1000000."},
    {"\n\nconnectionsMax: 1000001\n", ":3: connectionsMax must be from 16 to 1000000."},
    {"connectionsMax: 0\n", ":1: connectionsMax must be from 16 to 1000000."},
    {"connectionsMax: many\n", ":1: connectionsMax" NUMBER},
    /* YAML that is not taken */
    {"store: &s sqlite:/x\n", ":1: " ALIAS},
    {"socket: /s\nstore: *s\n", ":2: " ALIAS},
    {"listen: &l []\n", ":1: " ALIAS},
    {"&r\nlog: {}\n", ":1: " ALIAS},
    {"log: {&k level: info}\n", ":1: " ALIAS},
    {"store: !!str sqlite:/x\n", ":1: " TAG},
    {"log: !x {}\n", ":1: " TAG},
    {"listen: ! []\n", ":1: " TAG},
    {"log: {}\n---\nlog: {}\n", ":2: " SECOND},
    {"# a\n---\n---\nlog: {}\n", ":3: " SECOND},
    {"log: {}\n...\n---\n", ":3: " SECOND},
    /* no YAML */
    {"store: \"sqlite:/x\nlog: {}\n",
     ":3: This is not YAML: found unexpected end of stream, while scanning a quoted scalar that "
     "begins in line 1."},
    {"store: 'a\n",
     ":2: This is not YAML: found unexpected end of stream, while scanning a quoted scalar that "
     "begins in line 1."},
    {"log:\n\tlevel: info\n", ":2: This is not YAML: indent the line with spaces, not with a tab."},
    {"log:\n  level: info\n \tx: 1\n",
     ":3: This is not YAML: indent the line with spaces, not with a tab."},
    {"listen: [\n", ":2: This is not YAML: did not find expected node content, while parsing a "
                    "flow node that begins in line 2."},
    {"log: {level: info\n",
     ":2: This is not YAML: did not find expected ',' or '}', while parsing a flow mapping that "
     "begins in line 1."},
    {"log: {}\n socket: /s\n", ":2: This is not YAML: did not find expected key, while parsing a "
                               "block mapping that begins in "
                               "line 1."},
    {"allowedHosts: [*.example]\n",
     ":1: This is not YAML: did not find expected alphabetic or numeric character, while scanning "
     "an alias that begins in line 1."},
    {"store: @x\n", ":1: This is not YAML: found character that cannot start any token, while "
                    "scanning for the next token that begins in line 1."},
    {"socket: a: b\n", ":1: This is not YAML: mapping values are not allowed in this context."},
    {"%YAML 3.0\n---\nlog: {}\n", ":1: This is not YAML: found incompatible YAML document."},
    {"log: {}\nsocket: a\x01\n", ":2: This is not YAML: control characters are not allowed."},
    {"log: {}\nsocket: a\xff\n", ":2: This is not UTF-8. Save the file as a text in UTF-8."},
    {"socket: \xc0\xaf\n", ":1: This is not UTF-8. Save the file as a text in UTF-8."},
    {"socket: a\xe2\x82", ":1: This is not UTF-8. Save the file as a text in UTF-8."},
    {"\xff\xfel", ":1: This is not UTF-8. Save the file as a text in UTF-8."},
};

static void each_fault_has_its_text(void **state)
{
    struct ground *g = *state;
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        assert_refused(g, faults[i].yaml, strlen(faults[i].yaml), BERTH_E_INVALID, faults[i].text);
        assert_null(strstr(g->err.message, "hunter2"));
    }
}

static void lists_beyond_their_limit(void **state)
{
    struct ground *g = *state;
    static const struct {
        const char *key, *entry;
        int max;
    } lists[] = {{"listen", "{address: 127.0.0.1, port: 0}", BERTH_LISTEN_MAX},
                 {"allowedHosts", "a", BERTH_ALLOWED_HOSTS_MAX},
                 {"allowedOrigins", "http://a", BERTH_ALLOWED_ORIGINS_MAX}};
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
        char wanted[128];
        berth_buf_printf(&text, "%s:\n", lists[i].key);
        for (int k = 0; k <= lists[i].max; k++)
            berth_buf_printf(&text, "- %s\n", lists[i].entry);
        (void)snprintf(wanted, sizeof wanted, ":%d: %s must have at most %d entries.",
                       lists[i].max + 2, lists[i].key, lists[i].max);
        assert_refused(g, text.data, text.len, BERTH_E_INVALID, wanted);
    }
}

/* --- hostile files --- */

static void a_nul_byte(void **state)
{
    struct ground *g = *state;
    static const char bytes[] = "log: {}\nstore: sqlite:/a\0b\n";
    static const char wide[] = "l\0o\0g\0";
    assert_refused(g, bytes, sizeof bytes - 1, BERTH_E_INVALID,
                   ":2: There is a NUL byte. Save the file as a text in UTF-8.");
    assert_refused(g, wide, sizeof wide - 1, BERTH_E_INVALID,
                   ":1: There is a NUL byte. Save the file as a text in UTF-8.");
}

static void deep_nesting(void **state)
{
    struct ground *g = *state;
    static const char *const openings[] = {"[", "{a: ", "- ", "? "};
    for (unsigned i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
        for (int k = 0; k < 200000; k++)
            berth_buf_puts(&text, openings[i]);
        assert_ok(g, berth_buf_check(&text, "test", &g->err));
        write_bytes(g, text.data, text.len);
        assert_int_equal(berth_config_read(g->path, &g->config, &g->err), BERTH_E_INVALID);
        assert_null(g->config);
    }
    auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    berth_buf_puts(&text, "allowedHosts:\n- ");
    for (int k = 0; k < 500000; k++)
        berth_buf_puts(&text, "[");
    assert_refused(g, text.data, text.len, BERTH_E_INVALID, ":2: allowedHosts[0]" SINGLE);
}

static void a_billion_laughs(void **state)
{
    struct ground *g = *state;
    auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    berth_buf_puts(&text, "allowedHosts: &a0 [lol, lol]\n");
    for (int i = 1; i < 100; i++)
        berth_buf_printf(&text, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1);
    assert_refused(g, text.data, text.len, BERTH_E_INVALID, ":1: " ALIAS);
}

static void huge_texts(void **state)
{
    struct ground *g = *state;
    static const char *const keys[] = {"socket: /", "socket: \"/", "socket: >\n  /"};
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
        berth_buf_puts(&text, keys[i]);
        for (int k = 0; k < 1000000; k++)
            berth_buf_puts(&text, "a");
        berth_buf_puts(&text, i == 1 ? "\"\n" : "\n");
        assert_refused(g, text.data, text.len, BERTH_E_INVALID,
                       ":1: socket must be at most 4096 bytes long.");
    }
    char longest[4096 + 16] = "socket: /";
    memset(longest + strlen(longest), 'a', 4095);
    read_text(g, longest);
    assert_int_equal(strlen(g->config->socket), 4096);
}

static void a_huge_key(void **state)
{
    struct ground *g = *state;
    auto_buf text = BERTH_BUF_INIT(BERTH_OPTIONS_BYTES_MAX);
    berth_buf_puts(&text, "? ");
    for (int k = 0; k < 1000000; k++)
        berth_buf_puts(&text, "a");
    berth_buf_puts(&text, "\n: 1\n");
    assert_refused(g, text.data, text.len, BERTH_E_INVALID,
                   ":1: Unknown option ?. Use one of " KEYS);
}

static void a_huge_file(void **state)
{
    struct ground *g = *state;
    auto_free char *bytes = malloc(BERTH_OPTIONS_BYTES_MAX + 1);
    assert_non_null(bytes);
    memset(bytes, '#', BERTH_OPTIONS_BYTES_MAX + 1);
    write_bytes(g, bytes, BERTH_OPTIONS_BYTES_MAX);
    assert_ok(g, berth_config_read(g->path, &g->config, &g->err));
    assert_refused(g, bytes, BERTH_OPTIONS_BYTES_MAX + 1, BERTH_E_TOO_LARGE,
                   " is larger than 1048576 bytes. Check that it is the config file.");
}

/* Every beginning of a file, and a file with any one byte changed, is read or refused. */
static void cut_and_changed_files(void **state)
{
    struct ground *g = *state;
    for (size_t len = 0; len < strlen(everything); len++) {
        write_bytes(g, everything, len);
        berth_config_free(take_ptr(g->config));
        int rc = berth_config_read(g->path, &g->config, &g->err);
        assert_true(rc == BERTH_OK || rc == BERTH_E_INVALID);
    }
    static const char others[] = "\0\t\n\r &*!\"'[]{}:-#%@|>?~\x80";
    for (size_t i = 0; i < strlen(everything); i++) {
        char changed[sizeof everything];
        memcpy(changed, everything, sizeof changed);
        changed[i] = others[i % (sizeof others - 1)];
        write_bytes(g, changed, sizeof changed - 1);
        berth_config_free(take_ptr(g->config));
        int rc = berth_config_read(g->path, &g->config, &g->err);
        assert_true(rc == BERTH_OK || rc == BERTH_E_INVALID);
    }
}

/* --- the file itself --- */

static void there_is_no_file(void **state)
{
    struct ground *g = *state;
    char wanted[160];
    (void)snprintf(wanted, sizeof wanted, "There is no file %s.", g->path);
    assert_int_equal(berth_config_read(g->path, &g->config, &g->err), BERTH_E_NOT_FOUND);
    assert_string_equal(g->err.message, wanted);
    assert_null(g->config);
}

static void it_is_no_file(void **state)
{
    struct ground *g = *state;
    char wanted[160];
    (void)snprintf(wanted, sizeof wanted, "%s is not a regular file.", g->directory);
    assert_int_equal(berth_config_read(g->directory, &g->config, &g->err), BERTH_E_INVALID);
    assert_string_equal(g->err.message, wanted);
    assert_int_equal(mkfifo(g->path, 0600), 0); /* without a writer: the open must not block */
    (void)snprintf(wanted, sizeof wanted, "%s is not a regular file.", g->path);
    assert_int_equal(berth_config_read(g->path, &g->config, &g->err), BERTH_E_INVALID);
    assert_string_equal(g->err.message, wanted);
}

static void others_may_not_write_it(void **state)
{
    struct ground *g = *state;
    static const mode_t refused[] = {0620, 0602, 0666, 0664}, fine[] = {0600, 0644, 0400, 0640};
    write_bytes(g, "log: {}\n", 8);
    for (unsigned i = 0; i < 4; i++) {
        char wanted[512];
        (void)snprintf(wanted, sizeof wanted,
                       "Other users can write %s (mode %04o) and so control the daemon. Run chmod "
                       "go-w %s",
                       g->path, refused[i], g->path);
        assert_int_equal(chmod(g->path, refused[i]), 0);
        assert_int_equal(berth_config_read(g->path, &g->config, &g->err), BERTH_E_DENIED);
        assert_string_equal(g->err.message, wanted);
        assert_null(g->config);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(chmod(g->path, fine[i]), 0);
        berth_config_free(take_ptr(g->config));
        assert_ok(g, berth_config_read(g->path, &g->config, &g->err));
    }
}

static void it_belongs_to_us_or_root(void **state)
{
    struct ground *g = *state;
    char wanted[512];
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    write_bytes(g, "log: {}\n", 8);
    assert_int_equal(chown(g->path, 12345, 12345), 0);
    (void)snprintf(
        wanted, sizeof wanted,
        "%s must belong to root or to the daemon's user (uid 0), not to uid 12345. Run chown 0 "
        "%s",
        g->path, g->path);
    assert_int_equal(berth_config_read(g->path, &g->config, &g->err), BERTH_E_DENIED);
    assert_string_equal(g->err.message, wanted);
    assert_int_equal(chown(g->path, 0, 0), 0);
    assert_int_equal(chmod(g->path, 0644), 0);
    assert_int_equal(chmod(g->directory, 0755), 0);
    assert_int_equal(seteuid(12345), 0); /* a file of root is trusted by every user */
    int rc = berth_config_read(g->path, &g->config, &g->err);
    assert_int_equal(seteuid(0), 0);
    assert_ok(g, rc);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_file),
        TEST(a_file_that_says_nothing),
        TEST(the_example_has_the_defaults),
        TEST(the_example_has_every_option),
        TEST(every_option_is_read),
        TEST(other_shapes_of_the_same),
        TEST(log_levels),
        TEST(loopback_needs_no_tls),
        TEST(lists_up_to_their_limit),
        TEST(relative_paths_are_beneath_the_file),
        TEST(absolute_paths_stay),
        TEST(a_file_with_a_relative_name),
        TEST(each_fault_has_its_text),
        TEST(lists_beyond_their_limit),
        TEST(a_nul_byte),
        TEST(deep_nesting),
        TEST(a_billion_laughs),
        TEST(huge_texts),
        TEST(a_huge_key),
        TEST(a_huge_file),
        TEST(cut_and_changed_files),
        TEST(there_is_no_file),
        TEST(it_is_no_file),
        TEST(others_may_not_write_it),
        TEST(it_belongs_to_us_or_root),
    };
    return cmocka_run_group_tests_name("daemon config", tests, NULL, NULL);
}
