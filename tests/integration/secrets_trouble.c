/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/secrets_trouble.c - tampered rows, keys that are gone, foreign or being
 * changed, and drivers that repeat what they were told. */
#include "secrets.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "crypto/keyfile.h"
#include "scripted.h"

#define CANARY "canary-8c1f-Zq7"
#define WITH_KEY "{\"provider\":\"%s\",\"apiKey\":\"%s\"}"
#define STORE "0198c5d2-7c1e-7000-8000-00000000abcd" /* of somebody else */
#define NO_KEY "The secrets of this store are sealed with the key "

static const struct berth_log quiet = {0};

/* --- tampering --- */

static const char *const text_columns[] = {"sealed", "key_id", "status", "secret_id"};
static const char *const number_columns[] = {"version", "created_at"};

static void assert_refused(struct fixture *f, const char *id, int64_t version, const char *what,
                           size_t bit)
{
    auto_locked got = BERTH_LOCKED_INIT;
    if (resolve(f, f->b, id, version, &got) == BERTH_OK)
        fail_msg("bit %zu of %s is missed by nobody", bit, what);
    assert_null(got.bytes);
}

static void every_flipped_bit_of_a_version_is_detected(void **state)
{
    struct fixture *f = *state;
    const char *id = make_text_secret(f, "key", "v")->id;
    assert_int_equal(count_rows(f, "SELECT count(*) FROM secret_versions"), 1);
    int stored = 0;
    for (int c = 0; c < 4; c++) {
        const char *column = text_columns[c];
        char *was = text(f, "%s", first_text(f, text(f, "SELECT %s FROM secret_versions", column)));
        char *now = text(f, "%s", was);
        const char *sql = text(f, "UPDATE secret_versions SET %s = $1", column);
        assert_true(strlen(was) > 0);
        for (size_t bit = 0; bit < strlen(was) * 8; bit++) {
            now[bit / 8] ^= (char)(1 << bit % 8);
            if (try_sql(f, sql, NULL, now, 0) == 0) { /* else the database refuses */
                stored++;
                assert_refused(f, id, 0, column, bit);
                assert_refused(f, id, 1, column, bit);
            }
            now[bit / 8] = was[bit / 8];
        }
        assert_int_equal(try_sql(f, sql, NULL, was, 0), 0);
        assert_value(f, id, 0, "v");
    }
    assert_true(stored > 400);
    for (int c = 0; c < 2; c++) {
        const char *column = number_columns[c];
        int64_t was =
            strtoll(first_text(f, text(f, "SELECT CAST(%s AS TEXT) FROM secret_versions", column)),
                    NULL, 10);
        const char *sql = text(f, "UPDATE secret_versions SET %s = $1", column);
        for (size_t bit = 0; bit < 64; bit++) {
            int64_t now = (int64_t)((uint64_t)was ^ UINT64_C(1) << bit);
            assert_int_equal(try_sql(f, sql, NULL, NULL, now), 0);
            assert_refused(f, id, 0, column, bit);
            if (c == 0 && now) /* not under its new number, either */
                assert_refused(f, id, now, column, bit);
        }
        assert_int_equal(try_sql(f, sql, NULL, NULL, was), 0);
        assert_value(f, id, 0, "v");
    }
}

/* The latest is the one that is current: a row that points to an older one is not believed. */
static void older_version_does_not_pass_for_the_latest(void **state)
{
    struct fixture *f = *state;
    const char *id = make_text_secret(f, "key", "one")->id;
    rotate(f, id, "two");
    rotate(f, id, "three");
    auto_locked got = BERTH_LOCKED_INIT;
    for (int64_t bit = 0; bit < 63; bit++) {
        assert_int_equal(try_sql(f, "UPDATE secrets SET latest_version = $2 WHERE id = $1", id,
                                 NULL, INT64_C(3) ^ INT64_C(1) << bit),
                         0);
        if (resolve(f, f->b, id, 0, &got) == BERTH_OK)
            fail_msg("bit %d of latest_version gave \"%s\"", (int)bit, got.bytes);
    }
    assert_int_equal(
        try_sql(f, "UPDATE secrets SET latest_version = $2 WHERE id = $1", id, NULL, 3), 0);
    assert_value(f, id, 0, "three");
}

