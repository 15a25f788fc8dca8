/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/trip_trees.c - see trip_trees.h. */
#include "trip_trees.h"

#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fs.h"

#define CONTENT_BYTES_MAX 150000
#define CROWDED 45 /* things, from which on edits rather remove something */

/* --- trees --- */

const struct trip_thing *trip_at(const struct trip_tree *t, const char *path)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->things[i].path, path) == 0)
            return &t->things[i];
    return NULL;
}

bool trip_is_below(const char *path, const char *above)
{
    size_t len = strlen(above);
    return strncmp(path, above, len) == 0 && (!path[len] || path[len] == '/');
}

bool trip_alike(const struct trip_thing *a, const struct trip_thing *b)
{
    if (!a || !b)
        return a == b;
    return a->kind == b->kind && a->size == b->size && a->sum == b->sum;
}

bool trip_equal(const struct trip_thing *a, const struct trip_thing *b)
{
    return trip_alike(a, b) && (!a || a->mode == b->mode);
}

const char *trip_difference(const struct trip_tree *a, const struct trip_tree *b)
{
    for (int i = 0; i < a->count; i++)
        if (!trip_equal(&a->things[i], trip_at(b, a->things[i].path)))
            return a->things[i].path;
    for (int i = 0; i < b->count; i++)
        if (!trip_at(a, b->things[i].path))
            return b->things[i].path;
    return NULL;
}

struct trip_thing *trip_add(struct trip_tree *t, const struct trip_thing *thing)
{
    if (t->count == TRIP_THINGS_MAX)
        fail_msg("a tree has more than %d things", TRIP_THINGS_MAX);
    t->things[t->count] = *thing;
    return &t->things[t->count++];
}

/* Prints a path without the middle of names of 255 bytes. */
static void print_path(const char *path)
{
    const unsigned char *c = (const unsigned char *)path;
    for (size_t i = 0; *c; i = *c == '/' ? 0 : i + 1, c++)
        if (i < 24 || strcspn((const char *)c, "/") < 24)
            (void)fprintf(stderr, *c < ' ' || *c > '~' ? "\\x%02x" : "%c", *c);
        else if (i == 24)
            (void)fputs("[...]", stderr);
    (void)fputc('\n', stderr);
}

void trip_print(const char *name, const struct trip_tree *t)
{
    (void)fprintf(stderr, "%s:\n", name);
    for (int i = 0; i < t->count; i++) {
        const struct trip_thing *x = &t->things[i];
        (void)fprintf(stderr, "    %c %03o %6lld %04x ", x->kind, (unsigned)x->mode,
                      (long long)x->size, (unsigned)(x->sum & 0xffff));
        print_path(x->path);
    }
}

static uint64_t sum_bytes(uint64_t sum, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static void read_file(int fd, struct trip_thing *x)
{
    char chunk[16384];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) > 0) {
        x->sum = sum_bytes(x->sum, chunk, (size_t)got);
        x->size += got;
    }
    assert_int_equal(got, 0);
}

static void read_directory(struct trip_tree *t, int fd, const char *prefix);

