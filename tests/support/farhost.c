/* SPDX-License-Identifier: Apache-2.0
 * tests/support/farhost.c - see farhost.h. */
#include "farhost.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "fixture.h"
#include "os/fs.h"

#define CONFIG_BYTES_MAX 8192

static char *read_text(const char *directory, const char *name)
{
    char path[256];
    auto_buf buf = BERTH_BUF_INIT(CONFIG_BYTES_MAX);
    struct berth_error err;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || berth_fs_read_all(fd, &buf, &err) < 0)
        fail_msg("cannot read %s", path);
    return berth_buf_take(&buf);
}

static struct farhost host;

const struct farhost *farhost(void)
{
    const char *directory = getenv("BERTH_TEST_SSH");
    if (host.port)
        return &host;
    if (!directory)
        fail_msg("BERTH_TEST_SSH is not set: run this under tests/with-sshd");
    (void)snprintf(host.directory, sizeof host.directory, "%s", directory);
    (void)snprintf(host.workspace, sizeof host.workspace, "%s/workspace", directory);
    if (geteuid() == 0) {
        (void)snprintf(host.here, sizeof host.here, "%s/here", directory);
        (void)snprintf(host.small, sizeof host.small, "%s/small", directory);
    }
    auto_free char *port = read_text(directory, "port"), *user = read_text(directory, "user");
    host.key = read_text(directory, "key");
    host.known_hosts = read_text(directory, "known_hosts");
    (void)snprintf(host.user, sizeof host.user, "%.*s", (int)strcspn(user, "\n"), user);
    host.port = atoi(port);
    return &host;
}

const char *farhost_config(const char *workspace)
{
    return farhost_config_with(&(struct farhost_change){.workspace = workspace});
}

static void put(struct berth_json_writer *w, const char *name, const char *changed,
                const char *usual)
{
    const char *text = changed ? changed : usual;
    if (*text)
        berth_json_put_str(w, name, text);
}

const char *farhost_config_with(const struct farhost_change *change)
{
    static char texts[8][CONFIG_BYTES_MAX];
    static int next;
    (void)farhost();
    auto_buf buf = BERTH_BUF_INIT(CONFIG_BYTES_MAX);
    struct berth_json_writer w = {.buf = &buf};
    berth_json_open(&w, '{');
    put(&w, "host", change->host, "127.0.0.1");
    berth_json_put_int(&w, "port", host.port);
    put(&w, "username", change->username, host.user);
    put(&w, "remoteWorkspacePath", change->workspace, host.workspace);
    put(&w, "privateKey", change->key, host.key);
    put(&w, "knownHosts", change->known_hosts, host.known_hosts);
    if (change->any_host_key)
        berth_json_put_bool(&w, "strictHostKeyChecking", false);
    berth_json_close(&w, '}');
    char *text = texts[next++ % 8];
    (void)snprintf(text, CONFIG_BYTES_MAX, "%s", berth_buf_str(&buf));
    return text;
}

void farhost_make_workspace(const char *parent, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/XXXXXX", parent);
    if (!mkdtemp(path) || chmod(path, 0777) < 0)
        fail_msg("cannot make %s", path);
}

struct berth_environment *farhost_environment(struct fixture *f, const char *config)
{
    struct berth_environment_input input = BERTH_ENVIRONMENT_INPUT_INIT;
    struct berth_issues issues = {.arena = &f->arena};
    struct berth_environment *e;
    input.name = "far";
    input.driver = BERTH_DRIVER_SSH;
    input.config_json = config;
    assert_ok(f, berth_environment_create(f->b, &f->arena, &input, &issues, &e, &f->err));
    return e;
}

int farhost_count_leases(const char *workspace)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/.berth/leases",
                   workspace ? workspace : farhost()->workspace);
    DIR *dir = opendir(path);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        (void)closedir(dir);
    return count;
}

int farhost_count_processes(const char *label)
{
    DIR *dir = opendir("/proc");
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[300], text[65536] = "";
        (void)snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        auto_close int fd = atoi(entry->d_name) > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        count += got > 0 && memmem(text, (size_t)got, label, strlen(label));
    }
    if (dir)
        (void)closedir(dir);
    return count;
}

void farhost_wait_for_end(const char *label)
{
    WAIT_FOR(farhost_count_processes(label) == 0);
}

static bool try_control(const char *words)
{
    char command[256];
    (void)snprintf(command, sizeof command, "%s %s", getenv("BERTH_TEST_SSHCTL"), words);
    return system(command) == 0;
}

static void control(const char *words)
{
    if (!try_control(words))
        fail_msg("%s %s failed", getenv("BERTH_TEST_SSHCTL"), words);
}

void farhost_stop(void)
{
    control("stop");
}

void farhost_start(void)
{
    control("start");
}

void farhost_set_shell(const char *program)
{
    char words[128];
    (void)snprintf(words, sizeof words, "shell %s", program);
    control(words);
}

void farhost_set_file(const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/home/%s", farhost()->directory, name);
    (void)unlink(path);
    auto_close int fd = text ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
    struct berth_error err;
    if (text && (fd < 0 || berth_fs_write_all(fd, text, strlen(text), &err) < 0))
        fail_msg("cannot write %s", path);
}

const char *farhost_lay_cable(void)
{
    static char *address;
    if (!address && try_control("lay")) {
        address = read_text(farhost()->directory, "net_address");
        address[strcspn(address, "\n")] = '\0';
        free(host.known_hosts);
        host.known_hosts = read_text(host.directory, "known_hosts");
    }
    return address;
}

void farhost_cut_cable(void)
{
    control("cut");
}

void farhost_join_cable(void)
{
    control("join");
}
