/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/merge.c - merges of random trees, with kills and edits in between, against rules that
 * are stated here and share no code with the merge. A failing case prints its seed:
 *     BERTH_MERGE_SEED=N test-unit-merge      runs that case alone
 *     BERTH_MERGE_CASES=N test-unit-merge     runs more cases */
#include "sync/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/failpoint.h"
#include "os/fs.h"
#include "renames.h"
#include "sync/apply.h"
#include "sync/tree.h"

#define CASES 10000
#define ORDINARY_UID 65534
#define PATHS_MAX 200
#define PATH_SIZE 320
#define LABEL "cafe0123"
#define PLANTED_ID "0b29f1e4-687c-4be8-8123-c425f9517d89"

/* --- trees, as this test sees them --- */

/* What is at a path. `text` is the content of a file or the target of a link. */
struct thing {
    char path[PATH_SIZE];
    char kind; /* d, f or l */
    mode_t mode;
    bool mode_edited; /* of what edits during the merge wrote: the mode, too */
    char text[32];
};

struct tree {
    struct thing things[PATHS_MAX];
    int count;
};

static const struct thing *at(const struct tree *t, const char *path)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->things[i].path, path) == 0)
            return &t->things[i];
    return NULL;
}

static bool is_leaf(const struct thing *x)
{
    return x && x->kind != 'd';
}

/* Same kind and content; the mode is looked at apart. */
static bool alike(const struct thing *a, const struct thing *b)
{
    if (!a || !b)
        return a == b;
    return a->kind == b->kind && strcmp(a->text, b->text) == 0;
}

static bool equal(const struct thing *a, const struct thing *b)
{
    return alike(a, b) && (!a || a->mode == b->mode);
}

static void read_into(struct tree *t, int fd, const char *prefix)
{
    DIR *dir = fdopendir(fd);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            strcmp(e->d_name, ".berth") == 0)
            continue;
        assert_true(t->count < PATHS_MAX);
        struct thing *x = &t->things[t->count++];
        struct stat st;
        memset(x, 0, sizeof *x);
        (void)snprintf(x->path, sizeof x->path, "%s%s%s", prefix, *prefix ? "/" : "", e->d_name);
        assert_int_equal(fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
        x->kind = S_ISDIR(st.st_mode) ? 'd' : S_ISLNK(st.st_mode) ? 'l' : 'f';
        x->mode = x->kind == 'l' ? 0 : st.st_mode & 0777;
        if (x->kind == 'l') {
            assert_true(readlinkat(dirfd(dir), e->d_name, x->text, sizeof x->text - 1) > 0);
        } else {
            int below = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
            assert_true(below >= 0);
            if (x->kind == 'd') {
                char path[PATH_SIZE];
                memcpy(path, x->path, sizeof path);
                read_into(t, below, path);
            } else {
                assert_true(read(below, x->text, sizeof x->text - 1) >= 0);
                (void)close(below);
            }
        }
    }
    (void)closedir(dir);
}

static void read_tree(const char *root, struct tree *t)
{
    t->count = 0;
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    read_into(t, fd, "");
}

/* --- random trees on disk --- */

static uint64_t seed, random_state;

static unsigned dice(unsigned sides)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(random_state >> 33) % sides;
}

/* Removes a path with all below it. */
static void destroy(const char *path)
{
    struct berth_error err;
    struct stat st;
    if (lstat(path, &st) < 0)
        return;
    if (S_ISDIR(st.st_mode))
        assert_int_equal(berth_fs_remove_tree(path, &err), BERTH_OK);
    else
        assert_int_equal(unlink(path), 0);
}

/* Makes the directories above a path; what is in the way goes. */
static void make_parents(char *path, size_t root_len)
{
    struct stat st;
    for (char *slash = path + root_len + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode))
            destroy(path);
        if (lstat(path, &st) < 0)
            assert_int_equal(mkdir(path, 0755), 0);
        *slash = '/';
    }
}

