/* SPDX-License-Identifier: Apache-2.0
 * src/core/workspace/workspace_setup.c - see workspace_setup.h. */
#include "core/workspace/workspace_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "core/workspace/place_script.h"
#include "core/workspace/transport.h"
#include "os/fs.h"
#include "sync/follow.h"
#include "sync/tree.h"

#define DEFAULT_ADAPTER "agent"
#define KEY_BYTES_MAX 64
#define TAIL_LINES 3 /* of the output of an install command, for the warning */
#define TAIL_BYTES_MAX 480
#define OUTPUT_BYTES_MAX 4096 /* in which these lines are looked for */
/* What the place sends: the secrets that reach into the output begin in it. */
#define SENT_BYTES_MAX 69632
_Static_assert(SENT_BYTES_MAX >= OUTPUT_BYTES_MAX + BERTH_SECRET_BYTES_MAX, "see above");

/* --- names --- */

static bool is_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = name ? strlen(name) : 0;
    return len && len <= KEY_BYTES_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, letters) == len;
}

int berth_workspace_setup_check(const struct berth_workspace_setup *setup, struct berth_error *err)
{
    static const char rule[] =
        "has up to 64 letters, digits, \".\", \"_\" and \"-\", and begins with a letter, a digit "
        "or \"_\"";
    const char *scratch = strrchr(BERTH_TRANSPORT_SCRATCH, '/') + 1;
    if (setup->adapter && (!is_name(setup->adapter) || strcmp(setup->adapter, scratch) == 0))
        return berth_fail(err, BERTH_E_INVALID,
                          "The adapter \"%.100s\" cannot be a directory of the place: its name %s, "
                          "and is not \"%s\".",
                          setup->adapter, rule, scratch);
    for (int i = 0; i < setup->asset_count; i++) {
        const char *key = setup->assets[i].key;
        if (!is_name(key))
            return berth_fail(err, BERTH_E_INVALID,
                              "The key \"%.100s\" of an asset is not valid: a key %s.",
                              key ? key : "", rule);
        for (int j = 0; j < i; j++)
            if (strcmp(setup->assets[j].key, key) == 0)
                return berth_fail(err, BERTH_E_INVALID, "Two assets have the key \"%s\".", key);
    }
    return BERTH_OK;
}

/* Returns a text of the request or of the place without secrets; NULL: no memory. It is used where
 * a message shows a part of the text, since a part of a secret is not recognised. */
static char *setup_text(const struct berth_git_trip *trip, const char *text)
{
    char *copy = berth_arena_strdup(trip->arena, text);
    if (copy && trip->hide)
        trip->hide(trip->hide_ctx, copy, strlen(copy));
    return copy;
}

/* --- the program --- */

#define TEXT_OF(number) TEXT_OF_VALUE(number)
#define TEXT_OF_VALUE(number) #number

/* Prints the exit status of the command, and the end of what it wrote if it failed. The output goes
 * to a file, so that a background process of the command does not keep the script waiting. */
static const char install_script[] =
    "if [ -n \"$2\" ] && command -v \"$2\" >/dev/null 2>&1; then exit 0; fi;"
    " f=$(mktemp) || exit; \"$0\" -c \"$1\" >\"$f\" 2>&1 </dev/null; r=$?;"
    " [ $r -eq 0 ] || tail -c " TEXT_OF(SENT_BYTES_MAX) " \"$f\"; rm -f \"$f\"; echo; echo $r";

/* Takes the last line that is not blank off the text. Returns it, or NULL. */
static char *take_last_line(char *text, size_t *len)
{
    while (*len && strchr(" \t\r\n", text[*len - 1]))
        --*len;
    size_t begin = *len;
    while (begin && text[begin - 1] != '\n')
        begin--;
    if (begin == *len)
        return NULL;
    text[*len] = '\0';
    *len = begin;
    return text + begin;
}

