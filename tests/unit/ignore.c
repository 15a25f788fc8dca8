/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/ignore.c - ignore rules, by hand and beside git's own answers for random trees. */
#include "sync/ignore.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "os/fs.h"
#include "sync/record.h"

#define TREES 60
#define ENTRIES 60

static struct berth_ignore *make_rules(void)
{
    struct berth_error err;
    struct berth_ignore *rules;
    assert_int_equal(berth_ignore_new(&rules, &err), BERTH_OK);
    return rules;
}

static void add_rules(struct berth_ignore *rules, const char *directory, const char *text)
{
    struct berth_error err;
    assert_int_equal(berth_ignore_add(rules, directory, text, strlen(text), &err), BERTH_OK);
}

/* --- by hand --- */

static void some_names_never_cross(void **state)
{
    (void)state;
    struct berth_ignore *rules = make_rules();
    struct berth_error err;
    add_rules(rules, "", "!.berth\n!.git\n");
    assert_int_equal(berth_ignore_add_override(rules, "!.paperclip-runtime", &err), BERTH_OK);
    assert_true(berth_ignore_excludes(rules, ".berth", true));
    assert_true(berth_ignore_excludes(rules, "a/.berth/b", false));
    assert_true(berth_ignore_excludes(rules, ".paperclip-runtime/claude/x", false));
    assert_true(berth_ignore_excludes(rules, "sub/.git", false));
    assert_false(berth_ignore_excludes(rules, ".gitignore", false));
    assert_false(berth_ignore_excludes(rules, "x.berth", true));
    berth_ignore_free(rules);
}

static void later_and_deeper_rules_win(void **state)
{
    (void)state;
    struct berth_ignore *rules = make_rules();
    struct berth_error err;
    add_rules(rules, "", "*.o\n!keep.o\nbuild/\n/top\n");
    add_rules(rules, "lib", "!*.o\n");
    assert_true(berth_ignore_excludes(rules, "x.o", false));
    assert_false(berth_ignore_excludes(rules, "keep.o", false));
    assert_false(berth_ignore_excludes(rules, "lib/x.o", false));
    assert_true(berth_ignore_excludes(rules, "src/x.o", false));
    assert_false(berth_ignore_excludes(rules, "build", false)); /* a file */
    assert_true(berth_ignore_excludes(rules, "build", true));
    assert_true(berth_ignore_excludes(rules, "build/keep.o", false)); /* below an excluded one */
    assert_true(berth_ignore_excludes(rules, "top", false));
    assert_false(berth_ignore_excludes(rules, "lib/top", false));
    assert_int_equal(berth_ignore_add_override(rules, "lib/*.o", &err), BERTH_OK);
    assert_true(berth_ignore_excludes(rules, "lib/x.o", false));
    assert_int_equal(berth_ignore_add_override(rules, "!x.o", &err), BERTH_OK);
    assert_false(berth_ignore_excludes(rules, "x.o", false));
    berth_ignore_free(rules);
}

/* Files that a repository tracks although its rules name them. */
static void kept_paths_cross(void **state)
{
    (void)state;
    struct berth_ignore *first = make_rules(), *second = make_rules();
    struct berth_error err;
    auto_buf written = BERTH_BUF_INIT(4096);
    add_rules(first, "", "dist/\n*.log\n");
    assert_int_equal(berth_ignore_add_override(first, "secret", &err), BERTH_OK);
    assert_int_equal(berth_ignore_keep(first, "dist/deep/a.js", &err), BERTH_OK);
    assert_int_equal(berth_ignore_keep(first, "b.log", &err), BERTH_OK);
    assert_int_equal(berth_ignore_keep(first, "dist/secret", &err), BERTH_OK);
    assert_int_equal(berth_ignore_keep(first, "../x", &err), BERTH_E_INVALID);
    berth_ignore_write(first, &written);
    struct berth_record r = {berth_buf_str(&written), berth_buf_str(&written) + written.len};
    assert_int_equal(berth_ignore_read(second, &r, &err), BERTH_OK);
    struct berth_ignore *const both[] = {first, second};
    for (int i = 0; i < 2; i++) {
        assert_false(berth_ignore_excludes(both[i], "dist", true));
        assert_false(berth_ignore_excludes(both[i], "dist/deep", true));
        assert_false(berth_ignore_excludes(both[i], "dist/deep/a.js", false));
        assert_false(berth_ignore_excludes(both[i], "b.log", false));
        /* Nothing beside them does, and nothing that the request excludes. */
        assert_true(berth_ignore_excludes(both[i], "dist/b.js", false));
        assert_true(berth_ignore_excludes(both[i], "dist/other", true));
        assert_true(berth_ignore_excludes(both[i], "dist/deep/b.js", false));
        assert_true(berth_ignore_excludes(both[i], "c.log", false));
        assert_true(berth_ignore_excludes(both[i], "dist/secret", false));
        berth_ignore_free(both[i]);
    }
}

