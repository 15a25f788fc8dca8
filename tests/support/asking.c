/* SPDX-License-Identifier: Apache-2.0
 * tests/support/asking.c - see asking.h. */
#include "asking.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"

int dial(struct fixture *f)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%.90s/api", f->directory);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int send_request(struct fixture *f, const char *headers, const char *method,
                        const char *path, const char *body)
{
    int fd = dial(f);
    auto_buf text = BERTH_BUF_INIT(16 * 1024 * 1024);
    berth_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n%s", method,
                     path, headers);
    if (body)
        berth_buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    berth_buf_printf(&text, "\r\n%s", body ? body : "");
    assert_int_equal(send(fd, text.data, text.len, MSG_NOSIGNAL), (ssize_t)text.len);
    return fd;
}

int ask_status(struct fixture *f, const char *headers, const char *method, const char *path,
               const char *body)
{
    char head[16] = "";
    int status = 0;
    auto_close int fd = send_request(f, headers, method, path, body);
    assert_int_equal(recv(fd, head, sizeof head - 1, MSG_WAITALL), sizeof head - 1);
    assert_int_equal(sscanf(head, "HTTP/1.1 %d", &status), 1);
    return status;
}

struct reply ask_with(struct fixture *f, const char *headers, const char *method, const char *path,
                      const char *body)
{
    auto_close int fd = send_request(f, headers, method, path, body);
    auto_buf heard = BERTH_BUF_INIT(64 * 1024 * 1024);
    char chunk[8192];
    for (ssize_t got; (got = recv(fd, chunk, sizeof chunk, 0)) > 0;)
        berth_buf_append(&heard, chunk, (size_t)got);
    struct reply reply = {0};
    char *gap = strstr(berth_buf_str(&heard), "\r\n\r\n");
    assert_non_null(gap);
    *gap = '\0';
    assert_int_equal(sscanf(heard.data, "HTTP/1.1 %d ", &reply.status), 1);
    reply.head = berth_arena_strdup(&f->arena, heard.data);
    reply.body = berth_arena_strdup(&f->arena, gap + 4);
    return reply;
}

struct reply ask(struct fixture *f, const char *method, const char *path, const char *body)
{
    char *copy = body ? berth_arena_strdup(&f->arena, body) : NULL;
    for (char *c = copy; c && *c; c++)
        if (*c == '\'')
            *c = '"';
    return ask_with(f, body ? "Content-Type: application/json\r\n" : "", method, path, copy);
}

const char *reply_text(struct fixture *f, const struct reply *r, const char *path)
{
    auto_json *whole = NULL;
    struct berth_error err;
    assert_int_equal(berth_json_parse(r->body, strlen(r->body), BERTH_JSON_OURS, &whole, &err), 0);
    const struct berth_json *at = whole;
    while (at && *path) {
        char key[80];
        size_t len = strcspn(path, ".");
        (void)snprintf(key, sizeof key, "%.*s", (int)len, path);
        at = berth_json_is(at, BERTH_JSON_ARRAY) ? berth_json_at(at, (size_t)atoi(key))
                                                 : berth_json_get(at, key);
        path += len + (path[len] == '.');
    }
    return berth_arena_strdup(&f->arena, berth_json_str(at));
}

void expect_error(struct fixture *f, struct reply r, int status, const char *code,
                  const char *message)
{
    assert_string_equal(reply_text(f, &r, "error"), message);
    assert_string_equal(reply_text(f, &r, "code"), code);
    assert_int_equal(r.status, status);
    assert_non_null(strstr(r.head, "Content-Type: application/json"));
}

int reply_count(const struct reply *r)
{
    auto_json *list = NULL;
    struct berth_error err;
    assert_int_equal(berth_json_parse(r->body, strlen(r->body), BERTH_JSON_OURS, &list, &err), 0);
    assert_true(berth_json_is(list, BERTH_JSON_ARRAY));
    return (int)berth_json_count(list);
}

const char *text_of(struct fixture *f, const char *fmt, ...)
{
    char out[500];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(out, sizeof out, fmt, args);
    va_end(args);
    return berth_arena_strdup(&f->arena, out);
}

/* --- the stage --- */

struct berth_api *asked_api;

int asking_setup(void **state)
{
    struct berth_http_settings settings = BERTH_HTTP_SETTINGS_INIT;
    (void)fixture_setup(state);
    struct fixture *f = *state;
    assert_ok(f, berth_api_open(f->b, &settings, &asked_api, &f->err));
    struct berth_http_address here = {.path = text_of(f, "%s/api", f->directory)};
    assert_ok(f, berth_api_listen(asked_api, &here, &f->err));
    return 0;
}

int asking_teardown(void **state)
{
    berth_api_close(asked_api, 1000);
    asked_api = NULL;
    return fixture_teardown(state);
}

const char *default_company(struct fixture *f)
{
    struct reply r = ask(f, "GET", "/api/companies", NULL);
    assert_int_equal(r.status, 200);
    return reply_text(f, &r, "0.id");
}

const char *ask_environment(struct fixture *f, const char *body)
{
    struct reply r =
        ask(f, "POST", text_of(f, "/api/companies/%s/environments", default_company(f)), body);
    if (r.status != 201)
        fail_msg("%d %s", r.status, r.body);
    return reply_text(f, &r, "id");
}
