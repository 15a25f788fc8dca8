/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_git_home.c - see workspace_git.h. The way home. Objects of the place
 * are unpacked in a scratch repository. From there git fetches them, which checks every object and
 * that none is missing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "core/workspace/place_script.h"
#include "core/workspace/workspace_git.h"
#include "os/fs.h"

#define REPORT_BYTES_MAX ((size_t)1 << 20)
#define BUNDLE_BYTES_MAX ((int64_t)16 << 30)
#define REFS_MAX 1000
#define LABELS_MAX 100 /* refs/berth/LABEL, LABEL-2, ... */
#define IDS_BYTES_MAX ((size_t)256 * 1024)
#define NESTED_MAX 20
#define LOCK_TRIES 50 /* for the index, while another git works */
#define LOCK_WAIT_MS 100
#define OUR_INDEX "berth-index" /* beside the index, while it is exchanged */

/* --- what the place has --- */

/* Prints nested repositories, then "none", or the repository, then "end". $1 is the directory, $2
 * is "sent" if it was sent a repository. Of other refs than HEAD those are listed that have commits
 * of their own, tags also without. Entries of the stash get names of refs. */
static const char report_script[] =
    "cd \"$1\" || exit; LC_ALL=C; export LC_ALL;"
    " unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY;"
    " command -v find >/dev/null &&"
    " find . \\( -name .berth -o -name .paperclip-runtime \\) -prune -o -name .git -print -prune"
    "  | head -n 20 | sed 's/^/nested /';"
    " command -v git >/dev/null && [ -d .git ] && [ -n \"$2\" ] || { echo none; exit 0; };"
    " [ \"$(git rev-parse --git-dir)\" = .git ] || exit;"
    " git for-each-ref --format='delete %(refname)' refs/berth/out | git update-ref --stdin || "
    "exit;"
    " h=$(git rev-parse -q --verify 'HEAD^{commit}') &&"
    "  { git update-ref refs/berth/out/head \"$h\" || exit; echo \"head $h\"; };"
    " r=$(git symbolic-ref -q HEAD) && echo \"ref $r\";"
    " GIT_AUTHOR_NAME=berth GIT_AUTHOR_EMAIL=berth GIT_COMMITTER_NAME=berth"
    " GIT_COMMITTER_EMAIL=berth GIT_AUTHOR_DATE='" BERTH_GIT_INDEX_DATE "'"
    " GIT_COMMITTER_DATE='" BERTH_GIT_INDEX_DATE "';"
    " export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL"
    " GIT_AUTHOR_DATE GIT_COMMITTER_DATE;"
    " t=$(git write-tree 2>/dev/null) &&"
    " i=$(git commit-tree \"$t\" -m " BERTH_GIT_INDEX_MESSAGE " ${h:+-p \"$h\"}) &&"
    "  { git update-ref refs/berth/out/index \"$i\" || exit; echo \"index $i\"; };"
    " f='ref-of %(objectname) %(refname)';"
    " git for-each-ref --count=1001 --format=\"$f\" ${h:+--no-merged=\"$h\"}"
    "  refs/heads refs/tags refs/notes || exit;"
    " [ -z \"$h\" ] || git for-each-ref --count=100 --format=\"$f\" --merged=\"$h\" refs/tags || "
    "exit;"
    " n=0; git stash list --format=%H | head -n 1001 | while read -r s; do"
    "  git update-ref refs/berth/out/stash/$n \"$s\" || exit;"
    "  echo \"ref-of $s refs/berth/out/stash/$n\"; n=$((n + 1)); done || exit;"
    " echo end";

/* Writes a bundle of what the place added. $1 is the directory. Reads the refs to pack, and "^ID"
 * for what is known here; the place may have made a repository of its own, without that. */
static const char bundle_script[] =
    "cd \"$1\" || exit; LC_ALL=C; export LC_ALL;"
    " unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY;"
    " while read -r l; do case $l in"
    "  ^*) ! git cat-file -e \"${l#^}^{commit}\" 2>/dev/null || printf '%s\\n' \"$l\";;"
    "  *) printf '%s\\n' \"$l\";; esac; done | git bundle create -q - --stdin";

