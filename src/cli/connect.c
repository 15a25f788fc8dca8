/* SPDX-License-Identifier: Apache-2.0
 * src/cli/connect.c - see connect.h. The daemon is the one that is named, or else the one that
 * serves the store. Without a daemon the runtime is opened in this process. */
#include "cli/connect.h"

#include <ctype.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "core/daemon_lock.h"
#include "core/paths.h"
#include "core/socket_cookie.h"
#include "core/sweep/sweep.h"
#include "os/socket.h"

static const char *option_or_variable(const char *given, const char *variable)
{
    const char *text = given ? given : getenv(variable);
    return text && *text ? text : NULL;
}

bool cli_allows_unconfined(void)
{
    const char *text = getenv("BERTH_ALLOW_UNCONFINED_PLUGINS");
    return text && strcmp(text, "1") == 0;
}

int cli_find_store(struct cli *cli)
{
    cli->store = option_or_variable(cli->store, "BERTH_STORE");
    if (cli->store)
        return BERTH_OK;
    auto_free char *address = NULL;
    int rc = berth_default_store(&address, &cli->err);
    if (rc < 0)
        return rc;
    cli->store = berth_arena_strdup(&cli->arena, address);
    return berth_arena_check(&cli->arena, &cli->err);
}

static bool daemon_listens(const char *socket_path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(socket_path) >= sizeof to.sun_path)
        return false;
    memcpy(to.sun_path, socket_path, strlen(socket_path) + 1);
    struct ucred who;
    socklen_t len = sizeof who;
    return connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == geteuid() || who.uid == 0); /* it will receive secrets */
}

static int read_token(struct cli_daemon *d, struct berth_error *err)
{
    const char *path = option_or_variable(NULL, "BERTH_TOKEN_FILE");
    if (!path)
        return BERTH_OK;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot read BERTH_TOKEN_FILE %s", path);
    int rc = berth_locked_read(fd, BERTH_TOKEN_BYTES_MAX, &d->token, err);
    while (rc == BERTH_OK && d->token.len &&
           isspace((unsigned char)d->token.bytes[d->token.len - 1]))
        d->token.len--;
    return rc;
}

/* Warns when the token crosses the network unencrypted. */
static void warn_clear(const struct cli *cli, const char *url)
{
    static const char plain[] = "http://";
    char host[256];
    if (strncmp(url, plain, strlen(plain)) != 0 || cli->quiet)
        return;
    const char *at = url + strlen(plain) + (url[strlen(plain)] == '[');
    (void)snprintf(host, sizeof host, "%.*s", (int)strcspn(at, at[-1] == '[' ? "]" : ":/"), at);
    if (!berth_is_loopback(host))
        (void)fputs("berth: the token goes over the network for all to read: use https://\n",
                    stderr);
}

/* Uses the daemon at "unix:/path" or at an HTTP URL. `named`: sends the token. */
static int use_url(struct cli *cli, const char *url, bool named)
{
    struct cli_daemon *d = berth_arena_alloc(&cli->arena, sizeof *d);
    if (!d)
        return berth_arena_check(&cli->arena, &cli->err);
    *d = (struct cli_daemon){.url = "http://berth", .where = url, .token = BERTH_LOCKED_INIT};
    d->ca_file = option_or_variable(NULL, "BERTH_CA_FILE");
    if (strncmp(url, "unix:", 5) == 0) {
        d->socket = url + 5;
        (void)berth_socket_cookie_read(d->socket,
                                       d->cookie); /* without it berthd says what to do */
    } else {
        size_t len = strlen(url);
        while (len && url[len - 1] == '/')
            len--;
        d->url = berth_arena_copy(&cli->arena, url, len);
    }
    cli->daemon = d;
    if (!d->url)
        return berth_arena_check(&cli->arena, &cli->err);
    int rc = named ? read_token(d, &cli->err) : BERTH_OK;
    if (rc == BERTH_OK && d->token.len)
        warn_clear(cli, url);
    return rc;
}

const char *cli_named_daemon(const struct cli *cli)
{
    return cli->url || cli->store ? cli->url : option_or_variable(NULL, "BERTH_URL");
}

int cli_find_daemon(struct cli *cli)
{
    char socket_path[BERTH_SOCKET_PATH_SIZE];
    const char *url = cli_named_daemon(cli);
    if (url)
        return use_url(cli, url, true);
    int rc = cli_find_store(cli);
    if (rc < 0 || !berth_daemon_lock_find(cli->store, socket_path) || !daemon_listens(socket_path))
        return rc;
    url = berth_arena_printf(&cli->arena, "unix:%s", socket_path);
    return url ? use_url(cli, url, false) : berth_arena_check(&cli->arena, &cli->err);
}

