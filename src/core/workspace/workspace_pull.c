/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_pull.c - brings the changes of a place home: reads the place and the
 * directory at home, plans the merge, and carries it out. */
#include "core/workspace/workspace.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/time.h"
#include "core/workspace/transport.h"
#include "core/workspace/workspace_branch.h"
#include "core/workspace/workspace_diff.h"
#include "core/workspace/workspace_git.h"
#include "core/workspace/workspace_state.h"
#include "core/workspace/workspace_trip.h"
#include "sync/apply.h"
#include "sync/tree.h"

#define LISTED_CONFLICTS_MAX 200 /* in the JSON of a report */
#define MERGE_TRIES_MAX 20       /* while files of the place change */
#define SCRIPT_TRIES_MAX 8       /* where the place is read by scripts */
#define MERGE_TRIES_MS 10000     /* no further try begins after this time */
#define MERGE_PAUSE_MS 50        /* before the next try */

/* Adds the leases that the state names and the list lacks. */
static void add_sharers(struct berth_git_trip *trip, struct berth_list *list)
{
    for (const char *at = trip->state->shared; at && *at;) {
        size_t len = strcspn(at, "\n");
        const char *id = berth_arena_copy(trip->arena, at, len);
        bool known = !id;
        for (int i = 0; !known && i < list->count; i++)
            known = strcmp(list->items[i], id) == 0;
        if (!known)
            (void)berth_list_add(list, trip->arena, (void *)(uintptr_t)id);
        at += len + (at[len] == '\n');
    }
}

/* One pull under way. */
struct homecoming {
    const struct berth_workspace_pull *pull;
    struct berth_lease_work_seen seen; /* before the place was listed */
    struct berth_workspace_state state;
    struct berth_tree_manifest remote, local;
    struct berth_merge plan;
    struct berth_apply_report applied;
    struct berth_git_trip trip;
    struct berth_git_return git;
    struct berth_branch_return branch;
    bool tree_made; /* the worktree of the branch was made again for this pull */
    struct berth_buf diff;
    bool diff_made, diff_cut;
    const char *git_trouble; /* why commits of the place are not here; or NULL */
};

/* Forgets what was read and planned. */
static void forget_attempt(struct homecoming *h)
{
    berth_apply_report_clear(&h->applied);
    berth_merge_clear(&h->plan);
    berth_tree_manifest_clear(&h->remote);
    berth_tree_manifest_clear(&h->local);
    berth_buf_clear(&h->diff);
    h->diff_made = h->diff_cut = false;
    h->git = (struct berth_git_return){0};
    h->git_trouble = NULL;
}

static void homecoming_clear(struct homecoming *h)
{
    forget_attempt(h);
    berth_workspace_state_clear(&h->state);
}
#define auto_homecoming __attribute__((cleanup(homecoming_clear))) struct homecoming

/* The list of the place, which a thread makes. */
struct place_listing {
    struct homecoming *home;
    struct berth_transport *transport;
    struct berth_ignore *ignore; /* its own: rules remember the last query */
    int rc;
    struct berth_error err;
};

static void *list_place(void *ctx)
{
    struct place_listing *l = ctx;
    const struct berth_workspace_state *s = &l->home->state;
    l->rc = l->transport->ops->list(l->transport, s->token, l->ignore, &s->copy, &l->home->remote,
                                    &l->err);
    return NULL;
}

static int list_home(struct homecoming *h, int root_fd, int cancel_fd, struct berth_error *err)
{
    struct berth_workspace_state *s = &h->state;
    struct berth_tree_options options = {.ignore = s->ignore, .cancel_fd = cancel_fd};
    int rc = berth_tree_list(root_fd, &options, &h->local, err);
    return rc < 0
               ? rc
               : berth_tree_hash(root_fd, &h->local,
                                 berth_tree_can_vouch(root_fd) ? &s->base : NULL, cancel_fd, err);
}

