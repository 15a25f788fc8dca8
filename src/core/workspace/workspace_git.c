/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_git.c - see workspace_git.h. The way to the place. */
#include "core/workspace/workspace_git.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "core/workspace/place_script.h"
#include "core/workspace/transport.h"
#include "os/fs.h"

#define TEXT_BYTES_MAX ((size_t)256 << 20) /* lists of paths */
#define INDEX_BYTES_MAX ((size_t)1 << 30)
#define RULES_BYTES_MAX ((size_t)1 << 20)
#define KNOWN_MAX 16 /* commits of a place that are looked up */
#define NO_GIT 46    /* exit status of receive_script */
#define CHUNK_BYTES 65536

/* --- shared --- */

int berth_workspace_git_excuse(struct berth_git_trip *trip, int rc, const char **note,
                               struct berth_error *err)
{
    if (rc != BERTH_E_UPSTREAM && rc != BERTH_E_NOT_FOUND && rc != BERTH_E_UNPROCESSABLE)
        return rc;
    *note = berth_arena_strdup(&trip->state->arena, err->message);
    return berth_arena_check(&trip->state->arena, err);
}

int berth_workspace_git_script(struct berth_git_trip *trip, struct berth_place_script *script,
                               const char *const *args, int *exit_code, struct berth_error *err)
{
    struct berth_place_shell shell;
    const char *cwd = trip->state->cwd;
    const char *scratch = berth_arena_printf(trip->arena, "%s/" BERTH_TRANSPORT_SCRATCH, cwd);
    if (!scratch)
        return berth_arena_check(trip->arena, err);
    int rc = trip->site->ops->open_shell(trip->site, trip->arena, trip->lease_id, scratch,
                                         trip->cancel_fd, &shell, err);
    script->args = args;
    return rc < 0 ? rc : berth_place_script_run(&shell, script, exit_code, err);
}

void berth_workspace_git_forget_scratch(struct berth_git_trip *trip)
{
    struct berth_error ignored; /* the sweep removes it with the state of the lease */
    if (trip->home.scratch)
        (void)berth_fs_remove_tree(trip->home.scratch, &ignored);
}

int berth_workspace_git_present(struct berth_git_trip *trip, const struct berth_buf *ids,
                                struct berth_buf *out, struct berth_error *err)
{
    struct berth_git git = trip->home.git;
    git.input = ids;
    int rc = berth_buf_check(ids, "The list of commits", err);
    return rc < 0 || !ids->len
               ? rc
               : BERTH_GIT(&git, out, err, "rev-list", "--no-walk", "--ignore-missing", "--stdin");
}

static int write_text(const char *path, const char *text, struct berth_error *err)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot write %s", path);
    return berth_fs_write_all(fd, text, strlen(text), err);
}

int berth_workspace_git_scratch(struct berth_git_trip *trip, struct berth_error *err)
{
    struct berth_home_git *h = &trip->home;
    struct berth_git git = {
        .engine = trip->site->engine, .directory = "/", .cancel_fd = trip->cancel_fd};
    berth_workspace_git_forget_scratch(trip);
    const char *format = berth_arena_printf(trip->arena, "--object-format=%s", h->format);
    const char *alternates =
        berth_arena_printf(trip->arena, "%s/objects/info/alternates", h->scratch);
    const char *shallow = berth_arena_printf(trip->arena, "%s/shallow", h->scratch);
    const char *objects = berth_arena_printf(trip->arena, "%s\n", h->objects);
    if (berth_arena_check(trip->arena, err) < 0)
        return err->code;
    int rc =
        BERTH_GIT(&git, NULL, err, "init", "--quiet", "--bare", "--template=", format, h->scratch);
    if (rc == BERTH_OK && mkdir(h->empty, S_IRWXU) < 0)
        rc = berth_fail_errno(err, "Cannot make %s", h->empty);
    if (rc == BERTH_OK)
        rc = write_text(alternates, objects, err);
    return rc < 0 || !*h->shallow ? rc : write_text(shallow, h->shallow, err);
}