static void random_path(const char *root, char out[PATH_SIZE])
{
    static const char *const names[] = {"a", "b", "A", "a-b", "c.txt", "\xc3\xa4", "a\xcc\x88"};
    int len = snprintf(out, PATH_SIZE, "%s", root);
    for (unsigned depth = 1 + dice(3); depth; depth--)
        len += snprintf(out + len, PATH_SIZE - (size_t)len, "/%s", names[dice(7)]);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        fail_msg("seed %" PRIu64 ": %s: %s", seed, path, strerror(errno));
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

/* Puts a file, link or directory at a path, whatever is there. `who` tells contents apart. */
static void put_something(char *path, size_t root_len, char who)
{
    static const mode_t modes[] = {0644, 0755, 0600};
    static const char *const targets[] = {"a", "../b", "/etc/passwd"};
    char text[32];
    make_parents(path, root_len);
    unsigned kind = dice(8);
    destroy(path);
    if (kind == 0) {
        assert_int_equal(symlink(targets[dice(3)], path), 0);
    } else if (kind == 1) {
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(chmod(path, dice(4) ? 0755 : 0555), 0);
    } else {
        /* Sometimes both sides write the same. */
        (void)snprintf(text, sizeof text, "%c%u\n", dice(5) ? who : 'x', dice(4));
        write_file(path, text, modes[dice(3)]);
    }
}

/* Returns whether this user may change what is in the directories above a path. */
static bool may_change(const char *path, size_t root_len)
{
    char above[PATH_SIZE];
    (void)snprintf(above, sizeof above, "%s", path);
    for (char *slash; (slash = strrchr(above, '/')) && slash >= above + root_len;) {
        *slash = '\0';
        if (access(above, F_OK) == 0 && access(above, W_OK | X_OK) < 0)
            return false;
    }
    return true;
}

/* Changes something at random: content, mode, kind, existence. */
static void edit(const char *root, char who)
{
    char path[PATH_SIZE];
    struct stat st;
    struct tree *t = calloc(1, sizeof *t);
    read_tree(root, t);
    if (!t->count || dice(3) == 0) {
        random_path(root, path);
        if (may_change(path, strlen(root)))
            put_something(path, strlen(root), who);
    } else {
        const struct thing *x = &t->things[dice((unsigned)t->count)];
        (void)snprintf(path, sizeof path, "%s/%s", root, x->path);
        unsigned what = dice(6);
        assert_int_equal(lstat(path, &st), 0);
        if (!may_change(path, strlen(root)))
            what = 6; /* nothing */
        if (what == 0)
            destroy(path);
        else if (what == 1 && x->kind != 'l')
            assert_int_equal(chmod(path, x->kind == 'd' ? (dice(2) ? 0700 : 0755)
                                         : dice(2)      ? 0640
                                                        : 0604),
                             0);
        else if (what <= 4 && x->kind == 'f')
            write_file(path, dice(2) ? "changed\n" : who == 'r' ? "there\n" : "here\n", x->mode);
        else if (what <= 5)
            put_something(path, strlen(root), who);
    }
    free(t);
}

/* --- one case --- */

struct ground {
    char directory[64], base[80], remote[80], local[80], journals[80];
    struct tree b, r, l, result; /* before and after */
    struct tree edited;          /* what edits during the merge wrote */
    bool destroyed;              /* an edit during the merge removed or replaced something */
};

/* Edits the local tree while it is being merged, and remembers what the edit wrote. `path` has what
 * is changed; NULL: anything. */
static void edit_here(struct ground *g, const char *path)
{
    struct tree *before = calloc(1, sizeof *before), *after = calloc(1, sizeof *after);
    struct stat st;
    read_tree(g->local, before);
    if (!path || lstat(path, &st) < 0 || S_ISDIR(st.st_mode) || dice(4) == 0) {
        edit(g->local, 'e');
    } else {
        if (S_ISLNK(st.st_mode) || dice(3) == 0)
            destroy(path);
        if (!S_ISLNK(st.st_mode) && dice(4))
            write_file(path, dice(2) ? "moment\n" : "another moment\n", st.st_mode & 0777);
    }
    read_tree(g->local, after);
    int kept = 0;
    for (int i = 0; i < before->count; i++)
        if (is_leaf(&before->things[i]) &&
            !alike(at(after, before->things[i].path), &before->things[i]))
            g->destroyed = true;
    for (int i = 0; i < g->edited.count; i++) /* an edit may undo an earlier one */
        if (equal(at(after, g->edited.things[i].path), &g->edited.things[i]))
            g->edited.things[kept++] = g->edited.things[i];
    g->edited.count = kept;
    for (int i = 0; i < after->count; i++) {
        const struct thing *x = &after->things[i], *was = at(before, x->path);
        if (!is_leaf(x) || equal(was, x))
            continue;
        g->edited.things[g->edited.count] = *x;
        g->edited.things[g->edited.count++].mode_edited = was && alike(was, x);
    }
    free(before);
    free(after);
}

static void copy_tree(const char *from, const char *to, const struct tree *t)
{
    char path[PATH_SIZE * 2];
    (void)from;
    assert_int_equal(mkdir(to, 0755), 0);
    for (int depth = 0; depth < 8; depth++) /* what is above comes first */
        for (int i = 0; i < t->count; i++) {
            const struct thing *x = &t->things[i];
            int slashes = 0;
            for (const char *p = x->path; *p; p++)
                slashes += *p == '/';
            if (slashes != depth)
                continue;
            (void)snprintf(path, sizeof path, "%s/%s", to, x->path);
            if (x->kind == 'd')
                assert_int_equal(mkdir(path, 0755), 0);
            else if (x->kind == 'l')
                assert_int_equal(symlink(x->text, path), 0);
            else
                write_file(path, x->text, x->mode);
        }
    for (int i = 0; i < t->count; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", to, t->things[i].path);
        if (t->things[i].kind == 'd')
            assert_int_equal(chmod(path, t->things[i].mode), 0);
    }
}

static void take_manifest(const char *root, struct berth_tree_manifest *out)
{
    struct berth_error err;
    struct berth_ignore *ignore;
    auto_close int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(berth_ignore_new(&ignore, &err), BERTH_OK);
    struct berth_tree_options options = {.ignore = ignore, .cancel_fd = -1};
    if (berth_tree_list(fd, &options, out, &err) < 0 ||
        berth_tree_hash(fd, out, NULL, -1, &err) < 0)
        fail_msg("seed %" PRIu64 ": %s", seed, err.message);
    berth_ignore_free(ignore);
}

static int fetch(void *ctx, const struct berth_entry *remote, int directory_fd, const char *name,
                 struct berth_error *err)
{
    const struct ground *g = ctx;
    char path[PATH_SIZE * 2], text[64];
    (void)snprintf(path, sizeof path, "%s/%s", g->remote, remote->path);
    auto_close int from = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    auto_close int to = openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t got = read(from, text, sizeof text);
    assert_true(from >= 0 && to >= 0 && got >= 0);
    return berth_fs_write_all(to, text, (size_t)got, err);
}

#define ROOT(ground, descriptor) ((struct berth_apply_root){(descriptor), (ground)->journals})

/* A merge that fails, for example on a full disk, leaves the tree as it was. */
static void fail_half_way(struct ground *g, int fd, const struct berth_merge *merge,
                          const struct berth_apply_source *source)
{
    auto_apply_report report = {0};
    struct berth_error err;
    struct tree *before = calloc(1, sizeof *before);
    read_tree(g->local, before);
    berth_failpoint_arm_step_failure(1 + (int)dice((unsigned)merge->count));
    assert_int_equal(berth_apply(&ROOT(g, fd), merge, source, &report, &err), BERTH_E_UNAVAILABLE);
    berth_failpoint_arm_step_failure(0);
    read_tree(g->local, &g->result);
    for (int i = 0; i < before->count; i++)
        if (!equal(&before->things[i], at(&g->result, before->things[i].path)))
            fail_msg("seed %" PRIu64 ": %s is not as it was before a merge that failed", seed,
                     before->things[i].path);
    assert_int_equal(before->count, g->result.count);
    free(before);
}

/* Every local file and link that goes, although it was changed here, is named as a conflict. */
static void check_named(struct ground *g, const struct berth_merge *merge)
{
    struct tree *here = calloc(1, sizeof *here);
    read_tree(g->local, here);
    for (size_t i = 0; i < merge->count; i++) {
        const struct berth_change *change = &merge->changes[i];
        const struct thing *l = at(here, change->path);
        bool goes = change->kind == BERTH_CHANGE_REMOVE || change->kind == BERTH_CHANGE_PUT;
        bool named = !goes || !is_leaf(l) || alike(l, at(&g->b, change->path));
        for (size_t n = 0; !named && n < merge->conflict_count; n++)
            named = strcmp(merge->conflicts[n].path, change->path) == 0;
        if (!named)
            fail_msg("seed %" PRIu64 ": %s goes and is not named", seed, change->path);
    }
    free(here);
}

/* Merges once. Returns false when a kill came before the journal, so that nothing was done. */
static bool merge_once(struct ground *g, enum berth_merge_policy policy, int *kills, bool edits)
{
    auto_tree_manifest base = {0}, remote = {0}, local = {0};
    auto_merge merge = {0};
    auto_apply_report report = {0};
    struct berth_error err;
    struct berth_apply_source source = {.fetch = fetch, .ctx = g};
    take_manifest(g->base, &base);
    take_manifest(g->remote, &remote);
    take_manifest(g->local, &local);
    if (berth_merge_plan(&base, &remote, &local, policy, LABEL, &merge, &err) < 0)
        fail_msg("seed %" PRIu64 ": %s", seed, err.message);
    check_named(g, &merge);
    if (edits && dice(2))
        edit_here(g, NULL);
    auto_close int fd = open(g->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!edits && merge.count && dice(3) == 0)
        fail_half_way(g, fd, &merge, &source);
    berth_failpoint_arm_step((*kills)-- > 0 ? 1 + (int)dice((unsigned)merge.count + 4) : 0);
    int rc = berth_apply(&ROOT(g, fd), &merge, &source, &report, &err);
    bool killed = rc == BERTH_E_CANCELLED;
    while (rc == BERTH_E_CANCELLED) {
        if (edits && dice(2))
            edit_here(g, NULL);
        berth_failpoint_arm_step((*kills)-- > 0 ? 1 + (int)dice((unsigned)merge.count + 4) : 0);
        rc = berth_apply_recover(&ROOT(g, fd), &report, &err);
    }
    berth_failpoint_arm_step(0);
    if (rc < 0)
        fail_msg("seed %" PRIu64 ": %s", seed, err.message);
    return !killed || report.recovered;
}

/* Merges, with some kills. `edits`: the local tree is edited during the merge. */
static void merge_home(struct ground *g, enum berth_merge_policy policy, int kills, bool edits)
{
    while (!merge_once(g, policy, &kills, edits))
        ;
    if (rmdir(g->journals) < 0 && errno != ENOENT)
        fail_msg("seed %" PRIu64 ": a journal is left", seed);
}

/* --- the rules --- */

static const char *name_beside(const char *path)
{
    static char text[PATH_SIZE];
    (void)snprintf(text, sizeof text, "%.*s.remote-" LABEL, PATH_SIZE - 32, path);
    return text;
}

/* Returns whether all that is above a path is a directory or missing, on all three sides. */
static bool lies_in_directories(const struct ground *g, const char *path)
{
    char above[PATH_SIZE];
    (void)snprintf(above, sizeof above, "%s", path);
    for (char *slash; (slash = strrchr(above, '/'));) {
        *slash = '\0';
        if (is_leaf(at(&g->b, above)) || is_leaf(at(&g->r, above)) || is_leaf(at(&g->l, above)))
            return false;
    }
    return true;
}

static void print_tree(const char *name, const struct tree *t)
{
    (void)fprintf(stderr, "%s:\n", name);
    for (int i = 0; i < t->count; i++) {
        const struct thing *x = &t->things[i];
        (void)fprintf(stderr, "    %c %03o %s %.*s\n", x->kind, (unsigned)x->mode, x->path,
                      (int)strcspn(x->text, "\n"), x->text);
    }
}

static void fail_case(const struct ground *g, const char *path, const char *rule)
{
    print_tree("base", &g->b);
    print_tree("remote", &g->r);
    print_tree("local", &g->l);
    print_tree("result", &g->result);
    fail_msg("seed %" PRIu64 ": %s: %s", seed, path, rule);
}

#define RULE(condition, rule)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_case(g, path, rule);                                                              \
    } while (0)