/* A branch, a tag, notes, or an entry of the stash of the place. */
struct place_ref {
    const char *id, *ref;
    const char *kind; /* "heads", "tags", "notes" or "stash" */
    const char *name;
};

static void read_ref(struct berth_git_trip *trip, struct berth_git_return *r, char *text)
{
    static const struct {
        const char *head, *kind;
    } kinds[] = {{"refs/heads/", "heads"},
                 {"refs/tags/", "tags"},
                 {"refs/notes/", "notes"},
                 {"refs/berth/out/stash/", "stash"}};
    char *space = strchr(text, ' ');
    if (!space)
        return;
    *space = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!berth_git_id_valid(text) || !berth_git_ref_valid(space + 1, kinds[i].head))
            continue;
        struct place_ref *ref = berth_arena_alloc(trip->arena, sizeof *ref);
        const char *name = berth_arena_strdup(trip->arena, space + 1);
        if (r->refs.count >= REFS_MAX)
            r->has_more_refs = true;
        else if (ref && name) {
            *ref = (struct place_ref){berth_arena_strdup(trip->arena, text), name, kinds[i].kind,
                                      name + strlen(kinds[i].head)};
            (void)berth_list_add(&r->refs, trip->arena, ref);
        }
    }
}

/* Reads "./PATH/.git". The repository of the workspace itself is not nested. */
static void read_nested(struct berth_git_trip *trip, struct berth_git_return *r, const char *path)
{
    size_t len = strlen(path);
    if (strcmp(path, "./.git") == 0 && trip->state->git.sent)
        return;
    if (len < 6 || strncmp(path, "./", 2) != 0 || r->nested.count >= NESTED_MAX)
        return;
    const char *directory =
        len == 6 ? "." : berth_arena_copy(trip->arena, path + 2, len - 2 - strlen("/.git"));
    (void)berth_list_add(&r->nested, trip->arena, (void *)(uintptr_t)directory);
}

static const char *checked_id(struct berth_git_trip *trip, const char *text)
{
    return berth_git_id_valid(text) ? berth_arena_strdup(trip->arena, text) : NULL;
}

/* Returns false when the place has no repository. */
static bool read_report(struct berth_git_trip *trip, char *text, struct berth_git_return *r)
{
    bool whole = false;
    for (char *next; text && *text; text = next) {
        size_t len = strcspn(text, "\n");
        next = text[len] ? text + len + 1 : NULL;
        text[len] = '\0';
        if (strncmp(text, "head ", 5) == 0)
            r->head = checked_id(trip, text + 5);
        else if (strncmp(text, "ref ", 4) == 0)
            r->ref = berth_arena_strdup(trip->arena, text + 4);
        else if (strncmp(text, "index ", 6) == 0)
            r->index = checked_id(trip, text + 6);
        else if (strncmp(text, "ref-of ", 7) == 0)
            read_ref(trip, r, text + 7);
        else if (strncmp(text, "nested ", 7) == 0)
            read_nested(trip, r, text + 7);
        whole |= strcmp(text, "end") == 0;
    }
    return whole;
}

/* --- fetching --- */

/* A bundle on its way to a file. */
struct bundle_file {
    struct berth_buf wanted; /* refs, and what is known */
    int fd;
};

static int feed_wanted(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct bundle_file *f = ctx;
    return sink->put(sink->ctx, f->wanted.data, f->wanted.len, err);
}

static int take_bundle(void *ctx, const struct berth_unpack_source *source, struct berth_error *err)
{
    const struct bundle_file *f = ctx;
    const void *bytes;
    int64_t all = 0;
    for (ssize_t got; (got = source->get(source->ctx, &bytes, err)) != 0; all += got) {
        if (got < 0)
            return (int)got;
        if (all > BUNDLE_BYTES_MAX)
            return berth_fail(err, BERTH_E_TOO_LARGE,
                              "The new commits of the place have more than %lld bytes.",
                              (long long)BUNDLE_BYTES_MAX);
        int rc = berth_fs_write_all(f->fd, bytes, (size_t)got, err);
        if (rc < 0)
            return rc;
    }
    return BERTH_OK;
}