int berth_workspace_git_head(struct berth_git_trip *trip, const char **ref, const char **head,
                             struct berth_error *err)
{
    auto_buf out = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    *ref = *head = "";
    int rc = BERTH_GIT(&trip->home.git, &out, err, "symbolic-ref", "--quiet", "HEAD");
    if (rc == BERTH_OK)
        *ref = berth_arena_strdup(&trip->state->arena, berth_buf_str(&out));
    if (rc < 0 && rc != BERTH_E_UPSTREAM) /* a commit is checked out instead of a branch */
        return rc;
    rc = BERTH_GIT(&trip->home.git, &out, err, "rev-parse", "--quiet", "--verify", "HEAD^{commit}");
    if (rc == BERTH_OK)
        *head = berth_arena_strdup(&trip->state->arena, berth_buf_str(&out));
    if (rc < 0 && rc != BERTH_E_UPSTREAM) /* the branch has no commit yet */
        return rc;
    return berth_arena_check(&trip->state->arena, err);
}

/* Copies the index, because git writes to the one that it reads. A missing one is empty. */
static int copy_index(const char *from, const char *to, struct berth_error *err)
{
    auto_buf bytes = BERTH_BUF_INIT(INDEX_BYTES_MAX);
    (void)unlink(to);
    auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 && errno == ENOENT)
        return BERTH_OK;
    if (in < 0)
        return berth_fail_errno(err, "Cannot read %s", from);
    int rc = berth_fs_read_all(in, &bytes, err);
    if (rc < 0)
        return rc;
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return berth_fail_errno(err, "Cannot write %s", to);
    return berth_fs_write_all(out, bytes.data, bytes.len, err);
}

int berth_workspace_git_index_commit(struct berth_git_trip *trip, const char *head,
                                     const char **out, struct berth_error *err)
{
    struct berth_home_git *h = &trip->home;
    struct berth_arena *arena = trip->arena;
    auto_buf text = BERTH_BUF_INIT(4096);
    const char *index = berth_arena_printf(arena, "%s/index", h->scratch);
    const char *const env[] = {
        berth_arena_printf(arena, "GIT_INDEX_FILE=%s", index),
        berth_arena_printf(arena, "GIT_OBJECT_DIRECTORY=%s/objects", h->scratch),
        berth_arena_printf(arena, "GIT_DIR=%s", h->directory),
        berth_arena_printf(arena, "GIT_WORK_TREE=%s", h->empty),
        "GIT_AUTHOR_NAME=berth",
        "GIT_AUTHOR_EMAIL=berth",
        "GIT_AUTHOR_DATE=" BERTH_GIT_INDEX_DATE,
        "GIT_COMMITTER_NAME=berth",
        "GIT_COMMITTER_EMAIL=berth",
        "GIT_COMMITTER_DATE=" BERTH_GIT_INDEX_DATE,
        NULL,
    };
    struct berth_git git = {.engine = trip->site->engine,
                            .directory = h->empty,
                            .env = env,
                            .cancel_fd = trip->cancel_fd};
    *out = NULL;
    int rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK)
        rc = copy_index(h->index, index, err);
    if (rc == BERTH_OK)
        rc = BERTH_GIT(&git, &text, err, "write-tree");
    if (rc == BERTH_E_UPSTREAM)
        return BERTH_OK; /* unmerged paths */
    if (rc < 0)
        return rc;
    const char *tree = berth_arena_strdup(arena, berth_buf_str(&text));
    if (!tree)
        return berth_arena_check(arena, err);
    rc = *head ? BERTH_GIT(&git, &text, err, "commit-tree", tree, "-m", BERTH_GIT_INDEX_MESSAGE,
                           "-p", head)
               : BERTH_GIT(&git, &text, err, "commit-tree", tree, "-m", BERTH_GIT_INDEX_MESSAGE);
    if (rc == BERTH_OK)
        *out = berth_arena_strdup(&trip->state->arena, berth_buf_str(&text));
    return rc < 0 ? rc : berth_arena_check(&trip->state->arena, err);
}

/* --- reading the repository at home --- */

static int read_paths(struct berth_git_trip *trip, struct berth_error *err)
{
    struct berth_home_git *h = &trip->home;
    auto_buf out = BERTH_BUF_INIT(65536);
    int rc =
        BERTH_GIT(&h->git, &out, err, "rev-parse", "--path-format=absolute", "--show-toplevel",
                  "--absolute-git-dir", "--git-path", "index", "--git-path", "objects",
                  "--git-path", "info/exclude", "--git-path", "shallow", "--show-object-format");
    if (rc < 0)
        return rc;
    const char *at = berth_buf_str(&out), *top = berth_git_take_line(trip->arena, &at);
    h->directory = berth_git_take_line(trip->arena, &at);
    h->index = berth_git_take_line(trip->arena, &at);
    h->objects = berth_git_take_line(trip->arena, &at);
    h->exclude = berth_git_take_line(trip->arena, &at);
    h->shallow_file = berth_git_take_line(trip->arena, &at);
    h->format = berth_git_take_line(trip->arena, &at);
    rc = berth_arena_check(trip->arena, err);
    if (rc == BERTH_OK && (strcmp(top, h->git.directory) != 0 || !*h->format || *at))
        rc = berth_fail(err, BERTH_E_UNPROCESSABLE, "The repository of %.300s is at %.300s.",
                        h->git.directory, top);
    return rc;
}