/* Lists the place and the directory at home at the same time. */
static int list_both(struct homecoming *h, struct berth_transport *t, int root_fd,
                     struct berth_error *err)
{
    struct place_listing place = {.home = h, .transport = t};
    pthread_t thread;
    int rc = berth_ignore_copy(h->state.ignore, &place.ignore, err);
    if (rc < 0)
        return rc;
    bool threaded = pthread_create(&thread, NULL, list_place, &place) == 0;
    if (!threaded)
        (void)list_place(&place);
    rc = list_home(h, root_fd, t->cancel_fd, err);
    if (threaded)
        (void)pthread_join(thread, NULL);
    berth_ignore_free(place.ignore);
    if (place.rc < 0) /* says more: the place may have been replaced */
        *err = place.err;
    return place.rc < 0 ? place.rc : rc;
}

static int make_plan(struct homecoming *h, struct berth_error *err)
{
    int wanted = h->pull->on_conflict;
    enum berth_merge_policy policy = wanted < 0 ? h->state.policy : (enum berth_merge_policy)wanted;
    int rc = berth_merge_plan(&h->state.base, &h->remote, &h->local, policy, h->state.label,
                              &h->plan, err);
    if (rc == BERTH_OK && !h->pull->mass_deletion && berth_merge_deletes_most(&h->plan))
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "The place has deleted %zu of %zu files, which may be a mistake. Nothing "
                        "was changed here. Fetch it with \"berth workspace pull --mass-deletion\" "
                        "if that is right.",
                        h->plan.deleted, h->plan.base_count);
    return rc;
}

static int gather_files(struct homecoming *h, struct berth_transport *t, struct berth_error *err)
{
    auto_free const struct berth_entry **files = calloc(h->plan.count + 1, sizeof *files);
    size_t count = 0;
    if (!files)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: merge.");
    for (size_t i = 0; i < h->plan.count; i++) {
        const struct berth_change *change = &h->plan.changes[i];
        if (change->kind == BERTH_CHANGE_PUT && change->remote &&
            change->remote->kind == BERTH_ENTRY_FILE)
            files[count++] = change->remote;
    }
    return t->ops->gather(t, files, count, err);
}

static void put_conflicts(struct berth_json_writer *w, const struct berth_conflict *all,
                          size_t count, size_t *room)
{
    for (size_t i = 0; i < count && *room; i++, --*room) {
        berth_json_open(w, '{');
        berth_json_put_foreign(w, "path", all[i].path);
        berth_json_put_str(w, "kind", berth_conflict_word(all[i].kind));
        berth_json_put_foreign(w, "beside", all[i].beside);
        berth_json_close(w, '}');
    }
}

/* Writes the report as JSON. */
static int write_json(const struct homecoming *h, const struct berth_workspace_report *report,
                      bool with_diff, const char **json, struct berth_error *err)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    struct berth_json_writer w = {
        .buf = &buf, .hide = h->pull->hide, .hide_ctx = h->pull->hide_ctx};
    size_t room = LISTED_CONFLICTS_MAX;
    berth_json_open(&w, '{');
    berth_json_put_foreign(&w, "path", *h->state.branch ? h->state.repository : h->state.path);
    berth_json_put_str(&w, "state", "home");
    berth_json_put_int(&w, "added", (int64_t)report->added);
    berth_json_put_int(&w, "updated", (int64_t)report->updated);
    berth_json_put_int(&w, "deleted", (int64_t)report->deleted);
    berth_json_put_int(&w, "bytes", report->bytes);
    berth_json_put_int(&w, "conflictCount", (int64_t)report->conflicts);
    berth_json_open_in(&w, "conflicts", '[');
    put_conflicts(&w, h->plan.conflicts, h->plan.conflict_count, &room);
    put_conflicts(&w, h->applied.conflicts, h->applied.conflict_count, &room);
    berth_json_close(&w, ']');
    berth_workspace_put_findings(&w, report);
    berth_workspace_git_json(&h->trip, &h->git, &w);
    if (h->branch.head)
        berth_workspace_branch_json(&h->state, &h->branch, &w);
    if (report->diff && with_diff)
        berth_json_put_foreign(&w, "diff", report->diff);
    if (report->diff)
        berth_json_put_bool(&w, "diffCut", h->diff_cut);
    berth_json_close(&w, '}');
    int rc = berth_buf_check(&buf, "The report of the workspace", err);
    if (rc < 0)
        return rc;
    *json = berth_arena_copy(h->trip.arena, berth_buf_str(&buf), buf.len);
    return berth_arena_check(h->trip.arena, err);
}

