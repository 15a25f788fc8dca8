/* SPDX-License-Identifier: Apache-2.0
 * src/cli/completion.c - berth completion: prints the scripts, and the words that they ask for. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/print.h"

static const struct {
    const char *shell, *script;
} scripts[] = {
    {"bash", "_berth() {\n"
             "    local word line=${COMP_LINE:0:COMP_POINT}\n"
             "    local -a words\n"
             "    read -ra words <<<\"$line\" # COMP_WORDS is cut at : and =\n"
             "    [[ $line == *[[:space:]] ]] && words+=('')\n"
             "    COMPREPLY=()\n"
             "    while IFS= read -r word; do\n"
             "        COMPREPLY+=(\"$(printf %q \"$word\")\")\n"
             "    done < <(berth __complete \"${words[@]:1}\" 2>/dev/null)\n"
             "}\n"
             "complete -F _berth berth"},
    {"zsh", "#compdef berth\n"
            "_berth() {\n"
            "    local -a found\n"
            "    found=(\"${(@f)$(berth __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
            "    compadd -a found\n"
            "}\n"
            "compdef _berth berth"},
    {"fish", "complete -c berth -f -a '(berth __complete (commandline -opc)[2..-1] "
             "(commandline -ct) 2>/dev/null)'"},
};

static int completion_main(struct cli *cli, int argc, char **argv)
{
    if (cli_parse(cli, argc, argv, NULL, 1, 1) < 0)
        return CLI_USAGE;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (strcmp(scripts[i].shell, argv[0]) == 0)
            return puts(scripts[i].script) < 0 ? CLI_FAILED : CLI_OK;
    return cli_usage(cli, "\"%s\" is none of: bash, zsh, fish", argv[0]);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void offer(const char *word, const char *prefix)
{
    char clean[BERTH_NAME_BYTES_MAX + 1];
    (void)snprintf(clean, sizeof clean, "%s", word);
    cli_clean_text(clean);
    if (begins(word, prefix) && strcmp(clean, word) == 0) /* without control characters */
        (void)puts(word);
}

/* Offers the nouns, or the verbs of one, each once. */
static void offer_words(const char *noun, const char *prefix)
{
    const char *last = "";
    for (const struct cli_command *const *group = cli_commands; *group; group++)
        for (const struct cli_command *c = *group; c->noun; c++) {
            const char *word = !noun ? c->noun : strcmp(c->noun, noun) == 0 ? c->verb : NULL;
            if (word && strcmp(word, last) != 0)
                offer(word, prefix);
            last = word ? word : last;
        }
}

/* Offers the options that the usage shows. */
static void offer_options(const struct cli_command *c, const char *prefix)
{
    for (const char *at = c->arguments; (at = strstr(at, "--")); at += 2) {
        char option[32];
        size_t len = 2 + strcspn(at + 2, " ]=");
        (void)snprintf(option, sizeof option, "%.*s", (int)len, at);
        offer(option, prefix);
    }
    for (const char *const *g = cli_global_options; *g; g++) {
        char option[32];
        (void)snprintf(option, sizeof option, "--%.*s", (int)strcspn(*g, "="), *g);
        offer(option, prefix);
    }
}

/* Offers the values of the option before the word, "a|b|c" in the usage. Returns whether it takes a
 * value. */
static bool offer_choices(const struct cli_command *c, const char *option, const char *prefix)
{
    const char *at = strstr(c->arguments, option);
    if (!at || strncmp(option, "--", 2) != 0 || at[strlen(option)] != ' ')
        return false;
    at += strlen(option) + 1;
    size_t len = strcspn(at, " ]");
    if (!memchr(at, '|', len) || (at[0] >= 'A' && at[0] <= 'Z'))
        return at[0] != '-'; /* it takes a value that is not listed */
    while (len) {
        char word[32];
        size_t part = strcspn(at, "| ]");
        (void)snprintf(word, sizeof word, "%.*s", (int)part, at);
        offer(word, prefix);
        size_t step = part + (at[part] == '|');
        at += step;
        len = step < len ? len - step : 0;
        if (part == step)
            break;
    }
    return true;
}