static int read_shallow(struct berth_git_trip *trip, struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(RULES_BYTES_MAX);
    auto_close int fd = open(trip->home.shallow_file, O_RDONLY | O_CLOEXEC);
    trip->home.shallow = "";
    if (fd < 0)
        return BERTH_OK;
    int rc = berth_fs_read_all(fd, &text, err);
    if (rc == BERTH_OK && text.len)
        trip->home.shallow = berth_arena_strdup(trip->arena, berth_buf_str(&text));
    return rc < 0 ? rc : berth_arena_check(trip->arena, err);
}

/* Adds the rules of a file outside the tree, if it can be read. `below` is the path of the tree
 * from the directory for which the rules are. */
static int add_rules_of(struct berth_git_trip *trip, const char *path, const char *below,
                        struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(RULES_BYTES_MAX);
    struct stat st;
    auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return BERTH_OK;
    int rc = berth_fs_read_all(fd, &text, err);
    return rc < 0 || !text.len
               ? rc
               : berth_ignore_add_above(trip->state->ignore, below, text.data, text.len, err);
}

/* Adds what the user ignores in all repositories. */
static int read_standard_rules(struct berth_git_trip *trip, const struct berth_git *git,
                               const char *below, struct berth_error *err)
{
    auto_buf out = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    char standard[4352] = "";
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int rc = BERTH_GIT(git, &out, err, "config", "--path", "core.excludesFile");
    if (rc == BERTH_OK)
        (void)snprintf(standard, sizeof standard, "%s", berth_buf_str(&out));
    else if (rc == BERTH_E_UPSTREAM && config && *config)
        (void)snprintf(standard, sizeof standard, "%s/git/ignore", config);
    else if (rc == BERTH_E_UPSTREAM && home)
        (void)snprintf(standard, sizeof standard, "%s/.config/git/ignore", home);
    else if (rc != BERTH_E_UPSTREAM)
        return rc;
    return add_rules_of(trip, standard, below, err);
}

