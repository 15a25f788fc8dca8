/* SPDX-License-Identifier: Apache-2.0
 * tests/support/asking.h - the API of a fixture's runtime at a real socket, and a client of it. */
#ifndef BERTH_TESTS_ASKING_H
#define BERTH_TESTS_ASKING_H

#include "api/api.h"
#include "fixture.h"

#define NOBODY "01234567-89ab-7cde-8f01-23456789abcd"

/* cmocka set-up and tear-down. */
int asking_setup(void **state);
int asking_teardown(void **state);
extern struct berth_api *asked_api;

#define ASK_ON_SQLITE(test)                                                                        \
    {                                                                                              \
#test " (sqlite)", test, asking_setup, asking_teardown, &on_sqlite                         \
    }
#define ASK_ON_BOTH(test)                                                                          \
    ASK_ON_SQLITE(test),                                                                           \
    {                                                                                              \
#test " (postgres)", test, asking_setup, asking_teardown, &on_postgres                     \
    }

struct reply {
    int status;
    const char *head, *body; /* in the fixture's arena */
};

int dial(struct fixture *f); /* a connection */
struct reply ask_with(struct fixture *f, const char *headers, const char *method, const char *path,
                      const char *body);
/* The status alone, of what may not end by itself. */
int ask_status(struct fixture *f, const char *headers, const char *method, const char *path,
               const char *body);
/* ' stands for " in the body. */
struct reply ask(struct fixture *f, const char *method, const char *path, const char *body);
/* At "details.0.path"; NULL: it is not there, or null. */
const char *reply_text(struct fixture *f, const struct reply *r, const char *path);
int reply_count(const struct reply *r); /* of a list */
void expect_error(struct fixture *f, struct reply r, int status, const char *code,
                  const char *message);
const char *text_of(struct fixture *f, const char *fmt, ...) BERTH_PRINTF(2, 3);

const char *default_company(struct fixture *f);
/* An environment; its id. */
const char *ask_environment(struct fixture *f, const char *body);
#endif