/* A path that is a file, a link or missing on all sides, with nothing in the way above it. */
static void check_leaf(const struct ground *g, enum berth_merge_policy policy, const char *path)
{
    const struct thing *b = at(&g->b, path), *r = at(&g->r, path), *l = at(&g->l, path);
    const struct thing *now = at(&g->result, path), *beside = at(&g->result, name_beside(path));
    /* A changed mode alone keeps a file from being deleted or replaced by a link. */
    bool here = r && r->kind == 'f' ? !alike(b, l) : !equal(b, l), there = !alike(b, r);
    if (!there)
        RULE(alike(now, l), "only the local side changed it");
    else if (!here)
        RULE(alike(now, r), "only the remote side changed it");
    else if (alike(r, l))
        RULE(alike(now, l), "both sides changed it alike");
    else if (policy == BERTH_MERGE_REMOTE && r)
        RULE(alike(now, r), "conflict, the remote version wins");
    else
        RULE(equal(now, l), "conflict, the local version stays");
    if (here && there && !alike(r, l) && policy == BERTH_MERGE_KEEP_BOTH && r)
        RULE(equal(beside, r), "conflict, the remote version is beside");
    else if (!at(&g->l, name_beside(path)) && !at(&g->r, name_beside(path)))
        RULE(!beside, "no conflict, nothing is beside");
    if (!now || now->kind != 'f' || !b || b->kind != 'f' || !r || !l || (here && there))
        return;
    if (r->mode == b->mode)
        RULE(now->mode == l->mode, "the mode of the local side");
    else if (l->mode == b->mode)
        RULE(now->mode == r->mode, "the mode of the remote side");
    else
        RULE(now->mode == (policy == BERTH_MERGE_REMOTE ? r->mode : l->mode), "both changed modes");
}

