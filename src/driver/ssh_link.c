/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_link.c - see ssh_link.h. A master's own session runs a small shell at the far end
 * (berth_ssh_keep). When this process ends, that shell reads the end of its input, and ends all
 * processes that were started over the connection. */
#include "driver/ssh_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/failpoint.h"
#include "base/id.h"
#include "base/time.h"
#include "base/utf8.h"
#include "crypto/hash.h"
#include "driver/ssh_mux.h"
#include "os/fs.h"
#include "os/runtime.h"

#define SESSIONS_MAX 8          /* sshd allows ten; the shell that holds the connection is one */
#define IDLE_MS (60 * 1000)     /* after which an unused connection is closed */
#define RETIRE_MS (IDLE_MS / 2) /* after which it is not used again */
#define CROWDED_MS 1000         /* pause after a refused session: sshd frees sessions late */
#define SAID_BYTES_MAX (64 * 1024)
#define ANSWER_BYTES_MAX (1024 * 1024)
#define KEY_TEXT_BYTES_MAX (4 * 1024 * 1024) /* a config as text, with its keys */
#define VARIABLE_BYTES_MAX 8192              /* longer variables are not passed to ssh(1) */
#define REASON_BYTES_MAX 400                 /* of the line of ssh(1) that an error shows */
#define SSH_FAILED 255                       /* exit status of ssh(1) for errors of its own */
#define LOOK_MS 1000 /* the deadline is compared with the clock at least this often */

enum state {
    CONNECTING,
    READY,
    DEAD,
};

struct berth_ssh_link {
    struct berth_ssh_links *links;
    struct berth_ssh_link *next;
    char key[BERTH_SHA256_HEX_SIZE]; /* hash of its config */
    char where[300];                 /* for error texts */
    struct berth_id id;
    char label[sizeof "BERTH_LINK_ID=" + BERTH_ID_SIZE];
    struct berth_ssh_mark mark;
    char control[128], key_file[128], hosts_file[128];
    struct berth_process *process;
    int settled_fd;                /* readable when it is no longer connecting */
    struct berth_buf said, errors; /* used by the loop alone until it is settled */
    struct berth_exec_end end;
    /* Guarded by links->lock: */
    enum state state;
    int sessions;
    bool ended;            /* its process has ended: the last session frees it */
    bool leaving;          /* no session may begin on it any more */
    int64_t crowded_at_ms; /* when a session was refused; 0: never */
    int64_t idle_since_ms;
};

struct berth_ssh_links {
    struct berth_engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a link was freed */
    struct berth_ssh_link *first;
    int count; /* of all links, also those that wait for their last session */
    struct berth_runtime_room room;
    int made;
};

int berth_ssh_links_new(struct berth_engine *engine, struct berth_ssh_links **out,
                        struct berth_error *err)
{
    struct berth_ssh_links *links = calloc(1, sizeof *links);
    if (!links)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: SSH.");
    *links = (struct berth_ssh_links){.engine = engine, .room = BERTH_RUNTIME_ROOM_INIT};
    pthread_mutex_init(&links->lock, NULL);
    pthread_cond_init(&links->changed, NULL);
    berth_runtime_tidy("ssh");
    *out = links;
    return BERTH_OK;
}

static void free_link(struct berth_ssh_link *link)
{
    berth_buf_clear(&link->said);
    berth_buf_clear(&link->errors);
    if (link->settled_fd >= 0)
        (void)close(link->settled_fd);
    free(link);
}

/* Lock held. */
static void forget_link(struct berth_ssh_link *link)
{
    struct berth_ssh_links *links = link->links;
    free_link(link);
    links->count--;
    pthread_cond_broadcast(&links->changed);
}

/* Removes it from the list, and frees it when it has ended and has no session. Lock held. */
static void unlist(struct berth_ssh_link *link)
{
    struct berth_ssh_link **at = &link->links->first;
    while (*at && *at != link)
        at = &(*at)->next;
    if (*at)
        *at = link->next;
    if (link->ended && link->sessions == 0)
        forget_link(link);
}

void berth_ssh_links_free(struct berth_ssh_links *links)
{
    if (!links)
        return;
    pthread_mutex_lock(&links->lock);
    for (struct berth_ssh_link *link = links->first; link; link = link->next)
        berth_process_cancel(link->process);
    while (links->count) /* sessions end with their connection */
        pthread_cond_wait(&links->changed, &links->lock);
    pthread_mutex_unlock(&links->lock);
    berth_runtime_room_close(&links->room);
    pthread_cond_destroy(&links->changed);
    pthread_mutex_destroy(&links->lock);
    free(links);
}