/* Stores how the command failed, with the end of what it wrote, as the warning of the state. */
static int judge_install(struct berth_git_trip *trip, const char *command, struct berth_buf *out,
                         struct berth_error *err)
{
    struct berth_workspace_state *s = trip->state;
    char *text = berth_buf_str(out) ? out->data : NULL;
    size_t len = out->len;
    const char *status = text ? take_last_line(text, &len) : NULL, *tail = "";
    if (!status || strcmp(status, "0") == 0)
        return BERTH_OK;
    if (trip->hide)
        trip->hide(trip->hide_ctx, text, len);
    if (len > OUTPUT_BYTES_MAX) {
        text += len - OUTPUT_BYTES_MAX;
        len = OUTPUT_BYTES_MAX;
    }
    for (int i = 0; i < TAIL_LINES; i++) {
        const char *line = take_last_line(text, &len);
        if (line)
            tail = berth_arena_printf(trip->arena, "%s%s%s", line, *tail ? " | " : "",
                                      tail ? tail : "");
        if (!tail)
            return berth_arena_check(trip->arena, err);
    }
    s->warning = berth_arena_printf(&s->arena, "The install command ended with status %s: %s%s%.*s",
                                    status, command, *tail ? ": " : "", TAIL_BYTES_MAX, tail);
    return berth_arena_check(&s->arena, err);
}

int berth_workspace_install(struct berth_git_trip *trip, const struct berth_workspace_setup *setup,
                            struct berth_error *err)
{
    struct berth_workspace_state *s = trip->state;
    auto_buf out = BERTH_BUF_INIT(SENT_BYTES_MAX + 64);
    struct berth_place_script script = {.what = "install a program",
                                        .text = install_script,
                                        .take = berth_place_script_take_text,
                                        .ctx = &out};
    const char *command = setup->install_command;
    const char *const args[] = {command, setup->detect_command ? setup->detect_command : "", NULL};
    int exit_code = -1;
    if (!command || command[strspn(command, " \t\r\n")] == '\0')
        return BERTH_OK;
    const char *shown = setup_text(trip, command);
    if (!shown)
        return berth_arena_check(trip->arena, err);
    int rc = berth_workspace_git_script(trip, &script, args, &exit_code, err);
    if (rc == BERTH_OK)
        return judge_install(trip, shown, &out, err);
    if (rc != BERTH_E_TIMEOUT && exit_code < 0)
        return rc;
    const char *why = setup_text(trip, err->message);
    s->warning = berth_arena_printf(&s->arena, "The install command failed: %s: %.480s", shown,
                                    why ? why : "");
    return berth_arena_check(&s->arena, err);
}

/* --- the assets --- */

/* One directory that is to be sent. */
struct berth_asset_source {
    int fd;
    struct berth_ignore *ignore;
};

/* Returns the directory with the data of berth, without links; NULL: it does not exist yet. */
static char *data_directory(const struct berth_workspace_site *site)
{
    auto_free char *data = strdup(site->states);
    char *slash = data ? strrchr(data, '/') : NULL;
    if (slash)
        *slash = '\0';
    return slash ? realpath(data, NULL) : NULL;
}

int berth_workspace_refuse_data(const struct berth_workspace_site *site, const char *path,
                                struct berth_error *err)
{
    auto_free char *data = data_directory(site);
    if (!data || !berth_fs_is_within(data, path))
        return BERTH_OK;
    return berth_fail(
        err, BERTH_E_UNPROCESSABLE,
        "The directory %s contains the data of berth (%s), which must not travel. Send "
        "a directory without it.",
        path, data);
}

static int fail_open_source(const struct berth_git_trip *trip,
                            const struct berth_workspace_asset *asset, struct berth_error *err)
{
    int saved = errno;
    const char *shown = setup_text(trip, asset->path);
    errno = saved;
    return berth_fail_errno(err, "Cannot open the directory %.600s of the asset \"%s\"",
                            shown ? shown : "", asset->key);
}

/* Refuses the data of berth as an asset, and a directory above it. */
static int check_source(const struct berth_git_trip *trip,
                        const struct berth_workspace_asset *asset, struct stat *data,
                        struct berth_error *err)
{
    auto_free char *path = realpath(asset->path, NULL);
    if (!path)
        return fail_open_source(trip, asset, err);
    auto_free char *closed = data_directory(trip->site);
    *data = (struct stat){0};
    if (closed && stat(closed, data) == 0 && berth_fs_is_within(path, closed))
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "The asset \"%s\" is in the data of berth (%s), which must not travel.",
                          asset->key, closed);
    return berth_workspace_refuse_data(trip->site, path, err);
}