static int write_report(const struct homecoming *h, struct berth_workspace_report *out,
                        struct berth_error *err)
{
    out->added = h->plan.added;
    out->updated = h->plan.updated;
    out->deleted = h->plan.deleted;
    out->bytes = h->plan.bytes;
    out->skipped = h->remote.skipped;
    out->warning = *h->state.warning ? h->state.warning : NULL;
    out->conflicts = h->plan.conflict_count + h->applied.conflict_count;
    if (h->diff_made)
        out->diff = berth_arena_strdup(h->trip.arena, berth_buf_str(&h->diff));
    int rc = write_json(h, out, false, &out->json, err);
    return rc < 0 ? rc : write_json(h, out, true, &out->json_with_diff, err);
}

/* Lists the content of the place as the next baseline. A file that is the same here has the times
 * and the inode that it has here, so that they vouch for it; the others have none. */
static int make_baseline(const struct homecoming *h, struct berth_tree_manifest *base,
                         struct berth_error *err)
{
    size_t at = 0;
    int rc = BERTH_OK;
    base->taken_at_ns = h->local.taken_at_ns;
    for (size_t i = 0; rc == BERTH_OK && i < h->remote.count; i++) {
        struct berth_entry e = h->remote.entries[i];
        const struct berth_entry *here = berth_tree_manifest_next(&h->local, &at, e.path);
        bool same = here && here->kind == e.kind && here->size == e.size &&
                    memcmp(here->hash, e.hash, sizeof e.hash) == 0;
        e.mtime_ns = same ? here->mtime_ns : 0;
        e.ctime_ns = same ? here->ctime_ns : 0;
        e.inode = same ? here->inode : 0;
        rc = berth_tree_manifest_add(base, &e, err);
    }
    return rc;
}

/* Replaces a list by another one, which becomes empty. */
static void take_list(struct berth_tree_manifest *list, struct berth_tree_manifest *other)
{
    berth_tree_manifest_clear(list);
    *list = *other;
    *other = (struct berth_tree_manifest){0};
}

/* Puts the lists of the place into the state, unless they are there already and no file had to be
 * read for them. */
static int take_lists(struct homecoming *h, struct berth_error *err)
{
    struct berth_workspace_state *s = &h->state;
    auto_tree_manifest base = {0};
    int rc = make_baseline(h, &base, err);
    if (rc < 0)
        return rc;
    s->lists_kept = !h->local.files_read && !h->remote.files_read &&
                    berth_tree_manifest_same(&base, &s->base) &&
                    (!s->copy.count || berth_tree_manifest_same(&h->remote, &s->copy));
    if (s->lists_kept)
        return BERTH_OK;
    take_list(&s->base, &base);
    if (s->copy.count)
        take_list(&s->copy, &h->remote);
    return BERTH_OK;
}