/* Material, with all that goes with it, from one row into another. */
static void move_material(struct fixture *f, const char *from, int64_t from_version, const char *to,
                          int64_t to_version)
{
    run_sql(f,
            text(f,
                 "UPDATE secret_versions SET"
                 " sealed = (SELECT v.sealed FROM secret_versions v"
                 "  WHERE v.secret_id = '%s' AND v.version = %" PRId64 "),"
                 " created_at = (SELECT v.created_at FROM secret_versions v"
                 "  WHERE v.secret_id = '%s' AND v.version = %" PRId64 ")"
                 " WHERE secret_id = '%s' AND version = %" PRId64,
                 from, from_version, from, from_version, to, to_version),
            NULL);
}

static void material_opens_only_where_it_was_sealed(void **state)
{
    struct fixture *f = *state;
    const char *a = make_text_secret(f, "a", "one")->id, *b = make_text_secret(f, "b", "two")->id;
    auto_locked got = BERTH_LOCKED_INIT;
    move_material(f, a, 1, b, 1);
    assert_fails(f, BERTH_E_INVALID, BROKEN, resolve(f, f->b, b, 0, &got));
    assert_false(last_event(f, b)->success);
    assert_string_equal(last_event(f, b)->error_code, BROKEN);
    assert_value(f, a, 0, "one");

    rotate(f, a, "three");
    move_material(f, a, 1, a, 2); /* an old value under the new number */
    assert_fails(f, BERTH_E_INVALID, BROKEN, resolve(f, f->b, a, 0, &got));
    assert_value(f, a, 1, "one");

    make_company(f, NOBODY);
    const char *moved = make_text_secret(f, "moved", "value")->id;
    run_sql(f, "UPDATE secrets SET company_id = '" NOBODY "' WHERE id = $1", moved);
    run_sql(f, "UPDATE secret_bindings SET company_id = '" NOBODY "' WHERE secret_id = $1", moved);
    assert_fails(f, BERTH_E_INVALID, BROKEN, resolve(f, f->b, moved, 0, &got));
    const char *theirs = make_secret_of(f, NOBODY, "theirs", "value")->id;
    move_material(f, a, 1, theirs, 1);
    assert_fails(f, BERTH_E_INVALID, BROKEN, resolve(f, f->b, theirs, 0, &got));
}

/* --- keys that are not there --- */

static void put_file(const char *path, const char *content, mode_t mode)
{
    (void)unlink(path);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    assert_int_equal(fchmod(fd, mode), 0);
}

/* A key file of somebody else's, whole and well. */
static void put_foreign_key(struct fixture *f, const char *path)
{
    auto_locked memory = BERTH_LOCKED_INIT;
    struct berth_keyring *ring;
    (void)unlink(path);
    assert_ok(f, berth_keyring_new(&memory, &ring, &f->err));
    assert_ok(f, berth_keyring_add(ring, STORE, &f->err));
    assert_ok(f, berth_keyfile_create(path, ring, &f->err));
}

static char *key_text(struct fixture *f)
{
    auto_close int fd = open(key_file_of(f), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char *all = berth_arena_alloc(&f->arena, 4097);
    assert_true(read(fd, all, 4096) > 0);
    return all;
}

/* Everything that needs the key is refused with that text; everything else goes on. */
static void assert_keyless(struct fixture *f, const char *id, const struct berth_environment *e,
                           int code, const char *told)
{
    auto_locked got = BERTH_LOCKED_INIT;
    struct berth_secret *s;
    struct berth_secret_input input = {.name = "new"};
    struct berth_environment *out;
    assert_fails(f, code, told, resolve(f, f->b, id, 0, &got));
    assert_false(last_event(f, id)->success);
    assert_fails(f, code, told, berth_secret_create(f->b, &f->arena, &input, "v", 1, &s, &f->err));
    assert_fails(f, code, told,
                 berth_secret_rotate(f->b, &f->arena, id, "v", 1, NULL, &s, &f->err));
    assert_fails(f, code, told, try_save(f, NULL, text(f, WITH_KEY, "scripted", "pasted"), &out));
    struct berth_key_change change;
    assert_fails(f, code, told, berth_secret_change_key(f->b, NULL, &change, &f->err));
    assert_fails(f, code, told, try_lease(f, e, make_run(f)));
    assert_int_equal(look_at_secret(f, id)->latest_version, 1);
    assert_int_equal(count_rows(f, "SELECT count(*) FROM secrets"), 1);

    struct berth_environment *plain = save(f, NULL, "{\"provider\":\"scripted\"}");
    struct berth_lease *lease = take_lease(f, plain, make_run(f));
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    struct berth_list list;
    assert_ok(f, berth_secret_list(f->b, &f->arena, NULL, &list, &f->err));
    assert_int_equal(list.count, 1);
    (void)sweep(f);
    assert_int_equal(scripted_count(f->world), 0);
}

static void store_without_its_key(void **state)
{
    struct fixture *f = *state;
    const char *path = key_file_of(f);
    const char *id = make_text_secret(f, "key", CANARY)->id;
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, "scripted", id));
    char *kept = key_text(f);
    fixture_close(f);
    assert_int_equal(unlink(path), 0);
    f->b = open_another(f, NULL, quiet);
    assert_keyless(f, id, e, BERTH_E_UNPROCESSABLE, NO_KEY);
    assert_non_null(strstr(f->err.message, path));
    assert_int_equal(access(path, F_OK), -1); /* a new one would only hide what is missing */

    put_foreign_key(f, path);
    char *foreign = key_text(f);
    assert_keyless(f, id, e, BERTH_E_UNPROCESSABLE, NO_KEY);
    assert_string_equal(key_text(f), foreign);

    put_file(path, "not a key\n", 0600);
    assert_keyless(f, id, e, BERTH_E_INVALID, "Invalid secrets master key at ");
    assert_string_equal(key_text(f), "not a key\n");

    put_file(path, kept, 0644);
    assert_keyless(f, id, e, BERTH_E_DENIED, "run chmod 600 ");
    assert_int_equal(chmod(path, 0600), 0);
    assert_value(f, id, 0, CANARY); /* no need to start anew */
}