/* Takes ".remote-LABEL" and a number behind it out of a path, wherever they are. */
static void strip_labels(const char *path, char out[PATH_SIZE])
{
    static const char mark[] = ".remote-" LABEL;
    (void)snprintf(out, PATH_SIZE, "%s", path);
    for (char *found; (found = strstr(out, mark));) {
        char *end = found + strlen(mark);
        if (end[0] == '-' && end[1] >= '2' && end[1] <= '9')
            end += 2;
        memmove(found, end, strlen(end) + 1);
    }
}

/* Returns whether a remote file or link is in the result, at its path or beside any part of it. */
static bool is_kept(const struct ground *g, const struct thing *r)
{
    char path[PATH_SIZE];
    for (int i = 0; i < g->result.count; i++) {
        strip_labels(g->result.things[i].path, path);
        if (alike(&g->result.things[i], r) && strcmp(path, r->path) == 0)
            return true;
    }
    return false;
}

/* No work of either side is lost, and every file of the result comes from one of the sides. */
static void check_nothing_lost(const struct ground *g, enum berth_merge_policy policy)
{
    for (int i = 0; i < g->r.count; i++) {
        const struct thing *r = &g->r.things[i];
        const char *path = r->path;
        if (is_leaf(r) && !alike(r, at(&g->b, path)) && policy == BERTH_MERGE_KEEP_BOTH)
            RULE(is_kept(g, r), "work of the remote side is lost");
    }
    for (int i = 0; i < g->l.count; i++) {
        const struct thing *l = &g->l.things[i];
        const char *path = l->path;
        if (is_leaf(l) && !alike(l, at(&g->b, path)) && policy != BERTH_MERGE_REMOTE)
            RULE(alike(at(&g->result, path), l), "work of the local side is lost");
        if (is_leaf(l) && alike(l, at(&g->b, path)) && alike(l, at(&g->r, path)))
            RULE(alike(at(&g->result, path), l), "a file that neither side changed is lost");
    }
    for (int i = 0; i < g->result.count; i++) {
        const struct thing *x = &g->result.things[i];
        const char *path = x->path;
        RULE(!strstr(path, LABEL "-"), "it was put beside twice");
        RULE(x->kind == 'd' || alike(x, at(&g->l, path)) || alike(x, at(&g->r, path)) ||
                 strstr(path, ".remote-" LABEL),
             "neither side has it");
    }
}

