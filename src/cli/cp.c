/* SPDX-License-Identifier: Apache-2.0
 * src/cli/cp.c - berth cp and berth ls: files in the place of a lease. Directories travel as tar
 * archives, which are never written to disk as such. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/arguments.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/table.h"
#include "os/fs.h"
#include "sync/install.h"
#include "sync/pack.h"
#include "sync/tree.h"
#include "sync/unpack.h"

#define CHUNK_BYTES 65536
#define MODE_SIZE 8

/* --- names --- */

/* Splits "LEASE:PATH". Returns NULL for a path on this machine: it has no ":", or a "/" or "."
 * before it. */
static const char *split_place(struct cli *cli, const char *text, const char **path)
{
    size_t len = strcspn(text, ":/.");
    if (text[len] != ':' || !len)
        return NULL;
    *path = text + len + 1;
    return berth_arena_copy(&cli->arena, text, len);
}

/* Returns the last name of a path, without "/" behind it; "" when it has none. */
static const char *last_name(struct cli *cli, const char *path)
{
    size_t len = strlen(path);
    while (len && path[len - 1] == '/')
        len--;
    size_t begin = len;
    while (begin && path[begin - 1] != '/')
        begin--;
    const char *name = berth_arena_copy(&cli->arena, path + begin, len - begin);
    return name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? name : "";
}

static bool ends_with_slash(const char *path)
{
    size_t len = strlen(path);
    return len && path[len - 1] == '/';
}

/* Returns whether the path ends in "/.": the content of a directory is meant, not itself. */
static bool means_content(const char *path)
{
    size_t len = strlen(path);
    return strcmp(path, ".") == 0 || (len >= 2 && strcmp(path + len - 2, "/.") == 0);
}

/* What a path in the place is. */
struct far_path {
    bool exists, is_directory;
    const char *name; /* of a file */
};

static int look_there(struct cli *cli, const char *lease_id, const char *path, struct far_path *out)
{
    struct cli_answer answer;
    *out = (struct far_path){0};
    int rc = cli_get(cli, &answer, "/api/environment-leases/%s/tree?depth=0&path=%s", lease_id,
                     cli_encode(cli, path));
    if (rc == BERTH_E_NOT_FOUND && strstr(cli->err.message, "has no file"))
        return BERTH_OK;
    if (rc < 0)
        return rc;
    if (!answer.json)
        return cli_not_understood(cli);
    out->exists = true;
    out->is_directory = berth_json_true(berth_json_get(answer.json, "isDirectory"));
    out->name = cli_text(berth_json_at(berth_json_get(answer.json, "entries"), 0), "path");
    bool usable = out->name && berth_path_valid(out->name) && !strchr(out->name, '/');
    return out->is_directory || usable ? BERTH_OK : cli_not_understood(cli);
}

/* --- an archive through a pipe --- */

/* The end of a pipe that a thread of its own works on, while this one moves the bytes. */
struct archive_end {
    int fd;      /* of the thread */
    int root_fd; /* the tree to pack, or the directory for the content of files */
    struct berth_tree_manifest *manifest;
    char *chunk;
    _Atomic bool broken;    /* packing has failed */
    struct berth_error err; /* code 0: it worked */
};

static ssize_t get_from_pipe(void *ctx, const void **bytes, struct berth_error *err)
{
    struct archive_end *a = ctx;
    ssize_t got;
    do
        got = read(a->fd, a->chunk, CHUNK_BYTES);
    while (got < 0 && errno == EINTR);
    *bytes = a->chunk;
    return got < 0 ? berth_fail_errno(err, "Cannot read the archive") : got;
}

static void *unpack_main(void *ctx)
{
    struct archive_end *a = ctx;
    struct berth_unpack_source source = {get_from_pipe, a};
    struct berth_error ignored;
    const void *bytes;
    if (berth_unpack(&source, NULL, a->root_fd, a->manifest, &a->err) == BERTH_OK)
        while (get_from_pipe(a, &bytes, &ignored) > 0) /* padding */
            ;
    (void)close(a->fd);
    return NULL;
}

static int put_to_pipe(void *ctx, const void *bytes, size_t len, struct berth_error *err)
{
    const struct archive_end *a = ctx;
    return berth_fs_write_all(a->fd, bytes, len, err);
}

