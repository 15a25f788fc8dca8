/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/git_command.c - see git_command.h. */
#include "core/workspace/git_command.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/time.h"
#include "os/capture.h"

#define OUTPUT_BYTES_MAX ((size_t)256 << 20) /* of ls-files in a large repository */
#define WORDS_MAX 24
#define VARIABLES_MAX 192
#define RUN_MS (INT64_C(1800) * 1000) /* to pack a large history */

/* Before the words of each call. */
static const char *const prefix[] = {
    "git", "--no-replace-objects",   "-c", "core.hooksPath=/dev/null",
    "-c",  "core.fsmonitor=false",   "-c", "gc.auto=0",
    "-c",  "maintenance.auto=false", "-c", "submodule.recurse=false",
    "-c",  "fetch.fsckObjects=true", "-c", "commit.gpgSign=false",
};
#define RACE_TRIES_MAX 20
#define RACE_PAUSE_MS 25
#define PREFIX_COUNT (sizeof prefix / sizeof prefix[0])

static const char *const fixed_variables[] = {"LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
                                              "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1"};
/* The user's own settings name ignored files, and directories of other users that are safe. */
static const char *const taken_variables[] = {"PATH", "HOME", "XDG_CONFIG_HOME"};

static int make_environment(const struct berth_git *git, struct berth_arena *arena,
                            const char *out[VARIABLES_MAX], struct berth_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof fixed_variables / sizeof fixed_variables[0]; i++)
        out[count++] = fixed_variables[i];
    for (size_t i = 0; i < sizeof taken_variables / sizeof taken_variables[0]; i++) {
        const char *value = getenv(taken_variables[i]);
        if (value)
            out[count++] = berth_arena_printf(arena, "%s=%s", taken_variables[i], value);
    }
    for (const char *const *own = git->env; own && *own && count < VARIABLES_MAX - 1; own++)
        out[count++] = *own;
    out[count] = NULL;
    return berth_arena_check(arena, err);
}

/* Returns the first line of what git said, without "fatal: " and a full stop. */
static const char *first_words(struct berth_buf *said)
{
    char *text = said->len ? (char *)(uintptr_t)berth_buf_str(said) : NULL;
    if (!text || !*text)
        return "it gave no reason";
    size_t len = strcspn(text, "\n");
    text[len && text[len - 1] == '.' ? len - 1 : len] = '\0';
    for (const char *const *head = (const char *const[]){"fatal: ", "error: ", NULL}; *head; head++)
        if (strncmp(text, *head, strlen(*head)) == 0)
            return text + strlen(*head);
    return text;
}

static int run_once(const struct berth_git *git, const char *const *words, struct berth_buf *out,
                    struct berth_error *err)
{
    auto_arena arena = BERTH_ARENA_INIT;
    const char *argv[PREFIX_COUNT + WORDS_MAX + 1], *env[VARIABLES_MAX];
    auto_capture c = BERTH_CAPTURE_INIT(OUTPUT_BYTES_MAX);
    size_t count = PREFIX_COUNT;
    memcpy(argv, prefix, sizeof prefix);
    for (; *words && count < PREFIX_COUNT + WORDS_MAX; words++)
        argv[count++] = *words;
    argv[count] = NULL;
    int rc = make_environment(git, &arena, env, err);
    if (rc < 0)
        return rc;
    c.options.argv = argv;
    c.options.env = env;
    c.options.cwd = git->directory;
    c.name = "git";
    c.input = git->input ? git->input->data : NULL;
    c.input_len = git->input ? git->input->len : 0;
    c.cancel_fd = git->cancel_fd;
    c.deadline_ms = berth_time_mono_ms() + RUN_MS;
    rc = berth_capture_run(git->engine, &c, err);
    if (rc < 0)
        return rc;
    if (c.end.exit_code != 0)
        return berth_fail(err, BERTH_E_UPSTREAM, "git %s failed: %.300s.", argv[PREFIX_COUNT],
                          first_words(&c.streams[BERTH_STDERR]));
    if (!out)
        return BERTH_OK;
    size_t len = c.streams[BERTH_STDOUT].len;
    const char *text = len ? c.streams[BERTH_STDOUT].data : "";
    if (len && text[len - 1] == '\n')
        len--;
    berth_buf_truncate(out, 0);
    berth_buf_append(out, text, len);
    return berth_buf_check(out, "The output of git", err);
}

/* Returns whether git met the files of a worktree that another process was making or removing: it
 * reads those of all worktrees before it does anything. */
static bool is_worktree_race(const struct berth_error *err)
{
    return err->code == BERTH_E_UPSTREAM && strstr(err->message, "failed to read") &&
           strstr(err->message, "worktrees/");
}

int berth_git_run(const struct berth_git *git, const char *const *words, struct berth_buf *out,
                  struct berth_error *err)
{
    struct pollfd cancel = {.fd = git->cancel_fd, .events = POLLIN};
    for (int tries = 1;; tries++) {
        int rc = run_once(git, words, out, err);
        if (rc == BERTH_OK || !is_worktree_race(err) || tries == RACE_TRIES_MAX ||
            poll(&cancel, 1, RACE_PAUSE_MS) > 0)
            return rc;
    }
}

const char *berth_git_take_line(struct berth_arena *arena, const char **at)
{
    size_t len = strcspn(*at, "\n");
    const char *line = berth_arena_copy(arena, *at, len);
    *at += len + ((*at)[len] == '\n');
    return line;
}

bool berth_git_id_valid(const char *text)
{
    size_t len = text ? strspn(text, "0123456789abcdef") : 0;
    return (len == 40 || len == 64) && text[len] == '\0';
}

bool berth_git_ref_valid(const char *text, const char *head)
{
    size_t head_len = strlen(head);
    if (strncmp(text, head, head_len) != 0 || strlen(text) > 255)
        return false;
    for (const char *name = text + head_len; name; name = strchr(name, '/')) {
        name += *name == '/';
        size_t len = strcspn(name, "/");
        if (!len || name[0] == '.' || name[0] == '-' || name[len - 1] == '.' ||
            (len > 5 && strncmp(name + len - 5, ".lock", 5) == 0))
            return false;
    }
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c <= ' ' || *c == 0x7f || strchr("~^:?*[\\", *c))
            return false;
    return !strstr(text, "..") && !strstr(text, "@{");
}