/* Replaces the directory of a source by a copy of it without links, below assets->copy. */
static int resolve_links(struct berth_git_trip *trip, const struct berth_workspace_assets *assets,
                         struct berth_asset_source *s, const struct stat *data,
                         struct berth_error *err)
{
    const char *path = berth_arena_printf(trip->arena, "%s/%d", assets->copy, assets->count);
    int rc = berth_arena_check(trip->arena, err);
    if (rc == BERTH_OK)
        rc = berth_fs_mkdirs(path, S_IRWXU, err);
    if (rc < 0)
        return rc;
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot open %s", path);
    rc = berth_tree_follow(s->fd, fd, s->ignore, data, trip->cancel_fd, err);
    int original = s->fd;
    s->fd = fd;
    fd = original;
    return rc;
}

static int open_source(struct berth_git_trip *trip, struct berth_workspace_assets *assets,
                       const struct berth_workspace_asset *asset, struct berth_error *err)
{
    struct berth_asset_source *s = &assets->sources[assets->count];
    struct stat data;
    int rc = check_source(trip, asset, &data, err);
    if (rc == BERTH_OK)
        rc = berth_ignore_new(&s->ignore, err);
    if (rc < 0)
        return rc;
    s->fd = open(asset->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assets->count++; /* closed from now on */
    if (s->fd < 0)
        return fail_open_source(trip, asset, err);
    for (const char *const *rule = asset->exclude; rc == BERTH_OK && rule && *rule; rule++)
        rc = berth_ignore_add_override(s->ignore, *rule, err);
    return rc < 0 || !asset->follow_links ? rc : resolve_links(trip, assets, s, &data, err);
}

int berth_workspace_assets_open(struct berth_git_trip *trip,
                                const struct berth_workspace_setup *setup,
                                struct berth_workspace_assets *out, struct berth_error *err)
{
    *out = (struct berth_workspace_assets){.setup = setup};
    int rc = berth_workspace_state_path(trip->site->states, trip->arena, trip->lease_id, ".asset",
                                        &out->copy, err);
    if (rc == BERTH_OK && setup->asset_count)
        rc = berth_fs_remove_tree(out->copy, err);
    if (rc < 0)
        return rc;
    out->sources = calloc((size_t)setup->asset_count + 1, sizeof *out->sources);
    if (!out->sources)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: assets.");
    for (int i = 0; rc == BERTH_OK && i < setup->asset_count; i++)
        rc = open_source(trip, out, &setup->assets[i], err);
    return rc;
}

void berth_workspace_assets_close(struct berth_workspace_assets *assets)
{
    struct berth_error ignored; /* the next push of the lease, or its end, removes the copy */
    for (int i = 0; i < assets->count; i++) {
        if (assets->sources[i].fd >= 0)
            (void)close(assets->sources[i].fd);
        berth_ignore_free(assets->sources[i].ignore);
    }
    if (assets->count)
        (void)berth_fs_remove_tree(assets->copy, &ignored);
    free(assets->sources);
    *assets = (struct berth_workspace_assets){0};
}

/* Makes the directory of the place like the source. */
static int send_source(struct berth_git_trip *trip, const struct berth_asset_source *source,
                       const char *below, struct berth_error *err)
{
    struct berth_tree_options options = {.ignore = source->ignore, .cancel_fd = trip->cancel_fd};
    auto_tree_manifest here = {0}, there = {0}, copy = {0};
    auto_transport *t = NULL;
    int rc = berth_tree_list(source->fd, &options, &here, err);
    if (rc == BERTH_OK)
        rc = berth_transport_open(trip, below, &t, err);
    if (rc == BERTH_OK)
        rc = t->ops->list(t, NULL, source->ignore, NULL, &there, err);
    if (rc == BERTH_OK && there.count)
        rc = berth_tree_hash(source->fd, &here, NULL, trip->cancel_fd, err);
    return rc < 0 ? rc : t->ops->send(t, source->fd, &here, &there, NULL, &copy, err);
}

int berth_workspace_assets_send(struct berth_git_trip *trip,
                                const struct berth_workspace_assets *assets,
                                struct berth_error *err)
{
    const struct berth_workspace_setup *setup = assets->setup;
    int rc = BERTH_OK;
    for (int i = 0; rc == BERTH_OK && i < setup->asset_count; i++) {
        const char *below = berth_arena_printf(trip->arena, ".paperclip-runtime/%s/%s",
                                               setup->adapter ? setup->adapter : DEFAULT_ADAPTER,
                                               setup->assets[i].key);
        rc = berth_arena_check(trip->arena, err);
        if (rc == BERTH_OK)
            rc = send_source(trip, &assets->sources[i], below, err);
    }
    return rc;
}