/* A store that had a key and lost all its secrets still has that key. */
static void no_second_first_key(void **state)
{
    struct fixture *f = *state;
    struct berth_secret *s = make_text_secret(f, "key", CANARY);
    run_sql(f, "DELETE FROM secret_bindings WHERE secret_id = $1", s->id);
    assert_ok(f, berth_secret_delete(f->b, &f->arena, s->id, NULL, &s, &f->err));
    fixture_close(f);
    assert_int_equal(unlink(key_file_of(f)), 0);
    f->b = open_another(f, NULL, quiet);
    struct berth_secret_input input = {.name = "new"};
    assert_fails(f, BERTH_E_UNPROCESSABLE, NO_KEY,
                 berth_secret_create(f->b, &f->arena, &input, "v", 1, &s, &f->err));
    assert_int_equal(access(key_file_of(f), F_OK), -1);
}

/* --- the first key, made by many --- */

/* A process of its own: opens, waits for the others, makes a secret. Its exit: minus the code. */
static int make_first(const struct fixture *f, const char *key_file, int start, int number)
{
    struct berth_arena arena = BERTH_ARENA_INIT;
    struct berth_options options = BERTH_OPTIONS_INIT;
    struct berth_error err;
    struct berth *b;
    struct berth_secret *s;
    char name[16], go;
    options.store = f->store;
    options.key_file = key_file;
    options.settings.self_sweep_ms = 0;
    int rc = berth_open(&options, &b, &err);
    if (rc < 0 || read(start, &go, 1) != 0)
        return 100;
    (void)snprintf(name, sizeof name, "n%d", number);
    struct berth_secret_input input = {.name = name};
    rc = berth_secret_create(b, &arena, &input, name, strlen(name), &s, &err);
    berth_close(b);
    berth_arena_clear(&arena);
    return -rc;
}

enum { MAKERS = 4 };

/* How each of them ended; `own` gives each a key file of its own. */
static void race_for_the_first(struct fixture *f, bool own, int exits[MAKERS])
{
    int start[2];
    pid_t children[MAKERS];
    const char *files[MAKERS];
    for (int i = 0; i < MAKERS; i++)
        files[i] = own ? text(f, "%s/node-%d.key", f->directory, i) : key_file_of(f);
    fixture_close(f); /* no threads, no connections while we fork */
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < MAKERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            (void)close(start[1]);
            _exit(make_first(f, files[i], start[0], i));
        }
    }
    pause_ms(300); /* most are open by then */
    (void)close(start[0]);
    (void)close(start[1]);
    for (int i = 0; i < MAKERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        exits[i] = WEXITSTATUS(status);
    }
}

static void many_processes_make_the_first_secret(void **state)
{
    struct fixture *f = *state;
    int exits[MAKERS];
    assert_int_equal(access(key_file_of(f), F_OK), -1); /* opening alone makes none */
    race_for_the_first(f, false, exits);
    for (int i = 0; i < MAKERS; i++)
        assert_int_equal(exits[i], 0);
    f->b = open_another(f, NULL, quiet);
    assert_int_equal(count_rows(f, "SELECT count(DISTINCT key_id) FROM secret_versions"), 1);
    struct berth_list list;
    assert_ok(f, berth_secret_list(f->b, &f->arena, NULL, &list, &f->err));
    assert_int_equal(list.count, MAKERS);
    for (int i = 0; i < MAKERS; i++) {
        const struct berth_secret *s = list.items[i];
        bind_secret(f, s->id);
        assert_value(f, s->id, 0, s->name);
    }
}