static bool is_at_or_below(const struct thing *x, const char *path)
{
    size_t len = strlen(path);
    return strncmp(x->path, path, len) == 0 && (!x->path[len] || x->path[len] == '/');
}

/* Returns whether a path and all below it are the same in both trees. */
static bool parts_equal(const struct tree *a, const struct tree *b, const char *path)
{
    const struct tree *const sides[] = {a, b};
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < sides[side]->count; i++) {
            const struct thing *x = &sides[side]->things[i];
            if (is_at_or_below(x, path) && !equal(x, at(sides[!side], x->path)))
                return false;
        }
    return true;
}

/* A part of the tree that one side has not changed becomes what the other side has made of it. */
static void check_part(const struct ground *g, const char *path)
{
    if (!lies_in_directories(g, path))
        return;
    if (parts_equal(&g->b, &g->l, path))
        RULE(parts_equal(&g->result, &g->r, path), "the local side has not changed this part");
    else if (parts_equal(&g->b, &g->r, path))
        RULE(parts_equal(&g->result, &g->l, path), "the remote side has not changed this part");
}

/* Returns whether something is below a path. */
static bool has_content(const struct tree *t, const char *path)
{
    for (int i = 0; i < t->count; i++)
        if (is_at_or_below(&t->things[i], path) && strcmp(t->things[i].path, path) != 0)
            return true;
    return false;
}

/* A directory that one side made is there, with its mode, and one that a side deleted is not. */
static void check_directory(const struct ground *g, const char *path)
{
    const struct thing *b = at(&g->b, path), *r = at(&g->r, path), *l = at(&g->l, path);
    const struct thing *now = at(&g->result, path);
    bool all = (!b || b->kind == 'd') && (!r || r->kind == 'd') && (!l || l->kind == 'd');
    if (!all || !lies_in_directories(g, path))
        return;
    if (r && l && b)
        RULE(now && now->mode == (r->mode == b->mode   ? l->mode
                                  : l->mode == b->mode ? r->mode
                                                       : l->mode),
             "the mode of a directory");
    else if (r && !l && !b)
        RULE(now && now->mode == r->mode, "a new directory of the remote side");
    else if (l && !b)
        RULE(now, "a new directory of the local side");
    else if (b && !r && !l)
        RULE(!now, "both deleted a directory");
    else if (b && !r && l)
        RULE(!now || has_content(&g->result, path), "the remote side deleted a directory");
    else if (b && r && !l)
        RULE(!now || (has_content(&g->result, path) && now->mode == r->mode),
             "the local side deleted a directory");
}

static void check_result(struct ground *g, enum berth_merge_policy policy)
{
    const struct tree *const sides[] = {&g->b, &g->r, &g->l};
    check_nothing_lost(g, policy);
    for (int side = 0; side < 3; side++)
        for (int i = 0; i < sides[side]->count; i++) {
            const char *path = sides[side]->things[i].path;
            const struct thing *b = at(&g->b, path), *r = at(&g->r, path), *l = at(&g->l, path);
            bool no_directory = (!b || is_leaf(b)) && (!r || is_leaf(r)) && (!l || is_leaf(l));
            if (no_directory && lies_in_directories(g, path))
                check_leaf(g, policy, path);
            check_part(g, path);
            if (policy == BERTH_MERGE_KEEP_BOTH)
                check_directory(g, path);
        }
}

/* A second merge with what is there now has nothing to do. */
static void check_second_merge(struct ground *g)
{
    auto_tree_manifest remote = {0}, local = {0};
    auto_merge merge = {0};
    struct berth_error err;
    take_manifest(g->remote, &remote);
    take_manifest(g->local, &local);
    assert_int_equal(
        berth_merge_plan(&remote, &remote, &local, BERTH_MERGE_KEEP_BOTH, LABEL, &merge, &err),
        BERTH_OK);
    if (merge.count || merge.conflict_count)
        fail_msg("seed %" PRIu64 ": a second merge changes %s", seed,
                 merge.count ? merge.changes[0].path : merge.conflicts[0].path);
}

static void make_trees(struct ground *g)
{
    char path[PATH_SIZE];
    assert_int_equal(mkdir(g->base, 0755), 0);
    for (unsigned i = dice(12); i; i--) {
        random_path(g->base, path);
        if (may_change(path, strlen(g->base)))
            put_something(path, strlen(g->base), 'b');
    }
    read_tree(g->base, &g->b);
    copy_tree(g->base, g->remote, &g->b);
    copy_tree(g->base, g->local, &g->b);
    for (unsigned i = dice(7); i; i--)
        edit(g->remote, 'r');
    for (unsigned i = dice(7); i; i--)
        edit(g->local, 'l');
    read_tree(g->remote, &g->r);
    read_tree(g->local, &g->l);
}

