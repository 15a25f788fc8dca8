/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/place_files.c - see place_files.h. */
#include "core/workspace/place_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <berth/lease.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/id.h"
#include "core/lease/lease.h"
#include "core/lease/lease_work.h"
#include "core/workspace/place_list.h"
#include "core/workspace/place_script.h"

#define HEAD_BYTES_MAX 96 /* of the line before the content of a file */

/* Exit statuses of the scripts. */
enum { MISSING = 44, IS_DIRECTORY = 47, NOT_REGULAR = 48, NOT_EMPTY = 49 };

/* --- scripts. $1 is the absolute path, $2 its directory, $3 its name --- */

#define NEEDS_TAR                                                                                  \
    " command -v tar >/dev/null || { echo tar is missing there: install it >&2; exit 45; };"
#define EXISTS " [ -e \"$1\" ] || [ -h \"$1\" ] || exit 44;"
/* Changes to the directory that holds what is listed; $at is what to list there. */
#define ENTER                                                                                      \
    "LC_ALL=C; export LC_ALL;" EXISTS                                                              \
    " if [ -d \"$1\" ]; then cd \"$1\" || exit; at=.; else cd \"$2\" || exit; at=./$3; fi;"

/* $4 is the offset, $5 the length. Prints "SIZE OFFSET LENGTH", and the bytes. */
static const char read_script[] =
    "f=$1 o=$4 l=$5;" EXISTS " [ -d \"$f\" ] && exit 47; [ -f \"$f\" ] || exit 48;"
    " n=$(wc -c < \"$f\") || exit; n=$((n));"
    " [ $o -ge 0 ] || { o=$((n + o)); [ $o -ge 0 ] || o=0; };"
    " m=$((n - o)); [ $m -ge 0 ] || m=0; [ $l -lt 0 ] || [ $l -ge $m ] || m=$l;"
    " echo \"$n $o $m\"; [ $m = 0 ] && exit 0;"
    " if [ $o = 0 ]; then head -c $m \"$f\"; else tail -c +$((o + 1)) \"$f\" | head -c $m; fi";

/* $4 is the mode, $5 the length, $6 a name that is not used. The content is complete when it has
 * the length; when that is not known, publish_script follows. Until then it is in a directory that
 * never crosses. A link is replaced by a file with the mode of what it leads to. */
static const char write_script[] =
    "f=$1 m=$4 d=$2/.berth t=$2/.berth/$6; [ -d \"$f\" ] && exit 47;"
    " for i in 1 2 3; do mkdir -p \"$d\" && : > \"$t\" && break; done;" /* others remove it */
    " drop() { rm -f \"$t\"; rmdir \"$d\" 2>/dev/null; }; trap 'drop; exit 1' HUP INT TERM;"
    " [ -n \"$m\" ] || m=$(stat -L -c %a \"$f\" 2>/dev/null) || m=644;"
    " { cat > \"$t\" && chmod \"$m\" \"$t\"; } || { drop; exit 1; };"
    " [ -n \"$5\" ] || exit 0;"
    " [ $(($(wc -c < \"$t\"))) = \"$5\" ] && mv -f \"$t\" \"$f\" ||"
    " { drop; echo the content is not complete >&2; exit 1; };"
    " rmdir \"$d\" 2>/dev/null; exit 0";
static const char publish_script[] =
    "mv -f \"$2/.berth/$6\" \"$1\" || exit; rmdir \"$2/.berth\" 2>/dev/null; exit 0";
static const char drop_script[] = "rm -f \"$2/.berth/$6\"; rmdir \"$2/.berth\" 2>/dev/null; exit 0";

/* $4 is not empty for a whole tree. */
static const char remove_script[] =
    EXISTS " if [ -h \"$1\" ] || [ ! -d \"$1\" ]; then rm -f \"$1\";"
           " elif [ -n \"$4\" ]; then rm -rf \"$1\";"
           " elif [ -n \"$(ls -A \"$1\")\" ]; then exit 49; else rmdir \"$1\"; fi";