static bool has_new_index(const struct berth_git_trip *trip, const struct berth_git_return *r)
{
    return r->index && strcmp(r->index, trip->state->git.index) != 0;
}

/* Returns whether the place has a commit that is neither sent nor one of the others. */
static bool has_news(const struct berth_git_trip *trip, const struct berth_git_return *r)
{
    const char *sent = trip->state->git.head;
    bool news = (r->head && strcmp(r->head, sent) != 0) || has_new_index(trip, r);
    for (int i = 0; i < r->refs.count; i++) {
        const struct place_ref *ref = r->refs.items[i];
        news |= strcmp(ref->id, sent) != 0 || strcmp(ref->kind, "tags") == 0;
    }
    return news;
}

/* Puts a ref of the place on the list of what it is to send, unless its commit is here: then that
 * is put there as known, so that its history is not sent again. */
static void want(struct berth_buf *wanted, bool *any, const struct berth_buf *present,
                 const char *id, const char *ref)
{
    if (present->len && strstr(berth_buf_str(present), id)) {
        berth_buf_printf(wanted, "^%s\n", id);
        return;
    }
    berth_buf_printf(wanted, "%s\n", ref);
    *any = true;
}

/* Lists what the place is to send. *any: there is something. */
static int list_wanted(struct berth_git_trip *trip, const struct berth_git_return *r,
                       struct berth_buf *wanted, bool *any, struct berth_error *err)
{
    const struct berth_workspace_git *g = &trip->state->git;
    auto_buf ids = BERTH_BUF_INIT(IDS_BYTES_MAX), present = BERTH_BUF_INIT(IDS_BYTES_MAX);
    if (r->head)
        berth_buf_printf(&ids, "%s\n", r->head);
    for (int i = 0; i < r->refs.count; i++)
        berth_buf_printf(&ids, "%s\n", ((const struct place_ref *)r->refs.items[i])->id);
    int rc = berth_workspace_git_present(trip, &ids, &present, err);
    if (rc < 0)
        return rc;
    *any = false;
    if (r->head)
        want(wanted, any, &present, r->head, "refs/berth/out/head");
    if (has_new_index(trip, r))
        want(wanted, any, &present, r->index, "refs/berth/out/index");
    for (int i = 0; i < r->refs.count; i++) {
        const struct place_ref *ref = r->refs.items[i];
        want(wanted, any, &present, ref->id, ref->ref);
    }
    if (*g->head)
        berth_buf_printf(wanted, "^%s\n", g->head);
    if (*g->index)
        berth_buf_printf(wanted, "^%s\n", g->index);
    return berth_buf_check(wanted, "The list of branches", err);
}

/* Downloads new commits of the place into the scratch repository. */
static int download_commits(struct berth_git_trip *trip, const struct berth_git *scratch,
                            const struct berth_git_return *r, struct berth_error *err)
{
    const char *const args[] = {trip->state->cwd, NULL};
    const char *path = berth_arena_printf(trip->arena, "%s/bundle", trip->home.scratch);
    struct bundle_file file = {.wanted = BERTH_BUF_INIT(REPORT_BYTES_MAX)};
    struct berth_place_script script = {.what = "pack its commits",
                                        .text = bundle_script,
                                        .feed = feed_wanted,
                                        .take = take_bundle,
                                        .ctx = &file};
    bool any = false;
    int exit_code;
    int rc = berth_arena_check(trip->arena, err);
    if (rc == BERTH_OK)
        rc = list_wanted(trip, r, &file.wanted, &any, err);
    if (rc == BERTH_OK && any) {
        file.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        rc = file.fd < 0 ? berth_fail_errno(err, "Cannot write %s", path)
                         : berth_workspace_git_script(trip, &script, args, &exit_code, err);
        if (file.fd >= 0)
            (void)close(file.fd);
        if (rc == BERTH_OK)
            rc = BERTH_GIT(scratch, NULL, err, "bundle", "unbundle", path);
    }
    berth_buf_clear(&file.wanted);
    return rc;
}

/* Names a commit in the scratch repository. It must have arrived. */
static int name_commit(const struct berth_git *scratch, const char *ref, const char *id,
                       struct berth_error *err)
{
    return BERTH_GIT(scratch, NULL, err, "update-ref", ref, id);
}