/* --- on the engine's thread --- */

static void link_settle(struct berth_ssh_link *link, enum state state)
{
    /* ssh(1) has read the files, or has ended. */
    (void)unlink(link->key_file);
    (void)unlink(link->hosts_file);
    pthread_mutex_lock(&link->links->lock);
    if (link->state == CONNECTING || state == DEAD)
        link->state = state;
    pthread_mutex_unlock(&link->links->lock);
    (void)eventfd_write(link->settled_fd, 1);
}

/* Reads login shell, ":" and PATH between mark and ";". Everything before the mark is ignored. */
static void on_said(struct berth_ssh_link *link)
{
    const char *end_of_all = link->said.data + link->said.len;
    const char *mark =
        memmem(link->said.data, link->said.len, link->mark.text, sizeof link->mark.text - 1);
    const char *path = mark ? mark + sizeof link->mark.text - 1 : end_of_all;
    const char *end = memchr(path, ';', (size_t)(end_of_all - path));
    if (!end)
        return;
    size_t len = (size_t)(end - path);
    if (memchr(path, '\0', len))
        len = 0; /* not a PATH */
    memmove(link->said.data, path, len);
    berth_buf_truncate(&link->said, len);
    link_settle(link, READY);
}

static void on_output(void *ctx, enum berth_stream stream, const char *bytes, size_t len)
{
    struct berth_ssh_link *link = ctx;
    if (link->state != CONNECTING) /* only this thread changes it */
        return;
    struct berth_buf *buf = stream == BERTH_STDOUT ? &link->said : &link->errors;
    size_t room = buf->max - buf->len - 1;
    berth_buf_append(buf, bytes, len < room ? len : room);
    if (stream == BERTH_STDOUT && !buf->failed)
        on_said(link);
    if (buf->failed || (link->state == CONNECTING && buf->len + 1 >= buf->max))
        berth_process_cancel(link->process);
}

static void on_end(void *ctx, const struct berth_exec_end *end)
{
    struct berth_ssh_link *link = ctx;
    struct berth_ssh_links *links = link->links;
    struct berth_process *process = link->process;
    link->end = *end;
    link_settle(link, DEAD);
    pthread_mutex_lock(&links->lock);
    link->ended = true; /* the process is not used from here on */
    unlist(link);
    pthread_mutex_unlock(&links->lock);
    berth_process_free(process);
}

/* --- connecting --- */

static int write_file(const char *path, const char *text, struct berth_error *err)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return berth_fail_errno(err, "Cannot write %s", path);
    size_t len = strlen(text);
    int rc = berth_fs_write_all(fd, text, len, err);
    if (rc == BERTH_OK && (!len || text[len - 1] != '\n')) /* ssh(1) refuses a key without it */
        rc = berth_fs_write_all(fd, "\n", 1, err);
    return rc;
}

static int write_files(struct berth_ssh_link *link, const struct berth_ssh_config *c,
                       struct berth_error *err)
{
    int rc = c->private_key ? write_file(link->key_file, c->private_key, err) : BERTH_OK;
    if (rc == BERTH_OK && c->strict && c->known_hosts)
        rc = write_file(link->hosts_file, c->known_hosts, err);
    return rc;
}

/* The environment of ssh(1): only what it needs to find programs, the user's files and the agent.
 */
struct variables {
    const char *env[8];
    char texts[4][VARIABLE_BYTES_MAX];
};

static void set_env(struct variables *out)
{
    static const char *const names[] = {"PATH", "HOME", "USER", "SSH_AUTH_SOCK"};
    int count = 0;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        int len =
            value ? snprintf(out->texts[i], sizeof out->texts[i], "%s=%s", names[i], value) : -1;
        if (len > 0 && (size_t)len < sizeof out->texts[i])
            out->env[count++] = out->texts[i];
    }
    if (count == 0 || strncmp(out->env[0], "PATH=", 5) != 0)
        out->env[count++] = "PATH=/usr/bin:/bin";
    out->env[count] = NULL;
}

/* The arguments of ssh(1). */
struct arguments {
    const char *argv[80];
    int count;
    char port[16], hosts[200];
};