/* $4 is the depth, $5 not empty for hashes. Prints a line that says what $1 is, and the list. */
static const char list_head[] =
    ENTER " depth=$4 hash=$5; if [ \"$at\" = . ]; then echo directory; else echo file; fi;";

static const char pack_script[] =
    ENTER NEEDS_TAR " tar -cf - --exclude .berth --exclude .paperclip-runtime --exclude .git"
                    " \"$at\"";
/* Reads the names, one on each line. All are read before the archive begins. $4 is a file that is
 * not used, below the directory of the lease. */
static const char pack_names_script[] =
    ENTER NEEDS_TAR " umask 077; mkdir -p \"${4%/*}\" || exit;"
                    " trap 'rm -f \"$4\"; exit 1' HUP INT TERM; trap 'rm -f \"$4\"' EXIT;"
                    " cat > \"$4\" && tar -cf - --no-recursion -T \"$4\"";

static const char unpack_script[] =
    NEEDS_TAR " mkdir -p \"$1\" && cd \"$1\" && tar -xpf - && cat >/dev/null";

/* --- paths --- */

/* A path in the place, as the scripts want it. */
struct place_path {
    const char *path, *directory, *name;
};

static bool has_parent_step(const char *path)
{
    for (const char *at = path; *at; at += strcspn(at, "/"), at += *at == '/')
        if (strncmp(at, "..", 2) == 0 && (!at[2] || at[2] == '/'))
            return true;
    return false;
}

/* Returns the path without "." and empty steps. */
static char *tidy_path(struct berth_arena *arena, const char *directory, const char *path)
{
    char *all = berth_arena_printf(arena, "%s/%s", *path == '/' ? "" : directory, path);
    char *to = all;
    for (const char *at = all; at && *at;) {
        size_t len = strcspn(++at, "/");
        if (len && !(len == 1 && *at == '.')) {
            *to++ = '/';
            memmove(to, at, len);
            to += len;
        }
        at += len;
    }
    if (all && to == all)
        *to++ = '/';
    if (to)
        *to = '\0';
    return all;
}

static int resolve_path(const struct berth_place_files *f, const char *path, struct place_path *out,
                        struct berth_error *err)
{
    if (has_parent_step(path))
        return berth_fail(err, BERTH_E_INVALID,
                          "The path \"%.300s\" has a step \"..\". Give an absolute path without "
                          "one.",
                          path);
    out->path = tidy_path(f->arena, f->directory, path);
    const char *slash = out->path ? strrchr(out->path, '/') : NULL;
    if (!slash)
        return berth_arena_check(f->arena, err);
    size_t len = (size_t)(slash - out->path);
    out->name = slash + 1;
    out->directory = berth_arena_copy(f->arena, len ? out->path : "/", len ? len : 1);
    return berth_arena_check(f->arena, err);
}

/* Runs a script on a path, with up to three more arguments. */
static int run_script(struct berth_place_files *f, const struct place_path *p,
                      struct berth_place_script *script, const char *const more[3],
                      struct berth_error *err)
{
    const char *const args[] = {p->path,
                                p->directory,
                                p->name,
                                more[0] ? more[0] : "",
                                more[1] ? more[1] : "",
                                more[2] ? more[2] : "",
                                NULL};
    int exit_code;
    script->args = args;
    int rc = berth_place_script_run(&f->shell, script, &exit_code, err);
    script->args = NULL;
    if (exit_code == MISSING)
        return berth_fail(err, BERTH_E_NOT_FOUND, "The place has no file \"%.400s\".", p->path);
    if (exit_code == IS_DIRECTORY)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "\"%.400s\" is a directory.", p->path);
    if (exit_code == NOT_EMPTY)
        return berth_fail(err, BERTH_E_CONFLICT,
                          "The directory \"%.400s\" is not empty. Remove it with recursive=true.",
                          p->path);
    if (exit_code == NOT_REGULAR)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "\"%.400s\" is not a regular file.", p->path);
    return rc;
}