static void *pack_main(void *ctx)
{
    struct archive_end *a = ctx;
    struct berth_tree_manifest *m = a->manifest;
    struct berth_pack_sink sink = {put_to_pipe, a};
    auto_free struct berth_entry **entries = calloc(m->count + 1, sizeof *entries);
    if (!entries)
        (void)berth_fail(&a->err, BERTH_E_NO_MEMORY, "Out of memory: copy.");
    for (size_t i = 0; entries && i < m->count; i++)
        entries[i] = &m->entries[i];
    if (entries)
        (void)berth_pack(a->root_fd, entries, m->count, &sink, -1, &a->err);
    atomic_store(&a->broken, a->err.code < 0);
    (void)close(a->fd);
    return NULL;
}

/* Moves an archive to or from a path in the place; a thread packs or unpacks it here. */
static int move_archive(struct cli *cli, struct archive_end *a, bool upload, const char *lease_id,
                        const char *path)
{
    int ends[2];
    pthread_t thread;
    auto_free char *chunk = malloc(CHUNK_BYTES);
    if (!chunk || pipe2(ends, O_CLOEXEC) < 0)
        return berth_fail(&cli->err, BERTH_E_NO_MEMORY, "Out of memory or descriptors: copy.");
    a->chunk = chunk;
    a->fd = ends[upload];
    if (pthread_create(&thread, NULL, upload ? pack_main : unpack_main, a) != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return berth_fail(&cli->err, BERTH_E_NO_MEMORY, "Cannot start a thread: copy.");
    }
    struct cli_input input = {.fd = ends[0], .length = -1, .broken = &a->broken};
    int rc = upload ? cli_files_put_archive(cli, lease_id, path, &input)
                    : cli_files_get_archive(cli, lease_id, path, ends[1]);
    (void)close(ends[!upload]);
    (void)pthread_join(thread, NULL);
    /* A side that fails also makes the other one fail: the reader finds a cut archive, and the
     * writer a broken pipe. */
    bool first = upload ? a->err.os_errno != EPIPE : cli->err.os_errno == EPIPE;
    if (a->err.code < 0 && (rc == BERTH_OK || first)) {
        cli->err = a->err;
        rc = a->err.code;
    }
    return rc;
}

/* --- from the place --- */

/* Where a copy goes on this machine. */
struct near_target {
    const char *directory; /* exists */
    const char *name;      /* in it; NULL: what comes is put into the directory itself */
};

/* Finds where the copy goes, by the rules of docker cp. */
static int find_target(struct cli *cli, const char *path, const struct far_path *source,
                       const char *source_path, struct near_target *out)
{
    struct stat st;
    bool exists = stat(path, &st) == 0, is_directory = exists && S_ISDIR(st.st_mode);
    const char *name = source->is_directory ? last_name(cli, source_path) : source->name;
    if (exists && !is_directory && source->is_directory)
        return berth_fail(&cli->err, BERTH_E_CONFLICT, "%s is not a directory.", path);
    if (!exists && !source->is_directory && ends_with_slash(path))
        return berth_fail(&cli->err, BERTH_E_NOT_FOUND, "The directory %s does not exist.", path);
    if (is_directory) {
        bool content = source->is_directory && (means_content(source_path) || !*name);
        *out = (struct near_target){path, content ? NULL : name};
        return BERTH_OK;
    }
    const char *own = last_name(cli, path);
    size_t len = strlen(path);
    while (len && path[len - 1] == '/')
        len--;
    len -= strlen(own);
    out->directory = len ? berth_arena_copy(&cli->arena, path, len) : ".";
    out->name = own;
    if (stat(out->directory, &st) < 0)
        return berth_fail_errno(&cli->err, "Cannot copy to %s", path);
    return berth_arena_check(&cli->arena, &cli->err);
}

/* Gives the one file of an archive the name that it gets here. */
static void rename_file(struct berth_tree_manifest *m, const char *name)
{
    if (m->count == 1)
        m->entries[0].path = name;
}