static void add_option(struct arguments *out, const char *option)
{
    out->argv[out->count++] = "-o";
    out->argv[out->count++] = option;
}

static void write_arguments(const struct berth_ssh_link *link, const struct berth_ssh_config *c,
                            struct arguments *out)
{
    (void)snprintf(out->port, sizeof out->port, "%d", c->port);
    (void)snprintf(out->hosts, sizeof out->hosts, "UserKnownHostsFile=%s",
                   c->strict ? link->hosts_file : "/dev/null");
    const char *const first[] = {"ssh",  "-M", "-S",      link->control, "-T",       "-e",
                                 "none", "-p", out->port, "-l",          c->username};
    static const char *const always[] = {"BatchMode=yes",         "ConnectTimeout=10",
                                         "ServerAliveInterval=5", "ServerAliveCountMax=3",
                                         "ControlPersist=no",     "ClearAllForwardings=yes",
                                         "ForwardAgent=no",       "ForwardX11=no",
                                         "PermitLocalCommand=no", "RemoteCommand=none",
                                         "LogLevel=ERROR",        "StdinNull=no",
                                         "SessionType=default",   "ForkAfterAuthentication=no",
                                         "AddKeysToAgent=no",     "GSSAPIDelegateCredentials=no"};
    memcpy(out->argv, first, sizeof first);
    out->count = sizeof first / sizeof first[0];
    for (unsigned i = 0; i < sizeof always / sizeof always[0]; i++)
        add_option(out, always[i]);
    add_option(out, c->strict ? "StrictHostKeyChecking=yes" : "StrictHostKeyChecking=no");
    if (!c->strict || c->known_hosts) { /* the known hosts of the config alone are used */
        add_option(out, out->hosts);
        add_option(out, "GlobalKnownHostsFile=/dev/null");
    }
    if (c->private_key) { /* without the files and the agent of this user */
        out->argv[out->count++] = "-F";
        out->argv[out->count++] = "none";
        add_option(out, "IdentityAgent=none");
        add_option(out, "IdentitiesOnly=yes");
        out->argv[out->count++] = "-i";
        out->argv[out->count++] = link->key_file;
    }
    out->argv[out->count++] = "--";
    out->argv[out->count++] = c->host;
    out->argv[out->count++] = BERTH_SSH_READ_LINE;
    out->argv[out->count] = NULL;
}

static int connect_link(struct berth_ssh_link *link, const struct berth_ssh_config *c,
                        struct berth_error *err)
{
    struct variables variables;
    struct arguments arguments;
    set_env(&variables);
    write_arguments(link, c, &arguments);
    struct berth_process_options options = BERTH_PROCESS_OPTIONS_INIT;
    struct berth_exec_handlers handlers = {.on_output = on_output, .on_end = on_end, .ctx = link};
    options.argv = arguments.argv;
    options.env = variables.env;
    options.with_stdin = true;
    options.grace_ms = BERTH_SSH_GRACE_MS;
    auto_ssh_line line = BERTH_SSH_LINE_INIT;
    berth_ssh_line_set(&line, "m", link->mark.text);
    berth_ssh_line_set(&line, "k", link->label);
    int rc = berth_ssh_line_end(&line, berth_ssh_keep, err);
    if (rc == BERTH_OK)
        rc = write_files(link, c, err);
    BERTH_FAILPOINT(ssh_after_key);
    if (rc == BERTH_OK)
        rc = berth_process_start(link->links->engine, &options, &handlers, &link->process, err);
    if (rc == BERTH_OK && berth_process_write(link->process, line.buf.data, line.buf.len, err) < 0)
        berth_process_cancel(link->process);
    return rc;
}

/* Writes a text so that it cannot be taken for a part of the next one. */
static void key_put(struct berth_buf *buf, const char *text)
{
    if (text)
        berth_buf_printf(buf, "%zu:%s", strlen(text), text);
    else
        berth_buf_puts(buf, "-");
}

int berth_ssh_link_key(const struct berth_ssh_config *c, char out[BERTH_SHA256_HEX_SIZE],
                       struct berth_error *err)
{
    auto_buf buf = BERTH_BUF_INIT(KEY_TEXT_BYTES_MAX);
    buf.secret = true;
    key_put(&buf, c->host);
    key_put(&buf, c->username);
    key_put(&buf, c->private_key);
    key_put(&buf, c->known_hosts);
    berth_buf_printf(&buf, "%d %d", c->port, c->strict);
    int rc = berth_buf_check(&buf, "The SSH config", err);
    return rc < 0 ? rc : berth_sha256_hex(buf.data, buf.len, out, err);
}