int berth_place_files_open(struct berth *b, struct berth_arena *arena, const char *lease_id,
                           int cancel_fd, struct berth_place_files *out, struct berth_error *err)
{
    struct berth_workspace own = {0};
    struct berth_realized where;
    int rc = berth_lease_realize(b, arena, lease_id, &own, &where, err);
    if (rc < 0)
        return rc;
    out->arena = arena;
    out->directory = tidy_path(arena, "", where.cwd);
    if (!out->directory)
        return berth_arena_check(arena, err);
    /* A push empties .paperclip-runtime/berth when it begins, so files have a directory of their
     * own.
     */
    const char *scratch = berth_arena_printf(arena, "%s/.paperclip-runtime/files", out->directory);
    return scratch
               ? berth_place_shell_init(&out->shell, b, arena, lease_id, scratch, cancel_fd, err)
               : berth_arena_check(arena, err);
}

/* --- one file --- */

/* A file on its way here. */
struct file_taking {
    const struct berth_place_reading *to;
    char head[HEAD_BYTES_MAX + 1];
    size_t head_len;
    bool begun;
    int64_t wanted, got;
};

static int cut_file(struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UPSTREAM,
                      "The place did not send the whole file: it changed meanwhile, or the place "
                      "cut its output. Try again.");
}

/* Takes the head from the bytes. Returns how many it took, or an error. */
static ssize_t take_head(struct file_taking *t, const char *bytes, size_t len,
                         struct berth_error *err)
{
    long long size, offset;
    const char *end = memchr(bytes, '\n', len);
    size_t taken = end ? (size_t)(end - bytes) + 1 : len;
    if (taken > HEAD_BYTES_MAX - t->head_len)
        return cut_file(err);
    memcpy(t->head + t->head_len, bytes, taken);
    t->head_len += taken;
    t->head[t->head_len] = '\0';
    if (!end)
        return (ssize_t)taken;
    long long wanted;
    int read = 0;
    if (sscanf(t->head, "%18lld %18lld %18lld%n", &size, &offset, &wanted, &read) != 3 ||
        t->head[read] != '\n' || size < 0 || offset < 0 || wanted < 0 ||
        (wanted && (offset > size || wanted > size - offset)))
        return cut_file(err);
    t->wanted = wanted;
    t->begun = true;
    int rc = t->to->begin(t->to->ctx, size, offset, t->wanted, err);
    return rc < 0 ? rc : (ssize_t)taken;
}

static int take_file(void *ctx, const struct berth_unpack_source *source, struct berth_error *err)
{
    struct file_taking *t = ctx;
    const void *bytes;
    for (ssize_t got; (got = source->get(source->ctx, &bytes, err)) != 0;) {
        ssize_t head = got > 0 && !t->begun ? take_head(t, bytes, (size_t)got, err) : 0;
        if (got < 0 || head < 0)
            return (int)(got < 0 ? got : head);
        size_t len = (size_t)(got - head);
        if ((int64_t)len > t->wanted - t->got)
            return cut_file(err);
        int rc = len ? t->to->put(t->to->ctx, (const char *)bytes + head, len, err) : BERTH_OK;
        if (rc < 0)
            return rc;
        t->got += (int64_t)len;
    }
    return BERTH_OK;
}

int berth_place_files_read(struct berth_place_files *f, const char *path,
                           const struct berth_place_reading *to, struct berth_error *err)
{
    struct place_path p;
    struct file_taking taking = {.to = to};
    struct berth_place_script script = {
        .what = "read the file", .text = read_script, .take = take_file, .ctx = &taking};
    int rc = resolve_path(f, path, &p, err);
    const char *const more[3] = {berth_arena_printf(f->arena, "%lld", (long long)to->offset),
                                 berth_arena_printf(f->arena, "%lld", (long long)to->length), NULL};
    if (rc == BERTH_OK)
        rc = berth_arena_check(f->arena, err);
    if (rc == BERTH_OK)
        rc = run_script(f, &p, &script, more, err);
    return rc == BERTH_OK && (!taking.begun || taking.got != taking.wanted) ? cut_file(err) : rc;
}

/* Notes that the place of a workspace has work that is not home. */
static int note_work(struct berth_place_files *f, struct berth_error *err)
{
    struct berth_lease *lease;
    int rc = berth_lease_get(f->shell.b, f->arena, f->shell.lease_id, &lease, err);
    return rc < 0 ? rc : berth_lease_work_renew(f->shell.b, lease, err);
}