/* Connects to a store that exists: completing must not create one. */
static bool completion_connect(struct cli *cli)
{
    cli->quiet = true;
    if (!cli_named_daemon(cli)) {
        if (cli_find_store(cli) < 0)
            return false;
        const char *path = begins(cli->store, "sqlite:") ? cli->store + strlen("sqlite:") : NULL;
        if (path && access(path, R_OK) < 0)
            return false;
    }
    return cli_try_connect(cli) == BERTH_OK;
}

static void offer_members(struct cli *cli, const char *target, const char *key, const char *prefix)
{
    struct cli_answer list;
    if (!target || cli_get(cli, &list, "%s", target) < 0)
        return;
    for (size_t i = 0; i < berth_json_count(list.json); i++) {
        const char *word = cli_text(berth_json_at(list.json, i), key);
        if (word)
            offer(word, prefix);
    }
}

static void offer_plugins(struct cli *cli, const char *prefix)
{
    if (completion_connect(cli))
        offer_members(cli, "/api/plugins", "pluginKey", prefix);
}

static void offer_names(struct cli *cli, const char *noun, const char *prefix)
{
    bool env = strcmp(noun, "env") == 0 || strcmp(noun, "lease") == 0;
    bool secret = strcmp(noun, "secret") == 0, company = strcmp(noun, "company") == 0;
    if ((!env && !secret && !company) || !completion_connect(cli))
        return;
    offer_members(cli,
                  company ? "/api/companies"
                          : berth_arena_printf(&cli->arena, "/api/companies/%s/%s", cli->company_id,
                                               env ? "environments" : "secrets"),
                  "name", prefix);
}

/* Offers running runs; for logs, also those that have ended. */
static void offer_runs(struct cli *cli, const char *noun, const char *prefix)
{
    bool all = strcmp(noun, "logs") == 0;
    if (completion_connect(cli))
        offer_members(cli,
                      berth_arena_printf(&cli->arena, "/api/companies/%s/runs%s", cli->company_id,
                                         all ? "" : "?status=running"),
                      "id", prefix);
}

/* Says whether the option takes an environment. --env of run and exec is a variable. */
static bool wants_environment(const struct cli_command *c, const char *option)
{
    return strcmp(option, "-e") == 0 || strcmp(option, "--environment") == 0 ||
           (strcmp(option, "--env") == 0 && !strstr(c->arguments, "--env NAME[="));
}

int cli_complete(struct cli *cli, int argc, char **argv)
{
    int leading = cli_leading_options(cli, argc, argv);
    if (leading > 0 && leading < argc) {
        argc -= leading;
        argv += leading;
    }
    const char *prefix = argc ? argv[argc - 1] : "", *noun = argc > 1 ? argv[0] : NULL;
    const char *verb = argc > 2 ? argv[1] : NULL;
    const struct cli_command *command = NULL;
    for (const struct cli_command *const *group = cli_commands; noun && *group; group++)
        for (const struct cli_command *c = *group; c->noun && !command; c++)
            if (strcmp(c->noun, noun) == 0 && (!c->verb || (verb && strcmp(c->verb, verb) == 0)))
                command = c;
    if (!noun || !command) {
        offer_words(noun, prefix);
        return CLI_OK;
    }
    if (argc == 2)
        offer_words(noun, prefix); /* "run" is a command and has verbs */
    const char *before = argv[argc - 2];
    for (int i = 1; i < argc - 1; i++)
        if (strcmp(argv[i], "--") == 0)
            return CLI_OK; /* after "--" comes the command to run */
    if (begins(prefix, "-"))
        offer_options(command, prefix);
    else if (wants_environment(command, before))
        offer_names(cli, "env", prefix);
    else if (strcmp(noun, "completion") == 0)
        for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
            offer(scripts[i].shell, prefix);
    else if (offer_choices(command, before, prefix))
        return CLI_OK;
    else if (begins(command->arguments, "RUN"))
        offer_runs(cli, noun, prefix);
    else if (strcmp(noun, "plugin") == 0 && begins(command->arguments, "NAME|ID"))
        offer_plugins(cli, prefix);
    else if (begins(command->arguments, "NAME|ID") || begins(command->arguments, "ENVIRONMENT"))
        offer_names(cli, noun, prefix);
    return CLI_OK;
}

const struct cli_command cli_completion_commands[] = {
    {"completion", NULL, "bash|zsh|fish",
     "a script that completes berth's commands, for your shell to read", completion_main},
    {0},
};