/* Opens the room, and a new one when it was removed. Links that have lost their sockets with it
 * keep their sessions, and take no new ones. Lock held. */
static int links_open_room(struct berth_ssh_links *links, struct berth_error *err)
{
    if (berth_runtime_room_stands(&links->room))
        return BERTH_OK;
    for (struct berth_ssh_link *link = links->first; link; link = link->next)
        link->leaving = true;
    berth_runtime_room_close(&links->room);
    return berth_runtime_room_open("ssh", &links->room, err);
}

/* Lock held. */
static int new_link(struct berth_ssh_links *links, const struct berth_ssh_config *c,
                    const char *key, struct berth_ssh_link **out, struct berth_error *err)
{
    struct berth_ssh_link *link = calloc(1, sizeof *link);
    if (!link)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: SSH.");
    *link = (struct berth_ssh_link){.links = links,
                                    .next = links->first,
                                    .id = berth_id_new(),
                                    .mark = berth_ssh_mark_new(),
                                    .settled_fd = eventfd(0, EFD_CLOEXEC),
                                    .said = BERTH_BUF_INIT(SAID_BYTES_MAX),
                                    .errors = BERTH_BUF_INIT(SAID_BYTES_MAX),
                                    .sessions = 1};
    (void)snprintf(link->key, sizeof link->key, "%s", key);
    (void)snprintf(link->where, sizeof link->where, "%.100s@%.120s:%d", c->username, c->host,
                   c->port);
    (void)snprintf(link->label, sizeof link->label, "BERTH_LINK_ID=%s", link->id.text);
    int number = links->made++;
    (void)snprintf(link->control, sizeof link->control, "%s/%d.s", links->room.path, number);
    (void)snprintf(link->key_file, sizeof link->key_file, "%s/%d.k", links->room.path, number);
    (void)snprintf(link->hosts_file, sizeof link->hosts_file, "%s/%d.h", links->room.path, number);
    int rc = link->settled_fd < 0 ? berth_fail_errno(err, "Cannot make an event descriptor")
                                  : connect_link(link, c, err);
    if (rc < 0) {
        (void)unlink(link->key_file);
        (void)unlink(link->hosts_file);
        free_link(link);
        return rc;
    }
    links->first = link;
    links->count++;
    *out = link;
    return BERTH_OK;
}

/* Lock held. */
static struct berth_ssh_link *find_link(struct berth_ssh_links *links, const char *key)
{
    int64_t now = berth_time_mono_ms();
    for (struct berth_ssh_link *link = links->first; link; link = link->next)
        if (link->state != DEAD && !link->leaving && link->sessions < SESSIONS_MAX &&
            (!link->crowded_at_ms || now - link->crowded_at_ms > CROWDED_MS) &&
            strcmp(link->key, key) == 0 &&
            (link->sessions > 0 || now - link->idle_since_ms < RETIRE_MS))
            return link;
    return NULL;
}

/* Copies the last line that is not blank. */
static const char *last_line(const struct berth_buf *buf, char out[REASON_BYTES_MAX])
{
    const char *text = berth_buf_str(buf);
    size_t end = text ? buf->len : 0, begin;
    while (end && strchr("\r\n\t ", text[end - 1]))
        end--;
    for (begin = end; begin && text[begin - 1] != '\n' && text[begin - 1] != '\r';)
        begin--;
    (void)snprintf(out, REASON_BYTES_MAX, "%.*s", (int)(end - begin), text ? text + begin : "");
    berth_utf8_mend(out);
    return out;
}

static int say_why(struct berth_ssh_link *link, struct berth_error *err)
{
    static const char *const refusals[] = {"Permission denied", "Host key verification failed",
                                           "Too many authentication failures", "invalid format",
                                           "error in libcrypto"};
    char text[REASON_BYTES_MAX];
    const char *line = last_line(&link->errors, text);
    if (link->end.exit_code >= 0 && link->end.exit_code != SSH_FAILED)
        return berth_fail(err, BERTH_E_UNAVAILABLE,
                          "The login shell of %s ended with status %d before it did anything: %s",
                          link->where, link->end.exit_code,
                          *line ? line : last_line(&link->said, text));
    int code = BERTH_E_UNAVAILABLE;
    for (unsigned i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strstr(line, refusals[i]))
            code = BERTH_E_DENIED;
    return berth_fail(err, code, "SSH to %s failed: %s", link->where,
                      *line ? line : "the connection was closed.");
}

