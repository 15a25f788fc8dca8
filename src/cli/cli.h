/* SPDX-License-Identifier: Apache-2.0
 * src/cli/cli.h - what the commands share: options, answers, errors, the terminal. */
#ifndef BERTH_CLI_CLI_H
#define BERTH_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/issues.h"
#include "base/json.h"
#include "core/activity.h"
#include "core/berth.h"
#include "crypto/locked.h"

/* Exit statuses. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
};

struct cli_command;

/* One call of the program. */
struct cli {
    const struct cli_command *command;
    const char *store;    /* --store, else BERTH_STORE, else the user's own */
    const char *company;  /* --company, else BERTH_COMPANY, else `default` */
    const char *key_file; /* --key-file, else BERTH_KEY_FILE, else beside the store */
    const char *url; /* --url, else BERTH_URL: a daemon; NULL: the store's own, if it has one */
    bool json, quiet;
    bool stdin_read;           /* it can be read once */
    struct cli_daemon *daemon; /* that is asked; or NULL */
    struct berth *b;           /* else the runtime is here */
    const char *company_id;
    int cancel_fd;         /* readable: what is asked is not wanted any more; -1: nobody says so */
    struct cli_kept *kept; /* the answers */
    const char *not_text;  /* the member of a body that is not UTF-8, or NULL */
    struct berth_arena arena;
    struct berth_issues issues;
    struct berth_actor actor;
    struct berth_error err;
};

/* An option of a command: takes a text, is a flag, or takes a text each time it is given. */
struct cli_option {
    const char *name;
    const char **text; /* one of the three */
    bool *flag;
    struct berth_list *texts;
};

struct cli_command {
    const char *noun, *verb; /* verb NULL: the noun alone is the command */
    const char *arguments;   /* "NAME [--driver DRIVER]", for the usage */
    const char *summary;
    int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the command's own name */
};

/* "env create", in `out`. */
const char *cli_command_name(const struct cli_command *command, char out[64]);
/* Options that work anywhere may stand before the command, too. The words they take, or -1 when a
 * value is missing; argv[0] is looked at first. */
int cli_leading_options(struct cli *cli, int argc, char **argv);
/* The options that work anywhere, closed by NULL; those that take a value end in "=". */
extern const char *const cli_global_options[];

/* --- arguments (cli.c) --- */

/* Reads options and between `min` and `max` words, which replace argv[0...]. The number of words,
 * or -1 after the usage error has been told. */
int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max);
int cli_usage(const struct cli *cli, const char *fmt, ...) BERTH_PRINTF(2, 3); /* CLI_USAGE */
int cli_fail(struct cli *cli); /* tells cli->err and the issues; CLI_FAILED */
bool cli_number(const char *text, int64_t min, int64_t max, int64_t *out);
/* The names of an enum, "a, b, c". */
const char *cli_choices(struct cli *cli, const struct berth_enum *type);
/* An enum's value by name; CLI_USAGE after the usage error has been told. */
int cli_choice(struct cli *cli, const char *option, const char *given,
               const struct berth_enum *type, int *out);
/* A limit on rows; NULL is the default. */
int cli_limit(struct cli *cli, const char *given, int *out);
/* An object from a file, or from standard input for "-". */
int cli_read_object(struct cli *cli, const char *path, struct berth_json **out);

/* --- the runtime, here or in a daemon (call.c) --- */

/* Which store is meant: cli->store says afterwards. */
int cli_find_store(struct cli *cli);
/* Opens the runtime, or finds the daemon, and finds the company; the error is in cli->err. */
int cli_try_connect(struct cli *cli);
int cli_connect(struct cli *cli); /* the same, and tells it; CLI_OK or CLI_FAILED */
/* The same; of a runtime that is here, what is owed is told, after the short pass that needs no
 * provider. */
int cli_open(struct cli *cli);
/* cli_parse and then cli_open: for commands that have nothing to say in between. */
int cli_start(struct cli *cli, int argc, char **argv, const struct cli_option *options, int min,
              int max);
const char *cli_named_daemon(const struct cli *cli); /* by --url or BERTH_URL; or NULL */
/* cli_try_connect, but never to a daemon: for what this process is to do itself. */
int cli_try_connect_here(struct cli *cli);

/* What the API said. Both live as long as the program. */
struct cli_answer {
    const struct berth_json *json; /* NULL: it is no JSON */
    const char *text;
};
#define CLI_BODY_INIT BERTH_BUF_INIT(4UL * 1024 * 1024) /* more than a daemon takes */
/* Asks the daemon, or the runtime that is here, which have the same answers. `body`: JSON, or NULL.
 * The error is in cli->err and cli->issues. */