/* Nodes without a common disk: one key it is, and the others are told. */
static void many_nodes_make_the_first_secret(void **state)
{
    struct fixture *f = *state;
    int exits[MAKERS], winners = 0, winner = -1;
    race_for_the_first(f, true, exits);
    for (int i = 0; i < MAKERS; i++) {
        assert_true(exits[i] == 0 || exits[i] == -BERTH_E_UNPROCESSABLE);
        if (exits[i] == 0) {
            winners++;
            winner = i;
        }
    }
    assert_int_equal(winners, 1);
    f->b = open_another(f, text(f, "%s/node-%d.key", f->directory, winner), quiet);
    struct berth_list list;
    assert_ok(f, berth_secret_list(f->b, &f->arena, NULL, &list, &f->err));
    assert_int_equal(list.count, 1);
    const struct berth_secret *s = list.items[0];
    bind_secret(f, s->id);
    assert_value(f, s->id, 0, s->name);
}

/* --- another key --- */

enum { SECRETS = 50, ROTATED = 40 }; /* more than one batch */

static void make_many(struct fixture *f, const char *ids[SECRETS])
{
    for (int i = 0; i < SECRETS; i++) {
        ids[i] = make_text_secret(f, text(f, "s%d", i), text(f, "first-%d", i))->id;
        if (i < ROTATED)
            rotate(f, ids[i], text(f, "second-%d", i));
    }
}

static void assert_many(struct fixture *f, struct berth *b, const char *const ids[SECRETS])
{
    for (int i = 0; i < SECRETS; i++) {
        assert_value_in(f, b, ids[i], 1, text(f, "first-%d", i));
        if (i < ROTATED)
            assert_value_in(f, b, ids[i], 0, text(f, "second-%d", i));
    }
}

static int count_keys(struct fixture *f)
{
    int keys = 0;
    for (const char *at = key_text(f); (at = strstr(at, "berth-key ")); at++)
        keys++;
    return keys;
}

