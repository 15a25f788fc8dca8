/* SPDX-License-Identifier: Apache-2.0
 * src/cli/cli.c - see cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/sweep.h"
#include "os/fs.h"

#define OPTIONS_MAX 24
#define GLOBALS 4

const char *cli_command_name(const struct cli_command *c, char out[64])
{
    (void)snprintf(out, 64, "%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");
    return out;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    char name[64];
    va_list args;
    va_start(args, fmt);
    (void)fputs("berth: ", stderr);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    if (cli->command)
        (void)fprintf(stderr, "\nusage: berth %s %s\n", cli_command_name(cli->command, name),
                      cli->command->arguments);
    else
        (void)fputs("\nTry \"berth help\".\n", stderr);
    return CLI_USAGE;
}

static void help(const struct cli *cli)
{
    char name[64];
    (void)printf("berth %s %s\n\n%s\n\n", cli_command_name(cli->command, name),
                 cli->command->arguments, cli->command->summary);
    (void)puts("Everywhere: --store ADDRESS (or BERTH_STORE), --json, --quiet, --help");
}

/* `index` counts the global options first, as cli_parse lists them. */
static void take_option(struct cli *cli, const struct cli_option *options, int index)
{
    if (index == 0)
        cli->store = optarg;
    else if (index == 1)
        cli->json = true;
    else if (index == 2)
        cli->quiet = true;
    else if (index == 3) {
        help(cli);
        exit(CLI_OK);
    }
    if (index < GLOBALS)
        return;
    const struct cli_option *option = &options[index - GLOBALS];
    if (option->text)
        *option->text = optarg;
    else if (option->flag)
        *option->flag = true;
    else
        (void)berth_list_add(option->texts, &cli->arena, optarg); /* the arena remembers */
}

int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max)
{
    struct option table[OPTIONS_MAX] = {{"store", required_argument, NULL, 0},
                                        {"json", no_argument, NULL, 0},
                                        {"quiet", no_argument, NULL, 0},
                                        {"help", no_argument, NULL, 0}};
    int count = GLOBALS;
    for (const struct cli_option *o = options; o && o->name; o++)
        table[count++] =
            (struct option){.name = o->name, .has_arg = o->flag ? no_argument : required_argument};
    opterr = 0;
    optind = 1;
    for (;;) {
        int index = 0;
        int got = getopt_long(argc, argv, ":q", table, &index);
        if (got == -1)
            break;
        if (got == 'q') {
            cli->quiet = true;
        } else if (got == ':') {
            (void)cli_usage(cli, "%s needs a value", argv[optind - 1]);
            return -1;
        } else if (got == '?') {
            (void)cli_usage(cli, "there is no option %s", argv[optind - 1]);
            return -1;
        } else {
            take_option(cli, options, index);
        }
    }
    int words = argc - optind;
    if (words < min || words > max) {
        if (words < min)
            (void)cli_usage(cli, "something is missing");
        else
            (void)cli_usage(cli, "\"%s\" is one word too many", argv[optind + max]);
        return -1;
    }
    for (int i = 0; i < words; i++)
        argv[i] = argv[optind + i];
    return words;
}

int cli_fail(struct cli *cli)
{
    if (cli->json) {
        auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
        struct berth_json_writer w = {.buf = &buf};
        berth_json_open(&w, '{');
        berth_json_put_str(&w, "error", cli->err.message);
        berth_json_put_str(&w, "code", berth_code_wire(cli->err.code));
        if (cli->issues.list.count) {
            berth_json_open_in(&w, "details", '{');
            berth_json_open_in(&w, "issues", '[');
            for (int i = 0; i < cli->issues.list.count; i++) {
                const struct berth_issue *issue = cli->issues.list.items[i];
                berth_json_open(&w, '{');
                berth_json_put_str(&w, "path", issue->path);
                berth_json_put_str(&w, "message", issue->message);
                berth_json_close(&w, '}');
            }
            berth_json_close(&w, ']');
            berth_json_close(&w, '}');
        }
        berth_json_close(&w, '}');
        (void)fprintf(stderr, "%s\n", buf.failed ? "{}" : berth_buf_str(&buf));
        return CLI_FAILED;
    }
    if (cli->issues.list.count < 2) {
        (void)fprintf(stderr, "berth: %s\n", cli->err.message);
        return CLI_FAILED;
    }
    (void)fputs("berth: the config is not right:\n", stderr);
    for (int i = 0; i < cli->issues.list.count; i++) {
        const struct berth_issue *issue = cli->issues.list.items[i];
        (void)fprintf(stderr, "  %s\n", issue->message);
    }
    return CLI_FAILED;
}