/* Returns whether a ref of the place gets a name here. The branch of HEAD gets its own. */
static bool is_kept(const struct berth_git_trip *trip, const struct berth_git_return *r,
                    const struct place_ref *ref)
{
    bool is_head = r->ref && strcmp(ref->ref, r->ref) == 0;
    bool is_tag = strcmp(ref->kind, "tags") == 0;
    return !is_head && (is_tag || strcmp(ref->id, trip->state->git.head) != 0);
}

/* Names the other refs in the scratch repository. */
static int name_refs(struct berth_git_trip *trip, const struct berth_git *scratch,
                     const struct berth_git_return *r, struct berth_error *err)
{
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < r->refs.count; i++) {
        const struct place_ref *ref = r->refs.items[i];
        if (is_kept(trip, r, ref))
            rc = name_commit(scratch,
                             berth_arena_printf(trip->arena, "refs/in/%s/%s", ref->kind, ref->name),
                             ref->id, err);
    }
    return rc < 0 ? rc : berth_arena_check(trip->arena, err);
}

/* Lists the names that these refs get here. */
static int list_kept(struct berth_git_trip *trip, struct berth_git_return *r,
                     struct berth_error *err)
{
    for (int i = 0; i < r->refs.count; i++) {
        const struct place_ref *ref = r->refs.items[i];
        const char *kept =
            berth_arena_printf(trip->arena, "refs/berth/%s/%s/%s", ref->kind, r->label, ref->name);
        if (is_kept(trip, r, ref))
            (void)berth_list_add(&r->kept_refs, trip->arena, (void *)(uintptr_t)kept);
    }
    return berth_arena_check(trip->arena, err);
}

/* Returns whether the ref of an earlier pull, "REF ID", would lose commits if a ref of this pull
 * took its name. */
static bool would_lose(struct berth_git_trip *trip, const struct berth_git *scratch,
                       const char *label, const char *line)
{
    auto_buf out = BERTH_BUF_INIT(4096);
    struct berth_error ignored; /* no ref of this pull has the name, or the histories differ */
    const char *name = line + strlen("refs/berth/"), *id = strchr(line, ' ');
    size_t len = strlen(label);
    if (!id)
        return false;
    const char *in = strncmp(name, label, len) == 0 ? "refs/in/head" : NULL;
    size_t kind = strcspn(name, "/");
    if (!in) /* KIND/LABEL or KIND/LABEL/NAME */
        in = berth_arena_printf(trip->arena, "refs/in/%.*s%.*s", (int)kind, name,
                                (int)(id - (name + kind + 1 + len)), name + kind + 1 + len);
    if (!in ||
        BERTH_GIT(scratch, &out, &ignored, "rev-parse", "--quiet", "--verify", in) != BERTH_OK)
        return false;
    return strcmp(berth_buf_str(&out), id + 1) != 0 &&
           BERTH_GIT(scratch, NULL, &ignored, "merge-base", "--is-ancestor", id + 1,
                     berth_buf_str(&out)) != BERTH_OK;
}

/* Chooses the label of the refs here, so that no commits of an earlier pull are lost. */
static int choose_label(struct berth_git_trip *trip, const struct berth_git *scratch,
                        struct berth_git_return *r, struct berth_error *err)
{
    for (int number = 1; number <= LABELS_MAX; number++) {
        auto_buf out = BERTH_BUF_INIT(REPORT_BYTES_MAX);
        const char *label = trip->state->label;
        bool taken = false;
        if (number > 1)
            label = berth_arena_printf(trip->arena, "%s-%d", label, number);
        int rc = berth_arena_check(trip->arena, err);
        if (rc == BERTH_OK)
            rc = BERTH_GIT(&trip->home.git, &out, err, "for-each-ref",
                           "--format=%(refname) %(objectname)",
                           berth_arena_printf(trip->arena, "refs/berth/%s", label),
                           berth_arena_printf(trip->arena, "refs/berth/*/%s", label),
                           berth_arena_printf(trip->arena, "refs/berth/*/%s/**", label));
        if (rc < 0)
            return rc;
        for (const char *at = out.len ? berth_buf_str(&out) : ""; *at && !taken;) {
            const char *line = berth_git_take_line(trip->arena, &at);
            taken = line && would_lose(trip, scratch, label, line);
        }
        r->label = label;
        if (!taken)
            return BERTH_OK;
    }
    return berth_fail(err, BERTH_E_UPSTREAM,
                      "There are %d earlier versions of these commits at refs/berth. Delete those "
                      "that are not needed.",
                      LABELS_MAX);
}

