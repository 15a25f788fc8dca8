/* SPDX-License-Identifier: Apache-2.0
 * src/plugin/cage.c - see cage.h. A program sees its package and its state at their own paths:
 * Node.js looks for packages in the directories above a package, and workers store paths of their
 * state in the metadata of places, which have to be valid in later versions, too. */
#include "plugin/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/limits.h"
#include "os/fs.h"
#include "os/syscall_filter.h"

#define UID_FIRST 61184 /* where a system keeps users that exist only for a while */
#define UID_COUNT 4000
#define HASH_SEED 5381 /* djb2 */
#define WALK_FDS 16

/* What any program needs of this machine, and nothing that belongs to a user or a service. */
static const struct berth_mount system_mounts[] = {
    {BERTH_MOUNT_SYSTEM, true, "/usr"},
    {BERTH_MOUNT_SYSTEM, true, "/bin"},
    {BERTH_MOUNT_SYSTEM, true, "/sbin"},
    {BERTH_MOUNT_SYSTEM, true, "/lib"},
    {BERTH_MOUNT_SYSTEM, true, "/lib32"},
    {BERTH_MOUNT_SYSTEM, true, "/lib64"},
    {BERTH_MOUNT_SYSTEM, true, "/sys/devices/system/cpu"},
    {BERTH_MOUNT_SYSTEM, true, "/sys/fs/cgroup"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/alternatives"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ca-certificates"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ca-certificates.conf"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/crypto-policies"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/gai.conf"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/host.conf"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/hosts"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ld.so.cache"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ld.so.conf"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ld.so.conf.d"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/localtime"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/mime.types"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/nsswitch.conf"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/os-release"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/pki"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/protocols"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/resolv.conf"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/services"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ssh/ssh_config"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ssh/ssh_config.d"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ssh/ssh_known_hosts"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/ssl"},
    {BERTH_MOUNT_SYSTEM, true, "/etc/timezone"},
    {BERTH_MOUNT_DEVICE, false, "/dev/null"},
    {BERTH_MOUNT_DEVICE, true, "/dev/zero"},
    {BERTH_MOUNT_DEVICE, true, "/dev/full"},
    {BERTH_MOUNT_DEVICE, true, "/dev/random"},
    {BERTH_MOUNT_DEVICE, true, "/dev/urandom"},
    {BERTH_MOUNT_DEVICE, true, "/dev/tty"},
    {BERTH_MOUNT_SCRATCH, false, "/dev/shm"},
    {BERTH_MOUNT_LINK, false, "/dev/fd", .text = "/proc/self/fd"},
    {BERTH_MOUNT_LINK, false, "/dev/stdin", .text = "/proc/self/fd/0"},
    {BERTH_MOUNT_LINK, false, "/dev/stdout", .text = "/proc/self/fd/1"},
    {BERTH_MOUNT_LINK, false, "/dev/stderr", .text = "/proc/self/fd/2"},
    {BERTH_MOUNT_PROC, false, "/proc"},
    {BERTH_MOUNT_SCRATCH, false, "/tmp"},
};
#define SYSTEM_COUNT (sizeof system_mounts / sizeof *system_mounts)

static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                      "/dev/random", "/dev/urandom", "/dev/tty"};
#define DEVICE_COUNT (sizeof devices / sizeof *devices)

/* A cage that is being put together. */
struct plan {
    struct berth_plugin_cage *l;
    struct berth_mount *mounts;
    size_t count;
};

static struct berth_mount *plan_add(struct plan *p, enum berth_mount_kind kind, const char *target)
{
    static struct berth_mount spare; /* one too many; berth_root_enter refuses the count */
    struct berth_mount *m = p->count < BERTH_ROOT_MOUNTS_MAX ? &p->mounts[p->count] : &spare;
    p->count += target != NULL;
    *m = (struct berth_mount){.kind = kind, .target = target};
    return m;
}

static void plan_add_text(struct plan *p, const char *target, const char *text)
{
    if (text)
        plan_add(p, BERTH_MOUNT_TEXT, target)->text = text;
}

static char *parent_of(struct berth_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash > path ? berth_arena_copy(arena, path, (size_t)(slash - path)) : NULL;
}

/* Node looks for packages in the node_modules of every directory above. One that is a link is left
 * out when it is mounted, because it could lead anywhere. The package's own is in the package. */
static void plan_modules(struct plan *p, const char *package)
{
    struct berth_arena *arena = p->l->arena;
    for (const char *at = parent_of(arena, package); at; at = parent_of(arena, at)) {
        const char *path = berth_arena_printf(arena, "%s/node_modules", at);
        auto_close int fd = path ? berth_fs_open_real(AT_FDCWD, path, O_PATH | O_DIRECTORY) : -1;
        if (fd >= 0)
            plan_add(p, BERTH_MOUNT_READ, path)->optional = true;
    }
}

