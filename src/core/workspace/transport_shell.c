/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/transport_shell.c - a place that is reached by running commands in it. It
 * needs sh and tar. Where find, stat, readlink and sha256sum list the files, only differences
 * travel; elsewhere the whole directory does. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"
#include "core/workspace/place_list.h"
#include "core/workspace/place_script.h"
#include "core/workspace/transport.h"
#include "os/fs.h"
#include "sync/compress.h"
#include "sync/pack.h"
#include "sync/unpack.h"

#define MISSING_TOKEN 44 /* exit statuses of the scripts */
#define NOT_LISTED 46
#define COMPRESSED_BYTES_MIN 65536 /* less is sent as it is */
#define HEAD_BYTES_MAX 65536       /* of an entry of an archive, and around it */

struct shell_transport {
    struct berth_transport base;
    struct berth_place_shell shell;
    char *directory; /* in the place */
    char *above;     /* the directory of the place, if `directory` is below it; or NULL */
    char *scratch;   /* in the place, for files on their way */
    char *blobs;     /* on this machine */
    char *lease_id;
    int blobs_fd;
    char token[BERTH_ID_SIZE]; /* that the last list compared; or "" */
    bool whole;                /* the last list brought the content of all files */
    bool has_zstd;             /* the place, when it was listed for a push */
    bool compressed;           /* the archive of the next script is */
    /* Written into the place when it is listed for a push. A place that was replaced before the
     * difference arrives does not have it. */
    struct berth_id listed;
};

static struct shell_transport *shell_of(struct berth_transport *t)
{
    return (struct shell_transport *)t;
}

/* --- scripts. $1 is the directory, $2 the token, or "". In those of a push $3 is the word of the
 * list, and $4 the new token. $5 is not empty when an archive is, or may be, compressed. The status
 * of a pipe is that of its last command; that of the first one goes through a file --- */

#define HAS_ZSTD "zstd"

/* The files that may have the token, see transport.h. */
#define TOKENS BERTH_TRANSPORT_TOKEN " " BERTH_TRANSPORT_TOKEN_COPY

/* Refuses links on the way from $6, the directory of the place, to $1. A command may have put them
 * there, and what they lead to would be made like the tree. */
#define NO_LINKS                                                                                   \
    " if [ -n \"$6\" ]; then p=$6; r=${1#\"$6\"/}; while [ -n \"$r\" ]; do p=$p/${r%%/*};"         \
    "  [ ! -h \"$p\" ] || { echo \"$p is a symbolic link: remove it\" >&2; exit 47; };"            \
    "  case $r in */*) r=${r#*/};; *) r=;; esac; done; fi;"
/* Enters the directory and compares the token. */
#define ENTER                                                                                      \
    "LC_ALL=C; export LC_ALL;" NO_LINKS " if [ -z \"$2\" ]; then mkdir -p \"$1\" || exit; fi;"     \
    " cd \"$1\" || exit;"                                                                          \
    " if [ -n \"$2\" ]; then same=; for token in " TOKENS "; do"                                   \
    "  [ ! -f $token ] || [ \"$(cat $token)\" != \"$2\" ] || same=yes; done;"                      \
    "  [ -n \"$same\" ] || exit 44; fi;"
/* Compares the word that the list has written. */
#define LISTED " [ \"$(cat .berth/listed 2>/dev/null)\" = \"$3\" ] || exit 46;"
#define NEEDS_TAR                                                                                  \
    " command -v tar >/dev/null || { echo tar is missing there: install it >&2; exit 45; };"

/* Before the list. For a push it leaves a word in the place, and says whether the place can
 * decompress an archive. */
static const char list_head[] =
    ENTER " if [ -z \"$2\" ]; then"
          " mkdir -p .berth && printf %s \"$3\" > .berth/listed || exit;"
          " command -v zstd >/dev/null && echo " HAS_ZSTD "; fi; at= depth= hash=yes;";

static const char archive_script[] =
    ENTER NEEDS_TAR " tar -cf - --exclude ./.berth --exclude ./.paperclip-runtime .";

static const char fetch_script[] =
    ENTER NEEDS_TAR " mkdir -p .berth && cat > .berth/list && rm -f .berth/status || exit;"
                    " if [ -n \"$5\" ] && command -v zstd >/dev/null; then"
                    "  { tar -cf - -T .berth/list; echo $? > .berth/status; } | zstd -1qc || exit;"
                    "  exit $(cat .berth/status); fi;"
                    " tar -cf - -T .berth/list";

/* A push that is killed from here on leaves modes that are not the place's own, so the token goes.
 */