static void lines_as_editors_write_them(void **state)
{
    (void)state;
    struct berth_ignore *rules = make_rules();
    add_rules(rules, "",
              "\xef\xbb\xbf# comment\r\n\r\n  \n\\#hash\r\n\\!bang\r\nspace\\ \ntail  \t\n/\n!\n");
    assert_true(berth_ignore_excludes(rules, "#hash", false));
    assert_true(berth_ignore_excludes(rules, "!bang", false));
    assert_true(berth_ignore_excludes(rules, "space ", false));
    assert_false(berth_ignore_excludes(rules, "space", false));
    assert_true(berth_ignore_excludes(rules, "tail", false));
    assert_false(berth_ignore_excludes(rules, "# comment", false));
    assert_false(berth_ignore_excludes(rules, "other", true));
    berth_ignore_free(rules);
}

static void limits_are_kept(void **state)
{
    (void)state;
    struct berth_ignore *rules = make_rules();
    struct berth_error err;
    auto_buf text = BERTH_BUF_INIT(BERTH_IGNORE_FILE_BYTES_MAX);
    for (int i = 0; i <= BERTH_IGNORE_RULES_MAX; i++)
        berth_buf_puts(&text, "a\n");
    assert_int_equal(berth_ignore_add(rules, "", text.data, text.len, &err), BERTH_E_TOO_LARGE);
    berth_buf_truncate(&text, BERTH_IGNORE_LINE_BYTES_MAX + 1);
    memset(text.data, 'a', text.len);
    assert_int_equal(berth_ignore_add(rules, "x", text.data, text.len, &err), BERTH_E_TOO_LARGE);
    assert_int_equal(berth_ignore_add_override(rules, "a\nb", &err), BERTH_E_INVALID);
    berth_ignore_free(rules);
}

/* --- beside git --- */

struct tree {
    char root[64];
    unsigned first_seed, seed;
    char paths[ENTRIES][256];
    bool directories[ENTRIES];
    int count;
};

static unsigned pick(struct tree *t, unsigned below)
{
    t->seed = t->seed * 1103515245 + 12345;
    return t->seed / 65536 % below;
}

static const char *pick_name(struct tree *t)
{
    static const char *const names[] = {"a", "b", "ab", "abc", "x.o", "y.o", "a.txt", "[", "d-e"};
    return names[pick(t, sizeof names / sizeof names[0])];
}

/* Without "a**": the manual of git says that it means "a*", and git 2.39 does something else. */
static const char *pick_part(struct tree *t)
{
    static const char *const parts[] = {"a",   "b",   "ab",           "*",    "**",  "*.o",
                                        "?",   "a*",  "[ab]",         "[!a]", "a?c", "x.[a-z]",
                                        "*b*", "\\[", "[[:alpha:]]*", "d-?"};
    return parts[pick(t, sizeof parts / sizeof parts[0])];
}

static void pick_rule(struct tree *t, struct berth_buf *out)
{
    unsigned parts = 1 + pick(t, 3);
    if (pick(t, 4) == 0)
        berth_buf_puts(out, "!");
    if (pick(t, 4) == 0)
        berth_buf_puts(out, "/");
    for (unsigned i = 0; i < parts; i++) {
        berth_buf_puts(out, i ? "/" : "");
        berth_buf_puts(out, pick_part(t));
    }
    berth_buf_puts(out, pick(t, 4) == 0 ? "/\n" : "\n");
}

static void write_text(const char *path, const char *text)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct berth_error err;
    assert_true(fd >= 0);
    assert_int_equal(berth_fs_write_all(fd, text, strlen(text), &err), BERTH_OK);
}

/* Writes an ignore file into a directory of the tree, and adds its rules. */
static void add_file(struct tree *t, const char *directory, struct berth_ignore *rules)
{
    char path[512];
    auto_buf text = BERTH_BUF_INIT(4096);
    for (unsigned i = 1 + pick(t, 5); i; i--)
        pick_rule(t, &text);
    (void)snprintf(path, sizeof path, "%s/%s/.gitignore", t->root, directory);
    write_text(path, berth_buf_str(&text));
    add_rules(rules, directory, berth_buf_str(&text));
}

static void grow_tree(struct tree *t, struct berth_ignore *rules)
{
    char path[sizeof t->root + sizeof t->paths[0] + 1];
    add_file(t, "", rules);
    for (int tries = 0; tries < 400 && t->count < ENTRIES; tries++) {
        int parent = t->count ? (int)pick(t, (unsigned)t->count + 1) - 1 : -1;
        if (parent >= 0 && (!t->directories[parent] || strlen(t->paths[parent]) > 40))
            continue;
        char *own = t->paths[t->count];
        (void)snprintf(own, sizeof t->paths[0], "%.120s%s%s", parent < 0 ? "" : t->paths[parent],
                       parent < 0 ? "" : "/", pick_name(t));
        (void)snprintf(path, sizeof path, "%s/%.250s", t->root, own);
        bool directory = pick(t, 2);
        if (access(path, F_OK) == 0)
            continue;
        if (directory)
            assert_int_equal(mkdir(path, 0700), 0);
        else
            write_text(path, "");
        if (directory && pick(t, 3) == 0)
            add_file(t, own, rules);
        t->directories[t->count++] = directory;
    }
}