/* Waits until the link is connected or dead. */
static int link_await(struct berth_ssh_link *link, struct berth_call *call, struct berth_error *err)
{
    struct pollfd fds[] = {{.fd = link->settled_fd, .events = POLLIN},
                           {.fd = call->cancel_fd, .events = POLLIN}};
    while (!fds[0].revents) {
        int64_t left_ms = call->deadline_ms - berth_time_mono_ms();
        if (left_ms <= 0)
            return berth_fail(err, BERTH_E_TIMEOUT, "SSH to %s took too long.", link->where);
        int got = poll(fds, 2, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
        if (got > 0 && fds[1].revents)
            return berth_fail(err, BERTH_E_CANCELLED, "The call was cancelled.");
    }
    return BERTH_OK;
}

int berth_ssh_link_take(struct berth_ssh_links *links, struct berth_call *call,
                        const struct berth_ssh_config *config, struct berth_ssh_link **out,
                        struct berth_error *err)
{
    char key[BERTH_SHA256_HEX_SIZE];
    int rc = berth_ssh_link_key(config, key, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&links->lock);
    rc = links_open_room(links, err);
    struct berth_ssh_link *link = rc == BERTH_OK ? find_link(links, key) : NULL;
    if (link) {
        link->sessions++;
        berth_process_limit(link->process, 0);
    } else if (rc == BERTH_OK) {
        rc = new_link(links, config, key, &link, err);
    }
    pthread_mutex_unlock(&links->lock);
    if (rc == BERTH_OK)
        rc = link_await(link, call, err);
    else
        return rc;
    pthread_mutex_lock(&links->lock);
    bool dead = link->state == DEAD;
    if (rc < 0 && link->state == CONNECTING && link->sessions == 1) {
        link->leaving = true; /* no other thread waits for it */
        berth_process_cancel(link->process);
    }
    pthread_mutex_unlock(&links->lock);
    if (rc == BERTH_OK && dead)
        rc = say_why(link, err);
    if (rc < 0)
        berth_ssh_link_drop(link);
    else
        *out = link;
    return rc;
}

int berth_ssh_link_tell(struct berth_ssh_link *link, const struct berth_ssh_line *line,
                        struct berth_error *err)
{
    pthread_mutex_lock(&link->links->lock);
    int rc = link->ended ? berth_fail(err, BERTH_E_UNAVAILABLE, "The SSH connection is gone.")
                         : berth_process_write(link->process, line->buf.data, line->buf.len, err);
    pthread_mutex_unlock(&link->links->lock);
    return rc;
}

void berth_ssh_link_drop(struct berth_ssh_link *link)
{
    if (!link)
        return;
    struct berth_ssh_links *links = link->links;
    pthread_mutex_lock(&links->lock);
    if (--link->sessions == 0 && link->ended) {
        forget_link(link);
    } else if (link->sessions == 0) {
        link->idle_since_ms = berth_time_mono_ms();
        berth_process_limit(link->process, IDLE_MS);
    }
    pthread_mutex_unlock(&links->lock);
}

/* PATH follows the name of the login shell. */
const char *berth_ssh_link_path(const struct berth_ssh_link *link)
{
    const char *said = berth_buf_str(&link->said), *colon = said ? strchr(said, ':') : NULL;
    return colon ? colon + 1 : "";
}

/* Returns whether the login shell itself can run our lines. Bash could, but it reads ~/.bashrc
 * before it does, and with that has functions, traps and options that are not ours. */
static bool speaks_posix(const struct berth_ssh_link *link)
{
    static const char *const names[] = {"sh:", "dash:", "ash:", "ksh:"};
    const char *said = berth_buf_str(&link->said);
    for (unsigned i = 0; said && i < sizeof names / sizeof names[0]; i++)
        if (strncmp(said, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

const char *berth_ssh_link_label(const struct berth_ssh_link *link)
{
    return link->label;
}

/* --- sessions --- */

/* Starts ssh(1) as a client of the master. ProxyCommand=false: without the master it fails, instead
 * of connecting by itself. */
static int start_on_terminal(struct berth_ssh_link *link,
                             const struct berth_process_options *options,
                             const struct berth_exec_handlers *handlers, struct berth_process **out,
                             struct berth_error *err)
{
    const char *const argv[] = {"ssh",
                                "-F",
                                "none",
                                "-S",
                                link->control,
                                "-o",
                                "ControlMaster=no",
                                "-o",
                                "ProxyCommand=false",
                                "-o",
                                "BatchMode=yes",
                                "-o",
                                "LogLevel=ERROR",
                                "-e",
                                "none",
                                "-tt",
                                "--",
                                "berth",
                                BERTH_SSH_READ_LINE_TTY,
                                NULL};
    struct variables variables;
    struct berth_process_options client = *options;
    set_env(&variables);
    client.argv = argv;
    client.env = variables.env;
    return berth_process_start(link->links->engine, &client, handlers, out, err);
}

/* Notes that no session was given: the link is not used for a moment, or not any more. */
static void avoid(struct berth_ssh_link *link)
{
    pthread_mutex_lock(&link->links->lock);
    link->crowded_at_ms = berth_time_mono_ms();
    link->leaving |= access(link->control, F_OK) < 0; /* its socket is gone */
    pthread_mutex_unlock(&link->links->lock);
}

int berth_ssh_link_start(struct berth_ssh_link *link, const struct berth_call *call,
                         const struct berth_process_options *options,
                         const struct berth_exec_handlers *handlers, struct berth_process **out,
                         struct berth_error *err)
{
    if (options->terminal)
        return start_on_terminal(link, options, handlers, out, err);
    struct berth_ssh_session session = {.engine = link->links->engine,
                                        .control = link->control,
                                        .command = speaks_posix(link) ? BERTH_SSH_READ_LINE_POSIX
                                                                      : BERTH_SSH_READ_LINE};
    int rc = berth_ssh_mux_start(&session, call, options, handlers, out, err);
    if (rc == BERTH_E_UNAVAILABLE || rc == BERTH_E_TIMEOUT)
        avoid(link);
    return rc;
}

struct session_start {
    struct berth_ssh_link *link;
    const struct berth_call *call;
};

static int start_session(void *ctx, struct berth_engine *engine,
                         const struct berth_process_options *options,
                         const struct berth_exec_handlers *handlers, struct berth_process **out,
                         struct berth_error *err)
{
    const struct session_start *s = ctx;
    (void)engine; /* it is the link's */
    return berth_ssh_link_start(s->link, s->call, options, handlers, out, err);
}

/* Finds the answer between mark and ";". */
static int read_answer(struct berth_ssh_link *link, struct berth_call *call,
                       struct berth_capture *c, const struct berth_ssh_mark *mark, const char **out,
                       struct berth_error *err)
{
    const struct berth_buf *said = &c->streams[0];
    const char *at =
        said->len ? memmem(said->data, said->len, mark->text, sizeof mark->text - 1) : NULL;
    const char *end = at ? memrchr(at, ';', said->len - (size_t)(at - said->data)) : NULL;
    if (end) {
        at += sizeof mark->text - 1;
        *out = berth_arena_printf(call->arena, "%.*s", (int)(end - at), at);
        return berth_arena_check(call->arena, err);
    }
    char text[REASON_BYTES_MAX];
    const char *line = last_line(&c->streams[1], text);
    if (c->end.exit_code < 0 || c->end.exit_code == SSH_FAILED)
        return berth_fail(err, BERTH_E_UPSTREAM, "The SSH connection to %s broke: %s", link->where,
                          *line ? line : "it was closed.");
    return berth_fail(err, BERTH_E_UNPROCESSABLE, "%s refused: %s", link->where,
                      *line ? line : "it said nothing.");
}

int berth_ssh_link_ask(struct berth_ssh_link *link, struct berth_call *call,
                       struct berth_ssh_line *line, const struct berth_ssh_mark *mark,
                       const char **out, struct berth_error *err)
{
    auto_capture c = BERTH_CAPTURE_INIT(ANSWER_BYTES_MAX);
    struct session_start start = {.link = link, .call = call};
    c.start = start_session;
    c.ctx = &start;
    c.name = link->where;
    c.input = line->buf.data;
    c.input_len = line->buf.len;
    c.deadline_ms = call->deadline_ms;
    c.cancel_fd = call->cancel_fd;
    int rc = berth_capture_run(link->links->engine, &c, err);
    return rc < 0 ? rc : read_answer(link, call, &c, mark, out, err);
}
