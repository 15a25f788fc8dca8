/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/transport_shell.c - a place that is reached by running commands in it. It
 * needs sh and tar. Where find, stat, readlink and sha256sum list the files, only differences
 * travel; elsewhere, and where a name contains a newline or a backslash, the whole directory does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "core/workspace/place_shell.h"
#include "core/workspace/transport.h"
#include "os/fs.h"
#include "sync/pack.h"
#include "sync/unpack.h"

#define LIST_BYTES_MAX ((size_t)1 << 30)
#define MISSING_TOKEN 44 /* exit statuses of the scripts */
#define PERMISSIONS 0777

struct shell_transport {
    struct berth_transport base;
    struct berth_place_shell shell;
    char *directory; /* in the place */
    char *scratch;   /* in the place, for files on their way */
    char *blobs;     /* on this machine */
    char *lease_id;
    int blobs_fd;
    bool whole; /* the last list brought the content of all files */
};

static struct shell_transport *shell_of(struct berth_transport *t)
{
    return (struct shell_transport *)t;
}

/* --- scripts. $1 is the directory, $2 the token, or "" --- */

/* Enters the directory and compares the token. */
#define ENTER                                                                                      \
    "LC_ALL=C; export LC_ALL;"                                                                     \
    " if [ -z \"$2\" ]; then mkdir -p \"$1\" || exit; fi;"                                         \
    " cd \"$1\" || exit;"                                                                          \
    " if [ -n \"$2\" ] && [ \"$(cat .berth/token 2>/dev/null)\" != \"$2\" ]; then exit 44; fi;"
#define NEEDS_TAR                                                                                  \
    " command -v tar >/dev/null || { echo tar is missing there: install it >&2; exit 45; };"

/* Prints "odd", or three lists of which each has a line as its head. Pruned names never cross. */
static const char list_script[] =
    ENTER " w() { find . \\( -name .berth -o -name .paperclip-runtime -o -name .git \\) -prune -o "
          "\"$@\"; };"
          " nl='\n';"
          " for p in find stat readlink sha256sum; do"
          " command -v $p >/dev/null || { echo odd; exit 0; }; done;"
          " odd=$(w \\( -name \"*$nl*\" -o -name '*\\\\*' \\) -print | head -n 1);"
          " [ -z \"$odd\" ] || { echo odd; exit 0; };"
          " echo entries; w -exec stat -c '%f %s %n' {} + || exit;"
          " echo links; w -type l -exec sh -c"
          " 'for l; do t=$(readlink \"$l\") || exit; printf \"%s\\n%s\\n\" \"$l\" \"$t\"; done' sh "
          "{} + || exit;"
          " echo hashes; w -type f -exec sha256sum {} + || exit;"
          " echo end";

static const char archive_script[] =
    ENTER NEEDS_TAR " tar -cf - --exclude ./.berth --exclude ./.paperclip-runtime .";

static const char fetch_script[] =
    ENTER NEEDS_TAR " mkdir -p .berth && cat > .berth/list && tar -cf - -T .berth/list";

static const char remove_script[] = ENTER " xargs -0 rm -rf --";

/* The token comes last: a place without it was not completely filled. $3 is the new one. */
static const char extract_script[] = ENTER NEEDS_TAR
    " mkdir -p .berth && rm -f .berth/token && echo '*' > .berth/.gitignore && tar -xpf - &&"
    " printf %s \"$3\" > .berth/token";

static int run_script(struct shell_transport *t, struct berth_place_script *s, const char *token,
                      const char *fresh_token, struct berth_error *err)
{
    const char *const args[] = {t->directory, token ? token : "", fresh_token, NULL};
    int exit_code;
    s->args = args;
    int rc = berth_place_shell_run(&t->shell, s, &exit_code, err);
    if (exit_code == MISSING_TOKEN)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The place was replaced: its directory does not have the token that was "
                          "written when the workspace was sent. Nothing was changed here.");
    return rc;
}

/* --- the list --- */

/* Returns the next line, without its newline, and moves on; NULL at the end. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

/* Returns the path without "./", or NULL when it is not one that may be an entry. */
static const char *listed_path(const char *text)
{
    if (strncmp(text, "./", 2) != 0 || !berth_path_valid(text + 2))
        return NULL;
    return text + 2;
}