static void new_key_for_everything(void **state)
{
    struct fixture *f = *state;
    struct berth_key_change change;
    assert_fails(f, BERTH_E_UNPROCESSABLE,
                 "There is no key to change: this store holds no secrets yet.",
                 berth_secret_change_key(f->b, NULL, &change, &f->err));
    const char *ids[SECRETS];
    make_many(f, ids);
    struct berth *other = open_another(f, NULL, quiet); /* goes on all the while */
    assert_many(f, other, ids);
    const char *before = first_text(f, "SELECT key_id FROM secret_key");
    assert_ok(f, berth_secret_change_key(f->b, NULL, &change, &f->err));
    assert_string_equal(change.from, before);
    assert_string_not_equal(change.to, before);
    assert_int_equal(change.versions, SECRETS + ROTATED);
    assert_string_equal(first_text(f, "SELECT key_id FROM secret_key"), change.to);
    assert_int_equal(
        count_rows(f,
                   text(f, "SELECT count(*) FROM secret_versions WHERE key_id <> '%s'", change.to)),
        0);
    assert_int_equal(count_keys(f), 1);
    assert_null(strstr(key_text(f), before));
    assert_non_null(strstr(key_text(f), change.to));
    struct stat st;
    assert_int_equal(stat(key_file_of(f), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(
        count_rows(f, text(f,
                           "SELECT count(*) FROM activity WHERE action = 'secret_key.changed'"
                           " AND entity_id = '%s'",
                           change.to)),
        1);

    assert_many(f, f->b, ids);
    assert_many(f, other, ids);
    struct berth *first = f->b;
    f->b = other;
    const char *written = make_text_secret(f, "of the other", "third")->id;
    rotate(f, ids[0], "of the other");
    f->b = first;
    berth_close(other);
    assert_value(f, written, 0, "third");
    assert_value(f, ids[0], 0, "of the other");
    reopen(f, NULL, quiet);
    assert_value(f, written, 0, "third");
    /* The second key is no different from the first. */
    assert_ok(f, berth_secret_change_key(f->b, NULL, &change, &f->err));
    assert_int_equal(change.versions, SECRETS + ROTATED + 2);
    assert_value(f, written, 0, "third");
    assert_int_equal(count_keys(f), 1);
}

static const char *beside_key(struct fixture *f, const char *suffix)
{
    return text(f, "%s.%s", key_file_of(f), suffix);
}

static void a_new_key_keeps_copies_of_the_old_one(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"backup", "abc123", "2026-11", "berth-new"};
    struct berth_key_change change;
    (void)make_text_secret(f, "s", "value-of-s");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(link(key_file_of(f), beside_key(f, names[i])), 0);
    auto_close int left =
        open(beside_key(f, "berth-new-abcdef"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(left >= 0); /* as a killed writer leaves it */
    assert_ok(f, berth_secret_change_key(f->b, NULL, &change, &f->err));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(access(beside_key(f, names[i]), F_OK), 0);
    assert_int_equal(access(beside_key(f, "berth-new-abcdef"), F_OK), -1);
}

struct changer {
    struct berth *b;
    pthread_t thread;
    int rounds, done, refused, other;
    char text[200];
};

static void *change_often(void *ctx)
{
    struct changer *c = ctx;
    for (int i = 0; i < c->rounds; i++) {
        struct berth_key_change change;
        struct berth_error err;
        int rc = berth_secret_change_key(c->b, NULL, &change, &err);
        c->done += rc == BERTH_OK;
        c->refused += rc == BERTH_E_CONFLICT;
        if (rc < 0 && rc != BERTH_E_CONFLICT) {
            c->other++;
            (void)snprintf(c->text, sizeof c->text, "%.199s", err.message);
        }
    }
    return NULL;
}

static void changes_of_the_key_take_turns(void **state)
{
    struct fixture *f = *state;
    enum { CHANGERS = 3, WRITES = 40 };
    const char *ids[SECRETS], *written[WRITES];
    make_many(f, ids);
    struct changer changers[CHANGERS];
    for (int i = 0; i < CHANGERS; i++) {
        changers[i] = (struct changer){.b = open_another(f, NULL, quiet), .rounds = 6};
        assert_int_equal(pthread_create(&changers[i].thread, NULL, change_often, &changers[i]), 0);
    }
    for (int i = 0; i < WRITES; i++) { /* and somebody writes and reads meanwhile */
        written[i] = make_text_secret(f, text(f, "w%d", i), text(f, "w%d", i))->id;
        assert_value(f, ids[i], 1, text(f, "first-%d", i));
    }
    int done = 0;
    for (int i = 0; i < CHANGERS; i++) {
        pthread_join(changers[i].thread, NULL);
        done += changers[i].done;
        if (changers[i].other)
            fail_msg("a change failed: %s", changers[i].text);
    }
    for (int i = 0; i < CHANGERS; i++)
        berth_close(changers[i].b);
    assert_true(done >= 1);
    reopen(f, NULL, quiet); /* what is in no memory must be in the file */
    assert_many(f, f->b, ids);
    for (int i = 0; i < WRITES; i++)
        assert_value(f, written[i], 0, text(f, "w%d", i));
    assert_int_equal(count_keys(f), 1);
}

static void one_broken_version_keeps_the_old_key(void **state)
{
    struct fixture *f = *state;
    const char *ids[SECRETS];
    make_many(f, ids);
    const char *before = first_text(f, "SELECT key_id FROM secret_key");
    const char *was = first_text(f, text(f,
                                         "SELECT sealed FROM secret_versions WHERE secret_id ="
                                         " '%s' AND version = 1",
                                         ids[3]));
    char *broken = text(f, "%s", was);
    broken[20] = broken[20] == 'A' ? 'B' : 'A';
    const char *sql = "UPDATE secret_versions SET sealed = $2 WHERE secret_id = $1 AND version = 1";
    assert_int_equal(try_sql(f, sql, ids[3], broken, 0), 0);
    struct berth_key_change change;
    assert_fails(f, BERTH_E_CONFLICT, "but for 1 version that no key of ",
                 berth_secret_change_key(f->b, NULL, &change, &f->err));
    assert_non_null(strstr(f->err.message, ids[3]));
    assert_non_null(strstr(f->err.message, "Their keys are kept"));
    assert_int_equal(
        count_rows(f, text(f, "SELECT count(*) FROM secret_versions WHERE key_id = '%s'", before)),
        1);
    assert_int_equal(count_keys(f), 2);
    assert_non_null(strstr(key_text(f), before));
    reopen(f, NULL, quiet);
    assert_value(f, ids[3], 0, "second-3");
    assert_value(f, ids[4], 1, "first-4");
    /* Mended, it can be finished. */
    assert_int_equal(try_sql(f, sql, ids[3], was, 0), 0);
    assert_value(f, ids[3], 1, "first-3");
    assert_ok(f, berth_secret_change_key(f->b, NULL, &change, &f->err));
    assert_int_equal(change.versions, 1);
    assert_string_equal(change.from, change.to);
    assert_int_equal(count_keys(f), 1);
    assert_many(f, f->b, ids);
}

/* Two databases of one user have one key file unless they are told otherwise. */
static void change_for_one_store_leaves_the_other_readable(void **state)
{
    struct fixture *f = *state;
    struct fixture g;
    fixture_make(&g, f->kind);
    g.b = open_another(&g, key_file_of(f), quiet);
    const char *ours = make_text_secret(f, "ours", "one")->id;
    const char *theirs = make_text_secret(&g, "theirs", "two")->id;
    struct berth_key_change change;
    int rc = berth_secret_change_key(f->b, NULL, &change, &f->err); /* may be refused */
    berth_close(g.b);
    g.b = open_another(&g, key_file_of(f), quiet);
    auto_locked got = BERTH_LOCKED_INIT;
    int theirs_rc = resolve(&g, g.b, theirs, 0, &got);
    fixture_destroy(&g);
    assert_value(f, ours, 0, "one");
    if (theirs_rc < 0)
        fail_msg("the change (%d) took the other store's key: %s", rc, g.err.message);
}

/* --- drivers that repeat what they were told --- */

static struct berth_environment *with_value(struct fixture *f, const char *provider,
                                            const char *value)
{
    const char *id = make_text_secret(f, text(f, "of %s", provider), value)->id;
    return save(f, NULL, text(f, WITH_KEY, provider, id));
}

static void assert_nowhere(struct fixture *f, const char *value)
{
    assert_int_equal(count_in_tables(f, value), 0);
}

static void repeated_in_metadata(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = with_value(f, "scripted", CANARY);
    static const char *const answers[] = {
        "{\"apiKey\":\"" CANARY "\"}",
        "{\"a\":{\"b\":[1,{\"c\":\"" CANARY "\"}]}}",
        "{\"a\":[\"x\",\"Bearer " CANARY "!\"]}",
        "{\"" CANARY "\":1,\"x" CANARY "\":{}}",
        "{\"a\":{\"" CANARY "\":{\"" CANARY "\":\"" CANARY "\"}}}",
        "{\"provider\":\"" CANARY "\",\"driver\":\"" CANARY "\"}",
        "{\"a\":\"\\u0063anary-8c1f-Zq7\"}",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        scripted_set(f->world, SCRIPTED_ACQUIRE, (struct scripted_act){.metadata = answers[i]});
        struct berth_lease *lease = take_lease(f, e, make_run(f));
        assert_nowhere(f, CANARY);
        auto_buf buf = BERTH_BUF_INIT(65536);
        struct berth_json_writer w = {.buf = &buf};
        berth_lease_json(&w, look_at_lease(f, lease));
        assert_null(strstr(berth_buf_str(&buf), CANARY));
        (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    }
    assert_nowhere(f, CANARY);
}

static void repeated_in_resumed_metadata(void **state)
{
    struct fixture *f = *state;
    const char *id = make_text_secret(f, "key", CANARY)->id;
    struct berth_environment *e = save(
        f, NULL, text(f, "{\"provider\":\"scripted\",\"reuseLease\":true,\"apiKey\":\"%s\"}", id));
    (void)give_lease(f, take_lease(f, e, make_run(f)), BERTH_LEASE_RELEASED);
    scripted_set(f->world, SCRIPTED_RESUME,
                 (struct scripted_act){.metadata = "{\"a\":\"" CANARY "\"}"});
    (void)give_lease(f, take_lease(f, e, make_run(f)), BERTH_LEASE_RELEASED);
    assert_int_equal(scripted_calls(f->world, SCRIPTED_RESUME), 1);
    assert_nowhere(f, CANARY);
    scripted_set(f->world, SCRIPTED_RESUME,
                 (struct scripted_act){.id = "scripted://" CANARY, .metadata = "{}"});
    (void)try_lease(f, e, make_run(f));
    assert_null(strstr(f->err.message, CANARY));
    assert_nowhere(f, CANARY);
    scripted_go_on(f->world);
    check_world(f);
}

static void repeated_as_the_id(void **state)
{
    struct fixture *f = *state;
    static const char *const providers[] = {"scripted", "blind"};
    for (int i = 0; i < 2; i++) {
        struct berth_environment *e = with_value(f, providers[i], CANARY);
        scripted_set(f->world, SCRIPTED_ACQUIRE, (struct scripted_act){.id = "box-" CANARY});
        assert_fails(f, BERTH_E_UPSTREAM, "answered with a secret.", try_lease(f, e, make_run(f)));
        assert_null(strstr(f->err.message, CANARY));
        assert_nowhere(f, CANARY);
        check_world(f); /* the place is not forgotten for that */
        scripted_go_on(f->world);
        (void)sweep(f);
        assert_int_equal(scripted_count(f->world), i);
        assert_nowhere(f, CANARY);
    }
}

/* A clean-up asks by label, and the provider answers with an id that is none of our business. */
static void repeated_by_find(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = with_value(f, "scripted", CANARY);
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){
                     .mode = SCRIPTED_FAIL, .code = BERTH_E_INVALID, .after = true}); /* it lies */
    assert_fails(f, BERTH_E_INVALID, NULL, try_lease(f, e, make_run(f)));
    assert_int_equal(scripted_count(f->world), 1);
    scripted_set(f->world, SCRIPTED_FIND, (struct scripted_act){.id = "box-" CANARY});
    (void)sweep(f);
    assert_true(scripted_calls(f->world, SCRIPTED_FIND) > 0);
    assert_nowhere(f, CANARY);
}

static void repeated_by_a_probe(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = with_value(f, "scripted", CANARY);
    scripted_set(f->world, SCRIPTED_PROBE,
                 (struct scripted_act){.summary = "logged in as " CANARY ", and " CANARY,
                                       .details = "{\"header\":\"" CANARY "\",\"n\":1}"});
    struct berth_probe answer;
    assert_ok(f, berth_environment_probe(f->b, &f->arena, e->id, NULL, &answer, &f->err));
    assert_null(strstr(answer.summary, CANARY));
    assert_non_null(strstr(answer.summary, "logged in as "));
    assert_null(strstr(answer.details_json, CANARY));
    assert_int_equal(strtol(json_text(f, answer.details_json, "n"), NULL, 10), 1);
    scripted_set(f->world, SCRIPTED_PROBE,
                 (struct scripted_act){
                     .mode = SCRIPTED_FAIL, .code = BERTH_E_UPSTREAM, .text = "refused " CANARY});
    if (berth_environment_probe(f->b, &f->arena, e->id, NULL, &answer, &f->err) < 0)
        assert_null(strstr(f->err.message, CANARY));
    else
        assert_null(strstr(answer.summary, CANARY));
    assert_nowhere(f, CANARY);
}

static void repeated_when_realized(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = with_value(f, "scripted", CANARY);
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct berth_workspace workspace = {.local_path = "/tmp"};
    struct berth_realized out;
    scripted_set(f->world, SCRIPTED_REALIZE,
                 (struct scripted_act){.metadata = "{\"url\":\"https://u:" CANARY "@h/\"}"});
    assert_ok(f, berth_lease_realize(f->b, &f->arena, lease->id, &workspace, &out, &f->err));
    assert_null(strstr(out.metadata_json, CANARY));
    scripted_set(f->world, SCRIPTED_REALIZE, (struct scripted_act){.summary = "/w/" CANARY});
    assert_fails(f, BERTH_E_UPSTREAM, "answered with a secret.",
                 berth_lease_realize(f->b, &f->arena, lease->id, &workspace, &out, &f->err));
    assert_nowhere(f, CANARY);
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
}

/* The failing provider says this of a secret with that value: nothing like `forbidden` is left in
 * what the caller hears or the store keeps. */
static void assert_masked(struct fixture *f, const char *value, const char *said, const char *where,
                          const char *forbidden)
{
    static int number;
    const char *id = make_text_secret(f, text(f, "masked %d", number++), value)->id;
    struct berth_environment *e = save(f, NULL, text(f, WITH_KEY, "scripted", id));
    struct berth_lease *lease = take_lease(f, e, make_run(f));
    struct scripted_act act = {
        .mode = SCRIPTED_FAIL, .code = BERTH_E_UNPROCESSABLE, .text = said, .where = where};
    scripted_set(f->world, SCRIPTED_ACQUIRE, act);
    scripted_set(f->world, SCRIPTED_RELEASE, act);
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UNPROCESSABLE);
    if (strstr(f->err.message, forbidden) || strstr(f->err.where, forbidden))
        fail_msg("\"%s\" is in \"%s\" [%s]", forbidden, f->err.message, f->err.where);
    (void)give_lease(f, lease, BERTH_LEASE_RELEASED);
    scripted_go_on(f->world);
    assert_nowhere(f, forbidden);
}

static void repeated_in_errors(void **state)
{
    assert_masked(*state, CANARY, "no: " CANARY ", I said " CANARY, NULL, CANARY);
}

static void repeated_in_where(void **state)
{
    assert_masked(*state, CANARY, "no", "POST /login?key=" CANARY, CANARY);
}

/* Cut off in the middle of the value, its beginning is still the value's. */
static void repeated_where_the_text_ends(void **state)
{
    struct fixture *f = *state;
    struct berth_error *err = &f->err;
    for (size_t shown = 8; shown < strlen(CANARY); shown++) {
        size_t padding = sizeof err->message - 1 - shown;
        char *said = text(f, "%*s" CANARY, (int)padding, "");
        memset(said, '.', padding);
        assert_masked(f, CANARY, said, NULL, "canary-8");
    }
}

/* Errors like to quote the config as it was sent: as JSON. */
static void repeated_as_json(void **state)
{
    assert_masked(*state, "first-canary-line\nsecond \"canary\" line",
                  "bad config {\"apiKey\":\"first-canary-line\\nsecond \\\"canary\\\" line\"}",
                  NULL, "first-canary-line");
}

/* One value inside another: neither is left, nor the rest of the longer one. */
static void repeated_one_inside_another(void **state)
{
    struct fixture *f = *state;
    const char *inner = make_text_secret(f, "inner", "canary")->id,
               *outer = make_text_secret(f, "outer", "canary-and-tail")->id;
    struct berth_environment *e =
        save(f, NULL,
             text(f, "{\"provider\":\"scripted\",\"apiKey\":\"%s\",\"auth\":{\"token\":\"%s\"}}",
                  inner, outer));
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.mode = SCRIPTED_FAIL,
                                       .code = BERTH_E_UNPROCESSABLE,
                                       .text = "bad token canary-and-tail"});
    assert_int_equal(try_lease(f, e, make_run(f)), BERTH_E_UNPROCESSABLE);
    assert_null(strstr(f->err.message, "-and-tail"));
    assert_nowhere(f, "-and-tail");
}