static void read_thing(struct trip_tree *t, int directory, const char *prefix, const char *name)
{
    struct trip_thing x = {.sum = UINT64_C(0xcbf29ce484222325)};
    char target[PATH_MAX];
    struct stat st;
    int len = snprintf(x.path, sizeof x.path, "%s%s%s", prefix, *prefix ? "/" : "", name);
    assert_true(len > 0 && len < TRIP_PATH_SIZE);
    assert_int_equal(fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    x.kind = S_ISDIR(st.st_mode)   ? 'd'
             : S_ISLNK(st.st_mode) ? 'l'
             : S_ISREG(st.st_mode) ? 'f'
                                   : '?';
    x.mode = x.kind == 'l' ? 0 : st.st_mode & 07777;
    if (x.kind == 'l') {
        ssize_t got = readlinkat(directory, name, target, sizeof target);
        assert_true(got > 0);
        x.sum = sum_bytes(x.sum, target, (size_t)got);
        x.size = got;
    }
    int below = x.kind == 'l' ? -1 : openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (x.kind == 'f')
        read_file(below, &x);
    (void)trip_add(t, &x);
    if (x.kind == 'd')
        read_directory(t, below, x.path);
    else if (below >= 0)
        (void)close(below);
}

/* Closes the descriptor. */
static void read_directory(struct trip_tree *t, int fd, const char *prefix)
{
    DIR *dir = fdopendir(fd);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        const char *name = e->d_name;
        bool ours = !*prefix && (strcmp(name, ".berth") == 0 || strcmp(name, TRIP_EXCLUDED) == 0 ||
                                 strcmp(name, ".paperclip-runtime") == 0);
        if (!ours && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            read_thing(t, dirfd(dir), prefix, name);
    }
    (void)closedir(dir);
}

static int compare_things(const void *a, const void *b)
{
    return strcmp(((const struct trip_thing *)a)->path, ((const struct trip_thing *)b)->path);
}

void trip_read(const char *root, struct trip_tree *out)
{
    out->count = 0;
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("cannot read %s: %s", root, strerror(errno));
    read_directory(out, fd, "");
    qsort(out->things, (size_t)out->count, sizeof out->things[0], compare_things);
}

/* --- random edits --- */

static uint64_t random_state;

void trip_seed(uint64_t seed)
{
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

unsigned trip_dice(unsigned sides)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(random_state >> 33) % sides;
}

/* A directory that is edited. Paths are absolute and begin with it. */
struct place {
    const char *root;
    size_t len;
    char who;
    struct trip_tree tree; /* as it is before the edit */
};

static const char *random_name(void)
{
    static const char *const plain[] = {"a", "b", "A", "a-b", "c.txt", "d"};
    static const char *const odd[] = {
        "\xc3\xa4",    "a\xcc\x88", " lead",       "trail ",     "new\nline", "bytes\377",
        "back\\slash", "-rf",       "it's $(a)",   "\"quoted\"", "*",         "tab\t",
        "\n",          "Icon\r",    "a" TRIP_MARK, "%s",         "~"};
    static char longest[256], euros[256];
    unsigned which = trip_dice(40);
    memset(longest, 'n', 255);
    for (int i = 0; i < 255; i++) /* 85 characters of three bytes each */
        euros[i] = "\xe2\x82\xac"[i % 3];
    if (which == 0)
        return longest;
    if (which == 1)
        return euros;
    return which < 26 ? plain[which % 6] : odd[trip_dice(16)];
}

static void random_path(const struct place *p, char out[PATH_MAX])
{
    int len = snprintf(out, PATH_MAX, "%s", p->root);
    for (unsigned depth = 1 + trip_dice(3); depth; depth--)
        len += snprintf(out + len, PATH_MAX - (size_t)len, "/%s", random_name());
}

/* Returns whether this user may change what is in the directories above a path. */
static bool may_change(const struct place *p, const char *path)
{
    char above[PATH_MAX];
    (void)snprintf(above, sizeof above, "%s", path);
    for (char *slash; (slash = strrchr(above, '/')) && slash >= above + p->len;) {
        *slash = '\0';
        if (access(above, F_OK) == 0 && access(above, W_OK | X_OK) < 0)
            return false;
    }
    return true;
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

/* Makes the directories above a path. A file or link in the way is removed. */
static void make_parents(const struct place *p, char *path)
{
    struct stat st;
    for (char *slash = path + p->len + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode))
            destroy(path);
        if (lstat(path, &st) < 0)
            assert_int_equal(mkdir(path, 0755), 0);
        *slash = '/';
    }
}

static void write_file(const char *path, const char *text, size_t size, int flags, mode_t mode)
{
    auto_free char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) /* not the same everywhere, and soon written */
        bytes[i] = text[i % strlen(text)] + (char)(i >> 12 & 3);
    (void)chmod(path, 0600);
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        fail_msg("cannot write %s: %s", path, strerror(errno));
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

/* Writes a text that the other side sometimes writes, too. */
static void random_text(const struct place *p, char text[16])
{
    (void)snprintf(text, 16, "%c%u\n", trip_dice(4) ? p->who : 'x', trip_dice(4));
}