/* Fetches what the scratch repository has into the repository at home. */
static int fetch_home(struct berth_git_trip *trip, struct berth_git_return *r,
                      struct berth_error *err)
{
    struct berth_arena *arena = trip->arena;
    const char *label = r->label;
    const char *words[16] = {"fetch",
                             "--quiet",
                             "--no-tags",
                             "--no-write-fetch-head",
                             "--no-recurse-submodules",
                             "--no-auto-maintenance",
                             "--update-shallow",
                             trip->home.scratch};
    int count = 8;
    if (r->head && strcmp(r->head, trip->state->git.head) != 0) {
        r->kept_ref = berth_arena_printf(arena, "refs/berth/%s", label);
        words[count++] = berth_arena_printf(arena, "+refs/in/head:refs/berth/%s", label);
    }
    if (has_new_index(trip, r))
        words[count++] = berth_arena_printf(arena, "+refs/in/index:refs/berth/index/%s", label);
    for (const char *const *kind = (const char *const[]){"heads", "tags", "notes", "stash", NULL};
         r->kept_refs.count && *kind; kind++)
        words[count++] =
            berth_arena_printf(arena, "+refs/in/%s/*:refs/berth/%s/%s/*", *kind, *kind, label);
    int rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK && count > 8)
        rc = berth_git_run(&trip->home.git, words, NULL, err);
    r->imported = rc == BERTH_OK;
    return rc;
}

static int import_commits(struct berth_git_trip *trip, struct berth_git_return *r,
                          struct berth_error *err)
{
    struct berth_git scratch = {.engine = trip->site->engine,
                                .directory = trip->home.scratch,
                                .cancel_fd = trip->cancel_fd};
    int rc = berth_workspace_git_scratch(trip, err);
    if (rc == BERTH_OK)
        rc = download_commits(trip, &scratch, r, err);
    if (rc == BERTH_OK && r->head)
        rc = name_commit(&scratch, "refs/in/head", r->head, err);
    if (rc == BERTH_OK && has_new_index(trip, r))
        rc = name_commit(&scratch, "refs/in/index", r->index, err);
    if (rc == BERTH_OK)
        rc = name_refs(trip, &scratch, r, err);
    if (rc == BERTH_OK)
        rc = choose_label(trip, &scratch, r, err);
    if (rc == BERTH_OK)
        rc = list_kept(trip, r, err);
    if (rc == BERTH_OK)
        rc = fetch_home(trip, r, err);
    return rc;
}

int berth_workspace_git_fetch(struct berth_git_trip *trip, bool look_only,
                              struct berth_git_return *out, struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(REPORT_BYTES_MAX);
    struct berth_place_script script = {.what = "read its repository",
                                        .text = report_script,
                                        .take = berth_place_script_take_text,
                                        .ctx = &text};
    const char *const args[] = {trip->state->cwd, trip->state->git.sent ? "sent" : "", NULL};
    int exit_code;
    *out = (struct berth_git_return){.label = trip->state->label};
    int rc = berth_workspace_git_script(trip, &script, args, &exit_code, err);
    if (rc < 0)
        return rc;
    bool there = text.len && read_report(trip, text.data, out);
    if (!trip->state->git.sent)
        return berth_arena_check(trip->arena, err);
    if (!there) {
        out->state = "gone";
        out->note = "The place has no repository any more.";
        return berth_arena_check(trip->arena, err);
    }
    out->state = has_news(trip, out) ? "new" : "unchanged";
    if (look_only || strcmp(out->state, "unchanged") == 0)
        return berth_arena_check(trip->arena, err);
    if (out->has_more_refs)
        return berth_fail(err, BERTH_E_UPSTREAM,
                          "The place has more than %d branches, tags and stashes with commits of "
                          "their own. Delete there what is not needed.",
                          REFS_MAX);
    rc = berth_workspace_git_open(trip, err);
    if (rc == BERTH_OK && !trip->home.git.engine)
        rc = berth_fail(err, BERTH_E_UPSTREAM,
                        "The repository at %s was removed or cannot be found.", trip->state->path);
    if (rc == BERTH_OK)
        rc = import_commits(trip, out, err);
    berth_workspace_git_forget_scratch(trip);
    return rc;
}