static const char open_script[] = ENTER LISTED " rm -f " TOKENS " && xargs -0 chmod u+rwx";

static const char remove_script[] = ENTER LISTED " xargs -0 rm -rf --";

/* The token comes last: a place without it was not completely filled. A directory that gets no
 * token keeps nothing of ours. GNU tar makes a link that leads out of its directory only at the
 * end, when a directory may be closed again, unless it has the option P. The archive is ours: its
 * paths are relative, and none is below a link. */
static const char extract_script[] = ENTER LISTED NEEDS_TAR
    " case $(tar --version 2>/dev/null) in *GNU*) p=P;; *) p=;; esac;"
    " mkdir -p .berth && rm -f " TOKENS " && echo '*' > .berth/.gitignore || exit;"
    " if [ -n \"$5\" ]; then rm -f .berth/status;"
    "  { zstd -dqc; echo $? > .berth/status; } | tar -xp${p}f - || exit;"
    "  [ \"$(cat .berth/status)\" = 0 ] || exit;"
    " else tar -xp${p}f - || exit; fi;"
    " if [ -z \"$4\" ]; then rm -rf .berth; else"
    " rm -f .berth/listed .berth/status && printf %s \"$4\" > " BERTH_TRANSPORT_TOKEN "; fi";

static int run_script(struct shell_transport *t, struct berth_place_script *s, const char *token,
                      const char *fresh_token, struct berth_error *err)
{
    const char *const args[] = {t->directory,
                                token ? token : "",
                                t->listed.text,
                                fresh_token ? fresh_token : "",
                                t->compressed ? "compressed" : "",
                                t->above ? t->above : "",
                                NULL};
    int exit_code;
    s->args = args;
    int rc = berth_place_script_run(&t->shell, s, &exit_code, err);
    if (exit_code == NOT_LISTED)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The place was replaced while the workspace was sent to it. Send it "
                          "again.");
    if (exit_code == MISSING_TOKEN)
        return berth_fail(err, BERTH_E_CONFLICT, BERTH_TRANSPORT_REPLACED);
    return rc;
}

/* --- the list --- */

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

/* Brings the content of all files, which also lists them. */
static int take_whole(struct shell_transport *t, struct berth_ignore *ignore,
                      struct berth_tree_manifest *out, struct berth_error *err)
{
    struct archive_taking a = {.ignore = ignore, .out = out, .blobs_fd = t->blobs_fd};
    struct berth_place_script all = {
        .what = "pack the files", .text = archive_script, .take = take_archive, .ctx = &a};
    t->whole = true;
    return run_script(t, &all, t->token, NULL, err);
}

/* Removes a line from the beginning of the text. Returns whether it was there. */
static bool take_line(struct berth_buf *text, const char *line)
{
    size_t len = strlen(line);
    if (text->len < len || memcmp(text->data, line, len) != 0)
        return false;
    memmove(text->data, text->data + len, text->len - len);
    berth_buf_truncate(text, text->len - len);
    return true;
}

static int shell_list(struct berth_transport *base, const char *token, struct berth_ignore *ignore,
                      const struct berth_tree_manifest *known, struct berth_tree_manifest *out,
                      struct berth_error *err)
{
    struct shell_transport *t = shell_of(base);
    auto_arena arena = BERTH_ARENA_INIT;
    auto_buf text = BERTH_BUF_INIT(BERTH_PLACE_LIST_BYTES_MAX);
    struct berth_place_script list = {
        .what = "list the files",
        .text = berth_arena_printf(&arena, "%s%s", list_head, berth_place_list_script),
        .take = berth_place_script_take_text,
        .ctx = &text};
    (void)known;
    t->whole = false;
    (void)snprintf(t->token, sizeof t->token, "%s", token ? token : "");
    t->listed = berth_id_new_random();
    t->shell.has_leftovers = !token;
    int rc = berth_arena_check(&arena, err);
    if (rc == BERTH_OK)
        rc = run_script(t, &list, token, NULL, err);
    t->has_zstd = rc == BERTH_OK && take_line(&text, HAS_ZSTD "\n");
    if (rc == BERTH_OK && berth_place_list_lacks(&arena, &text))
        rc = take_whole(t, ignore, out, err);
    else if (rc == BERTH_OK)
        rc = berth_place_list_parse(&text, ignore, true, true, out, err);
    return rc < 0 ? rc : berth_tree_manifest_check(out, err);
}

/* --- to the place --- */