/* Runs a script that changes files. */
static int run_changing(struct berth_place_files *f, const struct place_path *p,
                        struct berth_place_script *script, const char *const more[3],
                        struct berth_error *err)
{
    int rc = note_work(f, err);
    return rc < 0 ? rc : run_script(f, p, script, more, err);
}

int berth_place_files_write(struct berth_place_files *f, const char *path,
                            const struct berth_place_writing *from, struct berth_error *err)
{
    struct place_path p;
    struct berth_id id = berth_id_new_random();
    struct berth_error ignored;
    struct berth_place_script write = {
        .what = "write the file", .text = write_script, .feed = from->feed, .ctx = from->ctx};
    struct berth_place_script publish = {.what = "write the file", .text = publish_script};
    struct berth_place_script drop = {.what = "remove a file", .text = drop_script};
    int rc = resolve_path(f, path, &p, err);
    if (rc == BERTH_OK && (!*path || !*p.name || path[strlen(path) - 1] == '/'))
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE, "\"%.400s\" is a directory.", path);
    const char *length =
        from->length < 0 ? NULL : berth_arena_printf(f->arena, "%lld", (long long)from->length);
    const char *const more[3] = {from->mode, length, id.text};
    if (rc == BERTH_OK)
        rc = berth_arena_check(f->arena, err);
    if (rc < 0)
        return rc;
    rc = run_changing(f, &p, &write, more, err);
    if (rc == BERTH_OK && !length)
        rc = run_script(f, &p, &publish, more, err);
    if (rc < 0 && rc != BERTH_E_UNPROCESSABLE) {
        f->shell.cancel_fd = -1; /* also after the client has left */
        (void)run_script(f, &p, &drop, more, &ignored);
    }
    return rc;
}

int berth_place_files_remove(struct berth_place_files *f, const char *path, bool recursive,
                             struct berth_error *err)
{
    struct place_path p;
    struct berth_place_script script = {.what = "remove the file", .text = remove_script};
    const char *const more[3] = {recursive ? "yes" : "", NULL, NULL};
    int rc = resolve_path(f, path, &p, err);
    if (rc == BERTH_OK && (!*p.name || strcmp(p.path, f->directory) == 0))
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE,
                        "\"%.400s\" is the directory of the lease or the root. Remove what is in "
                        "it.",
                        p.path);
    return rc < 0 ? rc : run_changing(f, &p, &script, more, err);
}

/* --- trees --- */

static void drop_beginning(struct berth_buf *text, size_t len)
{
    size_t left = text->len > len ? text->len - len : 0;
    if (left)
        memmove(text->data, text->data + len, left);
    berth_buf_truncate(text, left);
}

int berth_place_files_list(struct berth_place_files *f, const struct berth_place_listing *what,
                           bool *is_directory, struct berth_tree_manifest *out,
                           struct berth_error *err)
{
    static const char file[] = "file\n", directory[] = "directory\n";
    struct place_path p;
    auto_buf text = BERTH_BUF_INIT(BERTH_PLACE_LIST_BYTES_MAX);
    struct berth_place_script script = {
        .what = "list the files", .take = berth_place_script_take_text, .ctx = &text};
    const char *const more[3] = {what->depth < 0 ? NULL
                                                 : berth_arena_printf(f->arena, "%d", what->depth),
                                 what->hashed ? "yes" : NULL, NULL};
    script.text = berth_arena_printf(f->arena, "%s%s", list_head, berth_place_list_script);
    int rc = resolve_path(f, what->path, &p, err);
    if (rc == BERTH_OK)
        rc = run_script(f, &p, &script, more, err);
    if (rc < 0)
        return rc;
    *is_directory =
        text.len >= sizeof directory - 1 && memcmp(text.data, directory, sizeof directory - 1) == 0;
    drop_beginning(&text, *is_directory ? sizeof directory - 1 : sizeof file - 1);
    const char *lacking = berth_place_list_lacks(f->arena, &text);
    if (lacking)
        return berth_fail(err, BERTH_E_UNSUPPORTED,
                          "The place lacks the program %.40s, which listing needs. Install it "
                          "there.",
                          lacking);
    rc = berth_place_list_parse(&text, what->ignore, what->hashed, *is_directory, out, err);
    if (rc == BERTH_OK && !*is_directory && !out->count)
        rc = berth_fail(
            err, BERTH_E_UNPROCESSABLE,
            "\"%.400s\" cannot be listed: a rule excludes it, or it is a pipe, socket or device.",
            p.path);
    return rc;
}

