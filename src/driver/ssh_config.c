/* SPDX-License-Identifier: Apache-2.0
 * src/driver/ssh_config.c - see ssh_config.h. */
#include "driver/ssh_config.h"

#include <string.h>

#include "base/form.h"
#include "base/id.h"
#include "base/issues.h"

const char berth_ssh_config_schema[] =
    "{\"required\":[\"host\",\"username\",\"remoteWorkspacePath\"],\"properties\":{"
    "\"host\":{\"type\":\"string\",\"title\":\"Host\"},"
    "\"port\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535,\"default\":22},"
    "\"username\":{\"type\":\"string\",\"title\":\"User name there\"},"
    "\"remoteWorkspacePath\":{\"type\":\"string\",\"title\":\"Workspace directory there\"},"
    "\"privateKeySecretRef\":{\"type\":[\"object\",\"null\"]},"
    "\"knownHosts\":{\"type\":[\"string\",\"null\"]},"
    "\"strictHostKeyChecking\":{\"type\":\"boolean\",\"default\":true}}}";

const struct berth_driver_secret berth_ssh_config_secret = {
    .ref_key = "privateKeySecretRef",
    .value_key = "privateKey",
    .name = "private-key",
    .refusal = "An SSH environment without a privateKeySecretRef uses the keys of the daemon's "
               "user: that is for operators of the instance",
};

static const char *const ssh_keys[] = {"host",       "port",
                                       "username",   "remoteWorkspacePath",
                                       "privateKey", "privateKeySecretRef",
                                       "knownHosts", "strictHostKeyChecking",
                                       NULL};

/* Returns "latest" or a positive integer. */
static struct berth_json *ssh_secret_version(struct berth_form *f, const struct berth_json *version)
{
    if (!version)
        return berth_json_new_str("latest");
    const char *text = berth_json_str(version);
    if (text && strcmp(text, "latest") == 0)
        return berth_json_copy(version);
    if (berth_json_is(version, BERTH_JSON_INT) && berth_json_int(version) > 0)
        return berth_json_copy(version);
    berth_issues_add(f->issues, "privateKeySecretRef.version",
                     "privateKeySecretRef.version must be \"latest\" or a positive integer.");
    return berth_json_new_null();
}

static void ssh_secret_ref(struct berth_form *f, const char *key)
{
    static const char *const known[] = {"type", "secretId", "version", NULL};
    const struct berth_json *ref = berth_json_get(f->in, key);
    if (berth_json_type(ref) == BERTH_JSON_NULL) {
        berth_form_put(f, key, berth_json_new_null());
        return;
    }
    const char *type = berth_json_str(berth_json_get(ref, "type"));
    const char *id = berth_json_str(berth_json_get(ref, "secretId"));
    if (!berth_json_is(ref, BERTH_JSON_OBJECT) || !type || strcmp(type, "secret_ref") != 0 || !id ||
        !berth_id_valid(id)) {
        berth_issues_add(f->issues, key,
                         "%s must be null or {\"type\":\"secret_ref\",\"secretId\":<uuid>}.", key);
        return;
    }
    struct berth_id lower;
    struct berth_error ignored;
    (void)berth_id_parse(id, "Secret", &lower, &ignored); /* it is valid */
    berth_form_refuse_unknown(f, ref, "privateKeySecretRef.", known);
    struct berth_json *out = berth_json_new_object();
    if (!out || !berth_json_set(out, "type", berth_json_new_str("secret_ref")) ||
        !berth_json_set(out, "secretId", berth_json_new_str(lower.text)) ||
        !berth_json_set(out, "version", ssh_secret_version(f, berth_json_get(ref, "version"))))
        f->arena->failed = true;
    berth_form_put(f, key, out);
}