static int bad_list(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UPSTREAM,
                      "The place sent a list of its files that is damaged or not whole.");
}

/* Reads "MODE SIZE PATH". */
static int parse_entry(char *line, struct berth_ignore *ignore, struct berth_tree_manifest *out,
                       struct berth_error *err)
{
    char *end;
    unsigned long mode = strtoul(line, &end, 16);
    long long size = *end == ' ' ? strtoll(end + 1, &end, 10) : -1;
    if (size < 0 || *end != ' ')
        return bad_list(err);
    if (strcmp(end + 1, ".") == 0)
        return BERTH_OK;
    struct berth_entry e = {.path = listed_path(end + 1), .mode = (uint16_t)(mode & PERMISSIONS)};
    if (!e.path)
        return bad_list(err);
    if (berth_ignore_excludes(ignore, e.path, S_ISDIR(mode)))
        return BERTH_OK;
    if (S_ISDIR(mode)) {
        e.kind = BERTH_ENTRY_DIRECTORY;
    } else if (S_ISREG(mode)) {
        e.kind = BERTH_ENTRY_FILE;
        e.size = size;
    } else if (S_ISLNK(mode)) {
        e.kind = BERTH_ENTRY_LINK;
        e.mode = 0;
    } else {
        if (!out->skipped++)
            out->skipped_path = berth_arena_strdup(&out->arena, e.path);
        return berth_arena_check(&out->arena, err);
    }
    return berth_tree_manifest_add(out, &e, err);
}