static void set_paths(struct ground *g)
{
    (void)snprintf(g->base, sizeof g->base, "%s/base", g->directory);
    (void)snprintf(g->remote, sizeof g->remote, "%s/remote", g->directory);
    (void)snprintf(g->local, sizeof g->local, "%s/local", g->directory);
    (void)snprintf(g->journals, sizeof g->journals, "%s/journals", g->directory);
}

static bool is_somewhere(const struct tree *t, const struct thing *wanted)
{
    for (int i = 0; i < t->count; i++)
        if (alike(&t->things[i], wanted))
            return true;
    return false;
}

/* Whatever the editor wrote during the merge is there, and so is the work of the remote side. An
 * edit of a file in the moment between two exchanges of it is beside its path. */
static void check_edited(struct ground *g, enum berth_merge_policy policy, bool moments)
{
    /* With REMOTE, a merge that begins anew after a kill overwrites what was edited before. */
    for (int i = 0; i < g->edited.count && policy != BERTH_MERGE_REMOTE; i++) {
        const char *path = g->edited.things[i].path;
        const struct thing *now = at(&g->result, path), *edited = &g->edited.things[i];
        if (edited->mode_edited)
            RULE(now && now->mode == edited->mode, "an edited mode is lost");
        else
            RULE(alike(now, edited) || (moments && is_somewhere(&g->result, edited)),
                 "an edit during the merge is lost");
    }
    for (int i = 0; i < g->r.count && policy == BERTH_MERGE_KEEP_BOTH; i++) {
        const struct thing *r = &g->r.things[i];
        const char *path = r->path;
        bool came = is_leaf(r) && !alike(r, at(&g->b, path)) && !alike(r, at(&g->l, path));
        if (came && !g->destroyed)
            RULE(is_kept(g, r), "work of the remote side is lost");
    }
}

/* The merge leaves none of its own files. */
static void check_nothing_left(const struct ground *g)
{
    char path[PATH_SIZE];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/.berth", g->local);
    RULE(lstat(path, &st) < 0, "it is left over");
}

static void run_case(struct ground *g, uint64_t number)
{
    static const enum berth_merge_policy policies[] = {BERTH_MERGE_KEEP_BOTH, BERTH_MERGE_KEEP_BOTH,
                                                       BERTH_MERGE_REMOTE, BERTH_MERGE_LOCAL};
    seed = number;
    random_state = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    enum berth_merge_policy policy = policies[dice(4)];
    bool edits = dice(4) == 0;
    g->edited.count = 0;
    g->destroyed = false;
    make_trees(g);
    merge_home(g, policy, (int)dice(4), edits);
    read_tree(g->local, &g->result);
    check_nothing_left(g);
    if (edits) {
        check_edited(g, policy, false);
    } else {
        check_result(g, policy);
        check_second_merge(g);
    }
    destroy(g->base);
    destroy(g->remote);
    destroy(g->local);
}

static void random_merges_follow_the_rules(void **state)
{
    struct ground *g = *state;
    const char *one = getenv("BERTH_MERGE_SEED"), *many = getenv("BERTH_MERGE_CASES");
    if (one) {
        run_case(g, strtoull(one, NULL, 10));
        return;
    }
    uint64_t cases = many ? strtoull(many, NULL, 10) : CASES;
    for (uint64_t i = 0; i < cases; i++)
        run_case(g, i);
}

/* The same as another user, who may not write to directories that are closed to their owner. */
static void merges_of_an_ordinary_user(void **state)
{
    struct ground *g = *state;
    int status;
    if (geteuid() != 0)
        return; /* all other tests are his */
    assert_int_equal(chown(g->directory, ORDINARY_UID, ORDINARY_UID), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0 ||
            setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0)
            _exit(2);
        for (uint64_t i = 0; i < CASES / 10; i++)
            run_case(g, CASES + i);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* --- what happens at the moment of a rename --- */

#define DIED 9
#define FAILED 3

/* What another process, the file system or a kill does while a merge renames files. */
struct moments {
    struct ground *g;
    bool edits;              /* files change just before they are renamed */
    bool no_flags, no_links; /* the file system does not support them */
    int die_in, fail_in;     /* at the n-th rename from now on; 0: never */
};

/* Writes the path of a name, if it is in the local tree and not berth's own. */
static bool local_path(const struct ground *g, int fd, const char *name, char out[PATH_SIZE])
{
    char link[40];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, out, PATH_SIZE);
    if (len < 0 || (size_t)len + strlen(name) + 2 > PATH_SIZE)
        return false;
    (void)snprintf(out + len, PATH_SIZE - (size_t)len, "/%s", name);
    size_t root = strlen(g->local);
    return strncmp(out, g->local, root) == 0 && out[root] == '/' &&
           strncmp(out + root, "/.berth/", strlen("/.berth/")) != 0;
}