/* Lets tracked files cross that are ignored all the same. */
static int keep_tracked(struct berth_git_trip *trip, const struct berth_git *git,
                        struct berth_error *err)
{
    auto_buf out = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    int rc =
        BERTH_GIT(git, &out, err, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard");
    const char *end = rc == BERTH_OK && out.len ? out.data + out.len : NULL;
    for (const char *path = out.data; rc == BERTH_OK && end && path < end; path += strlen(path) + 1)
        rc = berth_ignore_keep(trip->state->ignore, path, err);
    return rc;
}

/* Adds what the repository ignores beside its .gitignore files. */
static int read_rules(struct berth_git_trip *trip, struct berth_error *err)
{
    int rc = read_standard_rules(trip, &trip->home.git, "", err);
    if (rc == BERTH_OK)
        rc = add_rules_of(trip, trip->home.exclude, "", err);
    return rc < 0 ? rc : keep_tracked(trip, &trip->home.git, err);
}

/* Finds the repository that a directory is a part of. Returns the length of its path, or 0. */
static size_t find_top(const char *path)
{
    char marker[4352];
    for (size_t len = strlen(path); len; len--) {
        if (path[len] != '/')
            continue;
        (void)snprintf(marker, sizeof marker, "%.*s/.git", (int)len, path);
        if (access(marker, F_OK) == 0)
            return len;
    }
    return 0;
}

/* Adds what the repository ignores of which the workspace is a part, as git does. Without git, or
 * when git does not trust the repository, its .gitignore files count all the same. */
static int read_rules_above(struct berth_git_trip *trip, struct berth_error *err)
{
    const char *path = trip->state->path;
    const struct berth_git git = {
        .engine = trip->site->engine, .directory = path, .cancel_fd = trip->cancel_fd};
    const char *ignored; /* why git does not work */
    size_t top = find_top(path);
    char file[4352];
    if (!top)
        return BERTH_OK;
    int rc = read_standard_rules(trip, &git, path + top + 1, err);
    if (rc < 0)
        rc = berth_workspace_git_excuse(trip, rc, &ignored, err);
    (void)snprintf(file, sizeof file, "%.*s/.git/info/exclude", (int)top, path);
    if (rc == BERTH_OK)
        rc = add_rules_of(trip, file, path + top + 1, err);
    for (size_t len = top; rc == BERTH_OK && path[len]; len += 1 + strcspn(path + len + 1, "/"))
        for (int i = 0; rc == BERTH_OK && i < 2; i++) {
            (void)snprintf(file, sizeof file, "%.*s/%s", (int)len, path,
                           i ? ".berthignore" : ".gitignore");
            rc = add_rules_of(trip, file, path + len + 1, err);
        }
    if (rc == BERTH_OK)
        rc = keep_tracked(trip, &git, err);
    return rc < 0 ? berth_workspace_git_excuse(trip, rc, &ignored, err) : rc;
}

int berth_workspace_git_open(struct berth_git_trip *trip, struct berth_error *err)
{
    const struct berth_workspace_state *s = trip->state;
    char marker[4352];
    (void)snprintf(marker, sizeof marker, "%s/.git", s->path);
    trip->home = (struct berth_home_git){0};
    if (access(marker, F_OK) < 0)
        return BERTH_OK;
    trip->home.git = (struct berth_git){
        .engine = trip->site->engine, .directory = s->path, .cancel_fd = trip->cancel_fd};
    int rc = berth_workspace_state_path(trip->site->states, trip->arena, trip->lease_id, ".git",
                                        &trip->home.scratch, err);
    if (rc == BERTH_OK)
        rc = read_paths(trip, err);
    if (rc < 0)
        return rc;
    trip->home.empty = berth_arena_printf(trip->arena, "%s/empty", trip->home.scratch);
    rc = berth_arena_check(trip->arena, err);
    return rc < 0 ? rc : read_shallow(trip, err);
}

static int read_repository(struct berth_git_trip *trip, struct berth_error *err)
{
    struct berth_workspace_git *g = &trip->state->git;
    const char *index = NULL;
    int rc = berth_workspace_git_open(trip, err);
    if (rc == BERTH_OK && !trip->home.git.engine)
        return read_rules_above(trip, err);
    if (rc < 0)
        return rc;
    rc = berth_workspace_git_head(trip, &g->ref, &g->head, err);
    if (rc == BERTH_OK)
        rc = read_rules(trip, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_git_scratch(trip, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_git_index_commit(trip, g->head, &index, err);
    if (rc == BERTH_OK && !index)
        g->note = "The index did not travel: it has unmerged paths.";
    g->index = index ? index : "";
    return rc;
}

/* Stores why the repository does not travel, and forgets it. */
static int do_without(struct berth_git_trip *trip, int rc, struct berth_error *err)
{
    struct berth_workspace_state *s = trip->state;
    const char *why = "";
    rc = berth_workspace_git_excuse(trip, rc, &why, err);
    s->git = (struct berth_workspace_git){.ref = "", .head = "", .index = ""};
    s->git.note =
        berth_arena_printf(&s->arena, "Only files travelled, without the repository: %s", why);
    trip->home.git.engine = NULL;
    return rc < 0 ? rc : berth_arena_check(&s->arena, err);
}

int berth_workspace_git_read(struct berth_git_trip *trip, struct berth_error *err)
{
    trip->state->git = (struct berth_workspace_git){.ref = "", .head = "", .index = "", .note = ""};
    int rc = read_repository(trip, err);
    return rc < 0 ? do_without(trip, rc, err) : rc;
}

/* --- to the place --- */

/* $1 is the directory, $2 the format of ids, $3 the branch, $4 the commit, $5 the commit of the
 * index, $6 and $7 the user, $8 the commits without parents. Reads a bundle, which may be empty. */
static const char receive_script[] =
    "cd \"$1\" || exit; LC_ALL=C; export LC_ALL;"
    " unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY;"
    " command -v git >/dev/null || { cat >/dev/null; exit 46; };"
    " if ! [ -e .git ]; then"
    "  if [ \"$2\" = sha1 ]; then git init -q . || exit;"
    "  else git init -q --object-format=\"$2\" . || exit; fi;"
    "  mkdir -p .git/info && echo /.paperclip-runtime/ >> .git/info/exclude || exit; fi;"
    " [ -z \"$8\" ] || printf %s \"$8\" > .git/shallow || exit;"
    " mkdir -p .berth && cat > .berth/bundle || exit;"
    " if [ -s .berth/bundle ]; then git -c gc.auto=0 fetch -q --no-tags .berth/bundle"
    "  '+refs/berth/*:refs/berth/*' || exit; fi;"
    " rm -f .berth/bundle;"
    " git symbolic-ref HEAD refs/berth/none || exit;"
    " git for-each-ref --format='delete %(refname)' refs/heads refs/berth/out"
    "  | git update-ref --stdin || exit;"
    " if [ -n \"$3\" ]; then"
    "  [ -z \"$4\" ] || git update-ref \"$3\" \"$4\" || exit; git symbolic-ref HEAD \"$3\" || exit;"
    " else git update-ref --no-deref HEAD \"$4\" || exit; fi;"
    " rm -f .git/index;"
    " t=${5:-$4}; [ -z \"$t\" ] || git read-tree \"$t\" || exit;"
    " [ -z \"$6\" ] || git config user.name \"$6\"; [ -z \"$7\" ] || git config user.email \"$7\";"
    " git update-index -q --refresh >/dev/null 2>&1;"
    " cp " BERTH_TRANSPORT_TOKEN " " BERTH_TRANSPORT_TOKEN_COPY;

/* Reads paths that are tracked, but are not in the place: git is not to take them for deleted. */
static const char skip_script[] = "cd \"$1\" && git update-index -z --skip-worktree --stdin";

/* Prints commits that the place has. */
static const char known_script[] =
    "cd \"$1\" && command -v git >/dev/null && [ -d .git ] || exit 0;"
    " git for-each-ref --count=16 --format='%(objectname)' refs/berth refs/heads";

/* Feeds a file, or nothing when it is not there. */
struct file_feed {
    const char *path;
};

static int feed_file(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct file_feed *f = ctx;
    auto_free char *bytes = malloc(CHUNK_BYTES);
    auto_close int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (!bytes)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: repository.");
    if (fd < 0 && errno == ENOENT)
        return BERTH_OK;
    for (;;) {
        ssize_t got = fd < 0 ? -1 : read(fd, bytes, CHUNK_BYTES);
        if (got < 0)
            return berth_fail_errno(err, "Cannot read %s", f->path);
        int rc = got ? sink->put(sink->ctx, bytes, (size_t)got, err) : BERTH_OK;
        if (rc < 0 || !got)
            return rc;
    }
}

/* Fills words with "^ID" for each commit that the place has and that is also here. */
static int find_known(struct berth_git_trip *trip, const char *words[KNOWN_MAX + 1],
                      struct berth_error *err)
{
    auto_buf text = BERTH_BUF_INIT(65536), ids = BERTH_BUF_INIT(65536),
             here = BERTH_BUF_INIT(65536);
    struct berth_place_script script = {.what = "look for commits",
                                        .text = known_script,
                                        .take = berth_place_script_take_text,
                                        .ctx = &text};
    const char *const args[] = {trip->state->cwd, NULL};
    size_t known = 0;
    int exit_code;
    int rc = berth_workspace_git_script(trip, &script, args, &exit_code, err);
    const char *at = rc == BERTH_OK && text.len ? berth_buf_str(&text) : "";
    while (*at) {
        const char *id = berth_git_take_line(trip->arena, &at);
        if (id && berth_git_id_valid(id))
            berth_buf_printf(&ids, "%s\n", id);
    }
    if (rc == BERTH_OK)
        rc = berth_workspace_git_present(trip, &ids, &here, err);
    for (at = rc == BERTH_OK && here.len ? berth_buf_str(&here) : ""; *at && known < KNOWN_MAX;) {
        const char *id = berth_git_take_line(trip->arena, &at);
        words[known++] = berth_arena_printf(trip->arena, "^%s", id ? id : "");
    }
    words[known] = NULL;
    return rc < 0 ? rc : berth_arena_check(trip->arena, err);
}

static bool has_word(const char *const *words, const char *id)
{
    for (; *words; words++)
        if (strcmp(*words + 1, id) == 0)
            return true;
    return false;
}

/* Makes the bundle of what the place does not have yet. Nothing is made when it has everything. */
static int make_bundle(struct berth_git_trip *trip, bool fresh, const char *path,
                       struct berth_error *err)
{
    const struct berth_workspace_git *g = &trip->state->git;
    struct berth_git scratch = {.engine = trip->site->engine,
                                .directory = trip->home.scratch,
                                .cancel_fd = trip->cancel_fd};
    const char *known[KNOWN_MAX + 1] = {0},
                                  *words[KNOWN_MAX + 8] = {"bundle", "create", "--quiet", path};
    size_t count = 4;
    int rc = fresh ? BERTH_OK : find_known(trip, known, err);
    const struct {
        const char *ref, *id;
    } tips[] = {{"refs/berth/head", g->head}, {"refs/berth/index", g->index}};
    for (size_t i = 0; rc == BERTH_OK && i < 2; i++) {
        if (!*tips[i].id || has_word(known, tips[i].id))
            continue;
        rc = BERTH_GIT(&scratch, NULL, err, "update-ref", tips[i].ref, tips[i].id);
        words[count++] = tips[i].ref;
    }
    if (rc < 0 || count == 4)
        return rc;
    for (size_t i = 0; known[i]; i++)
        words[count++] = known[i];
    return berth_git_run(&scratch, words, NULL, err);
}

/* Returns the user's name or address as git knows it, or "". */
static const char *user_word(struct berth_git_trip *trip, const char *key)
{
    auto_buf out = BERTH_BUF_INIT(4096);
    struct berth_error ignored; /* it is not set: the place does without */
    const char *text = NULL;
    if (BERTH_GIT(&trip->home.git, &out, &ignored, "config", key) == BERTH_OK)
        text = berth_arena_strdup(trip->arena, berth_buf_str(&out));
    return text ? text : "";
}

static int feed_text(void *ctx, const struct berth_pack_sink *sink, struct berth_error *err)
{
    const struct berth_buf *text = ctx;
    return sink->put(sink->ctx, text->data, text->len, err);
}

/* Lists the tracked paths that were not sent, though they are not deleted here: what the request
 * excludes, and what a sparse checkout leaves out. */
static int list_unsent(struct berth_git_trip *trip, struct berth_buf *out, struct berth_error *err)
{
    auto_buf listed = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    auto_close int root_fd = open(trip->state->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = BERTH_GIT(&trip->home.git, &listed, err, "ls-files", "-z", "--cached", "-v");
    const char *end = rc == BERTH_OK && listed.len ? listed.data + listed.len : NULL;
    for (const char *row = listed.data; end && row < end; row += strlen(row) + 1) {
        struct stat st;
        const char *path = strlen(row) > 2 ? row + 2 : row;
        if (berth_tree_manifest_find(&trip->state->base, path))
            continue;
        if (row[0] == 'S' || row[0] == 's' || fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
            berth_buf_append(out, path, strlen(path) + 1);
    }
    return rc < 0 ? rc : berth_buf_check(out, "The list of tracked files", err);
}

static int send_repository(struct berth_git_trip *trip, bool fresh, struct berth_error *err)
{
    struct berth_workspace_git *g = &trip->state->git;
    auto_buf unsent = BERTH_BUF_INIT(TEXT_BYTES_MAX);
    struct file_feed feed = {berth_arena_printf(trip->arena, "%s/bundle", trip->home.scratch)};
    const char *const args[] = {trip->state->cwd,
                                trip->home.format,
                                g->ref,
                                g->head,
                                g->index,
                                user_word(trip, "user.name"),
                                user_word(trip, "user.email"),
                                trip->home.shallow,
                                NULL};
    struct berth_place_script receive = {
        .what = "make a repository", .text = receive_script, .feed = feed_file, .ctx = &feed};
    struct berth_place_script skip = {
        .what = "mark files", .text = skip_script, .feed = feed_text, .ctx = &unsent};
    int exit_code = 0;
    int rc = berth_arena_check(trip->arena, err);
    if (rc == BERTH_OK)
        rc = make_bundle(trip, fresh, feed.path, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_git_script(trip, &receive, args, &exit_code, err);
    if (exit_code == NO_GIT)
        return berth_fail(err, BERTH_E_UNPROCESSABLE, "The place does not have git.");
    if (rc == BERTH_OK)
        rc = list_unsent(trip, &unsent, err);
    if (rc == BERTH_OK && unsent.len)
        rc = berth_workspace_git_script(trip, &skip, args, &exit_code, err);
    g->sent = rc == BERTH_OK;
    return rc;
}

int berth_workspace_git_send(struct berth_git_trip *trip, bool fresh, struct berth_error *err)
{
    if (!trip->home.git.engine)
        return BERTH_OK;
    int rc = send_repository(trip, fresh, err);
    berth_workspace_git_forget_scratch(trip);
    return rc < 0 ? do_without(trip, rc, err) : rc;
}