/* --- joining --- */

static const char *beside_index(struct berth_arena *arena, const char *index, const char *name)
{
    const char *slash = strrchr(index, '/');
    return berth_arena_printf(arena, "%.*s/%s", (int)(slash - index), index, name);
}

/* An exchange links berth-index to index.lock, which other gits respect, and renames it to the
 * index. When both names have one inode, the process that held the lock was ours and is dead. */
static void recover_exchange(const char *ours, const char *lock)
{
    struct stat own, held;
    if (lstat(ours, &own) < 0)
        return;
    if (lstat(lock, &held) == 0 && held.st_ino == own.st_ino && held.st_dev == own.st_dev)
        (void)unlink(lock);
    (void)unlink(ours);
}

void berth_workspace_git_recover(const char *path)
{
    char ours[4352], lock[4352];
    (void)snprintf(ours, sizeof ours, "%s/.git/" OUR_INDEX, path);
    (void)snprintf(lock, sizeof lock, "%s/.git/index.lock", path);
    recover_exchange(ours, lock); /* in a linked worktree .git is a file: join does it */
}

/* Takes the lock of the index. Waits a few seconds for another git. */
static int lock_index(struct berth_git_trip *trip, const char *ours, const char *lock,
                      struct berth_error *err)
{
    struct pollfd cancel = {.fd = trip->cancel_fd, .events = POLLIN};
    for (int tries = 0; link(ours, lock) < 0; tries++) {
        if (errno != EEXIST)
            return berth_fail_errno(err, "Cannot lock the index of the repository");
        if (tries >= LOCK_TRIES || poll(&cancel, 1, LOCK_WAIT_MS) > 0)
            return berth_fail(err, BERTH_E_UPSTREAM,
                              "Another git process is at work here (%s exists).", lock);
    }
    return BERTH_OK;
}

/* Makes the file `ours` with an index of the tree of a commit. Entries that stay the same keep what
 * git knows of their files. */