int cli_call(struct cli *cli, struct cli_answer *out, const char *method,
             const struct berth_buf *body, const char *fmt, ...) BERTH_PRINTF(5, 6);
int cli_get(struct cli *cli, struct cli_answer *out, const char *fmt, ...) BERTH_PRINTF(3, 4);
const char *cli_encode(struct cli *cli, const char *text); /* for a part of a path or a query */
/* A member, unless it is NULL. What is not UTF-8 fails the call. */
void cli_put(struct cli *cli, struct berth_json_writer *w, const char *key, const char *text);
int cli_not_understood(struct cli *cli); /* an answer lacks what it must have; an error code */
void cli_forget(struct cli *cli);        /* all answers so far */
void cli_disconnect(struct cli *cli);

/* --- names (find.c) --- */

/* The whole id of a "lease", a "run" ...: from an id or its beginning. */
int cli_find_id(struct cli *cli, const char *kind, const char *text, const char **out);
/* The same for what has a name, too; "did you mean" when there is none. */
int cli_find_environment(struct cli *cli, const char *text, const struct berth_json **out);
int cli_find_secret(struct cli *cli, const char *text, const struct berth_json **out);
int cli_find_company(struct cli *cli, const char *text, const struct berth_json **out);
/* The name that is most like the text, or NULL when none is like it. */
const char *cli_most_like(const char *text, const char *const *names, int count);

/* --- answers (text.c) --- */

/* Prints the buffer's text and a newline. CLI_OK or CLI_FAILED. */
int cli_print(struct cli *cli, struct berth_buf *buf);
int cli_print_text(struct cli *cli, const char *text); /* the same for a text */
/* "name         value" and a newline; NULL values are left out. What could move the cursor is
 * shown as "?". */
void cli_field(struct cli *cli, struct berth_buf *buf, const char *name, const char *value);
const char *cli_clean(struct cli *cli, const char *text); /* the same for a text by itself */
/* JSON whose texts hold no such characters either. */
void cli_escape_json(const char *json, struct berth_buf *out);
void cli_clean_text(char *text); /* in place */
/* "2m ago", "in 3h", "-". */
const char *cli_when(struct cli *cli, int64_t wall_ms);

/* Is the member that text? */
bool cli_is(const struct berth_json *object, const char *key, const char *text);
/* A member of an object, as text; NULL: there is none, or it is null. */
const char *cli_text(const struct berth_json *object, const char *key);
int64_t cli_time(const struct berth_json *object, const char *key); /* 0: none */

enum cli_kind {
    CLI_TEXT,
    CLI_ID,     /* may be cut to what tells it apart */
    CLI_NUMBER, /* is never cut */
    CLI_STATUS, /* may have a colour */
    CLI_WHEN,   /* a time, as people say it */
};
/* One thing that is shown of an object: a line under its name, or a column under its heading. */
struct cli_cell {
    const char *label;
    const char *key; /* of the member */
    enum cli_kind kind;
    const char *otherwise; /* what is shown when there is none; NULL: no line, "-" in a table */
    const char *(*text)(struct cli *cli, const struct berth_json *object); /* instead of the key */
};
/* Both closed by a NULL label. A list is a table for people, its first column alone with --quiet,
 * the answer itself with --json. */
int cli_print_list(struct cli *cli, const struct cli_answer *list, const struct cli_cell *columns);
/* The same for one thing: its id with --quiet. */
int cli_print_one(struct cli *cli, const struct cli_answer *one, const char *id,
                  const struct cli_cell *lines);
void cli_put_lines(struct cli *cli, struct berth_buf *buf, const struct berth_json *object,
                   const struct cli_cell *lines);
/* Says on stderr that a list may have been cut. */
void cli_say_cut(const struct cli *cli, const struct cli_answer *list, int limit);

/* --- the terminal (ask.c) --- */

bool cli_can_ask(void); /* there is a person to ask */
bool cli_colours(FILE *out);
int cli_width(void); /* of standard output; 0: it is no terminal */
/* One line, in the arena. CANCELLED: the input ended. */
int cli_ask(struct cli *cli, const char *label, const char **out);
/* Without echo, twice when `again`; the caller clears it. */
int cli_ask_secret(struct cli *cli, const char *label, bool again, struct berth_locked *out);
/* A value from a file, standard input ("-"), or by asking (NULL). Never from the arguments. */
int cli_read_secret(struct cli *cli, const char *path, const char *label, struct berth_locked *out);
#endif