/* Where the user's store is when nobody says otherwise. */
static int default_store(struct cli *cli)
{
    auto_free char *directory = NULL;
    int rc = berth_data_directory(&directory, &cli->err);
    if (rc < 0)
        return rc;
    cli->store = berth_arena_printf(&cli->arena, "sqlite:%s/berth.db", directory);
    return berth_arena_check(&cli->arena, &cli->err);
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

static void log_to_stderr(void *ctx, enum berth_log_level level, const char *line)
{
    (void)ctx, (void)level;
    (void)fprintf(stderr, "berth: %s\n", line);
}

int cli_connect(struct cli *cli)
{
    if (!cli->store)
        cli->store = getenv("BERTH_STORE");
    if ((!cli->store || !*cli->store) && default_store(cli) < 0)
        return cli_fail(cli);
    const struct passwd *user = getpwuid(getuid());
    cli->actor = (struct berth_actor){
        .type = "user", .id = berth_arena_strdup(&cli->arena, user ? user->pw_name : "board")};
    struct berth_options options = BERTH_OPTIONS_INIT;
    options.store = cli->store;
    if (!cli->quiet)
        options.log = (struct berth_log){.write = log_to_stderr, .min_level = BERTH_LOG_WARN};
    return berth_open(&options, &cli->b, &cli->err) < 0 ? cli_fail(cli) : CLI_OK;
}

int cli_open(struct cli *cli)
{
    int status = cli_connect(cli);
    if (status != CLI_OK)
        return status;
    struct berth_sweep_options pass = BERTH_SWEEP_OPTIONS_INIT;
    struct berth_sweep_report report;
    pass.call_providers = false;
    if (berth_sweep(cli->b, &pass, &report, &cli->err) < 0)
        return cli_fail(cli);
    say_what_is_owed(cli, &report);
    return CLI_OK;
}

int cli_print(struct cli *cli, struct berth_buf *buf)
{
    if (berth_buf_check(buf, "The answer", &cli->err) < 0)
        return cli_fail(cli);
    if (puts(berth_buf_str(buf)) < 0 || fflush(stdout) != 0) {
        (void)berth_fail_errno(&cli->err, "Cannot write the answer");
        return cli_fail(cli);
    }
    return CLI_OK;
}

/* Characters, not bytes: names may hold any. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

int cli_table(struct cli *cli, const char *const *heading, int columns,
              const struct berth_list *rows)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    int widths[16] = {0};
    for (int c = 0; c < columns; c++)
        widths[c] = width_of(heading[c]);
    for (int r = 0; r < rows->count; r++)
        for (int c = 0; c < columns; c++) {
            int width = width_of(((const char **)rows->items[r])[c]);
            if (width > widths[c])
                widths[c] = width;
        }
    if (cli->quiet && !rows->count)
        return CLI_OK;
    int first = cli->quiet ? 0 : -1; /* no heading over ids alone */
    for (int r = first; r < rows->count; r++) {
        const char *const *row = r < 0 ? heading : (const char *const *)rows->items[r];
        if (r > first)
            berth_buf_puts(&buf, "\n");
        for (int c = 0; c < columns; c++) {
            berth_buf_puts(&buf, row[c]);
            if (c + 1 < columns)
                berth_buf_printf(&buf, "%*s", widths[c] - width_of(row[c]) + 2, "");
        }
    }
    return cli_print(cli, &buf);
}

void cli_say_cut(const struct cli *cli, int rows, int limit)
{
    if (rows >= limit && !cli->quiet)
        (void)fprintf(stderr, "berth: these are the first %d; --limit shows more\n", limit);
}

const char *cli_when(struct cli *cli, int64_t wall_ms)
{
    if (!wall_ms)
        return "-";
    int64_t away = wall_ms - berth_time_wall_ms();
    int64_t s = (away < 0 ? -away : away) / 1000;
    const char *unit = s < 60 ? "s" : s < 3600 ? "m" : s < 172800 ? "h" : "d";
    int64_t n = s < 60 ? s : s < 3600 ? s / 60 : s < 172800 ? s / 3600 : s / 86400;
    const char *text =
        berth_arena_printf(&cli->arena, away < 0 ? "%lld%s ago" : "in %lld%s", (long long)n, unit);
    return text ? text : "?";
}

bool cli_number(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < min || number > max)
        return false;
    *out = number;
    return true;
}

bool cli_duration(const char *text, int64_t *ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 12)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].unit) != 0)
            continue;
        *ms = strtoll(text, NULL, 10) * units[i].ms;
        return *ms > 0 && *ms <= BERTH_TTL_MS_MAX;
    }
    return false;
}

int cli_read_object(struct cli *cli, const char *path, struct berth_json **out)
{
    bool std_in = strcmp(path, "-") == 0;
    auto_close int file = std_in ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!std_in && file < 0)
        return berth_fail_errno(&cli->err, "Cannot read %s", path);
    auto_buf buf = BERTH_BUF_INIT(BERTH_CONFIG_BYTES_MAX);
    int rc = berth_fs_read_all(std_in ? STDIN_FILENO : file, &buf, &cli->err);
    if (rc == BERTH_OK)
        rc = berth_json_parse(berth_buf_str(&buf), buf.len, BERTH_JSON_OURS, out, &cli->err);
    if (rc == BERTH_OK && !berth_json_is(*out, BERTH_JSON_OBJECT)) {
        berth_json_free(*out);
        *out = NULL;
        rc = berth_fail(&cli->err, BERTH_E_INVALID, "%s does not hold a JSON object.",
                        std_in ? "Standard input" : path);
    }
    return rc;
}

int cli_find_environment(struct cli *cli, const char *name, struct berth_environment **out)
{
    if (berth_id_valid(name))
        return berth_environment_get(cli->b, &cli->arena, name, out, &cli->err);
    struct berth_environment_filter filter = BERTH_ENVIRONMENT_FILTER_INIT;
    filter.name = name;
    struct berth_list list;
    int rc = berth_environment_list(cli->b, &cli->arena, &filter, &list, &cli->err);
    if (rc < 0)
        return rc;
    if (list.count == 0)
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND,
                          "There is no environment \"%.200s\": \"berth env list\" shows them.",
                          name);
    if (list.count > 1)
        return berth_fail(&cli->err, BERTH_E_CONFLICT,
                          "%d environments are called \"%.200s\": use the id.", list.count, name);
    *out = list.items[0];
    return BERTH_OK;
}