/* Entries to send, and paths to remove before. */
struct difference {
    struct berth_entry **changed;
    size_t changed_count, changed_cap, files;
    struct berth_buf removed; /* each closed by NUL */
    struct berth_buf closed;  /* directories there that their owner may not write to; likewise */
    int root_fd, cancel_fd;
    int64_t bytes; /* of the changed files */
    struct berth_progress *progress;
    bool compressed;
};

static int add_changed(struct difference *d, struct berth_entry *e, struct berth_error *err)
{
    if (!berth_array_grow(&d->changed, &d->changed_cap, d->changed_count, sizeof *d->changed))
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: sending files.");
    d->changed[d->changed_count++] = e;
    d->files += e->kind == BERTH_ENTRY_FILE;
    d->bytes += e->size;
    return BERTH_OK;
}

static bool is_closed(const struct berth_entry *e)
{
    return e && e->kind == BERTH_ENTRY_DIRECTORY && (e->mode & S_IRWXU) != S_IRWXU;
}

static int add_path(struct berth_buf *paths, const char *path, struct berth_error *err)
{
    berth_buf_puts(paths, "./");
    berth_buf_append(paths, path, strlen(path) + 1);
    return berth_buf_check(paths, "The list of files to change in the place", err);
}

/* Lists the closed directories there, which are opened before anything changes, and sends those
 * that stay again: that closes them. */
static int open_directories(struct berth_tree_manifest *tree,
                            const struct berth_tree_manifest *there, struct difference *d,
                            struct berth_error *err)
{
    int rc = BERTH_OK;
    for (size_t i = 0; rc == BERTH_OK && i < there->count; i++) {
        const struct berth_entry *far = &there->entries[i];
        if (!is_closed(far))
            continue;
        struct berth_entry *here = berth_tree_manifest_find(tree, far->path);
        rc = add_path(&d->closed, far->path, err);
        if (rc == BERTH_OK && berth_entry_same(far, here))
            rc = add_changed(d, here, err);
    }
    return rc;
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
        rc = add_path(&d->removed, far->path, err);
    }
    return rc < 0 || (!d->changed_count && !d->removed.len) ? rc
                                                            : open_directories(tree, there, d, err);
}

static int feed_closed(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct difference *d = ctx;
    return sink->put(sink->ctx, d->closed.data, d->closed.len, err);
}

static int feed_removed(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct difference *d = ctx;
    return sink->put(sink->ctx, d->removed.data, d->removed.len, err);
}

static int feed_changed(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct difference *d = ctx;
    struct berth_compressor *c = NULL;
    int rc = d->compressed ? berth_compressor_new(sink, &c, err) : BERTH_OK;
    struct berth_pack_sink packed =
        c ? (struct berth_pack_sink){berth_compressor_put, c, NULL, NULL} : *sink;
    packed.progress = d->progress;
    if (rc == BERTH_OK)
        rc = berth_pack(d->root_fd, d->changed, d->changed_count, &packed, d->cancel_fd, err);
    if (rc == BERTH_OK && c)
        rc = berth_compressor_end(c, err);
    berth_compressor_free(c);
    return rc;
}

static int shell_send(struct berth_transport *base, int root_fd, struct berth_tree_manifest *tree,
                      const struct berth_tree_manifest *there, const char *token,
                      struct berth_tree_manifest *copy, struct berth_error *err)
{
    struct shell_transport *t = shell_of(base);
    struct difference d = {.removed = BERTH_BUF_INIT(BERTH_PLACE_LIST_BYTES_MAX),
                           .closed = BERTH_BUF_INIT(BERTH_PLACE_LIST_BYTES_MAX),
                           .root_fd = root_fd,
                           .cancel_fd = base->cancel_fd,
                           .progress = base->progress};
    struct berth_place_script opening = {
        .what = "open directories", .text = open_script, .feed = feed_closed, .ctx = &d};
    struct berth_place_script removing = {
        .what = "remove files", .text = remove_script, .feed = feed_removed, .ctx = &d};
    struct berth_place_script extracting = {
        .what = "unpack the workspace", .text = extract_script, .feed = feed_changed, .ctx = &d};
    (void)copy; /* the place hashes its files itself */
    int rc = find_difference(tree, there, &d, err);
    if (rc == BERTH_OK && d.closed.len)
        rc = run_script(t, &opening, NULL, NULL, err);
    if (rc == BERTH_OK && d.removed.len)
        rc = run_script(t, &removing, NULL, NULL, err);
    berth_progress_start(base->progress, d.files, d.bytes);
    t->compressed = d.compressed = t->has_zstd && d.bytes >= COMPRESSED_BYTES_MIN;
    if (rc == BERTH_OK)
        rc = run_script(t, &extracting, NULL, token, err);
    t->compressed = false;
    berth_progress_end(base->progress);
    free(d.changed);
    berth_buf_clear(&d.removed);
    berth_buf_clear(&d.closed);
    return rc;
}