static void log_to_stderr(void *ctx, enum berth_log_level level, const char *line)
{
    (void)ctx, (void)level;
    (void)fprintf(stderr, "berth: %s\n", line);
}

static int open_runtime(struct cli *cli)
{
    cli->key_file = option_or_variable(cli->key_file, "BERTH_KEY_FILE");
    const struct passwd *user = getpwuid(getuid());
    cli->actor = (struct berth_actor){
        .type = "user", .id = berth_arena_strdup(&cli->arena, user ? user->pw_name : "board")};
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.store = cli->store;
    options.key_file = cli->key_file;
    options.settings.allow_unconfined_plugins = cli_allows_unconfined();
    if (!cli->quiet)
        options.log = (struct berth_log){.write = log_to_stderr, .min_level = BERTH_LOG_WARN};
    return berth_open(&options, &cli->b, &cli->err);
}

/* Finds the company that is named, else `default`, or the only visible one. */
static int find_company(struct cli *cli)
{
    const struct berth_json *company = NULL;
    struct cli_answer all;
    cli->company = option_or_variable(cli->company, "BERTH_COMPANY");
    if (!cli->company && cli->b) {
        cli->company_id = cli->b->company_id;
        return BERTH_OK;
    }
    int rc = cli->company ? cli_find_company(cli, cli->company, &company)
                          : cli_get(cli, &all, "/api/companies");
    if (rc < 0)
        return rc;
    for (size_t i = 0; !company && i < berth_json_count(all.json); i++) {
        const struct berth_json *one = berth_json_at(all.json, i);
        if (berth_json_count(all.json) == 1 || cli_is(one, "name", "default"))
            company = one;
    }
    if (!company)
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND,
                          "The company \"default\" does not exist. Name one with --company.");
    cli->company_id = cli_text(company, "id");
    return cli->company_id ? BERTH_OK : cli_not_understood(cli);
}

int cli_try_connect(struct cli *cli)
{
    int rc = cli_find_daemon(cli);
    if (rc == BERTH_OK && !cli->daemon)
        rc = open_runtime(cli);
    return rc < 0 ? rc : find_company(cli);
}

int cli_connect(struct cli *cli)
{
    return cli_try_connect(cli) < 0 ? cli_fail(cli) : CLI_OK;
}

static void say_what_is_owed(const struct cli *cli, const struct berth_sweep_report *r)
{
    if (cli->quiet)
        return;
    if (r->expired || r->released)
        (void)fprintf(stderr, "berth: took back %d lease%s whose time or run was over\n",
                      r->expired + r->released, r->expired + r->released == 1 ? "" : "s");
    if (r->owed || r->waiting)
        (void)fprintf(stderr, "berth: %d place%s to be cleaned up: run \"berth sweep\"\n",
                      r->owed > r->waiting ? r->owed : r->waiting,
                      (r->owed > r->waiting ? r->owed : r->waiting) == 1 ? " is" : "s are");
    if (r->quarantined)
        (void)fprintf(stderr, "berth: %d lease%s cannot be read and %s left alone\n",
                      r->quarantined, r->quarantined == 1 ? "" : "s",
                      r->quarantined == 1 ? "is" : "are");
}

/* Sweeps without calling providers. A daemon sweeps by itself. */
static int take_back(struct cli *cli)
{
    struct berth_sweep_options pass = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    pass.call_providers = false;
    int rc = cli->b ? berth_sweep(cli->b, &pass, &report, &cli->err) : BERTH_OK;
    if (rc == BERTH_OK && cli->b)
        say_what_is_owed(cli, &report);
    return rc;
}

int cli_open(struct cli *cli)
{
    int status = cli_connect(cli);
    return status == CLI_OK && take_back(cli) < 0 ? cli_fail(cli) : status;
}

int cli_start(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max)
{
    return cli_parse(cli, argc, argv, options, min, max) < 0 ? CLI_USAGE : cli_open(cli);
}

int cli_try_connect_here(struct cli *cli)
{
    int rc = cli_find_store(cli);
    if (rc == BERTH_OK)
        rc = open_runtime(cli);
    return rc < 0 ? rc : find_company(cli);
}

void cli_disconnect(struct cli *cli)
{
    cli_forget(cli);
    if (cli->daemon)
        berth_locked_clear(&cli->daemon->token);
    berth_close(cli->b);
}