/* From now on the state of the place is the baseline: its changes are home. */
static int finish_home(struct homecoming *h, struct berth_error *err)
{
    struct berth_workspace_site *site = h->trip.site;
    struct berth_workspace_state *s = &h->state;
    if (s->git.sent && h->git.state && strcmp(h->git.state, "gone") != 0) {
        s->git.ref = h->git.ref ? h->git.ref : "";
        s->git.head = h->git.head ? h->git.head : "";
        s->git.index = h->git.index ? h->git.index : "";
    }
    if (h->branch.head)
        s->branch_start = h->branch.head;
    s->recovered = s->warning = "";
    int rc = take_lists(h, err);
    if (rc < 0)
        return rc;
    rc = berth_workspace_state_save(site->states, h->pull->lease_id, s, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(workspace_after_home);
    return site->ops->mark_home(site, h->pull->lease_id, h->seen.mark_ms, err);
}

/* Fetches commits of the place. When that fails the files come home all the same, and the place is
 * kept with its commits. */
static int fetch_commits(struct homecoming *h, struct berth_error *err)
{
    if (h->trip.in_place && !h->state.git.sent && !h->remote.repositories)
        return BERTH_OK; /* without asking the place: its list shows that it has none */
    int rc = berth_workspace_git_fetch(&h->trip, h->pull->dry_run, &h->git, err);
    return rc < 0 ? berth_workspace_git_excuse(&h->trip, rc, &h->git_trouble, err) : rc;
}

/* Changes the repository at home, after its files: first the index, then the branch. */
static int apply_commits(struct homecoming *h, struct berth_error *err)
{
    BERTH_FAILPOINT(workspace_after_merge);
    int rc = berth_workspace_git_join(&h->trip, &h->git, err);
    if (rc < 0 || !*h->state.branch || h->git_trouble)
        return rc;
    rc = berth_workspace_branch_commit(&h->trip, &h->branch, err);
    if (rc < 0)
        return rc;
    BERTH_FAILPOINT(workspace_after_commit);
    return rc;
}

/* Shows what the plan changes. Invalid UTF-8 is replaced when the report is written. Changes that
 * come home do so without a difference when it cannot be made. */
static int make_diff(struct homecoming *h, struct berth_transport *t, int root_fd,
                     struct berth_error *err)
{
    const char *scratch;
    h->diff = (struct berth_buf)BERTH_BUF_INIT(h->pull->diff_max + 1);
    int rc = berth_workspace_state_path(h->trip.site->states, h->trip.arena, h->pull->lease_id,
                                        ".diff", &scratch, err);
    if (rc == BERTH_OK)
        rc = berth_workspace_diff(h->pull, &h->plan, t, root_fd, scratch, &h->diff, &h->diff_cut,
                                  err);
    for (size_t i = 0; i < h->diff.len; i++)
        if (!h->diff.data[i])
            h->diff.data[i] = '?';
    if (rc == BERTH_OK)
        rc = berth_buf_check(&h->diff, "The difference", err);
    h->diff_made = rc == BERTH_OK;
    return h->pull->dry_run ? rc : BERTH_OK;
}

/* Loads the state once its directory is locked: another pull of the lease may have come first. */
static int load_locked(struct homecoming *h, struct berth_error *err)
{
    struct berth_workspace_state now;
    int rc = berth_workspace_state_load(h->trip.site->states, h->pull->lease_id, &now, err);
    if (rc == BERTH_OK && strcmp(now.path, h->state.path) != 0)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "Another directory was sent to lease %s meanwhile: try again.",
                        h->pull->lease_id);
    if (rc < 0) {
        berth_workspace_state_clear(&now);
        return rc;
    }
    berth_workspace_state_clear(&h->state);
    h->state = now;
    return BERTH_OK;
}

/* Merges the files, unless it is a dry run. *reads: the step that failed reads the place. */
static int merge_files(struct homecoming *h, struct berth_transport *t, int root_fd, bool *reads,
                       struct berth_error *err)
{
    struct berth_apply_source source = {.fetch = t->ops->fetch, .ctx = t};
    struct berth_apply_root root = {root_fd, h->trip.journals};
    *reads = true;
    int rc = list_both(h, t, root_fd, err);
    if (rc < 0)
        return rc;
    *reads = false;
    rc = make_plan(h, err);
    if (rc < 0)
        return rc;
    *reads = true;
    if (!h->pull->dry_run)
        rc = gather_files(h, t, err);
    if (rc == BERTH_OK && h->pull->diff_max)
        rc = make_diff(h, t, root_fd, err);
    if (rc < 0)
        return rc;
    *reads = false;
    rc = fetch_commits(h, err);
    *reads = rc == BERTH_OK;
    return rc < 0 || h->pull->dry_run ? rc
                                      : berth_apply(&root, &h->plan, &source, &h->applied, err);
}

/* Merges the files. When commands change files of the place, or of the directory at home, while
 * they are read, reads all of them again. */
static int merge_steady_files(struct homecoming *h, struct berth_transport *t, int root_fd,
                              struct berth_error *err)
{
    int64_t begun_ms = berth_time_mono_ms();
    struct pollfd cancel = {.fd = t->cancel_fd, .events = POLLIN};
    for (int tries = 1;; tries++) {
        bool reads;
        int rc = merge_files(h, t, root_fd, &reads, err);
        bool changed = rc < 0 && reads && (err->os_errno == ESTALE || err->os_errno == ENOENT);
        /* A script of the place does not say why it failed. */
        int most = changed                           ? MERGE_TRIES_MAX
                   : rc == BERTH_E_UPSTREAM && reads ? SCRIPT_TRIES_MAX
                                                     : 1;
        if (rc == BERTH_OK || tries >= most || berth_time_mono_ms() - begun_ms > MERGE_TRIES_MS ||
            poll(&cancel, 1, MERGE_PAUSE_MS) > 0)
            return rc;
        forget_attempt(h);
    }
}