/* As a number it is the same secret. */
static void repeated_as_a_number(void **state)
{
    struct fixture *f = *state;
    struct berth_environment *e = with_value(f, "scripted", "8675309124");
    scripted_set(f->world, SCRIPTED_ACQUIRE,
                 (struct scripted_act){.metadata = "{\"pin\":8675309124}"});
    (void)give_lease(f, take_lease(f, e, make_run(f)), BERTH_LEASE_RELEASED);
    assert_nowhere(f, "8675309124");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ON_BOTH(every_flipped_bit_of_a_version_is_detected),
        TEST_ON_BOTH(older_version_does_not_pass_for_the_latest),
        TEST_ON_BOTH(material_opens_only_where_it_was_sealed),
        TEST_ON_BOTH(store_without_its_key),
        TEST_ON_BOTH(no_second_first_key),
        TEST_ON_BOTH(many_processes_make_the_first_secret),
        TEST_ON_BOTH(many_nodes_make_the_first_secret),
        TEST_ON_BOTH(new_key_for_everything),
        TEST_ON_BOTH(a_new_key_keeps_copies_of_the_old_one),
        TEST_ON_BOTH(changes_of_the_key_take_turns),
        TEST_ON_BOTH(one_broken_version_keeps_the_old_key),
        TEST_ON_BOTH(change_for_one_store_leaves_the_other_readable),
        TEST_ON_BOTH(repeated_in_metadata),
        TEST_ON_BOTH(repeated_in_resumed_metadata),
        TEST_ON_BOTH(repeated_as_the_id),
        TEST_ON_BOTH(repeated_by_find),
        TEST_ON_BOTH(repeated_by_a_probe),
        TEST_ON_BOTH(repeated_when_realized),
        TEST_ON_BOTH(repeated_in_errors),
        TEST_ON_BOTH(repeated_in_where),
        TEST_ON_BOTH(repeated_where_the_text_ends),
        TEST_ON_BOTH(repeated_as_json),
        TEST_ON_BOTH(repeated_one_inside_another),
        TEST_ON_BOTH(repeated_as_a_number),
    };
    return cmocka_run_group_tests_name("secrets_trouble", tests, NULL, NULL);
}