static int at_rename(void *ctx, const struct renaming *call)
{
    struct moments *m = ctx;
    char path[PATH_SIZE];
    if (!local_path(m->g, call->from_fd, call->from, path) &&
        !local_path(m->g, call->to_fd, call->to, path))
        return 0;
    /* Without flags and links an empty file holds the path until the rename: see move_new(). */
    bool held = m->no_flags && m->no_links && !call->flags && !call->is_link;
    if (m->edits && !held && dice(5) == 0 && may_change(path, strlen(m->g->local)))
        edit_here(m->g, path);
    if (m->die_in && !held && --m->die_in == 0)
        _exit(DIED);
    if (m->fail_in && --m->fail_in == 0)
        return EIO;
    return m->no_flags && call->flags ? EINVAL : m->no_links && call->is_link ? EPERM : 0;
}

/* Merges, or recovers a merge, in a process of its own. Returns 0, DIED or FAILED. */
static int merge_in_child(struct moments *m, const struct berth_merge *merge)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        auto_apply_report report = {0};
        struct berth_apply_source source = {.fetch = fetch, .ctx = m->g};
        struct berth_error err;
        auto_close int fd = open(m->g->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        random_state += (uint64_t)m->die_in * 77 + (uint64_t)m->fail_in;
        (void)renames_watch(at_rename, m);
        int rc = merge ? berth_apply(&ROOT(m->g, fd), merge, &source, &report, &err)
                       : berth_apply_recover(&ROOT(m->g, fd), &report, &err);
        if (rc < 0)
            (void)fprintf(stderr, "# seed %" PRIu64 ": %s\n", seed, err.message);
        _exit(rc < 0 ? FAILED : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != DIED && WEXITSTATUS(status) != FAILED)
        fail_msg("seed %" PRIu64 ": the process of the merge ended with %d", seed,
                 WEXITSTATUS(status));
    return WEXITSTATUS(status);
}

/* Merges once; a merge that died is recovered. Returns whether it was carried out as planned. */
static bool merge_in_moments(struct moments *m, enum berth_merge_policy policy, int kills)
{
    auto_tree_manifest base = {0}, remote = {0}, local = {0};
    auto_merge merge = {0};
    struct berth_error err;
    struct ground *g = m->g;
    m->die_in = m->fail_in = 0;
    if (merge_in_child(m, NULL) != 0) /* an edit kept the last one from being undone */
        return false;
    struct tree *before = calloc(1, sizeof *before);
    take_manifest(g->base, &base);
    take_manifest(g->remote, &remote);
    take_manifest(g->local, &local);
    if (berth_merge_plan(&base, &remote, &local, policy, LABEL, &merge, &err) < 0)
        fail_msg("seed %" PRIu64 ": %s", seed, err.message);
    read_tree(g->local, before);
    m->die_in = kills ? 1 + (int)dice((unsigned)merge.count * 2 + 1) : 0;
    m->fail_in = !kills && dice(3) == 0 ? 1 + (int)dice((unsigned)merge.count * 2 + 1) : 0;
    bool fails = m->fail_in;
    int end = merge_in_child(m, &merge);
    if (end == FAILED && !m->edits) {
        read_tree(g->local, &g->result);
        for (int i = 0; i < before->count; i++)
            if (!equal(&before->things[i], at(&g->result, before->things[i].path)))
                fail_msg("seed %" PRIu64 ": %s is not as it was before a merge that failed", seed,
                         before->things[i].path);
        assert_int_equal(before->count, g->result.count);
        assert_true(fails);
    }
    free(before);
    for (int next = end == DIED ? DIED : 0; next == DIED; next = merge_in_child(m, NULL))
        m->die_in = --kills > 0 ? 1 + (int)dice((unsigned)merge.count + 1) : 0;
    return end == 0;
}

/* A merge of random trees while files change at the moment of their rename, in a file system that
 * supports less, with kills and failures in the midst of a step. */
static void run_moments(struct ground *g, uint64_t number)
{
    static const enum berth_merge_policy policies[] = {BERTH_MERGE_KEEP_BOTH, BERTH_MERGE_REMOTE};
    seed = number;
    random_state = number * UINT64_C(0x9e3779b97f4a7c15) + 2;
    enum berth_merge_policy policy = policies[dice(3) == 0];
    bool edits = dice(2);
    struct moments m = {.g = g, .edits = edits, .no_flags = dice(2), .no_links = dice(2)};
    g->edited.count = 0;
    g->destroyed = false;
    make_trees(g);
    int tries = 0;
    while (!merge_in_moments(&m, policy, tries < 4 ? (int)dice(3) : 0))
        if (++tries == 40)
            fail_msg("seed %" PRIu64 ": the merge does not end", seed);
        else if (tries > 20)
            m.edits = false;
    read_tree(g->local, &g->result);
    check_nothing_left(g);
    if (edits)
        check_edited(g, policy, true);
    else
        check_result(g, policy);
    destroy(g->base);
    destroy(g->remote);
    destroy(g->local);
}

static void moments_of_renames_lose_nothing(void **state)
{
    struct ground *g =
        mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *one = getenv("BERTH_MERGE_SEED"), *many = getenv("BERTH_MERGE_CASES");
    uint64_t cases = (many ? strtoull(many, NULL, 10) : CASES) / 5;
    assert_true(g != MAP_FAILED);
    *g = *(struct ground *)*state;
    if (one)
        run_moments(g, strtoull(one, NULL, 10));
    for (uint64_t i = 0; i < cases && !one; i++)
        run_moments(g, i);
    assert_int_equal(munmap(g, sizeof *g), 0);
}

