/* SPDX-License-Identifier: Apache-2.0
 * tests/integration/secrets.h - what the tests of secrets share: to make, save, resolve, and to
 * look for a value in every place where it must not be. */
#ifndef BERTH_TESTS_SECRETS_H
#define BERTH_TESTS_SECRETS_H

#include "fixture.h"

#include "core/secret/secret.h"

#define BROKEN "Invalid local_encrypted secret material"
#define NOBODY "0197c7c0-0000-7000-8000-0000000000ff"

/* Another runtime on the fixture's store; NULL: the fixture's key file. The caller closes it. */
struct berth *open_another(struct fixture *f, const char *key_file, struct berth_log log);
/* The fixture's own is closed, and opened again like that. */
void reopen(struct fixture *f, const char *key_file, struct berth_log log);
const char *key_file_of(struct fixture *f);

/* Fail the test. The one that is made may be resolved by assert_value. */
struct berth_secret *make_secret(struct fixture *f, const char *name, const void *value,
                                 size_t len);
struct berth_secret *make_text_secret(struct fixture *f, const char *name, const char *value);
struct berth_secret *make_secret_of(struct fixture *f, const char *company_id, const char *name,
                                    const char *value);
struct berth_secret *look_at_secret(struct fixture *f, const char *id);
void rotate(struct fixture *f, const char *id, const char *value);
void make_company(struct fixture *f, const char *id);

void bind_secret(struct fixture *f, const char *secret_id); /* for `resolve` */

/* As that one's bound consumer; version 0 is the latest. */
int resolve(struct fixture *f, struct berth *b, const char *secret_id, int64_t version,
            struct berth_locked *out);
void assert_value_in(struct fixture *f, struct berth *b, const char *secret_id, int64_t version,
                     const char *value);
#define assert_value(f, id, version, value) assert_value_in(f, (f)->b, id, version, value)
/* Newest first. */
const struct berth_secret_event *last_event(struct fixture *f, const char *secret_id);

/* As from outside (BERTH_CONFIG_PERSIST); `e` NULL: a new one, named "My  Étude #1". */
int try_save(struct fixture *f, const struct berth_environment *e, const char *config,
             struct berth_environment **out);
struct berth_environment *save(struct fixture *f, const struct berth_environment *e,
                               const char *config);
void make_local(struct fixture *f, const struct berth_environment *e);
/* printf into the fixture's arena. */
#define text(f, ...) berth_arena_printf(&(f)->arena, __VA_ARGS__)

/* How many rows of any table hold the text in any column. */
int count_in_tables(struct fixture *f, const char *text);
/* A file of the store, of PostgreSQL's too, whose bytes hold it; or NULL. */
const char *find_in_files(struct fixture *f, const char *text);
const char *first_text(struct fixture *f, const char *sql); /* of the first row */
/* $1 is `a` when there is one; the next is `b`, or the number. -1: the database itself refuses. */
int try_sql(struct fixture *f, const char *sql, const char *a, const char *b, int64_t number);
#endif