static int parse_link(const char *path_line, const char *target, struct berth_tree_manifest *out,
                      struct berth_error *err)
{
    const char *path = listed_path(path_line);
    struct berth_entry *e = path ? berth_tree_manifest_find(out, path) : NULL;
    if (!path || !*target || strlen(target) > BERTH_TREE_PATH_BYTES_MAX)
        return bad_list(err);
    if (!e || e->kind != BERTH_ENTRY_LINK)
        return BERTH_OK; /* excluded */
    e->target = berth_arena_strdup(&out->arena, target);
    return berth_arena_check(&out->arena, err);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads "HASH  PATH". */
static int parse_hash(const char *line, struct berth_tree_manifest *out, struct berth_error *err)
{
    unsigned char hash[BERTH_SHA256_SIZE];
    for (int i = 0; i < BERTH_SHA256_SIZE; i++) {
        int high = hex_digit(line[(ptrdiff_t)2 * i]);
        int low = high < 0 ? -1 : hex_digit(line[(ptrdiff_t)2 * i + 1]);
        if (low < 0)
            return bad_list(err);
        hash[i] = (unsigned char)(high * 16 + low);
    }
    line += (ptrdiff_t)2 * BERTH_SHA256_SIZE;
    const char *path =
        line[0] == ' ' && (line[1] == ' ' || line[1] == '*') ? listed_path(line + 2) : NULL;
    if (!path)
        return bad_list(err);
    struct berth_entry *e = berth_tree_manifest_find(out, path);
    if (e && e->kind == BERTH_ENTRY_FILE) {
        memcpy(e->hash, hash, sizeof hash);
        e->hashed = true;
    }
    return BERTH_OK;
}

/* Reads what list_script printed. */
static int parse_list(char *text, struct berth_ignore *ignore, struct berth_tree_manifest *out,
                      struct berth_error *err)
{
    enum { START, ENTRIES, LINKS, HASHES, END } part = START;
    static const char *const heads[] = {"entries", "links", "hashes", "end"};
    int rc = BERTH_OK;
    char *at = text, *line, *target;
    while (rc == BERTH_OK && part != END && (line = next_line(&at))) {
        if (strcmp(line, heads[part]) == 0) {
            part++;
            if (part == LINKS)
                rc = berth_tree_manifest_sort(out, err);
        } else if (part == ENTRIES) {
            rc = parse_entry(line, ignore, out, err);
        } else if (part == LINKS && (target = next_line(&at))) {
            rc = parse_link(line, target, out, err);
        } else if (part == HASHES) {
            rc = parse_hash(line, out, err);
        } else {
            rc = bad_list(err);
        }
    }
    for (size_t i = 0; rc == BERTH_OK && i < out->count; i++)
        if ((out->entries[i].kind == BERTH_ENTRY_FILE && !out->entries[i].hashed) ||
            (out->entries[i].kind == BERTH_ENTRY_LINK && !out->entries[i].target))
            rc = bad_list(err);
    if (rc == BERTH_OK && part != END)
        rc = bad_list(err);
    return rc;
}

struct archive_taking {
    struct berth_ignore *ignore;
    struct berth_tree_manifest *out;
    int blobs_fd;
};

static int take_archive(void *ctx, const struct berth_unpack_source *source,
                        struct berth_error *err)
{
    struct archive_taking *a = ctx;
    const void *bytes;
    int rc = berth_unpack(source, a->ignore, a->blobs_fd, a->out, err);
    while (rc == BERTH_OK && source->get(source->ctx, &bytes, err) > 0) /* padding */
        ;
    return rc;
}

static int shell_list(struct berth_transport *base, const char *token, struct berth_ignore *ignore,
                      const struct berth_tree_manifest *known, struct berth_tree_manifest *out,
                      struct berth_error *err)
{
    struct shell_transport *t = shell_of(base);
    auto_buf text = BERTH_BUF_INIT(LIST_BYTES_MAX);
    struct berth_place_script list = {.what = "list the files",
                                      .text = list_script,
                                      .take = berth_place_shell_take_text,
                                      .ctx = &text};
    (void)known;
    t->whole = false;
    int rc = run_script(t, &list, token, NULL, err);
    if (rc == BERTH_OK && strcmp(berth_buf_str(&text), "odd\n") == 0) {
        struct archive_taking a = {.ignore = ignore, .out = out, .blobs_fd = t->blobs_fd};
        struct berth_place_script all = {
            .what = "pack the files", .text = archive_script, .take = take_archive, .ctx = &a};
        t->whole = true;
        rc = run_script(t, &all, token, NULL, err);
    } else if (rc == BERTH_OK) {
        rc = parse_list(text.data, ignore, out, err);
    }
    return rc < 0 ? rc : berth_tree_manifest_check(out, err);
}

/* --- to the place --- */

/* Entries to send, and paths to remove before. */
struct difference {
    struct berth_entry **changed;
    size_t changed_count, changed_cap;
    struct berth_buf removed; /* each closed by NUL */
    int root_fd, cancel_fd;
};

static int add_changed(struct difference *d, struct berth_entry *e, struct berth_error *err)
{
    if (!berth_array_grow(&d->changed, &d->changed_cap, d->changed_count, sizeof *d->changed))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: sending files.");
    d->changed[d->changed_count++] = e;
    return BERTH_OK;
}

static int find_difference(struct berth_tree_manifest *tree,
                           const struct berth_tree_manifest *there, struct difference *d,
                           struct berth_error *err)
{
    int rc = BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < tree->count; i++) {
        struct berth_entry *e = &tree->entries[i];
        const struct berth_entry *far = berth_tree_manifest_find(there, e->path);
        if (!far || !berth_entry_same(far, e))
            rc = add_changed(d, e, err);
    }
    for (size_t i = 0; rc == BERTH_OK && i < there->count; i++) {
        const struct berth_entry *far = &there->entries[i];
        const struct berth_entry *here = berth_tree_manifest_find(tree, far->path);
        if (here && here->kind == far->kind)
            continue;
        berth_buf_puts(&d->removed, "./");
        berth_buf_append(&d->removed, far->path, strlen(far->path) + 1);
        rc = berth_buf_check(&d->removed, "The list of removed files", err);
    }
    return rc;
}

static int feed_removed(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct difference *d = ctx;
    return sink->put(sink->ctx, d->removed.data, d->removed.len, err);
}

static int feed_changed(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct difference *d = ctx;
    return berth_pack(d->root_fd, d->changed, d->changed_count, sink, d->cancel_fd, err);
}