/* --- what a stranger sends --- */

/* Names that never cross are refused, wherever they are. */
static void names_that_never_cross(void **state)
{
    static const char *const paths[] = {".git", "a/.git", ".berth", "a/b/.paperclip-runtime"};
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        auto_tree_manifest none = {0}, remote = {0};
        auto_merge merge = {0};
        struct berth_error err;
        struct berth_entry e = {.kind = BERTH_ENTRY_DIRECTORY, .mode = 0755, .path = paths[i]};
        assert_int_equal(berth_tree_manifest_add(&remote, &e, &err), BERTH_OK);
        assert_int_equal(
            berth_merge_plan(&none, &remote, &none, BERTH_MERGE_KEEP_BOTH, LABEL, &merge, &err),
            BERTH_E_INVALID);
        assert_int_equal(merge.count, 0);
    }
}

/* A link in the place of our own directory is not followed. */
static void link_in_the_place_of_ours(void **state)
{
    struct ground *g = *state;
    char path[PATH_SIZE], elsewhere[PATH_SIZE];
    auto_tree_manifest none = {0}, remote = {0};
    auto_merge merge = {0};
    auto_apply_report report = {0};
    struct berth_error err;
    struct berth_apply_source source = {.fetch = fetch, .ctx = g};
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", g->directory);
    (void)snprintf(path, sizeof path, "%s/.berth", g->local);
    assert_int_equal(mkdir(g->local, 0755), 0);
    assert_int_equal(mkdir(g->remote, 0755), 0);
    assert_int_equal(mkdir(elsewhere, 0755), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    (void)snprintf(path, sizeof path, "%s/new", g->remote);
    write_file(path, "new\n", 0644);
    take_manifest(g->remote, &remote);
    assert_int_equal(
        berth_merge_plan(&none, &remote, &none, BERTH_MERGE_KEEP_BOTH, LABEL, &merge, &err), 0);
    auto_close int fd = open(g->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(berth_apply_recover(&ROOT(g, fd), &report, &err) < 0);
    assert_true(berth_apply(&ROOT(g, fd), &merge, &source, &report, &err) < 0);
    assert_int_equal(rmdir(elsewhere), 0); /* it is empty */
}

/* Strangers write in the tree: a repository, or a command. What looks like the work of a killed
 * merge is not touched, unless a journal of ours names it. */
static void planted_journal(void **state)
{
    struct ground *g = *state;
    static const char steps[] = "berth merge 1\nx";
    auto_tree_manifest base = {0}, none = {0};
    auto_merge merge = {0};
    auto_apply_report report = {0};
    struct berth_error err;
    struct berth_apply_source source = {.fetch = fetch, .ctx = g};
    char path[PATH_SIZE], inode[32];
    struct stat st;
    assert_int_equal(mkdir(g->local, 0755), 0);
    (void)snprintf(path, sizeof path, "%s/kept", g->local);
    write_file(path, "kept\n", 0644);
    take_manifest(g->local, &base);
    assert_int_equal(stat(g->local, &st), 0);
    (void)snprintf(inode, sizeof inode, "%llx", (unsigned long long)st.st_ino);
    static const char *const directories[] = {"",
                                              "/merge",
                                              "/merge/new",
                                              "/merge/old",
                                              "/merge-" PLANTED_ID,
                                              "/merge-" PLANTED_ID "/new"};
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/.berth%s", g->local, directories[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    (void)snprintf(path, sizeof path, "%s/.berth/merge/journal", g->local);
    write_file(path, steps, 0644);
    (void)snprintf(path, sizeof path, "%s/.berth/merge-" PLANTED_ID "/" PLANTED_ID ".%s", g->local,
                   inode);
    write_file(path, steps, 0644);
    auto_close int fd = open(g->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(berth_apply_recover(&ROOT(g, fd), &report, &err), BERTH_OK);
    assert_int_equal(report.recovered, 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(
        berth_merge_plan(&base, &none, &base, BERTH_MERGE_KEEP_BOTH, LABEL, &merge, &err), 0);
    assert_int_equal(berth_apply(&ROOT(g, fd), &merge, &source, &report, &err), BERTH_OK);
    (void)snprintf(path, sizeof path, "%s/kept", g->local);
    assert_int_equal(access(path, F_OK), -1); /* the plan was carried out, and nothing else */
}

static int set_up(void **state)
{
    struct ground *g = calloc(1, sizeof *g);
    (void)snprintf(g->directory, sizeof g->directory, "%s/berth-test.XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(g->directory))
        return -1;
    set_paths(g);
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    struct ground *g = *state;
    struct berth_error err;
    int rc = berth_fs_remove_tree(g->directory, &err);
    free(g);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_merges_follow_the_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(merges_of_an_ordinary_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(moments_of_renames_lose_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_that_never_cross, set_up, tear_down),
        cmocka_unit_test_setup_teardown(link_in_the_place_of_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(planted_journal, set_up, tear_down),
    };
    (void)umask(S_IRWXG | S_IRWXO); /* what a merge makes has the modes of the trees all the same */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