/* --- from the place --- */

struct gathering {
    const struct berth_entry *const *files;
    size_t count;
    int64_t bytes; /* of them */
    struct archive_taking taking;
    struct berth_progress *progress;
};

static int feed_names(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct gathering *g = ctx;
    auto_buf names = BERTH_BUF_INIT(BERTH_PLACE_LIST_BYTES_MAX);
    for (size_t i = 0; i < g->count; i++)
        berth_buf_printf(&names, "./%s\n", g->files[i]->path);
    int rc = berth_buf_check(&names, "The list of changed files", err);
    return rc < 0 ? rc : sink->put(sink->ctx, names.data, names.len, err);
}

static int take_gathered(void *ctx, const struct berth_unpack_source *source,
                         struct berth_error *err)
{
    struct gathering *g = ctx;
    struct berth_decompressor *d = NULL;
    int64_t bytes_max = g->bytes + (int64_t)g->count * HEAD_BYTES_MAX + HEAD_BYTES_MAX;
    int rc = berth_decompressor_new(source, bytes_max, &d, err);
    struct berth_unpack_source plain = {berth_decompressor_get, d, g->progress};
    if (rc == BERTH_OK)
        rc = take_archive(&g->taking, &plain, err);
    berth_decompressor_free(d);
    return rc;
}

/* Returns whether a list with a name on each line cannot name all files. */
static bool has_odd_name(const struct gathering *g)
{
    for (size_t i = 0; i < g->count; i++)
        if (strpbrk(g->files[i]->path, "\n\\"))
            return true;
    return false;
}

static int shell_gather(struct berth_transport *base, const struct berth_entry *const *files,
                        size_t count, struct berth_error *err)
{
    struct shell_transport *t = shell_of(base);
    auto_tree_manifest sent = {0};
    struct gathering g = {.files = files,
                          .count = count,
                          .taking = {.out = &sent, .blobs_fd = t->blobs_fd},
                          .progress = base->progress};
    struct berth_place_script fetching = {.what = "pack the changed files",
                                          .text = fetch_script,
                                          .feed = feed_names,
                                          .take = take_gathered,
                                          .ctx = &g};
    if (t->whole || !count)
        return BERTH_OK;
    for (size_t i = 0; i < count; i++)
        g.bytes += files[i]->size;
    berth_progress_start(base->progress, count, g.bytes);
    t->compressed = g.bytes >= COMPRESSED_BYTES_MIN;
    int rc = has_odd_name(&g) ? take_whole(t, NULL, &sent, err)
                              : run_script(t, &fetching, t->token, NULL, err);
    t->compressed = false;
    berth_progress_end(base->progress);
    return rc;
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
    free(t->above);
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

int berth_transport_shell_new(struct berth_workspace_site *site, struct berth_arena *arena,
                              const char *lease_id, const char *directory, const char *below,
                              const char *blobs, int cancel_fd, struct berth_transport **out,
                              struct berth_error *err)
{
    struct shell_transport *t = calloc(1, sizeof *t);
    if (!t)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    *t = (struct shell_transport){.base = {.ops = &shell_ops, .cancel_fd = cancel_fd},
                                  .lease_id = strdup(lease_id),
                                  .blobs_fd = -1};
    if (asprintf(&t->directory, "%s%s%s", directory, below ? "/" : "", below ? below : "") < 0)
        t->directory = NULL;
    t->above = below ? strdup(directory) : NULL;
    if (asprintf(&t->scratch, "%s/" BERTH_TRANSPORT_SCRATCH, directory) < 0)
        t->scratch = NULL;
    int rc = t->directory && t->lease_id && t->scratch && (!below || t->above)
                 ? berth_fs_mkdirs(blobs, S_IRWXU, err)
                 : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: workspace.");
    if (rc == BERTH_OK) {
        t->blobs = strdup(blobs);
        t->blobs_fd = open(blobs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (t->blobs_fd < 0)
            rc = berth_fail_errno(err, "Cannot open %s", blobs);
    }
    if (rc == BERTH_OK)
        rc = site->ops->open_shell(site, arena, t->lease_id, t->scratch, cancel_fd, &t->shell, err);
    if (rc < 0)
        shell_free(&t->base);
    else
        *out = &t->base;
    return rc;
}