static const mode_t file_modes[] = {0644, 0755, 0600, 0640, 0444, 0604};
static const mode_t directory_modes[] = {0755, 0755, 0700, 0750, 0555};

/* Puts a file, a link or a directory at a path, whatever is there. */
static void put_something(const struct place *p, char *path)
{
    static const char *const targets[] = {"a",  "../b", "/etc/passwd",   "../beside",
                                          "..", "\377", "new\nline",     "../beside/kept",
                                          ".",  "d/a",  " white space ", "../../../../etc"};
    char text[16];
    make_parents(p, path);
    unsigned kind = trip_dice(8);
    destroy(path);
    if (kind == 0) {
        assert_int_equal(symlink(targets[trip_dice(12)], path), 0);
    } else if (kind <= 2) {
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(chmod(path, directory_modes[trip_dice(5)]), 0);
    } else {
        random_text(p, text);
        size_t size = trip_dice(16)  ? strlen(text)
                      : trip_dice(3) ? trip_dice(9000)
                                     : trip_dice(CONTENT_BYTES_MAX);
        write_file(path, text, size, O_TRUNC, file_modes[trip_dice(6)]);
    }
}

static void edit_put(const struct place *p)
{
    char path[PATH_MAX];
    random_path(p, path);
    if (may_change(p, path))
        put_something(p, path);
}

static void edit_mode(const struct trip_thing *x, const char *path)
{
    if (x->kind != 'l')
        assert_int_equal(
            chmod(path, x->kind == 'd' ? directory_modes[trip_dice(5)] : file_modes[trip_dice(6)]),
            0);
}

/* Changes the content of a file: as another file, in place, or with the size and the modification
 * time that it had. */
static void edit_content(const struct place *p, const struct trip_thing *x, const char *path)
{
    char text[16];
    struct stat st;
    unsigned how = trip_dice(4);
    if (x->kind != 'f')
        return;
    random_text(p, text);
    assert_int_equal(lstat(path, &st), 0);
    if (how == 0)
        assert_int_equal(unlink(path), 0);
    write_file(path, text, how <= 1 ? (size_t)x->size : strlen(text), how == 1 ? 0 : O_TRUNC,
               st.st_mode & 0777);
    if (how <= 1)
        assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){st.st_atim, st.st_mtim}, 0),
                         0);
}

/* Renames something, or gives a file a second name. */
static void edit_name(const struct place *p, const struct trip_thing *x, const char *path)
{
    char to[PATH_MAX];
    random_path(p, to);
    bool into_itself = trip_is_below(to, path) || trip_is_below(path, to);
    if (into_itself || !may_change(p, to) || (x->kind == 'd' && access(path, W_OK) < 0))
        return;
    make_parents(p, to);
    destroy(to);
    struct stat st;
    if (lstat(path, &st) < 0) /* it stood in the way of the new name */
        return;
    if (x->kind == 'f' && trip_dice(3) == 0)
        assert_int_equal(link(path, to), 0);
    else
        assert_int_equal(rename(path, to), 0);
}

/* Settles an earlier conflict: the remote version takes the place of the local one. */
static bool edit_settle(const struct place *p)
{
    for (int i = 0; i < p->tree.count; i++) {
        char from[PATH_MAX], to[PATH_MAX];
        size_t len = strlen(p->tree.things[i].path), mark = strlen(TRIP_MARK);
        if (len <= mark || strcmp(p->tree.things[i].path + len - mark, TRIP_MARK) != 0 ||
            p->tree.things[i].path[len - mark - 1] == '/')
            continue;
        (void)snprintf(from, sizeof from, "%s/%s", p->root, p->tree.things[i].path);
        (void)snprintf(to, sizeof to, "%s", from);
        to[strlen(to) - mark] = '\0';
        if (!may_change(p, from) || (p->tree.things[i].kind == 'd' && access(from, W_OK) < 0))
            continue;
        destroy(to);
        assert_int_equal(rename(from, to), 0);
        return true;
    }
    return false;
}