/* Node itself, wherever it was unpacked, and its libraries; nothing else that is beside it. */
static void plan_node(struct plan *p, const char *node)
{
    struct berth_arena *arena = p->l->arena;
    const char *bin = parent_of(arena, node), *above = bin ? parent_of(arena, bin) : NULL;
    const char *lib = above ? berth_arena_printf(arena, "%s/lib", above) : NULL;
    plan_add(p, BERTH_MOUNT_READ, node);
    if (lib)
        plan_add(p, BERTH_MOUNT_READ, lib)->optional = true;
}

/* ssh(1) and others do not run without an entry for their user. */
static void plan_users(struct plan *p, const char *state, uid_t uid, gid_t gid)
{
    const char *home = strpbrk(state, ":\n") ? "/tmp" : state;
    plan_add_text(p, "/etc/passwd",
                  berth_arena_printf(p->l->arena,
                                     "worker:x:%u:%u:berth worker:%s:/bin/sh\n"
                                     "root:x:0:0:root:/:/usr/sbin/nologin\n"
                                     "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
                                     (unsigned)uid, (unsigned)gid, home));
    plan_add_text(p, "/etc/group",
                  berth_arena_printf(p->l->arena, "worker:x:%u:\nroot:x:0:\nnogroup:x:65534:\n",
                                     (unsigned)gid));
}

/* Refuses a path through which the worker would see what is berth's own: with the cookie beside its
 * socket, it would be an operator. */
static int refuse_own(const struct berth_worker_spec *spec, const char *path, const char *real,
                      struct berth_error *err)
{
    for (const char *const *own = spec->own; own && *own; own++) {
        char own_real[PATH_MAX];
        if (realpath(*own, own_real) &&
            (berth_fs_is_within(own_real, real) || berth_fs_is_within(real, own_real)))
            return berth_fail(err, BERTH_E_UNPROCESSABLE,
                              "The plugin may use Unix sockets of %.300s, where berth has files of "
                              "its own (%.300s). Name other sockets: berth plugin set.",
                              path, *own);
    }
    return BERTH_OK;
}

/* Lets the program see the sockets that the operator allows, and gives its user their groups. */
static int plan_sockets(struct plan *p, const struct berth_worker_spec *spec,
                        struct berth_error *err)
{
    struct berth_confinement *c = &p->l->confinement;
    const char *const *paths = spec->sockets;
    struct stat st;
    for (size_t i = 0; paths && paths[i] && i < BERTH_SOCKETS_MAX; i++) {
        char real[PATH_MAX];
        if (!realpath(paths[i], real) || stat(real, &st) < 0)
            continue; /* the service may be started later; then the worker is restarted */
        int rc = refuse_own(spec, paths[i], real, err);
        if (rc < 0)
            return rc;
        struct berth_mount *m = plan_add(p, BERTH_MOUNT_READ, paths[i]);
        m->source = berth_arena_strdup(p->l->arena, real);
        m->optional = true;
        if (st.st_gid != 0)
            p->l->groups[c->group_count++] = st.st_gid;
    }
    c->groups = p->l->groups;
    return BERTH_OK;
}

static const char *const *writable_paths(struct berth_plugin_cage *l, const char *state)
{
    struct berth_list list = {0};
    (void)berth_list_add(&list, l->arena, (char *)(uintptr_t)state);
    (void)berth_list_add(&list, l->arena, (char *)(uintptr_t) "/tmp");
    (void)berth_list_add(&list, l->arena, (char *)(uintptr_t) "/dev/shm");
    for (size_t i = 0; i < DEVICE_COUNT; i++)
        (void)berth_list_add(&list, l->arena, (char *)(uintptr_t)devices[i]);
    (void)berth_list_add(&list, l->arena, NULL);
    return (const char *const *)(void *)list.items;
}