static int install(struct cli *cli, const struct near_target *target, bool is_directory,
                   struct berth_tree_manifest *m, int blobs_fd)
{
    auto_close int parent = open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return berth_fail_errno(&cli->err, "Cannot open %s", target->directory);
    if (!is_directory)
        rename_file(m, target->name);
    if (!is_directory || !target->name)
        return berth_tree_install(parent, m, blobs_fd, &cli->err);
    if (mkdirat(parent, target->name, 0777) < 0 && errno != EEXIST)
        return berth_fail_errno(&cli->err, "Cannot make %s", target->name);
    auto_close int root = berth_fs_open_real(parent, target->name, O_RDONLY | O_DIRECTORY);
    if (root < 0)
        return berth_fail_errno(&cli->err, "Cannot open %s", target->name);
    return berth_tree_install(root, m, blobs_fd, &cli->err);
}

static int copy_here(struct cli *cli, const char *lease_id, const char *path, const char *to)
{
    auto_tree_manifest m = {0};
    struct far_path source;
    struct near_target target = {0};
    int rc = look_there(cli, lease_id, path, &source);
    if (rc == BERTH_OK && !source.exists)
        rc = berth_fail(&cli->err, BERTH_E_NOT_FOUND, "The place has no file \"%s\".", path);
    if (rc == BERTH_OK)
        rc = find_target(cli, to, &source, path, &target);
    if (rc < 0)
        return rc;
    char *blobs = berth_arena_printf(&cli->arena, "%s/.berth-cp-XXXXXX", target.directory);
    if (!blobs)
        return berth_arena_check(&cli->arena, &cli->err);
    if (!mkdtemp(blobs))
        return berth_fail_errno(&cli->err, "Cannot write to %s", target.directory);
    auto_close int blobs_fd = open(blobs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct archive_end end = {.root_fd = blobs_fd, .manifest = &m};
    struct berth_error ignored;
    rc = blobs_fd < 0 ? berth_fail_errno(&cli->err, "Cannot open %s", blobs)
                      : move_archive(cli, &end, false, lease_id, path);
    if (rc == BERTH_OK && !source.is_directory && m.count != 1)
        rc = berth_fail(&cli->err, BERTH_E_UPSTREAM, "The place did not send %s.", path);
    if (rc == BERTH_OK)
        rc = install(cli, &target, source.is_directory, &m, blobs_fd);
    (void)berth_fs_remove_tree(blobs, &ignored);
    return rc;
}

/* --- to the place --- */

static int put_file(struct cli *cli, int fd, const struct stat *st, const char *lease_id,
                    const char *from, const char *path, const struct far_path *target)
{
    char mode[MODE_SIZE];
    (void)snprintf(mode, sizeof mode, "%04o", (unsigned)st->st_mode & 0777U);
    bool into = target->is_directory || (!target->exists && ends_with_slash(path)) || !*path;
    const char *whole = into ? berth_arena_printf(&cli->arena, "%s%s%s", path, *path ? "/" : "",
                                                  last_name(cli, from))
                             : path;
    struct cli_input input = {.fd = fd, .length = st->st_size};
    return whole ? cli_files_put_file(cli, lease_id, whole, mode, &input)
                 : berth_arena_check(&cli->arena, &cli->err);
}

static int put_tree(struct cli *cli, int fd, const char *lease_id, const char *from,
                    const char *path, const struct far_path *target)
{
    auto_tree_manifest m = {0};
    struct berth_ignore *none = NULL;
    if (target->exists && !target->is_directory)
        return berth_fail(&cli->err, BERTH_E_CONFLICT, "%s is not a directory there.", path);
    const char *name = last_name(cli, from);
    bool into = target->is_directory && !means_content(from) && *name;
    const char *whole =
        into ? berth_arena_printf(&cli->arena, "%s%s%s", path, *path ? "/" : "", name) : path;
    int rc = berth_arena_check(&cli->arena, &cli->err);
    if (rc == BERTH_OK)
        rc = berth_ignore_new(&none, &cli->err);
    if (rc < 0)
        return rc;
    struct berth_tree_options options = {.ignore = none, .cancel_fd = -1};
    rc = berth_tree_list(fd, &options, &m, &cli->err);
    berth_ignore_free(none);
    struct archive_end end = {.root_fd = fd, .manifest = &m};
    return rc < 0 ? rc : move_archive(cli, &end, true, lease_id, whole);
}

static int copy_there(struct cli *cli, const char *from, const char *lease_id, const char *path)
{
    struct far_path target;
    struct stat st;
    auto_close int fd = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return berth_fail_errno(&cli->err, "Cannot read %s", from);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return berth_fail(&cli->err, BERTH_E_INVALID, "%s is not a file or directory.", from);
    int rc = look_there(cli, lease_id, path, &target);
    if (rc < 0)
        return rc;
    return S_ISDIR(st.st_mode) ? put_tree(cli, fd, lease_id, from, path, &target)
                               : put_file(cli, fd, &st, lease_id, from, path, &target);
}

static int cp_main(struct cli *cli, int argc, char **argv)
{
    const struct cli_option options[] = {{0}};
    const char *path = NULL, *to_path = NULL, *id;
    if (cli_parse(cli, argc, argv, options, 2, 2) < 0)
        return CLI_USAGE;
    const char *from = split_place(cli, argv[0], &path), *to = split_place(cli, argv[1], &to_path);
    if (!from == !to)
        return cli_usage(cli, "give one path as LEASE:PATH, and the other one on this machine");
    if (from && strcmp(argv[1], "-") == 0 && isatty(STDOUT_FILENO))
        return cli_usage(cli, "an archive is not for a terminal: redirect standard output");
    cli->cancel_fd = cli_cancel_fd();
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    int rc = cli_find_id(cli, "lease", from ? from : to, &id);
    if (rc == BERTH_OK && from)
        rc = strcmp(argv[1], "-") == 0 ? cli_files_get_archive(cli, id, path, STDOUT_FILENO)
                                       : copy_here(cli, id, path, argv[1]);
    else if (rc == BERTH_OK)
        rc = strcmp(argv[0], "-") == 0
                 ? cli_files_put_archive(cli, id, to_path,
                                         &(struct cli_input){STDIN_FILENO, -1, NULL, 0})
                 : copy_there(cli, argv[0], id, to_path);
    return rc < 0 ? cli_fail(cli) : CLI_OK;
}

/* --- ls --- */

static const char *listed_name(struct cli *cli, const struct berth_json *entry)
{
    const char *path = cli_text(entry, "path"), *target = cli_text(entry, "target");
    bool directory = cli_is(entry, "kind", "directory");
    return target ? berth_arena_printf(&cli->arena, "%s -> %s", path, target)
                  : berth_arena_printf(&cli->arena, "%s%s", path, directory ? "/" : "");
}

static int ls_main(struct cli *cli, int argc, char **argv)
{
    static const struct cli_cell columns[] = {{"NAME", .text = listed_name},
                                              {"MODE", "mode"},
                                              {"SIZE", "size", CLI_NUMBER},
                                              {"MODIFIED", "modifiedAt", CLI_WHEN},
                                              {0}};
    bool recursive = false;
    const struct cli_option options[] = {{"recursive", .flag = &recursive}, {0}};
    const char *path = "", *id;
    struct cli_answer tree;
    if (cli_parse(cli, argc, argv, options, 1, 1) < 0)
        return CLI_USAGE;
    const char *lease = split_place(cli, argv[0], &path);
    int status = cli_open(cli);
    if (status != CLI_OK)
        return status;
    if (cli_find_id(cli, "lease", lease ? lease : argv[0], &id) < 0 ||
        cli_get(cli, &tree, "/api/environment-leases/%s/tree?path=%s%s", id, cli_encode(cli, path),
                recursive ? "" : "&depth=1") < 0)
        return cli_fail(cli);
    if (cli->json)
        return cli_print_text(cli, tree.text);
    if (!tree.json) {
        (void)cli_not_understood(cli);
        return cli_fail(cli);
    }
    struct cli_answer entries = {.json = berth_json_get(tree.json, "entries")};
    return cli_print_list(cli, &entries, columns);
}

const struct cli_command cli_cp_commands[] = {
    {"cp", NULL, "SOURCE TARGET", "copy files from and to LEASE:PATH, a path in a place", cp_main},
    {"ls", NULL, "LEASE[:PATH] [--recursive]", "list files in the place of a lease", ls_main},
    {0},
};