static int take_archive(void *ctx, const struct berth_unpack_source *source,
                        struct berth_error *err)
{
    const struct berth_pack_sink *sink = ctx;
    const void *bytes;
    for (ssize_t got; (got = source->get(source->ctx, &bytes, err)) != 0;) {
        int rc = got < 0 ? (int)got : sink->put(sink->ctx, bytes, (size_t)got, err);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}

/* An archive of some names. */
struct name_packing {
    struct berth_buf names;
    const struct berth_pack_sink *sink;
};

static int feed_names(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct name_packing *n = ctx;
    return sink->put(sink->ctx, n->names.data, n->names.len, err);
}

static int take_names(void *ctx, const struct berth_unpack_source *source, struct berth_error *err)
{
    struct name_packing *n = ctx;
    return take_archive((void *)(uintptr_t)n->sink, source, err);
}

/* Packs what the rules let through. */
static int pack_some(struct berth_place_files *f, const struct berth_place_listing *what,
                     const struct place_path *p, const struct berth_pack_sink *sink,
                     struct berth_error *err)
{
    struct berth_id id = berth_id_new_random();
    const char *const more[3] = {
        berth_arena_printf(f->arena, "%s/names-%s", f->shell.directory, id.text), NULL, NULL};
    auto_tree_manifest found = {0};
    struct berth_place_listing all = {.path = p->path, .depth = -1, .ignore = what->ignore};
    struct name_packing packing = {.names = BERTH_BUF_INIT(BERTH_PLACE_LIST_BYTES_MAX),
                                   .sink = sink};
    struct berth_place_script script = {.what = "pack the files",
                                        .text = pack_names_script,
                                        .feed = feed_names,
                                        .take = take_names,
                                        .ctx = &packing};
    bool is_directory;
    int rc = berth_place_files_list(f, &all, &is_directory, &found, err);
    for (size_t i = 0; rc == BERTH_OK && i < found.count; i++) {
        if (strpbrk(found.entries[i].path, "\n\\"))
            rc = berth_fail(err, BERTH_E_UNPROCESSABLE,
                            "A name has a newline or a backslash, so rules cannot be applied: "
                            "%.300s. Take the archive without rules.",
                            found.entries[i].path);
        berth_buf_printf(&packing.names, "./%s\n", found.entries[i].path);
    }
    if (rc == BERTH_OK)
        rc = berth_buf_check(&packing.names, "The list of files", err);
    if (rc == BERTH_OK)
        rc = run_script(f, p, &script, more, err);
    berth_buf_clear(&packing.names);
    return rc;
}

int berth_place_files_pack(struct berth_place_files *f, const struct berth_place_listing *what,
                           const struct berth_pack_sink *sink, struct berth_error *err)
{
    static const char *const none[3];
    struct place_path p;
    struct berth_place_script script = {.what = "pack the files",
                                        .text = pack_script,
                                        .take = take_archive,
                                        .ctx = (void *)(uintptr_t)sink};
    int rc = resolve_path(f, what->path, &p, err);
    if (rc < 0)
        return rc;
    return what->ignore ? pack_some(f, what, &p, sink, err) : run_script(f, &p, &script, none, err);
}

int berth_place_files_unpack(struct berth_place_files *f, const char *path,
                             const struct berth_place_writing *from, struct berth_error *err)
{
    static const char *const none[3];
    struct place_path p;
    struct berth_place_script script = {
        .what = "unpack the archive", .text = unpack_script, .feed = from->feed, .ctx = from->ctx};
    int rc = resolve_path(f, path, &p, err);
    return rc < 0 ? rc : run_changing(f, &p, &script, none, err);
}