static int plan_mounts(struct berth_plugin_cage *l, const struct berth_worker_spec *spec,
                       const char *node, struct berth_error *err)
{
    struct plan p = {.l = l};
    uid_t uid = l->confinement.uid ? l->confinement.uid : geteuid();
    gid_t gid = l->confinement.uid ? (gid_t)l->confinement.uid : getegid();
    p.mounts = berth_arena_alloc(l->arena, BERTH_ROOT_MOUNTS_MAX * sizeof *p.mounts);
    if (!p.mounts)
        return berth_arena_check(l->arena, err);
    memcpy(p.mounts, system_mounts, sizeof system_mounts);
    p.count = SYSTEM_COUNT;
    if (spec->data)
        plan_add(&p, BERTH_MOUNT_COVER, spec->data);
    plan_add(&p, BERTH_MOUNT_READ, l->package);
    plan_add(&p, BERTH_MOUNT_WRITE, l->state);
    if (node) {
        plan_modules(&p, l->package);
        plan_node(&p, node);
    }
    for (size_t i = 0; i < l->file_count; i++)
        plan_add_text(&p, l->files[i].target, l->files[i].text);
    plan_users(&p, l->state, uid, gid);
    int rc = plan_sockets(&p, spec, err);
    if (rc < 0)
        return rc;
    if (p.count > BERTH_ROOT_MOUNTS_MAX)
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "Too many directories named node_modules are above %s.", l->package);
    berth_root_sort(p.mounts, p.count);
    l->cage = (struct berth_cage){.root = {.mounts = p.mounts, .count = p.count},
                                  .writable = writable_paths(l, l->state)};
    l->confinement.cage = &l->cage;
    return berth_arena_check(l->arena, err);
}

/* --- the user --- */