static int shell_send(struct berth_transport *base, int root_fd, struct berth_tree_manifest *tree,
                      const struct berth_tree_manifest *there, const char *token,
                      struct berth_tree_manifest *copy, struct berth_error *err)
{
    struct shell_transport *t = shell_of(base);
    struct difference d = {.removed = BERTH_BUF_INIT(LIST_BYTES_MAX),
                           .root_fd = root_fd,
                           .cancel_fd = base->cancel_fd};
    struct berth_place_script removing = {
        .what = "remove files", .text = remove_script, .feed = feed_removed, .ctx = &d};
    struct berth_place_script extracting = {
        .what = "unpack the workspace", .text = extract_script, .feed = feed_changed, .ctx = &d};
    (void)copy; /* the place hashes its files itself */
    int rc = find_difference(tree, there, &d, err);
    if (rc == BERTH_OK && d.removed.len)
        rc = run_script(t, &removing, NULL, NULL, err);
    if (rc == BERTH_OK)
        rc = run_script(t, &extracting, NULL, token, err);
    free(d.changed);
    berth_buf_clear(&d.removed);
    return rc;
}

/* --- from the place --- */

struct gathering {
    const struct berth_entry *const *files;
    size_t count;
    struct archive_taking taking;
};

static int feed_names(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct gathering *g = ctx;
    auto_buf names = BERTH_BUF_INIT(LIST_BYTES_MAX);
    for (size_t i = 0; i < g->count; i++)
        berth_buf_printf(&names, "./%s\n", g->files[i]->path);
    int rc = berth_buf_check(&names, "The list of changed files", err);
    return rc < 0 ? rc : sink->put(sink->ctx, names.data, names.len, err);
}

static int take_gathered(void *ctx, const struct berth_unpack_source *source,
                         struct berth_error *err)
{
    struct gathering *g = ctx;
    return take_archive(&g->taking, source, err);
}

static int shell_gather(struct berth_transport *base, const struct berth_entry *const *files,
                        size_t count, struct berth_error *err)
{
    struct shell_transport *t = shell_of(base);
    auto_tree_manifest sent = {0};
    struct gathering g = {
        .files = files, .count = count, .taking = {.out = &sent, .blobs_fd = t->blobs_fd}};
    struct berth_place_script fetching = {.what = "pack the changed files",
                                          .text = fetch_script,
                                          .feed = feed_names,
                                          .take = take_gathered,
                                          .ctx = &g};
    return t->whole || !count ? BERTH_OK : run_script(t, &fetching, NULL, NULL, err);
}

static int shell_fetch(void *ctx, const struct berth_entry *file, int directory_fd,
                       const char *name, struct berth_error *err)
{
    return berth_unpack_fetch(shell_of(ctx)->blobs_fd, file, directory_fd, name, err);
}

static void shell_free(struct berth_transport *base)
{
    struct shell_transport *t = shell_of(base);
    struct berth_error ignored; /* the sweep removes it later */
    if (t->blobs_fd >= 0)
        (void)close(t->blobs_fd);
    if (t->blobs)
        (void)berth_fs_remove_tree(t->blobs, &ignored);
    free(t->directory);
    free(t->scratch);
    free(t->blobs);
    free(t->lease_id);
    free(t);
}

static const struct berth_transport_ops shell_ops = {.list = shell_list,
                                                     .send = shell_send,
                                                     .gather = shell_gather,
                                                     .fetch = shell_fetch,
                                                     .free = shell_free};

int berth_transport_shell_new(struct berth *b, const char *lease_id, const char *shell_program,
                              const char *directory, const char *blobs, int cancel_fd,
                              struct berth_transport **out, struct berth_error *err)
{
    struct shell_transport *t = calloc(1, sizeof *t);
    if (!t)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    *t = (struct shell_transport){.base = {.ops = &shell_ops, .cancel_fd = cancel_fd},
                                  .directory = strdup(directory),
                                  .lease_id = strdup(lease_id),
                                  .blobs_fd = -1};
    if (asprintf(&t->scratch, "%s/.paperclip-runtime/berth", directory) < 0)
        t->scratch = NULL;
    int rc = t->directory && t->lease_id && t->scratch
                 ? berth_fs_mkdirs(blobs, S_IRWXU, err)
                 : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    if (rc == BERTH_OK) {
        t->blobs = strdup(blobs);
        t->blobs_fd = open(blobs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (t->blobs_fd < 0)
            rc = berth_fail_errno(err, "Cannot open %s", blobs);
    }
    if (rc == BERTH_OK)
        rc = berth_place_shell_init(&t->shell, b, t->lease_id, shell_program, t->scratch, cancel_fd,
                                    err);
    if (rc < 0)
        shell_free(&t->base);
    else
        *out = &t->base;
    return rc;
}