static int build_index(struct berth_git_trip *trip, const char *ours, const char *commit,
                       struct berth_error *err)
{
    const char *const env[] = {
        berth_arena_printf(trip->arena, "GIT_INDEX_FILE=%s", ours),
        berth_arena_printf(trip->arena, "GIT_DIR=%s", trip->home.directory),
        berth_arena_printf(trip->arena, "GIT_WORK_TREE=%s", trip->home.empty), NULL};
    struct berth_git git = {.engine = trip->site->engine,
                            .directory = trip->home.empty,
                            .env = env,
                            .cancel_fd = trip->cancel_fd};
    auto_buf bytes = BERTH_BUF_INIT((size_t)1 << 30);
    int rc = berth_arena_check(trip->arena, err);
    if (rc < 0)
        return rc;
    auto_close int in = open(trip->home.index, O_RDONLY | O_CLOEXEC);
    if (in >= 0)
        rc = berth_fs_read_all(in, &bytes, err);
    auto_close int out = open(ours, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (rc == BERTH_OK && out < 0)
        rc = berth_fail_errno(err, "Cannot write %s", ours);
    if (rc == BERTH_OK && bytes.len)
        rc = berth_fs_write_all(out, bytes.data, bytes.len, err);
    else if (rc == BERTH_OK)
        (void)unlink(ours); /* an empty file is not an index */
    return rc < 0 ? rc : BERTH_GIT(&git, NULL, err, "read-tree", "-i", "-m", commit);
}

/* Exchanges the index for one of `commit`, if it still is that of `expected`. *taken says whether
 * the index is now that of `commit`. */
static int exchange_index(struct berth_git_trip *trip, const char *head, const char *expected,
                          const char *commit, bool *taken, struct berth_error *err)
{
    const char *ours = beside_index(trip->arena, trip->home.index, OUR_INDEX);
    const char *lock = berth_arena_printf(trip->arena, "%s.lock", trip->home.index), *now;
    *taken = false;
    int rc = berth_arena_check(trip->arena, err);
    if (rc < 0)
        return rc;
    recover_exchange(ours, lock);
    rc = build_index(trip, ours, commit, err);
    if (rc == BERTH_OK)
        rc = lock_index(trip, ours, lock, err);
    if (rc < 0) {
        (void)unlink(ours);
        return rc;
    }
    rc = berth_workspace_git_index_commit(trip, head, &now, err);
    BERTH_FAILPOINT(workspace_git_locked);
    bool free = rc == BERTH_OK && now && strcmp(now, expected) == 0;
    if (free && rename(lock, trip->home.index) == 0)
        *taken = true;
    else
        (void)unlink(lock);
    (void)unlink(ours);
    return rc;
}

/* Says why commits, or what was staged, stay beside the branch. */
static int stay_beside(struct berth_git_trip *trip, struct berth_git_return *r, const char *why,
                       struct berth_error *err)
{
    r->state = "beside";
    if (r->kept_ref)
        r->note = berth_arena_printf(trip->arena, "%s The commits of the place are in %s.", why,
                                     r->kept_ref);
    else
        r->note = berth_arena_printf(
            trip->arena, "%s What the place staged is in refs/berth/index/%s.", why, r->label);
    return berth_arena_check(trip->arena, err);
}

/* Returns why the branch at home cannot simply move to the commit of the place, or NULL. *moved:
 * it has that commit already: an earlier pull was killed, or somebody merged it. */
static const char *find_hindrance(struct berth_git_trip *trip, const struct berth_git_return *r,
                                  const char *ref, const char *head, bool *moved)
{
    const struct berth_workspace_git *g = &trip->state->git;
    struct berth_error ignored;
    *moved = false;
    if (strcmp(r->ref ? r->ref : "", g->ref) != 0)
        return "The place has another branch checked out than it was sent.";
    if (strcmp(ref, g->ref) != 0)
        return "Another branch was checked out here meanwhile.";
    if (!r->head)
        return *g->head ? "The branch of the place has no commit." : NULL;
    *moved = strcmp(head, r->head) == 0 || BERTH_GIT(&trip->home.git, NULL, &ignored, "merge-base",
                                                     "--is-ancestor", r->head, head) == BERTH_OK;
    if (!*moved && strcmp(head, g->head) != 0)
        return "The branch has new commits here, too.";
    if (*g->head && BERTH_GIT(&trip->home.git, NULL, &ignored, "merge-base", "--is-ancestor",
                              g->head, r->head) < 0)
        return "The place has rewritten commits that were sent.";
    return NULL;
}

static int move_branch(struct berth_git_trip *trip, const struct berth_git_return *r,
                       struct berth_error *err)
{
    const struct berth_workspace_git *g = &trip->state->git;
    const char *message = berth_arena_printf(trip->arena, "berth: work of %s", trip->state->label);
    const char *old = *g->head ? g->head
                      : strlen(r->head) == 64
                          ? "0000000000000000000000000000000000000000000000000000000000000000"
                          : "0000000000000000000000000000000000000000";
    int rc = berth_arena_check(trip->arena, err);
    if (rc < 0)
        return rc;
    return *g->ref ? BERTH_GIT(&trip->home.git, NULL, err, "update-ref", "-m", message, g->ref,
                               r->head, old)
                   : BERTH_GIT(&trip->home.git, NULL, err, "update-ref", "--no-deref", "-m",
                               message, "HEAD", r->head, old);
}

/* Deletes a ref that is not needed any more. */
static void drop_ref(struct berth_git_trip *trip, const char *ref)
{
    struct berth_error ignored; /* a ref that stays does no harm */
    if (ref)
        (void)BERTH_GIT(&trip->home.git, NULL, &ignored, "update-ref", "-d", ref);
}

/* Makes the index that of the place. *joined becomes false when it was changed here meanwhile. */
static int join_index(struct berth_git_trip *trip, const struct berth_git_return *r, bool *joined,
                      struct berth_error *err)
{
    const struct berth_workspace_git *g = &trip->state->git;
    const char *now, *wanted;
    *joined = true;
    if (!has_new_index(trip, r) || !*g->index)
        return BERTH_OK; /* it is as it was sent, or one of them had an unfinished merge */
    int rc = berth_workspace_git_index_commit(trip, r->head ? r->head : "", &wanted, err);
    if (rc == BERTH_OK && wanted && strcmp(wanted, r->index) == 0)
        return rc; /* it is the same tree already */
    if (rc == BERTH_OK)
        rc = berth_workspace_git_index_commit(trip, g->head, &now, err);
    if (rc == BERTH_OK && (!now || strcmp(now, g->index) != 0))
        *joined = false;
    if (rc == BERTH_OK && *joined)
        rc = exchange_index(trip, g->head, g->index, r->index, joined, err);
    return rc;
}

static int join(struct berth_git_trip *trip, struct berth_git_return *r, struct berth_error *err)
{
    const struct berth_workspace_git *g = &trip->state->git;
    const char *ref, *head, *index_ref;
    bool moved, joined = true, news = r->head && strcmp(r->head, g->head) != 0;
    int rc = berth_workspace_git_head(trip, &ref, &head, err);
    index_ref = berth_arena_printf(trip->arena, "refs/berth/index/%s", r->label);
    if (rc == BERTH_OK)
        rc = berth_arena_check(trip->arena, err);
    if (rc < 0)
        return rc;
    const char *why = find_hindrance(trip, r, ref, head, &moved);
    if (why)
        return stay_beside(trip, r, why, err);
    /* A worktree whose files an earlier pull has committed has nothing staged. */
    bool committed = *trip->state->branch && moved && strcmp(head, r->head) != 0;
    if (!committed)
        rc = join_index(trip, r, &joined, err);
    if (rc < 0)
        return rc;
    if (!joined)
        return stay_beside(trip, r, "The index was changed here meanwhile.", err);
    BERTH_FAILPOINT(workspace_git_after_index);
    if (news && !moved && move_branch(trip, r, err) < 0)
        return stay_beside(trip, r, err->message, err);
    BERTH_FAILPOINT(workspace_git_after_branch);
    drop_ref(trip, index_ref);
    drop_ref(trip, r->kept_ref);
    r->kept_ref = NULL;
    r->state = news ? "advanced" : "unchanged";
    return BERTH_OK;
}

int berth_workspace_git_join(struct berth_git_trip *trip, struct berth_git_return *r,
                             struct berth_error *err)
{
    if (!r->imported)
        return BERTH_OK;
    int rc = berth_workspace_git_scratch(trip, err);
    if (rc == BERTH_OK)
        rc = join(trip, r, err);
    berth_workspace_git_forget_scratch(trip);
    const char *why = NULL;
    rc = berth_workspace_git_excuse(trip, rc, &why, err);
    return rc == BERTH_OK && why ? stay_beside(trip, r, why, err) : rc;
}

static void put_texts(struct berth_json_writer *w, const char *name, const struct berth_list *list)
{
    berth_json_open_in(w, name, '[');
    for (int i = 0; i < list->count; i++)
        berth_json_put_foreign(w, NULL, list->items[i]);
    berth_json_close(w, ']');
}

void berth_workspace_git_json(const struct berth_git_trip *trip, const struct berth_git_return *r,
                              struct berth_json_writer *w)
{
    const char *sent = trip->state->git.note;
    const char *note = r->note ? r->note : sent && *sent ? sent : NULL;
    if (!r->state && !note && !r->nested.count)
        return;
    berth_json_open_in(w, "git", '{');
    berth_json_put_str(w, "state", r->state ? r->state : "not-sent");
    berth_json_put_str(w, "head", r->head);
    berth_json_put_foreign(w, "branch", r->ref);
    berth_json_put_foreign(w, "ref", r->kept_ref);
    berth_json_put_foreign(w, "note", note);
    put_texts(w, "branches", &r->kept_refs);
    put_texts(w, "nested", &r->nested);
    berth_json_close(w, '}');
}