/* Returns a user id that another plugin is not likely to have. */
static uid_t uid_of(const char *plugin_id)
{
    unsigned hash = HASH_SEED;
    for (const char *c = plugin_id; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    return UID_FIRST + hash % UID_COUNT;
}

/* Checks that any user can read the entry, from the package's directory on: the cage makes only the
 * directories above that passable. */
static int check_readable(const char *package, const char *entry, struct berth_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s", entry ? entry : package);
    while (berth_fs_is_within(path, package)) {
        if (stat(path, &st) < 0)
            return berth_fail_errno(err, "Cannot read %s", path);
        mode_t want = S_ISDIR(st.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
        if ((st.st_mode & want) != want)
            return berth_fail(err, BERTH_E_UNPROCESSABLE,
                              "Workers run as another user, which cannot read %s. Run: chmod -R "
                              "go+rX %s",
                              path, package);
        *strrchr(path, '/') = '\0';
    }
    return BERTH_OK;
}

/* --- the state --- */

/* nftw() has no context. */
static _Thread_local uid_t new_owner;

/* A file with several names may be another one's as well. */
static int give_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    bool ours = S_ISDIR(st->st_mode) || st->st_nlink == 1;
    return ours && lchown(path, new_owner, (gid_t)new_owner) < 0 ? -1 : 0;
}

/* Gives the state, with what an earlier version made in it as root, to the worker's user. */
static int give_state(const char *path, uid_t uid, struct berth_error *err)
{
    struct stat st;
    if (!uid || (lstat(path, &st) == 0 && st.st_uid == uid))
        return BERTH_OK;
    new_owner = uid;
    if (nftw(path, give_one, WALK_FDS, FTW_PHYS | FTW_MOUNT) != 0)
        return berth_fail_errno(err, "Cannot give %s to its worker", path);
    return BERTH_OK;
}

/* Makes the directory of the state with its tmp/. The worker may have put anything in its place, so
 * nothing here follows a link. */
static int make_state(struct berth_plugin_cage *l, const char *given, struct berth_error *err)
{
    int rc = berth_fs_mkdirs(given, 0700, err);
    if (rc < 0)
        return rc;
    auto_free char *real = realpath(given, NULL);
    l->state = real ? berth_arena_strdup(l->arena, real) : NULL;
    if (!l->state)
        return berth_fail_errno(err, "Cannot open %s", given);
    auto_close int state = open(given, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (state < 0)
        return berth_fail_errno(err, "Cannot open %s", given);
    int tries = 0, inner;
    do {
        (void)mkdirat(state, "tmp", 0700);
        inner = openat(state, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0)
            (void)unlinkat(state, "tmp", 0);
    } while (inner < 0 && ++tries < 3);
    auto_close int temporary = inner;
    uid_t uid = l->confinement.uid;
    if (temporary < 0 || (uid && fchown(temporary, uid, (gid_t)uid) < 0))
        return berth_fail_errno(err, "Cannot make %s/tmp", given);
    return give_state(l->state, uid, err);
}

/* --- without a cage --- */

/* Confines the program by Landlock and the filter only. */
static int confine_without_cage(struct berth_plugin_cage *l, const struct berth_worker_spec *spec,
                                const char *node, uid_t uid, struct berth_error *err)
{
    struct plan p = {.l = l};
    struct berth_list readable = {0};
    char real[PATH_MAX];
    p.mounts = berth_arena_alloc(l->arena, BERTH_ROOT_MOUNTS_MAX * sizeof *p.mounts);
    if (!p.mounts)
        return berth_arena_check(l->arena, err);
    plan_add(&p, BERTH_MOUNT_READ, l->package);
    if (node) {
        plan_modules(&p, l->package);
        plan_node(&p, node);
    }
    for (size_t i = 0; i < SYSTEM_COUNT; i++)
        if ((system_mounts[i].kind == BERTH_MOUNT_SYSTEM ||
             system_mounts[i].kind == BERTH_MOUNT_PROC) &&
            realpath(system_mounts[i].target, real))
            (void)berth_list_add(&readable, l->arena, berth_arena_strdup(l->arena, real));
    for (size_t i = 0; i < p.count && i < BERTH_ROOT_MOUNTS_MAX; i++)
        (void)berth_list_add(&readable, l->arena, (char *)(uintptr_t)p.mounts[i].target);
    for (size_t i = 0; i < l->file_count; i++)
        (void)berth_list_add(&readable, l->arena, (char *)(uintptr_t)l->files[i].source);
    (void)berth_list_add(&readable, l->arena, (char *)(uintptr_t) "/etc/passwd");
    (void)berth_list_add(&readable, l->arena, (char *)(uintptr_t) "/etc/group");
    (void)berth_list_add(&readable, l->arena, NULL);
    const char *const writable[] = {spec->state,   "/dev/null",    "/dev/zero", "/dev/full",
                                    "/dev/random", "/dev/urandom", NULL};
    const char *const reachable[] = {l->package, parent_of(l->arena, spec->state), node, NULL};
    struct berth_confine_request request = {.readable = (const char *const *)(void *)readable.items,
                                            .writable = writable,
                                            .reachable = reachable,
                                            .uid = uid};
    int rc = berth_arena_check(l->arena, err);
    return rc < 0 ? rc : berth_confine_open(&request, &l->confinement, err);
}

/* --- all of it --- */

static int cage_package(struct berth_plugin_cage *l, const struct berth_worker_spec *spec,
                        struct berth_error *err)
{
    l->package = berth_arena_strdup(l->arena, spec->package);
    if (!l->package)
        return berth_arena_check(l->arena, err);
    auto_close int fd = berth_fs_open_real(AT_FDCWD, l->package, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ELOOP)
        return berth_fail(err, BERTH_E_DENIED,
                          "The directory of the package, %s, has become a symbolic link, or one "
                          "above it has. Install the package again from where it is now.",
                          l->package);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open %s", l->package);
    if (berth_fs_is_within(spec->state, l->package))
        return berth_fail(err, BERTH_E_DENIED,
                          "The directory of the package, %s, contains files of berth, which a "
                          "worker must not see. Move the package into a directory of its own.",
                          l->package);
    return BERTH_OK;
}

static int cage_refuse(const struct berth_error *why, struct berth_error *err)
{
    return berth_fail(err, BERTH_E_UNSUPPORTED,
                      "Workers of plugins cannot be confined: %.300s. Run berthd as root or allow "
                      "user namespaces; or, if you trust all plugins with everything that berthd "
                      "may do, set settings.allowUnconfinedPlugins (without berthd: "
                      "BERTH_ALLOW_UNCONFINED_PLUGINS=1).",
                      why->message);
}

int berth_plugin_cage_make(struct berth_plugin_cage *l, const char *plugin_id,
                           const struct berth_worker_spec *spec, const char *node,
                           struct berth_error *err)
{
    struct berth_confinement *c = &l->confinement;
    struct berth_error why;
    bool own_proc, caged = berth_cage_check(&own_proc, &why) == BERTH_OK;
    uid_t uid = geteuid() == 0 ? uid_of(plugin_id) : 0;
    int rc = cage_package(l, spec, err);
    if (rc == BERTH_OK && !caged && !spec->unconfined)
        rc = cage_refuse(&why, err);
    *c = (struct berth_confinement){
        .ruleset_fd = -1, .uid = uid, .powerless = true, .dies_first = true};
    if (rc == BERTH_OK && caged && uid)
        rc = check_readable(l->package, spec->entry, err);
    if (rc == BERTH_OK && !caged)
        rc = confine_without_cage(l, spec, node, uid, err);
    if (rc == BERTH_OK)
        rc = make_state(l, spec->state, err);
    if (rc == BERTH_OK && caged)
        rc = plan_mounts(l, spec, node, err);
    if (rc == BERTH_OK)
        rc = berth_syscall_filter(spec->sockets != NULL, &c->filter, err);
    if (rc < 0)
        return rc;
    c->unix_sockets = spec->sockets != NULL;
    berth_confine_say(c, l->text);
    return BERTH_OK;
}
