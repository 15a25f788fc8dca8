/* SPDX-License-Identifier: Apache-2.0
 * src/cli/serve.c - berth serve: becomes berthd, the daemon. */
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/print.h"

#define WORDS_MAX 64    /* that may be passed on to berthd */
#define OWN_WORDS_MAX 6 /* its name, two options with their values, and NULL */

/* Runs the berthd in the directory of this program, else the one in PATH, with the words after
 * "serve". */
static int serve_main(struct cli *cli, int argc, char **argv)
{
    static char store[] = "--store", key_file[] = "--key-file", daemon[] = "berthd";
    char self[PATH_MAX], *words[WORDS_MAX + OWN_WORDS_MAX] = {daemon};
    int count = 1;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return cli_parse(cli, argc, argv, NULL, 0, 0) < 0 ? CLI_USAGE : CLI_OK;
    if (argc > WORDS_MAX)
        return cli_usage(cli, "that are too many words");
    if (cli->store) {
        words[count++] = store;
        words[count++] = (char *)(uintptr_t)cli->store;
    }
    if (cli->key_file) {
        words[count++] = key_file;
        words[count++] = (char *)(uintptr_t)cli->key_file;
    }
    for (int i = 1; i < argc; i++)
        words[count++] = argv[i];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - sizeof daemon);
    if (len > 0) {
        self[len] = '\0';
        char *name = strrchr(self, '/') + 1;
        memcpy(name, daemon, sizeof daemon);
        (void)execv(self, words);
    }
    (void)execvp(daemon, words);
    (void)berth_fail_errno(&cli->err, "Cannot run berthd");
    return cli_fail(cli);
}

const struct cli_command cli_serve_commands[] = {
    {"serve", NULL, "[OPTION]...", "run the daemon, berthd, in the foreground", serve_main},
    {0},
};
