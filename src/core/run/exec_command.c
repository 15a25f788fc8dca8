/* SPDX-License-Identifier: Apache-2.0
 * src/core/run/exec_command.c - see exec_command.h. */
#include "core/run/exec_command.h"

#include <string.h>

#include "base/redact.h"
#include "base/utf8.h"

#define WORDS_BYTES_MAX (64 * 1024) /* of a command, in its row */

static bool is_variable(const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return false;
    for (const char *c = text; c < equals; c++)
        if (!((*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') || *c == '_' ||
              (c > text && *c >= '0' && *c <= '9')))
            return false;
    return true;
}

static void add_variable(struct berth_arena *arena, struct berth_list *env, const char *name,
                         const char *value)
{
    if (value)
        (void)berth_list_add(env, arena, berth_arena_printf(arena, "%s=%s", name, value));
}

int berth_exec_command_env(struct berth_arena *arena, const struct berth_lease *l,
                           const char *label, const char *const *given, const char *const **out,
                           struct berth_error *err)
{
    static const char *const none[] = {NULL};
    struct berth_list env = {0};
    /* First: a search for strays does not read a large environment to its end. */
    (void)berth_list_add(&env, arena, (char *)(uintptr_t)label);
    add_variable(arena, &env, "BERTH_LEASE_ID", l->id);
    add_variable(arena, &env, "BERTH_ENVIRONMENT_ID", l->environment_id);
    add_variable(arena, &env, "BERTH_COMPANY_ID", l->company_id);
    add_variable(arena, &env, "BERTH_RUN_ID", l->heartbeat_run_id);
    for (const char *const *v = given ? given : none; *v; v++) {
        if (!is_variable(*v))
            return berth_fail(err, BERTH_E_INVALID,
                              "A variable is written NAME=value, with letters, digits and _.");
        if (strncmp(*v, "BERTH_", 6) == 0)
            return berth_fail(err, BERTH_E_INVALID,
                              "Variables whose names begin with BERTH_ are set by berth alone: "
                              "leave out %.*s.",
                              (int)strcspn(*v, "="), *v);
        (void)berth_list_add(&env, arena, (char *)(uintptr_t)*v);
    }
    (void)berth_list_add(&env, arena, NULL);
    *out = (const char *const *)(void *)env.items;
    return berth_arena_check(arena, err);
}

/* Returns whether the quotes of a command line change bytes inside the word. */
static bool quotes_change_word(const char *word)
{
    for (; *word; word++)
        if (*word == '\'' || (unsigned char)*word < ' ' || (unsigned char)*word > '~')
            return true;
    return false;
}

/* Returns the words without the values that quotes would make unrecognisable; NULL: no memory. */
static const char *const *words_hide(struct berth_arena *arena, const char *const *argv,
                                     struct berth_masking *masking)
{
    struct berth_list words = {0};
    for (; *argv; argv++) {
        char *word = (char *)(uintptr_t)*argv;
        if (quotes_change_word(word) && (word = berth_arena_strdup(arena, word)))
            berth_masking_hide(masking, word, strlen(word), false);
        if (!word || !berth_list_add(&words, arena, word))
            return NULL;
    }
    return berth_list_add(&words, arena, NULL) ? (const char *const *)(void *)words.items : NULL;
}

int berth_exec_command_words(struct berth_arena *arena, const char *const *argv,
                             struct berth_masking *masking, const char **out,
                             struct berth_error *err)
{
    const char *const *words = masking->count ? words_hide(arena, argv, masking) : argv;
    const char *line = words ? berth_redact_command(arena, words) : NULL;
    if (!line)
        return berth_arena_check(arena, err);
    size_t len = strlen(line);
    bool cut = len > WORDS_BYTES_MAX;
    char *copy = berth_arena_copy(arena, line, cut ? WORDS_BYTES_MAX : len);
    if (!copy)
        return berth_arena_check(arena, err);
    berth_masking_hide(masking, copy, strlen(copy), cut);
    berth_utf8_mend(copy);
    *out = copy;
    return BERTH_OK;
}

const char *berth_exec_command_text(struct berth_arena *arena, struct berth_masking *masking,
                                    const char *text)
{
    char *copy = berth_arena_strdup(arena, text);
    if (copy) {
        berth_masking_hide(masking, copy, strlen(copy), false);
        berth_utf8_mend(copy);
    }
    return copy;
}