/* A key stands in the config of a probe only; it is stored as a secret. */
static void ssh_private_key(struct berth_form *f, enum berth_config_use use)
{
    const char *key = "privateKey";
    if (use == BERTH_CONFIG_PROBE) {
        berth_form_optional_text(f, key);
        return;
    }
    const struct berth_json *value = berth_json_get(f->in, key);
    const char *text = berth_json_str(value);
    bool blank = berth_json_type(value) == BERTH_JSON_NULL ||
                 (use == BERTH_CONFIG_PERSIST && text && !*berth_form_trimmed(f->arena, text));
    if (!blank)
        berth_issues_add(f->issues, key,
                         "An SSH private key is not stored in the config: store it as a secret and "
                         "name it in privateKeySecretRef, or let your SSH agent hold it.");
    berth_form_put(f, key, berth_json_new_null());
}

static void ssh_form(struct berth_form *f, void *ctx)
{
    enum berth_config_use use = *(const enum berth_config_use *)ctx;
    const char *host = berth_form_required_text(f, "host", "SSH environments require a host.");
    int64_t port = 22;
    if (berth_json_get(f->in, "port"))
        (void)berth_form_integer(f, "port", 1, 65535, &port);
    berth_form_put(f, "port", berth_json_new_int(port));
    const char *user =
        berth_form_required_text(f, "username", "SSH environments require a username.");
    const char *path = berth_form_required_text(
        f, "remoteWorkspacePath", "SSH environments require a remote workspace path.");
    if (path && path[0] != '/')
        berth_issues_add(f->issues, "remoteWorkspacePath",
                         "SSH remote workspace path must be absolute.");
    const char *const texts[] = {host, user, path};
    static const char *const names[] = {"host", "username", "remoteWorkspacePath"};
    for (int i = 0; i < 3; i++)
        for (const char *c = texts[i]; c && *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f) {
                berth_issues_add(f->issues, names[i], "It must not contain control characters.");
                break;
            }
    /* Both become arguments of ssh(1). */
    if (host && host[0] == '-')
        berth_issues_add(f->issues, "host", "An SSH host must not start with \"-\".");
    if (user && user[0] == '-')
        berth_issues_add(f->issues, "username", "An SSH username must not start with \"-\".");
    ssh_private_key(f, use);
    ssh_secret_ref(f, "privateKeySecretRef");
    berth_form_optional_text(f, "knownHosts");
    berth_form_boolean(f, "strictHostKeyChecking", true);
    berth_form_refuse_unknown(f, f->in, "", ssh_keys);
}

int berth_ssh_validate(struct berth_driver *d, struct berth_call *call, const char *config_json,
                       enum berth_config_use use, struct berth_issues *issues,
                       const char **normalised, struct berth_error *err)
{
    (void)d, (void)call;
    return berth_form_normalise(config_json, ssh_form, &use, issues, normalised, err);
}

int berth_ssh_config_read(const char *config_json, struct berth_json **json,
                          struct berth_ssh_config *out, struct berth_error *err)
{
    int rc = berth_json_parse(config_json, strlen(config_json), BERTH_JSON_OURS, json, err);
    if (rc < 0)
        return rc;
    *out = (struct berth_ssh_config){
        .host = berth_json_str(berth_json_get(*json, "host")),
        .username = berth_json_str(berth_json_get(*json, "username")),
        .path = berth_json_str(berth_json_get(*json, "remoteWorkspacePath")),
        .private_key = berth_json_str(berth_json_get(*json, "privateKey")),
        .known_hosts = berth_json_str(berth_json_get(*json, "knownHosts")),
        .port = (int)berth_json_int(berth_json_get(*json, "port")),
        .strict = !berth_json_is(berth_json_get(*json, "strictHostKeyChecking"), BERTH_JSON_BOOL) ||
                  berth_json_true(berth_json_get(*json, "strictHostKeyChecking")),
    };
    if (!out->host || !*out->host || *out->host == '-' || !out->username || !*out->username ||
        *out->username == '-' || !out->path || *out->path != '/')
        return berth_fail(err, BERTH_E_UNPROCESSABLE,
                          "SSH environments require a host, a username and an absolute remote "
                          "workspace path.");
    if (out->port == 0)
        out->port = 22;
    return BERTH_OK;
}