/* Asks git which of the paths it ignores: a list of names, each closed by NUL. */
static void ask_git(const struct tree *t, struct berth_buf *out)
{
    char command[512], path[128];
    struct berth_error err;
    (void)snprintf(path, sizeof path, "%s/.git/asked", t->root);
    FILE *asked = fopen(path, "we");
    assert_non_null(asked);
    for (int i = 0; i < t->count; i++)
        (void)fwrite(t->paths[i], strlen(t->paths[i]) + 1, 1, asked);
    assert_int_equal(fclose(asked), 0);
    (void)snprintf(
        command, sizeof command,
        "git -C %s -c core.excludesFile=/dev/null check-ignore --no-index -z --stdin <%s", t->root,
        path);
    FILE *said = popen(command, "re"); /* NOLINT: the words are ours */
    assert_non_null(said);
    assert_int_equal(berth_fs_read_all(fileno(said), out, &err), BERTH_OK);
    assert_true(pclose(said) >= 0);
}

static bool git_ignores(const struct berth_buf *said, const char *path)
{
    for (size_t at = 0; at < said->len; at += strlen(said->data + at) + 1)
        if (strcmp(said->data + at, path) == 0)
            return true;
    return false;
}

/* Adds the rules of the .gitignore file of a directory of the tree, seen from the directory `top`
 * of the tree. */
static void add_seen_from(const struct tree *t, const char *top, const char *directory,
                          struct berth_ignore *rules)
{
    char path[512], text[4096] = "";
    struct berth_error err;
    size_t top_len = strlen(top), len = strlen(directory);
    (void)snprintf(path, sizeof path, "%s/%s/.gitignore", t->root, directory);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (len < top_len && (!len || (memcmp(top, directory, len) == 0 && top[len] == '/')))
        assert_int_equal(
            berth_ignore_add_above(rules, top + len + (len ? 1 : 0), text, (size_t)got, &err),
            BERTH_OK);
    else if (len == top_len && memcmp(top, directory, len) == 0)
        add_rules(rules, "", text);
    else if (len > top_len && memcmp(top, directory, top_len) == 0 && directory[top_len] == '/')
        add_rules(rules, directory + top_len + 1, text);
}

/* A part of the tree has the rules of the directories above it, too. */
static void compare_part(const struct tree *t, int top, const struct berth_buf *said)
{
    struct berth_ignore *rules = make_rules();
    size_t len = strlen(t->paths[top]);
    add_seen_from(t, t->paths[top], "", rules);
    for (int i = 0; i < t->count; i++) /* directories come after those above them */
        if (t->directories[i])
            add_seen_from(t, t->paths[top], t->paths[i], rules);
    for (int i = 0; i < t->count; i++)
        if (strncmp(t->paths[i], t->paths[top], len) == 0 && t->paths[i][len] == '/' &&
            berth_ignore_excludes(rules, t->paths[i] + len + 1, t->directories[i]) !=
                git_ignores(said, t->paths[i]))
            fail_msg("seed %u: %s below %s in %s", t->first_seed, t->paths[i], t->paths[top],
                     t->root);
    berth_ignore_free(rules);
}

static void compare_tree(unsigned seed)
{
    struct tree t = {.root = "/tmp/berth-test.XXXXXX", .first_seed = seed, .seed = seed};
    char command[128];
    struct berth_error err;
    struct berth_ignore *rules = make_rules();
    assert_non_null(mkdtemp(t.root));
    (void)snprintf(command, sizeof command, "git init -q %s", t.root);
    assert_int_equal(system(command), 0); /* NOLINT: the words are ours */
    grow_tree(&t, rules);
    auto_buf said = BERTH_BUF_INIT(64 * 1024);
    ask_git(&t, &said);
    for (int i = 0; i < t.count; i++)
        if (berth_ignore_excludes(rules, t.paths[i], t.directories[i]) !=
            git_ignores(&said, t.paths[i]))
            fail_msg("seed %u: %s in %s", seed, t.paths[i], t.root);
    for (int i = 0; i < t.count; i++)
        if (t.directories[i] && !git_ignores(&said, t.paths[i]))
            compare_part(&t, i, &said);
    berth_ignore_free(rules);
    assert_int_equal(berth_fs_remove_tree(t.root, &err), BERTH_OK);
}

static void same_as_git(void **state)
{
    (void)state;
    const char *seed = getenv("BERTH_TEST_SEED");
    unsigned first = seed ? (unsigned)strtoul(seed, NULL, 10) : 1;
    if (system("git --version >/dev/null 2>&1") != 0) /* NOLINT */
        skip();
    for (unsigned i = 0; i < TREES; i++)
        compare_tree(first + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_names_never_cross), cmocka_unit_test(later_and_deeper_rules_win),
        cmocka_unit_test(kept_paths_cross),       cmocka_unit_test(lines_as_editors_write_them),
        cmocka_unit_test(limits_are_kept),        cmocka_unit_test(same_as_git),
    };
    return cmocka_run_group_tests_name("ignore", tests, NULL, NULL);
}