static int bring_home(struct homecoming *h, struct berth_workspace_report *out,
                      struct berth_error *err)
{
    auto_transport *t = NULL;
    struct berth_workspace_watch watched;
    auto_close int root_fd =
        berth_workspace_open_root(&h->trip, h->state.path, &out->recovered, err);
    if (root_fd < 0)
        return root_fd;
    int rc = load_locked(h, err);
    if (rc < 0)
        return rc;
    berth_workspace_git_recover(h->state.path);
    rc = berth_workspace_find_sharers(&h->trip, &out->shared_with, err);
    add_sharers(&h->trip, &out->shared_with);
    out->recovered += strtoul(h->state.recovered, NULL, 10);
    if (rc == BERTH_OK)
        rc = berth_transport_open(&h->trip, NULL, &t, err);
    if (t)
        t->progress = berth_workspace_watch(&watched, h->pull->on_progress, h->pull->ctx, true);
    if (rc == BERTH_OK)
        rc = merge_steady_files(h, t, root_fd, err);
    if (rc == BERTH_OK && !h->pull->dry_run)
        rc = apply_commits(h, err);
    if (rc == BERTH_OK)
        rc = write_report(h, out, err);
    if (rc == BERTH_OK && h->git_trouble)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "The files are home, but not the commits of the place: %.700s",
                        h->git_trouble);
    return rc < 0 || h->pull->dry_run ? rc : finish_home(h, err);
}

/* The same for a branch, whose worktree goes when the work is home. After an error it stays, and
 * the next pull continues with it. */
static int bring_branch_home(struct homecoming *h, struct berth_workspace_report *out,
                             struct berth_error *err)
{
    int rc = berth_workspace_branch_reopen(&h->trip, &h->tree_made, err);
    if (rc == BERTH_OK)
        rc = bring_home(h, out, err);
    if (h->pull->dry_run ? h->tree_made : rc == BERTH_OK)
        berth_workspace_branch_close(&h->trip);
    return rc;
}

int berth_workspace_site_pull(struct berth_workspace_site *site, struct berth_arena *arena,
                              const struct berth_workspace_pull *pull,
                              struct berth_workspace_report *out, struct berth_error *err)
{
    auto_homecoming h = {.pull = pull};
    struct berth_error trouble;
    *out = (struct berth_workspace_report){0};
    int rc = berth_workspace_state_peek(site->states, pull->lease_id, &h.state, err);
    if (rc == BERTH_OK)
        rc = site->ops->reopen(site, pull->lease_id, &h.seen, err);
    if (rc < 0)
        return rc;
    h.trip = (struct berth_git_trip){.site = site,
                                     .arena = arena,
                                     .lease_id = pull->lease_id,
                                     .journals = berth_workspace_journals(site, arena),
                                     .cancel_fd = pull->cancel_fd,
                                     .state = &h.state};
    rc = berth_arena_check(arena, err);
    if (rc == BERTH_OK && h.seen.partial)
        rc = berth_fail(err, BERTH_E_CONFLICT,
                        "The workspace was not sent to lease %s as a whole, so that its changes "
                        "cannot be told. Copy what you need with \"berth cp\", then give the place "
                        "up with --discard-work.",
                        pull->lease_id);
    if (rc == BERTH_OK)
        rc = *h.state.branch ? bring_branch_home(&h, out, err) : bring_home(&h, out, err);
    if (site->ops->give_back(site, pull->lease_id, h.seen.reopened, &trouble) < 0 &&
        rc == BERTH_OK) {
        *err = trouble;
        return trouble.code;
    }
    return rc;
}

int berth_workspace_pull(struct berth *b, struct berth_arena *arena,
                         const struct berth_workspace_pull *pull,
                         struct berth_workspace_report *out, struct berth_error *err)
{
    auto_runtime_site site = {0};
    int rc = berth_runtime_site_init(&site, b, err);
    return rc < 0 ? rc : berth_workspace_site_pull(&site.base, arena, pull, out, err);
}