static void edit_thing(const struct place *p, const struct trip_thing *x)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", p->root, x->path);
    unsigned what = trip_dice(11);
    if (!may_change(p, path))
        return;
    if (what <= 1 || p->tree.count > CROWDED)
        destroy(path);
    else if (what <= 4)
        edit_mode(x, path);
    else if (what == 5)
        edit_name(p, x, path);
    else if (what == 6)
        put_something(p, path);
    else
        edit_content(p, x, path);
}

/* Puts something where the remote version of a path would be put beside it. */
static void edit_forge(const struct place *p, const char *of)
{
    char path[PATH_MAX];
    const char *slash = strrchr(of, '/'), *name = slash ? slash + 1 : of;
    (void)snprintf(path, sizeof path, "%s/%s" TRIP_MARK, p->root, of);
    if (strlen(name) + strlen(TRIP_MARK) <= NAME_MAX && may_change(p, path))
        put_something(p, path);
}

static struct place *place_new(const char *root, char who)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->root = root;
    p->len = strlen(root);
    p->who = who;
    trip_read(root, &p->tree);
    return p;
}

void trip_edit(const char *root, char who, const char *hot)
{
    auto_free struct place *p = place_new(root, who);
    if (trip_dice(8) == 0 && edit_settle(p))
        return;
    const struct trip_thing *x = hot && trip_dice(3) ? trip_at(&p->tree, hot) : NULL;
    if (!x && p->tree.count && (trip_dice(5) < 3 || p->tree.count > CROWDED))
        x = &p->tree.things[trip_dice((unsigned)p->tree.count)];
    if (x && trip_dice(10) == 0)
        edit_forge(p, x->path);
    else if (x)
        edit_thing(p, x);
    else
        edit_put(p);
}

/* Gives a file a second name beside its first. */
static void add_link(const struct place *p, const struct trip_thing *x)
{
    char path[PATH_MAX], to[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", p->root, x->path);
    (void)snprintf(to, sizeof to, "%s/%s2", p->root, x->path);
    if (x->kind == 'f' && may_change(p, path))
        (void)link(path, to); /* unless that is there, or too long */
}

void trip_fill(const char *root, char who, unsigned count)
{
    auto_free struct place *p = place_new(root, who);
    for (; count && p->tree.count < CROWDED; count--)
        edit_put(p);
    trip_read(root, &p->tree);
    for (int i = 0; i < p->tree.count; i++)
        if (trip_dice(4) == 0)
            add_link(p, &p->tree.things[i]);
}

void trip_touch(const char *root, char who, const char *path)
{
    auto_free struct place *p = place_new(root, who);
    const struct trip_thing *x = trip_at(&p->tree, path);
    char full[PATH_MAX];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    if (!x || !may_change(p, full))
        return;
    if (trip_dice(2))
        edit_mode(x, full);
    if (trip_dice(2) && x->kind == 'f')
        edit_content(p, x, full);
}

void trip_delete_most(const char *root)
{
    auto_free struct place *p = place_new(root, ' ');
    for (int i = 0; i < p->tree.count; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, "%s/%s", root, p->tree.things[i].path);
        if (trip_dice(8) && may_change(p, path))
            destroy(path);
    }
}

/* --- what does not travel --- */

void trip_write_excluded(const char *root, char who)
{
    char path[PATH_MAX], text[16];
    (void)snprintf(path, sizeof path, "%s/" TRIP_EXCLUDED, root);
    (void)snprintf(text, sizeof text, "%c%u", who, trip_dice(1000));
    write_file(path, text, strlen(text), O_TRUNC, 0600);
}

const char *trip_read_excluded(const char *root, char text[16])
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/" TRIP_EXCLUDED, root);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, 15);
    text[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
    return text;
}

static uid_t owner;
static gid_t group;

static int give_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    return st->st_uid == owner ? 0 : lchown(path, owner, group);
}

void trip_give_to_owner(const char *root)
{
    struct stat st;
    assert_int_equal(stat(root, &st), 0);
    owner = st.st_uid;
    group = st.st_gid;
    if (owner != geteuid())
        assert_int_equal(nftw(root, give_one, 16, FTW_PHYS), 0);
}
